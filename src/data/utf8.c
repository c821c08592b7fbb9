/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8: reading, writing, checking.
 */
#include "data/utf8.h"

#include <string.h>

static bool follows(unsigned char c) {
    return (c & 0xC0) == 0x80;
}

int cadre_utf8_next(const char *at, size_t left, uint32_t *ret_point) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *c = (const unsigned char *)at;
    if (c[0] < 0x80) {
        *ret_point = c[0];
        return 1;
    }
    int length = c[0] >= 0xF0 ? 4 : c[0] >= 0xE0 ? 3 : c[0] >= 0xC0 ? 2 : 0;
    if (length == 0 || c[0] > 0xF4 || (size_t)length > left) return 0;
    uint32_t point = c[0] & (0x7Fu >> length);
    for (int i = 1; i < length; i++) {
        if (!follows(c[i])) return 0;
        point = point << 6 | (c[i] & 0x3Fu);
    }
    if (point < least[length] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) return 0;
    *ret_point = point;
    return length;
}

int cadre_utf8_put(char ret_bytes[4], uint32_t point) {
    if (point < 0x80) {
        ret_bytes[0] = (char)point;
        return 1;
    }
    int length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--, point >>= 6) ret_bytes[i] = (char)(0x80 | (point & 0x3F));
    ret_bytes[0] = (char)((0xF00 >> length) | point);
    return length;
}

size_t cadre_utf8_valid(const char *text, size_t bytes) {
    size_t i = 0;
    uint32_t point;
    while (i < bytes) {
        uint64_t eight;
        if (bytes - i >= 8 && (memcpy(&eight, text + i, 8), !(eight & 0x8080808080808080u))) {
            i += 8;
            continue;
        }
        int length = cadre_utf8_next(text + i, bytes - i, &point);
        if (length == 0) break;
        i += (size_t)length;
    }
    return i;
}

int64_t cadre_utf8_count(const char *text, size_t bytes) {
    int64_t count = 0;
    for (size_t i = 0; i < bytes; i++) count += !follows((unsigned char)text[i]);
    return count;
}

size_t cadre_utf8_offset(const char *text, size_t bytes, int64_t n) {
    size_t i = 0;
    for (; i < bytes; i++)
        if (!follows((unsigned char)text[i]) && n-- == 0) break;
    return i;
}

cadre_status cadre_utf8_refuse(const char *text, size_t bytes, size_t offset, const char *label) {
    char shown[16] = "";
    for (size_t i = 0; i < 4 && offset + i < bytes; i++)
        snprintf(shown + 3 * i, sizeof shown - 3 * i, " %02X", (unsigned char)text[offset + i]);
    return CADRE_FAIL(CADRE_EDATA,
                      "%s is not valid UTF-8 at byte %zu (bytes%s); data.tokenizer=char reads "
                      "UTF-8, data.tokenizer=byte reads anything",
                      label, offset, shown);
}
