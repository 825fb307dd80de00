/* info, ops, check, explain, choices, source: what the library knows, written out. */
#include "common/cli.h"

#include <md/list.h>
#include <stdlib.h>
#include <string.h>

int cli_info(const cli_options *o)
{
    md_context *context = NULL;
    if (o->n)
        return cli_usage("info takes no argument, but got '%s'", o->arg[0]);
    if (cli_open_context(&context, o) != MD_OK)
        return cli_fail_md();
    int status = md_info(context, o->json, cli_write, stdout) == MD_OK ? CLI_OK : cli_fail_md();
    cli_close_context(&context);
    if (o->json)
        return status;
    printf("\n%senvironment variables%s\n", cli_bold(), cli_plain());
    for (int32_t i = 0;; i++) {
        const char *name, *values, *meaning;
        md_variables(i, &name, &values, &meaning);
        if (!name)
            return status;
        const char *now = getenv(name);
        printf("  %-16s %-34s %s%s%s\n", name, values, meaning, now ? "; now " : "", now ? now : "");
    }
}

static void print_op(const char *name, const char *formula, const char *description, bool json)
{
    if (!json) {
        printf("%s%s%s\n    %s\n    %s\n", cli_bold(), name, cli_plain(), description, formula);
        return;
    }
    printf("{\"name\": ");
    cli_json_text(stdout, name);
    printf(", \"formula\": ");
    cli_json_text(stdout, formula);
    printf(", \"description\": ");
    cli_json_text(stdout, description);
    puts("}");
}

int cli_ops(const cli_options *o)
{
    bool found = o->n == 0;
    if (o->n > 1)
        return cli_usage("ops takes one name at most");
    for (int32_t i = 0, n_ops = INT32_MAX;; i++) { /* ops, then formulas over lists */
        const char *name = NULL, *formula, *description;
        if (i < n_ops)
            md_catalogue(i, &name, &formula, &description);
        if (!name && i < n_ops)
            n_ops = i;
        if (!name)
            md_list_catalogue(i - n_ops, &name, &formula, &description);
        if (!name)
            break;
        if (o->n && strcmp(name, o->arg[0]))
            continue;
        found = true;
        print_op(name, formula, description, o->json);
    }
    return found ? CLI_OK : cli_fail("the catalogue has no op '%s'", o->arg[0]);
}

/* Makes a context and the op that the first argument names. */
static int open_op(md_context **context, md_op **op, const cli_options *o)
{
    if (cli_open_context(context, o) != MD_OK)
        return cli_fail_md();
    cli_progress("building %s", o->arg[0]);
    if (md_op_create(op, *context, o->arg[0], &o->op) == MD_OK) {
        cli_progress(NULL);
        return CLI_OK;
    }
    int status = cli_fail_md();
    cli_close_context(context);
    return status;
}

int cli_check(const cli_options *o)
{
    md_context *context = NULL;
    if (o->n != 1)
        return cli_usage("check takes one formula or op, but got %d", o->n);
    if (cli_open_context(&context, o) != MD_OK)
        return cli_fail_md();
    int status =
        md_check_formula(context, o->arg[0], &o->op, o->json, cli_write, stdout) == MD_OK ? CLI_OK : cli_fail_md();
    cli_close_context(&context);
    return status;
}

/* The report has the formula's warnings ("1:12: ..."): the log does not repeat them. */
static void log_without_formula(void *user, md_log_level level, const char *message)
{
    int line, column;
    if (level != MD_LOG_WARN || sscanf(message, "%d:%d: ", &line, &column) != 2)
        cli_log(user, level, message);
}

int cli_explain(const cli_options *o)
{
    cli_options quiet = *o;
    md_context *context = NULL;
    md_op *op = NULL;
    if (o->n != 1)
        return cli_usage("explain takes one formula or op, but got %d", o->n);
    quiet.context.log = log_without_formula;
    int status = open_op(&context, &op, &quiet);
    if (status != CLI_OK)
        return status;
    if (md_explain(op, o->sizes, o->json, cli_write, stdout) != MD_OK)
        status = cli_fail_md();
    md_op_destroy(&op);
    cli_close_context(&context);
    return status;
}

static int import_choices(md_context *context, const char *path)
{
    char *text = NULL;
    size_t room = 0;
    int64_t unknown = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        return cli_fail("cannot read '%s'", path);
    const ssize_t n = getdelim(&text, &room, '\0', file);
    fclose(file);
    int status = CLI_OK;
    if (md_choices_import(&unknown, context, n > 0 ? text : "") != MD_OK)
        status = cli_fail_md();
    else if (unknown)
        fprintf(stderr, "mdctl: %lld lines are of other ops or devices\n", (long long)unknown);
    free(text);
    return status;
}

int cli_choices(const cli_options *o)
{
    md_context *context = NULL;
    md_op *op = NULL;
    if (o->n < 1 || o->n > 2)
        return cli_usage("choices takes a formula or op, and a file at most, but got %d", o->n);
    int status = open_op(&context, &op, o);
    if (status != CLI_OK)
        return status;
    if (o->n == 2)
        status = import_choices(context, o->arg[1]);
    if (status == CLI_OK && md_prepare(op, o->sizes) != MD_OK)
        status = cli_fail_md();
    if (status == CLI_OK && md_choices_export(context, cli_write, stdout) != MD_OK)
        status = cli_fail_md();
    md_op_destroy(&op);
    cli_close_context(&context);
    return status;
}

static void list_variants(const md_op *op, bool json)
{
    bool first = true;
    if (json) {
        printf("{\"op\": ");
        cli_json_text(stdout, md_op_name(op));
        printf(", \"variants\": [");
    }
    for (int32_t s = 0; s < md_op_n_stages(op); s++)
        for (int32_t i = 0; i < md_op_n_variants(op, s); i++, first = false)
            if (json)
                printf("%s{\"stage\": %d, \"variant\": \"%s\"}", first ? "" : ", ", s, md_op_variant(op, s, i));
            else
                printf("%d:%s\n", s, md_op_variant(op, s, i));
    if (json)
        puts("]}");
}

typedef struct source_json {
    const cli_options *o;
    bool has_begun; /* nothing is printed for a variant that is not found */
} source_json;

static int write_source_json(void *user, const char *text, size_t n_bytes)
{
    source_json *j = user;
    if (!j->has_begun)
        printf("{\"stage\": %d, \"variant\": \"%s\", \"source\": \"", j->o->stage, j->o->variant);
    j->has_begun = true;
    cli_json_escape(stdout, text, n_bytes);
    return 0;
}

static int print_source(md_op *op, const cli_options *o)
{
    source_json j = {.o = o};
    md_status s = o->json ? md_op_source(op, o->stage, o->variant, write_source_json, &j)
                          : md_op_source(op, o->stage, o->variant, cli_write, stdout);
    if (j.has_begun)
        puts("\"}");
    return s == MD_OK ? CLI_OK : cli_fail_md();
}

int cli_source(const cli_options *o)
{
    md_context *context = NULL;
    md_op *op = NULL;
    if (o->n != 1)
        return cli_usage("source takes one formula or op, but got %d", o->n);
    int status = open_op(&context, &op, o);
    if (status != CLI_OK)
        return status;
    if (o->variant)
        status = print_source(op, o);
    else
        list_variants(op, o->json);
    md_op_destroy(&op);
    cli_close_context(&context);
    return status;
}
