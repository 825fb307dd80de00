/* JSON values from text and numbers that JSON does not allow. */
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

json_t *md_json_text(const char *text)
{
    json_t *j = json_string(text);
    size_t n = strlen(text);
    char *copy = j ? NULL : malloc(n + 1);
    for (size_t i = 0; copy && i <= n; i++)
        copy[i] = (unsigned char)text[i] < 0x80 ? text[i] : '?';
    if (copy)
        j = json_string(copy);
    free(copy);
    return j;
}

json_t *md_json_real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

void md_json_print(md_strbuf *out, json_t *root)
{
    char *text = root ? json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) : NULL;
    if (text) {
        md_strbuf_add(out, text);
        md_strbuf_add(out, "\n");
    } else {
        out->failed = true;
    }
    free(text);
    json_decref(root);
}
