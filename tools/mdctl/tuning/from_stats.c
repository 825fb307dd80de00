/* tune --from-stats: the ops of a service at the shapes that it met. */
#include "tuning/command.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_POINTS = 16 }; /* of one op: those that took most time */

typedef struct met {
    double weight;
    const char *shape;
} met;

static int by_weight(const void *a, const void *b)
{
    const met *x = a, *y = b;
    return (x->weight < y->weight) - (x->weight > y->weight);
}

static int32_t shapes_of(met *out, const json_t *root, const char *op)
{
    const json_t *row;
    size_t at;
    int32_t n = 0;
    json_array_foreach(json_object_get(root, "shapes"), at, row)
    {
        const char *name = json_string_value(json_object_get(row, "op")),
                   *shape = json_string_value(json_object_get(row, "shape"));
        const double weight = json_number_value(json_object_get(row, "total_us"));
        if (name && shape && !strcmp(name, op) && strchr(shape, '='))
            out[n++] = (met){weight, shape};
    }
    qsort(out, (size_t)n, sizeof *out, by_weight);
    return n;
}

/* "b=8 n=64 strided" is the point "(b=8,n=64)". */
static void add_point(char *out, size_t n, const char *shape)
{
    size_t at = strlen(out);
    at += (size_t)snprintf(out + at, n - at, "%s(", at ? " " : "");
    for (const char *c = shape; *c && strncmp(c, " strided", 8) && at + 2 < n; c++)
        out[at++] = *c == ' ' ? ',' : *c;
    snprintf(out + at, n - at, ")");
}

/* The largest sample of an index tensor, for all index tensors of the op. NULL if none was recorded
 * (MD_STATS_INDICES). */
static int64_t *indices_of(int64_t *n, const json_t *op)
{
    const json_t *best = NULL, *sample, *value;
    size_t at;
    *n = 0;
    json_array_foreach(json_object_get(op, "indices"), at,
                       sample) if (json_array_size(json_object_get(sample, "values")) > json_array_size(best)) best =
        json_object_get(sample, "values");
    int64_t *out = best ? malloc(json_array_size(best) * sizeof *out) : NULL;
    json_array_foreach(out ? best : NULL, at, value) out[(*n)++] = json_integer_value(value);
    return out;
}

static void say_op(const char *name, int32_t n_shapes, int64_t n_indices)
{
    printf("{\"event\": \"op\", \"op\": ");
    cli_json_text(stdout, name);
    printf(", \"points\": %d, \"shapes\": %d, \"indices\": %lld}\n", n_shapes < MOST_POINTS ? n_shapes : MOST_POINTS,
           n_shapes, (long long)n_indices);
    fflush(stdout);
}

static int tune_op(tune_run *r, md_context *context, const json_t *root, const json_t *op, const cli_options *o,
                   tune_fn tune)
{
    const char *name = json_string_value(json_object_get(op, "op")),
               *formula = json_string_value(json_object_get(op, "formula"));
    char points[4096] = "";
    if (!name || !formula)
        return cli_fail("%s: an op without name or formula: not written by this library's MD_STATS?", o->from_stats);
    if (!formula[0])
        return CLI_OK; /* the sum of many destroyed ops */
    met *list = calloc(json_array_size(json_object_get(root, "shapes")) + 1, sizeof *list);
    if (!list)
        return cli_fail("out of memory");
    const int32_t n = shapes_of(list, root, name);
    for (int32_t i = 0; i < n && i < MOST_POINTS; i++)
        add_point(points, sizeof points, list[i].shape);
    free(list);
    if (!points[0]) {
        fprintf(stderr, "mdctl: %s: no shape was called\n", name);
        return CLI_OK;
    }
    md_op_options options = o->op;
    options.hints = points;
    if (json_is_true(json_object_get(op, "tf32")))
        options.tf32 = 1;
    int64_t n_indices, *indices = indices_of(&n_indices, op);
    if (!o->plans)
        say_op(name, n, n_indices);
    const int status = tune(r, context, o, &(tune_target){formula, &options, indices, n_indices});
    free(indices);
    return status;
}

int tune_from_stats(tune_run *r, md_context *context, const cli_options *o, tune_fn tune)
{
    json_error_t error;
    json_t *root = json_load_file(o->from_stats, 0, &error);
    const json_t *op;
    size_t at;
    int status = CLI_OK;
    if (!root)
        return cli_fail("%s: %s", o->from_stats, error.text);
    json_array_foreach(json_object_get(root, "ops"), at, op) if (status == CLI_OK) status =
        tune_op(r, context, root, op, o, tune);
    json_decref(root);
    return status;
}
