/* VAR as sums: the exact two-pass form. Merging chunks is found again later, for these as for sums that users write
 * so. */
#include "stage/form.h"

static const md_fx_node *sum_over(md_arena *arena, const md_fx_node *like, const md_fx_node *body)
{
    md_fx_node *sum = md_st_reduce_like(arena, like, body);
    if (!sum)
        return NULL;
    sum->op = MD_FX_R_SUM;
    sum->unbiased = false;
    return sum;
}

/* How many elements a reduction takes in. */
static const md_fx_node *count_of(md_st_maker *m, const md_fx_node *reduction)
{
    const md_fx_node *count = NULL;
    for (int32_t i = 0; i < reduction->n_bound; i++) {
        const md_fx_node *size = md_fx_size_node(m->arena, m->formula->index[reduction->bound[i]].dim);
        count = i == 0 ? size : md_fx_op2(m->arena, MD_FX_MUL, count, size);
    }
    return count;
}

static const md_fx_node *lower_node(void *user, const md_fx_node *node)
{
    md_st_maker *m = user;
    if (node->kind != MD_FX_REDUCE || node->op != MD_FX_R_VAR)
        return node;
    md_arena *a = m->arena;
    const md_fx_node *count = count_of(m, node), *x = md_st_convert(a, node->arg[0], node->type);
    if (!x)
        return NULL;
    const md_fx_node *mean = md_fx_op2(a, MD_FX_DIV, sum_over(a, node, x), md_st_convert(a, count, node->type));
    const md_fx_node *d = md_fx_op2(a, MD_FX_SUB, x, mean);
    if (node->unbiased) /* the unbiased variance of no element, as of one, is 0/0 */
        count = md_fx_op2(a, MD_FX_MAX, md_fx_op2(a, MD_FX_SUB, count, md_fx_integer(a, 1)), md_fx_integer(a, 0));
    return md_fx_op2(a, MD_FX_DIV, sum_over(a, node, md_fx_op2(a, MD_FX_MUL, d, d)),
                     md_st_convert(a, count, node->type));
}

const md_fx_node *md_st_lower(md_st_maker *m, const md_fx_node *node)
{
    const md_fx_node *result = md_fx_rewrite(m->arena, node, lower_node, m);
    (void)md_st_made(m, result);
    return result;
}
