/* A bundle: kernels compiled ahead, for machines without a compiler. This program makes one and then uses it in a
 * context whose compiler does not exist, as a program that was shipped would. (mdctl bundle makes one, too.)
 * Prints:
 *     the bundle is written
 *     5 rows without a compiler: 0.1000 */
#include <md/md.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { COLUMNS = 10, MOST = 8 };

static void check(md_status status)
{
    if (status == MD_OK)
        return;
    fprintf(stderr, "%s\n", md_last_error());
    exit(1);
}

/* Where there is a compiler: the kernels of all ops that this context creates. */
static void make_bundle(const char *path)
{
    md_context *context = NULL;
    md_op *op = NULL;
    check(md_context_create(&context, &(md_context_options){.device = "host"}));
    check(md_bundle_begin(context, MD_BUNDLE_KEPT)); /* before the first op */
    check(md_op_create(&op, context, "softmax", NULL));
    check(md_bundle_keep(op, "i=1, j=10")); /* what serves these sizes, and one kernel for all others */
    check(md_bundle_keep(op, "i=8, j=10"));
    check(md_bundle_write(context, path));
    printf("the bundle is written\n");
    md_op_destroy(&op);
    md_context_destroy(&context);
}

static void use_bundle(const char *path)
{
    static float x[MOST * COLUMNS], y[MOST * COLUMNS];
    const int64_t size[] = {5, COLUMNS};
    md_context *context = NULL;
    md_op *op = NULL;
    const md_context_options options = {.device = "host", .bundle = path, .cc = "/nonexistent/cc", .cache_dir = ""};
    check(md_context_create(&context, &options));
    check(md_op_create(&op, context, "softmax", NULL));
    const md_tensor tx = md_tensor_make(x, MD_F32, 2, size), ty = md_tensor_make(y, MD_F32, 2, size);
    const md_arg args[] = {md_t(&ty), md_t(&tx)};
    check(md_call(op, NULL, args, 2));
    printf("5 rows without a compiler: %.4f\n", (double)y[0]);
    md_op_destroy(&op);
    md_context_destroy(&context);
}

int main(void)
{
    char path[] = "/tmp/md_example_XXXXXX";
    const int file = mkstemp(path);
    if (file < 0)
        return 1;
    close(file);
    make_bundle(path);
    use_bundle(path);
    return unlink(path);
}
