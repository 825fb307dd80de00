/* JSON values from text and numbers that JSON does not allow. */
#include "base/json.h"

#include "base/status.h"

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

json_t *md_json_text_or_null(const char *text)
{
    return text ? md_json_text(text) : json_null();
}

json_t *md_json_add(json_t *list, json_t *item)
{
    if (!list)
        json_decref(item);
    else if (json_array_append_new(list, item) == 0)
        return list;
    json_decref(list);
    return NULL;
}

json_t *md_json_merge(json_t *object, json_t *more)
{
    const bool ok = object && more && json_object_update(object, more) == 0;
    json_decref(more);
    if (ok)
        return object;
    json_decref(object);
    return NULL;
}

const char *md_json_text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

long long md_json_integer_at(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

double md_json_number_at(const json_t *object, const char *key)
{
    const json_t *number = json_object_get(object, key);
    return json_is_null(number) ? INFINITY : json_number_value(number);
}

bool md_json_is(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

static int take(const char *bytes, size_t n, void *user)
{
    md_strbuf *text = user;
    md_strbuf_bytes(text, bytes, n);
    return text->failed ? -1 : 0;
}

/* json_dumps goes on after a key that it could not print. */
char *md_json_dump(const json_t *root, size_t flags)
{
    md_strbuf text = {0};
    if (json_dump_callback(root, take, &text, flags) == 0 && !text.failed)
        return text.text;
    md_strbuf_finish(&text);
    return NULL;
}

static void print_json(md_strbuf *out, json_t *root, size_t flags)
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
    print_json(out, root, JSON_COMPACT);
}

void md_json_print_document(md_strbuf *out, json_t *root)
{
    print_json(out, root, JSON_INDENT(1));
}

md_status md_json_report(md_strbuf *out, json_t *report, bool json, md_json_printer print)
{
    if (!report)
        return md_fail_memory();
    if (json) {
        md_json_print(out, report);
    } else {
        print(out, report);
        json_decref(report);
    }
    return out->failed ? md_fail_memory() : MD_OK;
}
