/* A formula over a list of tensors (md/list.h): gradients of three sizes are clipped by their common norm. One call
 * reads all items in two passes, and updates them in place.
 * Prints:
 *     norm 13.00
 *     item 0: 0.9231 1.2308
 *     item 1: 3.6923
 *     item 2: (empty) */
#include <md/list.h>

#include <stdio.h>
#include <stdlib.h>

static void check(md_status status)
{
    if (status == MD_OK)
        return;
    fprintf(stderr, "%s\n", md_last_error());
    exit(1);
}

int main(void)
{
    float a[] = {3, 4}, b[] = {12}, norm = 0;
    const int64_t size[3] = {2, 1, 0}; /* of each item its own; an empty one is left out */
    md_tensor g[3], n = md_tensor_make(&norm, MD_F32, 0, NULL);
    md_context *context = NULL;
    md_list *clip = NULL;
    g[0] = md_tensor_make(a, MD_F32, 1, &size[0]);
    g[1] = md_tensor_make(b, MD_F32, 1, &size[1]);
    g[2] = md_tensor_make(NULL, MD_F32, 1, &size[2]);
    check(md_context_create(&context, &(md_context_options){.device = "host"}));
    /* G@t[i] is element i of item t; a sum over t runs over all items, too; N is one number for all. */
    check(md_list_create(&clip, context,
                         "scalar most; let n = sqrt(sum[t,i](G@t[i] * G@t[i])); N[] = n;"
                         "G@t[i] = G@t[i] * min(1, most / n)",
                         NULL));
    const md_arg args[] = {md_s(4), md_ts(g, 3), md_t(&n)}; /* in the formula's order: most, G, N */
    check(md_list_call(clip, NULL, args, 3));
    printf("norm %.2f\nitem 0: %.4f %.4f\nitem 1: %.4f\nitem 2: (empty)\n", (double)norm, (double)a[0], (double)a[1],
           (double)b[0]);
    md_list_destroy(&clip);
    md_context_destroy(&context);
    return 0;
}
