/* tune --from-stats: the ops of a service at the shapes that it met. */
#include "common/met.h"
#include "tuning/command.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_POINTS = 16 }; /* of one op: those that took most time */

static int by_weight(const void *a, const void *b)
{
    const md_met_shape *x = a, *y = b;
    return (x->weight < y->weight) - (x->weight > y->weight);
}

/* "(b=8,n=64) (b=9,n=64)", the shape with most time first. */
static void print_points(char *out, size_t n_bytes, const met *shapes)
{
    size_t used = 0;
    out[0] = 0;
    qsort(shapes->shape, (size_t)shapes->n, sizeof *shapes->shape, by_weight);
    for (int32_t i = 0; i < shapes->n && i < MOST_POINTS; i++) {
        const size_t more = strlen(shapes->shape[i].sizes) + 4;
        if (used + more < n_bytes)
            used += (size_t)snprintf(out + used, n_bytes - used, "%s(%s)", used ? " " : "", shapes->shape[i].sizes);
    }
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
    char points[4096];
    if (!name || !formula)
        return cli_fail("%s: an op without name or formula: not written by this library's MD_STATS?", o->from_stats);
    if (!formula[0])
        return CLI_OK; /* the sum of many destroyed ops */
    met shapes;
    met_collect(&shapes, root, name, false);
    if (!shapes.shape)
        return cli_fail("out of memory");
    print_points(points, sizeof points, &shapes);
    const int32_t n = shapes.n;
    met_finish(&shapes);
    if (!points[0]) {
        fprintf(stderr, "mdctl: %s: no shape was called\n", name);
        return CLI_OK;
    }
    md_op_options options = o->op;
    options.hints = points;
    met_options(&options, op);
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
