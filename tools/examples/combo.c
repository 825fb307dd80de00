/* A combo (md/combo.h): many calls without order as one launch. Rows of different lengths, a softmax each, and two sums
 * by another op run together.
 * Prints:
 *     softmax of 1, 2, 3 elements: 1.0000, 0.5000, 0.3333
 *     sums: 2, 3 */
#include <md/combo.h>

#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 3, SUMS = 2 };

static void check(md_status status)
{
    if (status == MD_OK)
        return;
    fprintf(stderr, "%s\n", md_last_error());
    exit(1);
}

int main(void)
{
    float x[ROWS][ROWS], y[ROWS][ROWS], sum[SUMS];
    md_tensor in[ROWS], out[ROWS], total[SUMS];
    md_arg softmax_args[ROWS][2], sum_args[SUMS][2];
    md_context *context = NULL;
    md_op *softmax = NULL, *sum_all = NULL;
    for (int r = 0; r < ROWS; r++) {
        const int64_t size[] = {1, r + 1}; /* each item has sizes of its own */
        for (int j = 0; j <= r; j++)
            x[r][j] = 1;
        in[r] = md_tensor_make(x[r], MD_F32, 2, size);
        out[r] = md_tensor_make(y[r], MD_F32, 2, size);
        softmax_args[r][0] = md_t(&out[r]);
        softmax_args[r][1] = md_t(&in[r]);
    }
    for (int s = 0; s < SUMS; s++) {
        total[s] = md_tensor_make(&sum[s], MD_F32, 0, NULL);
        sum_args[s][0] = md_t(&total[s]);
        sum_args[s][1] = md_t(&in[s + 1]);
    }
    check(md_context_create(&context, &(md_context_options){.device = "host"}));
    check(md_op_create(&softmax, context, "softmax", NULL));
    check(md_op_create(&sum_all, context, "sum_all", NULL));
    const md_combo_part parts[] = {{.op = softmax, .args = softmax_args[0], .n_args = 2, .n_items = ROWS},
                                   {.op = sum_all, .args = sum_args[0], .n_args = 2, .n_items = SUMS}};
    check(md_combo_call(context, NULL, parts, 2));
    printf("softmax of 1, 2, 3 elements: %.4f, %.4f, %.4f\nsums: %.0f, %.0f\n", (double)y[0][0], (double)y[1][0],
           (double)y[2][0], (double)sum[0], (double)sum[1]);
    md_op_destroy(&softmax);
    md_op_destroy(&sum_all);
    md_context_destroy(&context);
    return 0;
}
