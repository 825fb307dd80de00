/* info, ops, explain, source: what the library knows, written out. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

int cli_info(const cli_options *o)
{
    md_context *context = NULL;
    if (o->n)
        return cli_usage("info takes no argument, but got '%s'", o->arg[0]);
    if (md_context_create(&context, &o->context) != MD_OK)
        return cli_fail_md();
    int status = md_info(context, o->json, cli_write, stdout) == MD_OK ? CLI_OK : cli_fail_md();
    md_context_destroy(&context);
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

static void print_json_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        if ((unsigned char)*text >= ' ')
            putchar(*text);
        else
            printf("\\u%04x", (unsigned)(unsigned char)*text);
    }
    putchar('"');
}

static void print_op(const char *name, const char *formula, const char *description, bool json)
{
    if (!json) {
        printf("%s%s%s\n    %s\n    %s\n", cli_bold(), name, cli_plain(), description, formula);
        return;
    }
    printf("{\"name\": ");
    print_json_text(name);
    printf(", \"formula\": ");
    print_json_text(formula);
    printf(", \"description\": ");
    print_json_text(description);
    puts("}");
}

int cli_ops(const cli_options *o)
{
    bool found = o->n == 0;
    if (o->n > 1)
        return cli_usage("ops takes one name at most");
    for (int32_t i = 0;; i++) {
        const char *name, *formula, *description;
        md_catalogue(i, &name, &formula, &description);
        if (!name)
            break;
        if (o->n && strcmp(name, o->arg[0]))
            continue;
        found = true;
        print_op(name, formula, description, o->json);
    }
    return found ? CLI_OK : cli_fail("the catalogue has no op '%s'", o->arg[0]);
}

/* Makes a context and the op that the one argument names. */
static int open_op(md_context **context, md_op **op, const cli_options *o, const char *what)
{
    if (o->n != 1)
        return cli_usage("%s takes one formula or op, but got %d", what, o->n);
    if (md_context_create(context, &o->context) != MD_OK)
        return cli_fail_md();
    cli_progress("building %s", o->arg[0]);
    if (md_op_create(op, *context, o->arg[0], &o->op) == MD_OK) {
        cli_progress(NULL);
        return CLI_OK;
    }
    int status = cli_fail_md();
    md_context_destroy(context);
    return status;
}

int cli_explain(const cli_options *o)
{
    md_context *context = NULL;
    md_op *op = NULL;
    int status = open_op(&context, &op, o, "explain");
    if (status != CLI_OK)
        return status;
    if (md_explain(op, o->sizes, o->json, cli_write, stdout) != MD_OK)
        status = cli_fail_md();
    md_op_destroy(&op);
    md_context_destroy(&context);
    return status;
}

static void list_variants(const md_op *op)
{
    for (int32_t s = 0; s < md_op_n_stages(op); s++)
        for (int32_t i = 0; i < md_op_n_variants(op, s); i++)
            printf("%d:%s\n", s, md_op_variant(op, s, i));
}

int cli_source(const cli_options *o)
{
    md_context *context = NULL;
    md_op *op = NULL;
    int status = open_op(&context, &op, o, "source");
    if (status != CLI_OK)
        return status;
    if (!o->variant)
        list_variants(op);
    else if (md_op_source(op, o->stage, o->variant, cli_write, stdout) != MD_OK)
        status = cli_fail_md();
    md_op_destroy(&op);
    md_context_destroy(&context);
    return status;
}
