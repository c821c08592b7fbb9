/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of data.* (interface.md, section 3).
 */
#include "data/settings.h"

#define AT(field) offsetof(cadre_data_cfg, field)

static const cadre_setting rows[] = {
    {.name = "data.train",
     .type = CADRE_SET_LIST,
     .offset = AT(train),
     .derived = "to be given",
     .help = "what to train on: a file, a folder (its files by name) or a list, joined in order"},
    {.name = "data.valid",
     .type = CADRE_SET_LIST,
     .offset = AT(valid),
     .derived = "the end of data.train, as data.valid_fraction says",
     .help = "what to validate on: a file, a folder or a list, joined in order"},
    {.name = "data.valid_fraction",
     .type = CADRE_SET_REAL,
     .offset = AT(valid_fraction),
     .low = 0,
     .high = 0.999999,
     .derived = "0.1 for text without data.valid, else 0",
     .help = "share at the end of data.train that is kept for validation"},
    {.name = "data.format",
     .type = CADRE_SET_CHOICE,
     .fallback = "auto",
     .offset = AT(format),
     .choices = "auto|text|tokens|idx|cifar10|folder",
     .help = "auto: files named *.bin or with llm.c's header are tokens, others text (idx, cifar10 "
             "and folder are reserved names, not built yet)"},
    {.name = "data.tokenizer",
     .type = CADRE_SET_TEXT,
     .fallback = "char",
     .offset = AT(tokenizer),
     .help = "char, byte, or the path of a tokenizer.json or of a folder with it or with "
             "encoder.json and vocab.bpe"},
    {.name = "data.dtype",
     .type = CADRE_SET_CHOICE,
     .fallback = "uint16",
     .offset = AT(dtype),
     .choices = "uint16|uint32",
     .help = "the numbers in token files without a header"},
    {.name = "data.shuffle",
     .type = CADRE_SET_BOOL,
     .fallback = "true",
     .offset = AT(shuffle),
     .help = "take the samples of an epoch in an order of their own, drawn from seed and epoch"},
    {.name = "data.verify",
     .type = CADRE_SET_BOOL,
     .fallback = "false",
     .offset = AT(verify),
     .later = "comparing the ranks' samples is not built yet; only false",
     .help = "check in every step that no two ranks have the same samples"},
    {.name = "data.augment",
     .type = CADRE_SET_BOOL,
     .fallback = "false",
     .offset = AT(augment),
     .later = "images are not built yet; only false",
     .help = "shift and mirror training images"},
    {.name = "data.workers",
     .type = CADRE_SET_INT,
     .fallback = "1",
     .offset = AT(workers),
     .low = 1,
     .high = 1024,
     .later = "one thread loads far faster than text is trained on; only 1",
     .help = "threads of a rank that prepare data ahead of the step"},
};

const cadre_setting_table cadre_data_settings = {
    .room = "data", .rows = rows, .count = (int)(sizeof rows / sizeof rows[0])};
