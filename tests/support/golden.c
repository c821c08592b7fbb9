/* SPDX-License-Identifier: Apache-2.0
 *
 * Safetensors: 8 bytes length of the header, the header in JSON, the data.
 */
#include "support/golden.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "support/check.h"

struct golden_file {
    char *header;     /* terminated by 0 */
    const char *data; /* after the header; `bytes` holds the whole file */
    char *bytes;
};

golden_file *golden_open(const char *name) {
    char path[CADRE_PATH];
    uint64_t header = 0;
    snprintf(path, sizeof path, "%s/tests/golden/%s", CADRE_SOURCE_DIR, name);
    FILE *from = fopen(path, "rb");
    if (!from || fseek(from, 0, SEEK_END) != 0) fail_msg("cannot read %s", path);
    long bytes = ftell(from);
    rewind(from);
    golden_file *f = calloc(1, sizeof *f);
    f->bytes = malloc((size_t)bytes);
    if (bytes < 8 || fread(f->bytes, 1, (size_t)bytes, from) != (size_t)bytes)
        fail_msg("%s is cut off", path);
    fclose(from);
    memcpy(&header, f->bytes, sizeof header);
    f->header = strndup(f->bytes + 8, header);
    f->data = f->bytes + 8 + header;
    return f;
}

const void *golden_tensor(const golden_file *f, const char *type, int64_t *ret_count,
                          const char *format, ...) {
    char name[128], key[160];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    snprintf(key, sizeof key, "\"%s\":{\"dtype\":\"%s\"", name, type);
    const char *entry = strstr(f->header, key);
    if (!entry) fail_msg("no tensor %s of type %s in the golden file", name, type);
    long long begin = 0, end = 0;
    const char *offsets = strstr(entry, "\"data_offsets\":[");
    if (!offsets || sscanf(offsets, "\"data_offsets\":[%lld,%lld]", &begin, &end) != 2)
        fail_msg("no offsets of %s", name);
    if (ret_count) *ret_count = (end - begin) / (strcmp(type, "F64") == 0 ? 8 : 4);
    return f->data + begin;
}

void golden_close(golden_file **file) {
    golden_file *f = *file;
    if (!f) return;
    free(f->header);
    free(f->bytes);
    free(f);
    *file = NULL;
}
