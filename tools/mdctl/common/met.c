/* Takes shapes and options of ops from statistics. */
#include "common/met.h"

#include <stdlib.h>
#include <string.h>

void met_finish(met *m)
{
    for (int32_t i = 0; i < m->n; i++)
        free((char *)m->shape[i].sizes);
    free(m->shape);
    *m = (met){0};
}

/* The sizes of "b=8 n=64 strided as n=16" as "b=8,n=64"; NULL: there are none ("other shapes"), or memory is short. */
static char *sizes_of(const char *shape)
{
    char *text = strdup(shape), *end = text;
    for (const char *word = shape; text && *word; word += strspn(word, " ")) {
        const size_t n = strcspn(word, " ");
        if (!memchr(word, '=', n))
            break;
        if (end > text)
            *end++ = ',';
        memcpy(end, word, n);
        end += n;
        word += n;
    }
    if (text)
        *end = 0;
    if (end > text)
        return text;
    free(text);
    return NULL;
}

static void take_shape(met *m, const json_t *row, const char *op, bool by_calls)
{
    const char *name = json_string_value(json_object_get(row, "op")),
               *shape = json_string_value(json_object_get(row, "shape"));
    const double weight = json_number_value(json_object_get(row, by_calls ? "calls" : "total_us"));
    if (!name || !shape || strcmp(name, op) || !(weight > 0.0))
        return;
    char *sizes = sizes_of(shape);
    if (sizes)
        m->shape[m->n++] = (md_met_shape){sizes, weight};
}

void met_collect(met *out, const json_t *root, const char *op, bool by_calls)
{
    const json_t *shapes = json_object_get(root, "shapes"), *row;
    size_t at;
    *out = (met){.shape = calloc(json_array_size(shapes) + 1, sizeof *out->shape)};
    json_array_foreach(shapes, at, row) if (out->shape) take_shape(out, row, op, by_calls);
}

void met_options(md_op_options *options, const json_t *op)
{
    const char *today = json_string_value(json_object_get(op, "hints"));
    if (!options->hints && today && *today)
        options->hints = today;
    if (json_is_true(json_object_get(op, "tf32")))
        options->tf32 = 1;
}

bool met_is_repeated(const json_t *ops, size_t at)
{
    const json_t *op = json_array_get(ops, at);
    const char *formula = json_string_value(json_object_get(op, "formula"));
    for (size_t i = 0; i < at; i++) {
        const json_t *other = json_array_get(ops, i);
        if (json_equal(json_object_get(op, "op"), json_object_get(other, "op")) &&
            json_equal(json_object_get(op, "formula"), json_object_get(other, "formula")) &&
            json_is_true(json_object_get(op, "tf32")) == json_is_true(json_object_get(other, "tf32")))
            return true;
    }
    return formula && !formula[0];
}
