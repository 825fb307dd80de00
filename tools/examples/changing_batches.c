/* A linear layer with bias and GELU under changing batch sizes, on a GPU if there is one.
 * Prints:
 *     batch   1: the last result is 0.0302
 *     batch 100: the last result is 0.0593
 *     batch   8: the last result is 0.0302
 *     batch 300: the last result is 0.0600
 *     batch 100: the last result is 0.0593 */
#include <md/md.h>
#include <stdio.h>
#include <stdlib.h>

enum { K = 512, N = 256, MOST = 300 };

static void check(md_status status)
{
    if (status == MD_OK)
        return;
    fprintf(stderr, "%s\n", md_last_error());
    exit(1);
}

/* Allocates memory on the context's device and fills it with 0, 1, .. 6, 0, 1, .. times `scale`. */
static float *make(md_context *context, size_t count, float scale)
{
    static float values[MOST * K];
    void *data = NULL;
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(i % 7) * scale;
    check(md_alloc(&data, context, count * sizeof(float)));
    check(md_copy(context, data, values, count * sizeof(float)));
    return (float *)data;
}

int main(void)
{
    const int64_t batches[] = {1, 100, 8, 300, 100}, size_w[] = {N, K}, size_c[] = {N};
    md_context *context = NULL;
    md_op *linear = NULL;
    check(md_context_create(&context, NULL)); /* the GPU if there is one, else the CPU */
    check(md_op_create(&linear, context, "Y[b,n] = gelu(sum[k](X[b,k] * W[n,k]) + c[n])", NULL));
    float *x = make(context, MOST * K, 0.01f), *y = make(context, MOST * N, 0), last = 0;
    md_tensor w = md_tensor_make(make(context, N * K, 0.01f), MD_F32, 2, size_w);
    md_tensor c = md_tensor_make(make(context, N, -0.1f), MD_F32, 1, size_c);

    for (int i = 0; i < 5; i++) {
        const int64_t b = batches[i], size_x[] = {b, K}, size_y[] = {b, N};
        md_tensor tx = md_tensor_make(x, MD_F32, 2, size_x), ty = md_tensor_make(y, MD_F32, 2, size_y);
        const md_arg args[] = {md_t(&ty), md_t(&tx), md_t(&w), md_t(&c)}; /* in the formula's order */
        check(md_call(linear, NULL, args, 4)); /* picks a kernel when the size is new */
        check(md_copy(context, &last, y + b * N - 1, sizeof last)); /* waits for the call */
        printf("batch %3d: the last result is %.4f\n", (int)b, (double)last);
    }
    md_stats_print(context, stderr); /* per size: the kernel, why, the runner-up, calls, time */
    md_free(context, x), md_free(context, y), md_free(context, w.data), md_free(context, c.data);
    md_op_destroy(&linear);
    md_context_destroy(&context);
    return 0;
}
