/* A linear layer with bias on the CPU: one op, called with 1, 2 and 3 rows.
 * Prints:
 *     b = 1: 3.50 -2.00
 *     b = 2: 1.10 -2.00
 *     b = 3: 1.00 3.00 */
#include <md/md.h>
#include <stdio.h>

int main(void)
{
    float x[3][4] = {{1, 2, 3, 4}, {0, 1, 0, 1}, {2, 0, 1, 0}}; /* three rows of k = 4 elements */
    float w[2][4] = {{0.1f, 0.2f, 0.3f, 0.4f}, {1, -1, 1, -1}}, c[2] = {0.5f, 0}, y[3][2];
    const int64_t size_w[] = {2, 4}, size_c[] = {2};
    const md_context_options options = {.device = "host"}; /* on a GPU: md_alloc, md_copy */
    md_context *context = NULL;
    md_op *linear = NULL;
    md_status status = md_context_create(&context, &options);
    if (status == MD_OK)
        status = md_op_create(&linear, context, "Y[b,n] = sum[k](X[b,k] * W[n,k]) + c[n]", NULL);
    for (int64_t b = 1; b <= 3 && status == MD_OK; b++) {
        const int64_t size_x[] = {b, 4}, size_y[] = {b, 2};
        const md_tensor ty = md_tensor_make(y, MD_F32, 2, size_y), tx = md_tensor_make(x, MD_F32, 2, size_x);
        const md_tensor tw = md_tensor_make(w, MD_F32, 2, size_w), tc = md_tensor_make(c, MD_F32, 1, size_c);
        const md_arg args[] = {md_t(&ty), md_t(&tx), md_t(&tw), md_t(&tc)}; /* in the formula's order */
        status = md_call(linear, NULL, args, 4); /* picks a kernel when the size is new */
        if (status == MD_OK)
            printf("b = %d: %.2f %.2f\n", (int)b, y[b - 1][0], y[b - 1][1]);
    }
    if (status == MD_OK)
        status = md_stats_print(context, stderr); /* per size: the kernel, why, the runner-up, calls, time */
    if (status != MD_OK)
        fprintf(stderr, "%s\n", md_last_error());
    md_op_destroy(&linear);
    md_context_destroy(&context);
    return status != MD_OK;
}
