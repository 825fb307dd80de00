/* Windows as expressions: a load with affine subscripts under a guard of affine comparisons. */
#include "codegen/product/terms.h"

#include "base/status.h"

static bool add_affine(md_fx_affine *sum, const md_fx_affine *a, int64_t factor)
{
    sum->constant += factor * a->constant;
    for (int32_t i = 0; i < a->n; i++) {
        int32_t at = 0;
        while (at < sum->n && sum->index[at] != a->index[i])
            at++;
        if (at == MD_COUNT(sum->index))
            return false;
        sum->coef[at] = (at < sum->n ? sum->coef[at] : 0) + factor * a->coef[i];
        sum->index[at] = a->index[i];
        sum->n += at == sum->n;
    }
    for (int32_t i = 0; i < a->n_sizes; i++) {
        if (sum->n_sizes == MD_COUNT(sum->dim))
            return false;
        sum->dim[sum->n_sizes] = a->dim[i];
        sum->size_coef[sum->n_sizes++] = factor * a->size_coef[i];
    }
    return true;
}

/* a - b - least, which is at least 0 where the comparison holds. */
static bool add_comparison(md_cg_terms *t, const md_fx_formula *f, const md_fx_node *more, const md_fx_node *less,
                           int64_t least)
{
    md_fx_affine a, b, difference = {.constant = -least};
    if (t->n == MD_CG_MAX_TERMS || !md_fx_affine_of(&a, f, more) || !md_fx_affine_of(&b, f, less) ||
        !add_affine(&difference, &a, 1) || !add_affine(&difference, &b, -1))
        return false;
    t->term[t->n++] = difference;
    return true;
}

static bool add_guard(md_cg_terms *t, const md_fx_formula *f, const md_fx_node *guard)
{
    static const struct {
        md_fx_op op;
        int8_t more; /* which operand is the larger one */
        int64_t least;
    } table[] = {{MD_FX_GE, 0, 0}, {MD_FX_GT, 0, 1}, {MD_FX_LE, 1, 0}, {MD_FX_LT, 1, 1}};
    if (guard->kind != MD_FX_OP)
        return false;
    if (guard->op == MD_FX_AND)
        return add_guard(t, f, guard->arg[0]) && add_guard(t, f, guard->arg[1]);
    for (int32_t i = 0; i < MD_COUNT(table); i++)
        if (guard->op == table[i].op)
            return add_comparison(t, f, guard->arg[table[i].more], guard->arg[1 - table[i].more], table[i].least);
    return false;
}

static const md_fx_node *without_cast(const md_fx_node *node, md_dtype type)
{
    return node->kind == MD_FX_CAST && node->to == type ? node->arg[0] : node;
}

static bool is_zero(const md_fx_node *node)
{
    return node->kind == MD_FX_CONST && (node->type == MD_I64 ? node->integer == 0 : node->num == 0);
}

const md_fx_node *md_cg_terms_of(md_cg_terms *t, const md_fx_formula *f, const md_fx_node *operand, md_dtype type)
{
    const md_fx_node *node = without_cast(operand, type);
    md_fx_affine place;
    t->n = 0;
    if (node->kind == MD_FX_OP && node->op == MD_FX_WHERE) {
        if (!is_zero(without_cast(node->arg[2], type)) || !add_guard(t, f, node->arg[0]))
            return NULL;
        node = without_cast(node->arg[1], type);
    }
    for (int32_t i = 0; node->kind == MD_FX_LOAD && i < node->n_args; i++)
        if (!md_fx_affine_of(&place, f, node->arg[i]))
            return NULL;
    return node->kind == MD_FX_LOAD && node->n_args > 0 ? node : NULL;
}
