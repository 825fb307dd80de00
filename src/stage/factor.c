/* Products as lists of factors, so that their parts can be told apart by the indices they depend on. */
#include "stage/form.h"

#include "base/dtype.h"

static bool add_factor(md_st_factors *f, const md_fx_node *node, bool is_divisor)
{
    if (f->n == MD_ST_MAX_FACTORS)
        return false;
    f->factor[f->n++] = (md_st_factor){.node = node, .is_divisor = is_divisor};
    return true;
}

/* Only real arithmetic is taken apart across types, and integers only in products: i64 products wrap, divisions
 * truncate. */
static bool is_open(const md_st_factors *f, const md_fx_node *node)
{
    if (node->type != f->type || node->kind == MD_FX_CONST)
        return false;
    if (node->kind == MD_FX_CAST)
        return node->to == node->type && node->arg[0]->type == node->type;
    if (node->kind != MD_FX_OP)
        return false;
    return node->op == MD_FX_MUL || node->op == MD_FX_NEG || (node->op == MD_FX_DIV && md_dtype_is_real(node->type));
}

static bool take_apart(md_st_factors *f, const md_fx_node *node, bool is_divisor)
{
    if (is_divisor || !is_open(f, node))
        return add_factor(f, node, is_divisor);
    if (node->kind == MD_FX_OP && node->op == MD_FX_NEG)
        f->is_negative = !f->is_negative;
    for (int32_t i = 0; i < node->n_args; i++)
        if (!take_apart(f, node->arg[i], node->op == MD_FX_DIV && i == 1))
            return false;
    return true;
}

void md_st_factors_of(md_st_factors *out, const md_fx_node *node)
{
    *out = (md_st_factors){.type = node->type};
    if (!take_apart(out, node, false))
        *out = (md_st_factors){.type = node->type, .n = 1, .factor = {{.node = node}}};
}

const md_fx_node *md_st_times(md_st_maker *m, const md_fx_node *acc, const md_st_factor *factor, md_dtype type)
{
    if (!acc && !factor->is_divisor)
        return factor->node;
    if (!acc)
        acc = md_dtype_is_real(type) ? md_fx_real(m->arena, 1.0, type) : md_fx_integer(m->arena, 1);
    acc = md_fx_op2(m->arena, factor->is_divisor ? MD_FX_DIV : MD_FX_MUL, acc, factor->node);
    (void)md_st_made(m, acc);
    return acc;
}
