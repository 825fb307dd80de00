/* Runs: integers of which each lane has one more than the lane before it, as the index of the lanes. */
#include "codegen/expression/printer.h"

#include <inttypes.h>

/* The value of an integer in lane 0 where each lane has one more than the lane before it; NULL where it does not. */
static const char *first_of_run(md_cg *cg, const md_fx_node *n)
{
    if (md_fx_is_index(n, cg->o.lane))
        return md_cg_format(cg, "x%" PRId32, n->id);
    if (n->kind != MD_FX_OP || n->type != MD_I64 || (n->op != MD_FX_ADD && n->op != MD_FX_SUB) || n->n_args != 2)
        return NULL;
    md_cg_value_number *right = md_cg_number(cg, n->arg[1]), *left = md_cg_number(cg, n->arg[0]);
    const bool is_left = right && !md_cg_varies(cg, right), is_right = left && !md_cg_varies(cg, left);
    if (is_left == is_right || (is_right && n->op == MD_FX_SUB))
        return NULL;
    const char *first = first_of_run(cg, n->arg[is_right]);
    const char *rest = first ? md_cg_operand(cg, n->arg[is_left], MD_I64, false) : NULL;
    return rest ? md_cg_format(cg, "(%s) %c (%s)", first, n->op == MD_FX_ADD ? '+' : '-', rest) : NULL;
}

const char *md_cg_compare_run(md_cg *cg, const md_fx_node *n)
{
    static const struct {
        md_fx_op op;
        const char *as, *turned;
    } table[] = {{MD_FX_LT, "lt", "gt"}, {MD_FX_LE, "le", "ge"}, {MD_FX_GT, "gt", "lt"}, {MD_FX_GE, "ge", "le"}};
    if (md_cg_is_cuda(cg) || cg->o.bytes || cg->o.n_flat > 1 || cg->o.lane < 0)
        return NULL;
    for (size_t i = 0; i < MD_COUNT(table); i++)
        for (int32_t k = 0; k < 2 && n->op == table[i].op; k++) {
            md_cg_value_number *other = md_cg_number(cg, n->arg[1 - k]);
            if (!other || md_cg_varies(cg, other) || n->arg[0]->type != MD_I64 || n->arg[1]->type != MD_I64)
                continue;
            const char *first = first_of_run(cg, n->arg[k]);
            const char *limit = first ? md_cg_operand(cg, n->arg[1 - k], MD_I64, false) : NULL;
            if (limit)
                return md_cg_format(cg, "md_run_%s_b(%s, %s)", k == 0 ? table[i].as : table[i].turned, first, limit);
        }
    return NULL;
}
