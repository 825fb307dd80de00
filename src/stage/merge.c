/* Merge rules: how the results of two chunks of a row become that of both, so that one pass over memory makes all
 * reductions. */
#include "stage/cascade.h"

#include "base/dtype.h"

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
    if (!d || !is_op(d, MD_FX_SUB))
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

typedef struct row_sight {
    const md_st_maker *maker;
    const md_st_row *row;
} row_sight;

static bool is_result(void *user, const md_fx_node *ref)
{
    (void)user, (void)ref;
    return true;
}

/* If `a` is what the maximum is taken of, every term is at most 1: then no chunk can overflow where the whole does not.
 */
static bool is_shifted(void *user, const md_fx_node *a, const md_fx_node *reference)
{
    const row_sight *s = user;
    return is_ref_to(s->row, reference, MD_FX_R_MAX) &&
           md_fx_equal(s->maker->formula, s->row->reduction[reference->id].body, a);
}

static bool set_rescaled(md_st_maker *m, const md_st_row *row, md_st_reduction *r, int32_t axis)
{
    md_st_cascade c;
    row_sight sight = {m, row};
    md_st_cascade_rules rules = {.axis = axis, .user = &sight, .is_result = is_result, .is_shifted = is_shifted};
    if (r->op != MD_FX_R_SUM || !md_dtype_is_real(r->type) || !md_st_cascade_of(&c, m, r->body, &rules) ||
        !c.exponential || c.outer.n > 0 || c.is_rounded)
        return false;
    r->merge = MD_ST_MERGE_RESCALED;
    r->shift = c.reference->id;
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
            (void)set_rescaled(m, row, r, axis);
        row->is_online &= r->merge != MD_ST_MERGE_NONE;
    }
}
