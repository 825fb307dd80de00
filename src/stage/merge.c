/* Merge rules: how the results of two chunks of a row become that of both, so that one pass over memory makes all
 * reductions. */
#include "stage/form.h"

#include "base/dtype.h"

static bool has_no_ref(const md_fx_node *node)
{
    return !md_fx_has_kind(node, MD_FX_REF);
}

static bool is_op(const md_fx_node *node, md_fx_op op)
{
    return node->kind == MD_FX_OP && node->op == op;
}

static bool is_ref_to(const md_st_row *row, const md_fx_node *node, md_fx_op op)
{
    return node->kind == MD_FX_REF && row->reduction[node->id].op == op && row->reduction[node->id].level == 0;
}

/* ---- sum((x - sum(x)/count)^2) ---- */

/* The d of d*d. */
static const md_fx_node *square_of(const md_st_maker *m, const md_fx_node *body)
{
    if (is_op(body, MD_FX_MUL) && md_fx_equal(m->formula, body->arg[0], body->arg[1]))
        return body->arg[0];
    bool is_power = is_op(body, MD_FX_POW) && body->arg[1]->kind == MD_FX_CONST &&
                    (md_dtype_is_real(body->arg[1]->type) ? body->arg[1]->num == 2.0 : body->arg[1]->integer == 2);
    return is_power ? body->arg[0] : NULL;
}

static bool is_axis_size(const md_st_maker *m, const md_fx_node *node, int32_t axis)
{
    int32_t dim = m->formula->index[axis].dim;
    if (node->kind == MD_FX_CAST && (node->to == MD_F32 || node->to == MD_F64))
        node = node->arg[0];
    if (node->kind == MD_FX_SIZE)
        return node->id == dim;
    /* the simplifier may have folded a static size */
    int64_t size = m->formula->dim[dim].size;
    if (node->kind != MD_FX_CONST || size < 0)
        return false;
    return md_dtype_is_real(node->type) ? node->num == (double)size : node->integer == size;
}

/* The number of the sum in sum/size. */
static int32_t mean_of(const md_st_maker *m, const md_st_row *row, const md_fx_node *node, int32_t axis)
{
    bool is_mean =
        is_op(node, MD_FX_DIV) && is_ref_to(row, node->arg[0], MD_FX_R_SUM) && is_axis_size(m, node->arg[1], axis);
    return is_mean ? node->arg[0]->id : -1;
}

static const md_fx_node *count_for_size(md_st_maker *m, const md_fx_node *x, const md_fx_node *mean)
{
    const md_fx_node *count = md_st_convert(m->arena, md_fx_node_new(m->arena, MD_FX_COUNT, MD_I64), mean->type);
    const md_fx_node *d = md_fx_op2(m->arena, MD_FX_SUB, x, md_fx_op2(m->arena, MD_FX_DIV, mean->arg[0], count));
    return md_fx_op2(m->arena, MD_FX_MUL, d, d);
}

static bool set_chan(md_st_maker *m, md_st_row *row, md_st_reduction *r, int32_t axis)
{
    const md_fx_node *d = r->op == MD_FX_R_SUM ? square_of(m, r->body) : NULL;
    if (d == NULL || !is_op(d, MD_FX_SUB))
        return false;
    for (int32_t side = 0; side < 2; side++) {
        const md_fx_node *x = d->arg[side], *mean = d->arg[1 - side];
        int32_t sum = mean_of(m, row, mean, axis);
        if (sum < 0 || !md_fx_equal(m->formula, row->reduction[sum].body, x))
            continue;
        const md_fx_node *body = count_for_size(m, x, mean);
        if (!md_st_made(m, body))
            return false;
        r->body = body;
        r->merge = MD_ST_MERGE_CHAN;
        r->shift = sum;
        return true;
    }
    return false;
}

/* ---- sum(c(x) * exp(a(x) - max(a(x)))) ---- */

/* The maximum that exp(a - max) is relative to; -1 where the factor is no such thing. That a is what the maximum is
 * of makes every term at most 1: then no chunk can overflow where the whole does not. */
static int32_t shift_of(const md_st_maker *m, const md_st_row *row, const md_fx_node *factor)
{
    if (!is_op(factor, MD_FX_EXP) || !is_op(factor->arg[0], MD_FX_SUB))
        return -1;
    const md_fx_node *a = factor->arg[0]->arg[0], *shift = factor->arg[0]->arg[1];
    if (!is_ref_to(row, shift, MD_FX_R_MAX) || !md_fx_equal(m->formula, row->reduction[shift->id].body, a))
        return -1;
    return shift->id;
}

static bool set_rescaled(const md_st_maker *m, md_st_row *row, md_st_reduction *r)
{
    md_st_factors f;
    int32_t shift = -1;
    if (r->op != MD_FX_R_SUM || !md_dtype_is_real(r->type))
        return false;
    md_st_factors_of(&f, r->body);
    for (int32_t i = 0; i < f.n; i++) {
        if (has_no_ref(f.factor[i].node))
            continue;
        if (shift >= 0 || f.factor[i].is_divisor)
            return false;
        shift = shift_of(m, row, f.factor[i].node);
        if (shift < 0)
            return false;
    }
    if (shift < 0)
        return false;
    r->merge = MD_ST_MERGE_RESCALED;
    r->shift = shift;
    return true;
}

void md_st_set_merge_rules(md_st_maker *m, md_st_row *row, int32_t axis)
{
    row->is_online = true;
    for (int32_t i = 0; i < row->n_reductions; i++) {
        md_st_reduction *r = &row->reduction[i];
        if (r->level == 0)
            r->merge = MD_ST_MERGE_PLAIN;
        else if (!set_chan(m, row, r, axis))
            (void)set_rescaled(m, row, r);
        row->is_online &= r->merge != MD_ST_MERGE_NONE;
    }
}
