/* bundle: compiles the kernels of ops ahead of time into one file, or into C source. */
#include "common/cli.h"

#include <jansson.h>
#include <md/list.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_over_lists(const char *formula)
{
    const char *name;
    for (int32_t i = 0; md_list_catalogue(i, &name, NULL, NULL), name; i++)
        if (!strcmp(name, formula))
            return true;
    return strchr(formula, '@') != NULL;
}

/* Builds all variants of one op, or of the ops of a formula over lists. The context keeps them. */
static md_status build(md_context *context, const char *formula, const md_op_options *options)
{
    md_op *op = NULL;
    md_list *list = NULL;
    if (is_over_lists(formula)) {
        const md_status made = md_list_create(&list, context, formula, options);
        md_list_destroy(&list);
        return made; /* its kernels are built */
    }
    md_status s = md_op_create(&op, context, formula, options);
    if (s == MD_OK)
        s = md_op_wait(op);
    md_op_destroy(&op);
    return s;
}

/* What is bundled: ops by name or formula, or those of a program's statistics. */
typedef struct wanted {
    const cli_options *o;
    json_t *stats; /* NULL: the arguments */
    int done, parts; /* for the line of progress */
} wanted;

static const char *text_of(const json_t *row, const char *name)
{
    return json_string_value(json_object_get(row, name));
}

/* The kernels that serve the shapes that the program met. "b=8 n=64 strided" are the sizes "b=8, n=64". */
static md_status keep_shapes(md_op *op, const json_t *stats, const char *name)
{
    const json_t *row;
    size_t at;
    md_status s = MD_OK;
    json_array_foreach(json_object_get(stats, "shapes"), at, row)
    {
        char sizes[1024];
        const char *shape = text_of(row, "shape"), *own = text_of(row, "op");
        if (s != MD_OK || !shape || !own || strcmp(own, name) != 0)
            continue;
        snprintf(sizes, sizeof sizes, "%s", shape);
        char *end = strstr(sizes, " strided");
        if (end)
            *end = 0;
        for (char *c = sizes; *c; c++)
            *c = *c == ' ' ? ',' : *c;
        s = md_bundle_keep(op, strchr(sizes, '=') ? sizes : "");
    }
    return s;
}

static md_status build_met(md_context *context, const wanted *w, const json_t *row)
{
    const char *name = text_of(row, "op"), *formula = text_of(row, "formula"), *hints = text_of(row, "hints");
    md_op *op = NULL;
    md_op_options options = w->o->op;
    if (!formula[0])
        return MD_OK; /* the sum of many destroyed ops */
    if (!options.hints)
        options.hints = hints;
    options.name = name;
    if (json_is_true(json_object_get(row, "tf32")))
        options.tf32 = 1;
    md_status s = md_op_create(&op, context, formula, &options);
    if (s == MD_OK)
        s = md_op_wait(op);
    if (s == MD_OK)
        s = keep_shapes(op, w->stats, name);
    md_op_destroy(&op);
    return s;
}

/* All ops for one architecture (NULL: the one that is asked for), beside what the file has. */
static md_status build_all(md_context *context, wanted *w)
{
    const json_t *row;
    size_t at;
    md_status s = MD_OK;
    for (int i = 0; !w->stats && i < w->o->n && s == MD_OK; i++) {
        cli_progress_part(w->done++, w->parts);
        cli_progress("%s", w->o->arg[i]);
        s = build(context, w->o->arg[i], &w->o->op);
    }
    json_array_foreach(json_object_get(w->stats, "ops"), at, row)
    {
        if (s != MD_OK)
            break;
        cli_progress_part(w->done++, w->parts);
        cli_progress("%s", text_of(row, "op"));
        s = build_met(context, w, row);
    }
    return s;
}

static md_status bundle_for(const char *device, const char *path, bool has_file, wanted *w)
{
    md_context *context = NULL;
    cli_options own = *w->o;
    own.context.device = device ? device : w->o->context.device;
    own.context.bundle = has_file ? path : w->o->context.bundle;
    own.context.bundle_compile = 1;
    md_status s = cli_open_context(&context, &own);
    if (s == MD_OK)
        s = md_bundle_begin(context, w->stats ? MD_BUNDLE_KEPT : MD_BUNDLE_ALL);
    if (s == MD_OK)
        s = build_all(context, w);
    if (s == MD_OK)
        s = md_bundle_write(context, path);
    cli_close_context(&context);
    return s;
}

/* One architecture after the other: each adds to the file. Of a GPU's architecture all boards. */
static md_status bundle_archs(const char *path, wanted *w)
{
    char *list = strdup(w->o->arch), *rest = NULL;
    bool has_file = false;
    md_status s = list ? MD_OK : MD_OUT_OF_MEMORY;
    for (char *arch = list ? strtok_r(list, ", ", &rest) : NULL; arch && s == MD_OK;
         arch = strtok_r(NULL, ", ", &rest)) {
        const bool is_gpu = !strncmp(arch, "sm_", 3);
        for (int board = 0; s == MD_OK && (board == 0 || is_gpu); board++) {
            char device[64];
            snprintf(device, sizeof device, board ? "%s:%d" : "%s", arch, board);
            s = bundle_for(device, path, has_file, w);
            has_file = has_file || s == MD_OK;
        }
        if (s == MD_NOT_FOUND && has_file) /* there are no more boards */
            s = MD_OK;
    }
    free(list);
    return s;
}

/* ---- What was made */

/* Says on stderr what is not covered; with --json everything on stdout. */
static int report(const char *path, bool as_json)
{
    json_t *about, *gap;
    size_t at;
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    const md_status s = file ? md_bundle_describe(path, cli_write, file) : MD_OUT_OF_MEMORY;
    if (file)
        fclose(file);
    about = s == MD_OK ? json_loads(text, 0, NULL) : NULL;
    if (as_json && about)
        fputs(text, stdout);
    json_array_foreach(json_object_get(about, "gaps"), at, gap)
        fprintf(stderr, "mdctl: not covered: %s: %s\n", text_of(gap, "stage"), text_of(gap, "why"));
    free(text);
    json_decref(about);
    return s == MD_OK ? CLI_OK : cli_fail_md();
}

/* ---- C source */

static void write_source(FILE *to, FILE *from)
{
    int c;
    size_t n = 0;
    fputs("/* A bundle of kernels, written by mdctl bundle --c-source. Pass it as\n"
          " * md_context_options.bundle_bytes = md_bundle, .n_bundle_bytes = md_bundle_size. */\n"
          "#include <stddef.h>\n\n"
          "extern const unsigned char md_bundle[];\nextern const size_t md_bundle_size;\n\n"
          "_Alignas(16) const unsigned char md_bundle[] = {",
          to);
    for (; (c = getc(from)) != EOF; n++)
        fprintf(to, "%s%d,", n % 24 ? "" : "\n", c);
    fprintf(to, "\n};\nconst size_t md_bundle_size = %zu;\n", n);
}

static int make_source(const char *path, const char *bundle)
{
    FILE *from = fopen(bundle, "rb"), *to = from ? fopen(path, "w") : NULL;
    if (from && to)
        write_source(to, from);
    if (from)
        fclose(from);
    return cli_close_output(to, path, to ? CLI_OK : cli_fail("%s cannot be written", path));
}

/* ---- The command */

static md_status make(const char *path, wanted *w)
{
    const size_t n_ops = w->stats ? json_array_size(json_object_get(w->stats, "ops")) : (size_t)w->o->n;
    w->parts = (int)n_ops;
    for (const char *c = w->o->arch; c && *c; c++)
        w->parts += *c == ',' ? (int)n_ops : 0;
    const md_status s = w->o->arch ? bundle_archs(path, w) : bundle_for(NULL, path, false, w);
    cli_progress(NULL);
    return s;
}

int cli_bundle(const cli_options *o)
{
    json_error_t error;
    wanted w = {.o = o};
    char path[4096];
    if ((o->n < 1) == !o->from_stats)
        return cli_usage("bundle takes formulas or ops, or --from-stats");
    if (!o->output)
        return cli_usage("bundle needs --output FILE");
    if (o->from_stats && !(w.stats = json_load_file(o->from_stats, 0, &error)))
        return cli_fail("%s: %s", o->from_stats, error.text);
    if (snprintf(path, sizeof path, o->c_source ? "%s.mdb" : "%s", o->output) >= (int)sizeof path)
        return cli_usage("--output is too long");
    int status = make(path, &w) == MD_OK ? CLI_OK : cli_fail_md();
    if (status == CLI_OK)
        status = report(path, o->json);
    if (status == CLI_OK && o->c_source)
        status = make_source(o->output, path);
    if (o->c_source)
        unlink(path);
    json_decref(w.stats);
    return status;
}
