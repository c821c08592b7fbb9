/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CADRE_DATA_SETTINGS_H
#define CADRE_DATA_SETTINGS_H

#include "base/settings.h"

typedef struct cadre_data_cfg {
    cadre_list train, valid;
    double valid_fraction; /* NaN: 0.1 for text without valid, else 0 */
    int format;            /* cadre_data_format */
    const char *tokenizer; /* "char", "byte", or a path */
    int dtype;             /* of headerless token files: 0 uint16, 1 uint32 */
    bool shuffle;
    bool verify;
    bool augment;
    int64_t workers;
} cadre_data_cfg;

typedef enum cadre_data_format {
    CADRE_DATA_AUTO,
    CADRE_DATA_TEXT,
    CADRE_DATA_TOKENS,
    CADRE_DATA_IDX,
    CADRE_DATA_CIFAR10,
    CADRE_DATA_FOLDER
} cadre_data_format;

extern const cadre_setting_table cadre_data_settings;

#endif
