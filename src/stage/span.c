/* Sums under a condition that bounds K for each batch: sum[t](where(off[e] <= t and t < off[e+1], A * B, 0)). They are
 * products of the steps within the bounds alone. */
#include "stage/form.h"

static bool is_op(const md_fx_node *node, md_fx_op op)
{
    return node->kind == MD_FX_OP && node->op == op;
}

static bool is_zero(const md_fx_node *node)
{
    return node->kind == MD_FX_CONST && (md_dtype_is_real(node->type) ? node->num == 0 : node->integer == 0);
}

static bool add_bound(md_st_maker *m, const md_fx_node **bound, md_fx_op tighter, const md_fx_node *limit)
{
    *bound = *bound ? md_fx_op2(m->arena, tighter, *bound, limit) : limit;
    return md_st_made(m, *bound);
}

/* The step behind a limit, which may be the largest of all integers. */
static const md_fx_node *behind(md_st_maker *m, const md_fx_node *limit)
{
    const md_fx_node *most = md_fx_integer(m->arena, INT64_MAX - 1), *one = md_fx_integer(m->arena, 1);
    const md_fx_node *near = md_st_made(m, most) ? md_fx_op2(m->arena, MD_FX_MIN, limit, most) : NULL;
    return md_st_made(m, near) && md_st_made(m, one) ? md_fx_op2(m->arena, MD_FX_ADD, near, one) : NULL;
}

/* A comparison of K with what does not depend on it. */
static bool take_comparison(md_st_maker *m, md_st_product *out, const md_fx_node *node, int32_t k)
{
    static const struct {
        md_fx_op op, mirrored; /* limit op K; K op limit */
        bool is_end, is_behind; /* the bound is the step behind the limit */
    } kinds[] = {{MD_FX_GT, MD_FX_LT, true, false},
                 {MD_FX_GE, MD_FX_LE, true, true},
                 {MD_FX_LE, MD_FX_GE, false, false},
                 {MD_FX_LT, MD_FX_GT, false, true}};
    for (int32_t side = 0; side < 2; side++)
        for (int32_t i = 0; i < MD_COUNT(kinds); i++) {
            if (!is_op(node, side == 0 ? kinds[i].op : kinds[i].mirrored) || !md_fx_is_index(node->arg[1 - side], k))
                continue;
            const md_fx_node *limit = node->arg[side];
            if (limit->type != MD_I64 || md_fx_uses_index(limit, k) || md_fx_has_kind(limit, MD_FX_REDUCE))
                return false;
            limit = kinds[i].is_behind ? behind(m, limit) : limit;
            return md_st_made(m, limit) && add_bound(m, kinds[i].is_end ? &out->end : &out->begin,
                                                     kinds[i].is_end ? MD_FX_MIN : MD_FX_MAX, limit);
        }
    return false;
}

static bool take_condition(md_st_maker *m, md_st_product *out, const md_fx_node *node, int32_t k)
{
    if (is_op(node, MD_FX_AND))
        return take_condition(m, out, node->arg[0], k) && take_condition(m, out, node->arg[1], k);
    return take_comparison(m, out, node, k);
}

const md_fx_node *md_st_take_span(md_st_maker *m, md_st_product *out, const md_fx_node *reduce)
{
    const md_fx_node *body = reduce->arg[0];
    if (reduce->n_bound != 1 || !is_op(body, MD_FX_WHERE) || !is_zero(body->arg[2]) ||
        !take_condition(m, out, body->arg[0], reduce->bound[0]))
        return NULL;
    out->guard = body->arg[0];
    const md_fx_node *inside = md_st_reduce_like(m->arena, reduce, body->arg[1]);
    return md_st_made(m, inside) ? inside : NULL;
}
