/* The shortest program: one call of softmax, an op of the catalogue, on data of the CPU. */
#include <md/md.h>

#include <stdio.h>

int main(void)
{
    float x[2][3] = {{1, 2, 3}, {0, 0, 0}}, y[2][3] = {{0}};
    const int64_t size[] = {2, 3};
    md_tensor tx = md_tensor_make(x, MD_F32, 2, size), ty = md_tensor_make(y, MD_F32, 2, size);
    const md_arg args[] = {md_t(&ty), md_t(&tx)}; /* the formula's order: Y, X */
    const md_context_options options = {.device = "host"};
    md_context *context = NULL;
    md_op *softmax = NULL;
    if (md_context_create(&context, &options) != MD_OK || md_op_create(&softmax, context, "softmax", NULL) != MD_OK ||
        md_call(softmax, NULL, args, 2) != MD_OK) {
        fprintf(stderr, "%s\n", md_last_error());
        return 1;
    }
    for (int i = 0; i < 2; i++)
        printf("%.4f %.4f %.4f\n", (double)y[i][0], (double)y[i][1], (double)y[i][2]);
    md_op_destroy(&softmax);
    md_context_destroy(&context);
    return 0;
}
