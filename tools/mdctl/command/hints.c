/* hints suggest STATS.json: which hints would have suited what a service met. */
#include "common/cli.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct met {
    int32_t n;
    md_met_shape *shape; /* texts are owned */
} met;

static void finish(met *m)
{
    for (int32_t i = 0; i < m->n; i++)
        free((char *)m->shape[i].sizes);
    free(m->shape);
}

/* "b=8 n=64 strided" as it stands in statistics, to "b=8,n=64"; NULL for what is no shape ("other shapes"). */
static char *sizes_of(const char *shape)
{
    char *text = strchr(shape, '=') ? strdup(shape) : NULL, *strided = text ? strstr(text, " strided") : NULL;
    if (strided)
        *strided = 0;
    for (char *c = text; c && *c; c++)
        if (*c == ' ')
            *c = ',';
    return text;
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

/* The library's object, in one line and with the op's name. */
static int write_named(void *user, const char *text, size_t n_bytes)
{
    json_t *j = json_loadb(text, n_bytes, 0, NULL);
    char *line = j && json_object_set(j, "op", user) == 0 ? json_dumps(j, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    const int failed = !line || printf("%s\n", line) < 0;
    free(line);
    json_decref(j);
    return failed;
}

static int suggest_one(md_context *context, const json_t *root, const json_t *op, const cli_options *o)
{
    const char *name = json_string_value(json_object_get(op, "op")),
               *formula = json_string_value(json_object_get(op, "formula"));
    const json_t *shapes = json_object_get(root, "shapes"), *row;
    const char *today = json_string_value(json_object_get(op, "hints"));
    size_t at;
    met m = {0};
    if (!name || !formula || !json_is_array(shapes))
        return cli_fail("%s: an op without name or formula, or no shapes: not written by this library's MD_STATS?",
                        o->arg[1]);
    m.shape = calloc(json_array_size(shapes) + 1, sizeof *m.shape);
    json_array_foreach(shapes, at, row) take_shape(&m, row, name, o->by_calls);
    int status = CLI_OK;
    md_op_options options = o->op;
    if (!options.hints && today && *today)
        options.hints = today;
    if (json_is_true(json_object_get(op, "tf32")))
        options.tf32 = 1;
    if (m.n == 0) {
        fprintf(stderr, "mdctl: %s: no shape was called\n", name);
    } else if (!today || !*today) {
        fprintf(stderr, "mdctl: %s has no dynamic dim: it needs no hints\n", name);
    } else {
        if (!o->json)
            printf("%s%s%s: ", cli_bold(), name, cli_plain());
        const md_suggest_options suggest = {m.shape,
                                            m.n,
                                            o->count,
                                            o->json,
                                            o->json ? write_named : cli_write,
                                            o->json ? (void *)json_object_get(op, "op") : stdout};
        if (md_hints_suggest(context, formula, &options, &suggest) != MD_OK)
            status = cli_fail_md();
    }
    finish(&m);
    return status;
}

/* Ops made with other hints or pins have rows of their own, but one formula under one name is asked about once. */
static bool is_repeated(const json_t *ops, size_t at)
{
    const json_t *op = json_array_get(ops, at);
    for (size_t i = 0; i < at; i++) {
        const json_t *other = json_array_get(ops, i);
        if (json_equal(json_object_get(op, "op"), json_object_get(other, "op")) &&
            json_equal(json_object_get(op, "formula"), json_object_get(other, "formula")) &&
            json_is_true(json_object_get(op, "tf32")) == json_is_true(json_object_get(other, "tf32")))
            return true;
    }
    return false;
}

static int suggest(const json_t *root, const cli_options *o)
{
    const json_t *ops = json_object_get(root, "ops"), *op;
    md_context *context = NULL;
    size_t at;
    bool is_found = false;
    int status = CLI_OK;
    if (!json_is_array(ops))
        return cli_fail("%s: no list 'ops': not written by this library's MD_STATS?", o->arg[1]);
    if (cli_open_context(&context, o) != MD_OK)
        return cli_fail_md();
    json_array_foreach(ops, at, op)
    {
        const char *name = json_string_value(json_object_get(op, "op"));
        if (status != CLI_OK || (o->op.name && (!name || strcmp(name, o->op.name))))
            continue;
        const char *formula = json_string_value(json_object_get(op, "formula"));
        is_found = true;
        if (is_repeated(ops, at) || (formula && !formula[0])) /* the sum of many destroyed ops has no formula */
            continue;
        status = suggest_one(context, root, op, o);
    }
    cli_close_context(&context);
    return is_found || status != CLI_OK ? status : cli_fail("%s: no op '%s'", o->arg[1], o->op.name ? o->op.name : "");
}

int cli_hints(const cli_options *o)
{
    json_error_t error;
    if (o->n != 2 || strcmp(o->arg[0], "suggest"))
        return cli_usage("expected: mdctl hints suggest STATS.json");
    json_t *root = json_load_file(o->arg[1], 0, &error);
    if (!root)
        return cli_fail("%s:%d: %s", o->arg[1], error.line, error.text);
    int status = suggest(root, o);
    json_decref(root);
    return status;
}
