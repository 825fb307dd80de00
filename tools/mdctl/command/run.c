/* run: make data, call, compare with the reference, print. */
#include "common/cli.h"
#include "common/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void print_values(const data_set *set, int32_t i)
{
    int64_t n = data_count(set, i), shown = n < 8 ? n : 8;
    printf("    %s =", set->info[i].name);
    for (int64_t k = 0; k < shown; k++)
        data_print(set, i, k);
    printf("%s\n", shown < n ? " ..." : "");
}

static void print_shape(const data_set *set, int32_t i)
{
    printf("%s:%s[", set->info[i].name, md_dtype_name(set->tensor[i].dtype));
    for (int32_t a = 0; a < set->tensor[i].rank; a++)
        printf("%s%lld", a ? "," : "", (long long)set->tensor[i].size[a]);
    printf("]");
}

static bool report_output(const data_set *got, const data_set *want, int32_t i, double additions, const cli_options *o,
                          bool first)
{
    comparison c = compare_tensors(got, want, i, additions);
    const bool json = o->json;
    if (o->op.tf32)
        c.allowed += 0x1p-10; /* both operands of a product are rounded to 11 bits */
    bool ok = c.worst <= c.allowed;
    if (json) {
        printf("%s{\"name\": \"%s\", \"elements\": %lld, \"error\": %.6g, \"allowed\": %.6g, \"ok\": %s}",
               first ? "" : ", ", got->info[i].name, (long long)c.n, isfinite(c.worst) ? c.worst : 1e300, c.allowed,
               ok ? "true" : "false");
        return ok;
    }
    printf("  ");
    print_shape(got, i);
    printf(": error %.2g of the largest value, allowed %.2g: %s\n", c.worst, c.allowed, ok ? "ok" : "WRONG");
    print_values(got, i);
    if (!ok)
        printf("    element %lld is %.9g, the reference says %.9g\n", (long long)c.at, data_at(got, i, c.at),
               data_at(want, i, c.at));
    return ok;
}

static int report(md_op *op, const data_set *got, const data_set *want, double us, const cli_options *o)
{
    md_choice choice;
    const bool json = o->json;
    bool ok = true, first = true;
    double additions;
    if (md_choice_of(&choice, op, got->arg, got->n) != MD_OK || compare_additions(&additions, op, o->sizes) != MD_OK)
        return cli_fail_md();
    if (json)
        printf("{\"op\": \"%s\", \"variants\": [", md_op_name(op)); /* an output's or the catalogue's: plain letters */
    else
        printf("%s\n", md_op_formula(op));
    for (int32_t s = 0; s < choice.n_stages; s++)
        printf(json ? "%s{\"variant\": \"%s\", \"why\": \"%s\"}" : "%s  %s (%s)\n", json && s ? ", " : "",
               choice.variant[s], choice.source[s]);
    printf(json ? "], \"us\": %.3f, \"outputs\": [" : "  %.1f us\n", us);
    for (int32_t i = 0; i < got->n; i++) {
        if (!got->info[i].is_output)
            continue;
        ok &= report_output(got, want, i, additions, o, first);
        first = false;
    }
    if (json)
        printf("], \"ok\": %s}\n", ok ? "true" : "false");
    return ok ? CLI_OK : CLI_FAILED;
}

static int run_op(md_context *context, md_op *op, const cli_options *o, data_set *got, data_set *want)
{
    if (data_make(got, context, op, o->sizes, o->seed) != MD_OK ||
        data_make(want, context, op, o->sizes, o->seed) != MD_OK)
        return cli_fail_md();
    double start = cli_now_us();
    if (md_call(op, NULL, got->arg, got->n) != MD_OK || md_sync(context, NULL) != MD_OK)
        return cli_fail_md();
    double us = cli_now_us() - start;
    cli_progress("checking against the reference");
    if (md_check(context) != MD_OK || md_reference(op, want->arg, want->n) != MD_OK)
        return cli_fail_md();
    for (int32_t i = 0; i < got->n; i++)
        if (got->info[i].is_output && (data_fetch(got, i) != MD_OK || data_fetch(want, i) != MD_OK))
            return cli_fail_md();
    cli_progress(NULL);
    return report(op, got, want, us, o);
}

int cli_run(const cli_options *o)
{
    md_context *context = NULL;
    md_op *op = NULL;
    data_set got = {0}, want = {0};
    int status = CLI_OK;
    if (o->n != 1)
        return cli_usage("run takes one formula or op, but got %d", o->n);
    if (cli_open_context(&context, o) != MD_OK)
        return cli_fail_md();
    cli_progress("building %s", o->arg[0]);
    if (md_op_create(&op, context, o->arg[0], &o->op) != MD_OK)
        status = cli_fail_md();
    else
        status = run_op(context, op, o, &got, &want);
    data_free(&got);
    data_free(&want);
    md_op_destroy(&op);
    cli_close_context(&context);
    return status;
}
