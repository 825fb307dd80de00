/* Ready before the first request: an op is created in the background, its shapes are prepared, and then it is frozen,
 * so that no later call builds or measures anything.
 * Prints:
 *     8 rows: served
 *     5 rows: unsupported
 *     5 rows: served, the first result is 0.0010 */
#include <md/md.h>

#include <stdio.h>
#include <stdlib.h>

enum { COLUMNS = 1000, MOST = 64 };

static float x[MOST * COLUMNS], y[MOST * COLUMNS];

static void check(md_status status)
{
    if (status == MD_OK)
        return;
    fprintf(stderr, "%s\n", md_last_error());
    exit(1);
}

static md_status call(md_op *op, int64_t rows)
{
    const int64_t size[] = {rows, COLUMNS};
    md_tensor tx = md_tensor_make(x, MD_F32, 2, size), ty = md_tensor_make(y, MD_F32, 2, size);
    const md_arg args[] = {md_t(&ty), md_t(&tx)};
    return md_call(op, NULL, args, 2);
}

int main(void)
{
    md_context *context = NULL;
    md_op *op = NULL;
    check(md_context_create(&context, &(md_context_options){.device = "host"}));
    /* Returns when one kernel of each stage is ready; background threads build the others. */
    check(md_op_create(&op, context, "softmax", &(md_op_options){.async = 1}));
    check(call(op, 3)); /* served by what is ready, and by something better later */

    check(md_prepare(op, "i=1, j=1000; i=8, j=1000; i=64, j=1000")); /* waits for the best kernel of each */
    check(md_freeze(op, MD_FREEZE_FAIL)); /* a shape that was never met is an error from now on */
    check(call(op, 8));
    printf("8 rows: served\n");
    printf("5 rows: %s\n", md_status_name(call(op, 5)));

    check(md_freeze(op, MD_FREEZE_READY)); /* a new shape gets the best kernel that is ready */
    check(call(op, 5));
    printf("5 rows: served, the first result is %.4f\n", (double)y[0]);
    md_op_destroy(&op);
    md_context_destroy(&context);
    return 0;
}
