/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON documents to text. jansson writes numbers the same in every locale.
 */
#include "insight/document.h"

#include <math.h>
#include <stdlib.h>

#include "base/status.h"

void cadre_document_number(json_t *object, const char *key, double value) {
    char flag[64];
    if (isfinite(value)) {
        json_object_set_new(object, key, json_real(value));
        return;
    }
    json_object_set_new(object, key, json_null());
    snprintf(flag, sizeof flag, "%s_nonfinite", key);
    json_object_set_new(object, flag, json_true());
}

cadre_status cadre_document_add(json_t *root, bool one_line, cadre_text *to) {
    size_t flags = JSON_PRESERVE_ORDER | (one_line ? 0 : JSON_INDENT(1));
    char *json = root ? json_dumps(root, flags) : NULL;
    json_decref(root);
    CADRE_CHECK(json, CADRE_ERESOURCE,
                "a JSON document could not be built: no memory, or a text that is no UTF-8");
    cadre_text_add(to, "%s\n", json);
    free(json);
    return to->status;
}
