/* JSON values from text and numbers that JSON does not allow. */
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

char *md_json_valid(const char *text)
{
    json_t *j = json_string(text);
    char *copy = strdup(text);
    for (char *c = copy; !j && c && *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    json_decref(j);
    return copy;
}

json_t *md_json_text(const char *text)
{
    char *valid = md_json_valid(text);
    json_t *j = valid ? json_string(valid) : NULL;
    free(valid);
    return j;
}

json_t *md_json_real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static int take(const char *bytes, size_t n, void *user)
{
    md_strbuf *text = user;
    md_strbuf_bytes(text, bytes, n);
    return text->failed ? -1 : 0;
}

/* json_dumps goes on behind a key that it could not print. */
char *md_json_dump(const json_t *root, size_t flags)
{
    md_strbuf text = {0};
    if (json_dump_callback(root, take, &text, flags) == 0 && !text.failed)
        return text.text;
    md_strbuf_finish(&text);
    return NULL;
}

static void print(md_strbuf *out, json_t *root, size_t flags)
{
    char *text = root ? md_json_dump(root, flags | JSON_REAL_PRECISION(9)) : NULL;
    if (text) {
        md_strbuf_add(out, text);
        md_strbuf_add(out, "\n");
    } else {
        out->failed = true;
    }
    free(text);
    json_decref(root);
}

void md_json_print(md_strbuf *out, json_t *root)
{
    print(out, root, JSON_COMPACT);
}

void md_json_print_document(md_strbuf *out, json_t *root)
{
    print(out, root, JSON_INDENT(1));
}
