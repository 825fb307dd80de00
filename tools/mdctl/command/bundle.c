/* bundle: compiles the kernels of ops ahead of time into one file. */
#include "common/cli.h"

/* Builds all variants of one op. The context keeps them. */
static md_status build(md_context *context, const char *formula, const md_op_options *options)
{
    md_op *op = NULL;
    md_status s = md_op_create(&op, context, formula, options);
    if (s == MD_OK)
        s = md_op_wait(op);
    md_op_destroy(&op);
    return s;
}

int cli_bundle(const cli_options *o)
{
    md_context *context = NULL;
    if (o->n < 1)
        return cli_usage("bundle takes formulas or ops");
    if (!o->output)
        return cli_usage("bundle needs --output FILE");
    md_status s = cli_open_context(&context, o);
    if (s == MD_OK)
        s = md_bundle_begin(context);
    for (int i = 0; i < o->n && s == MD_OK; i++) {
        cli_progress_part(i, o->n);
        cli_progress("%s", o->arg[i]);
        s = build(context, o->arg[i], &o->op);
    }
    if (s == MD_OK)
        s = md_bundle_write(context, o->output);
    cli_progress(NULL);
    const int status = s == MD_OK ? CLI_OK : cli_fail_md();
    cli_close_context(&context);
    return status;
}
