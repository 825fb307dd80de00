/* hints suggest STATS.json: which hints would have suited what a service met. */
#include "common/cli.h"
#include "common/met.h"

#include <stdlib.h>
#include <string.h>

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
    const char *today = json_string_value(json_object_get(op, "hints"));
    met m = {0};
    if (!name || !formula || !json_is_array(json_object_get(root, "shapes")))
        return cli_fail("%s: an op without name or formula, or no shapes: not written by this library's MD_STATS?",
                        o->arg[1]);
    met_collect(&m, root, name, o->by_calls);
    int status = CLI_OK;
    md_op_options options = o->op;
    met_options(&options, op);
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
    met_finish(&m);
    return status;
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
        is_found = true;
        if (met_is_repeated(ops, at))
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
