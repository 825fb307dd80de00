/* Which reductions of nothing a call needs. Statements are asked from the last to the first, so that a let knows its
 * readers. */
#include "expr/needed.h"

#include "base/status.h"
#include "expr/memo.h"
#include "expr/node.h"

typedef struct search {
    const md_fx_formula *formula;
    const int64_t *size;
    bool is_read[MD_FX_MAX_TENSORS]; /* a statement that has elements reads it */
    md_memo seen;
    md_fx_op op; /* of the reduction of nothing that was found */
    int32_t dim;
} search;

static bool is_empty_dim(search *s, int32_t index)
{
    s->dim = s->formula->index[index].dim;
    return s->size[s->dim] == 0;
}

static bool is_over_nothing(search *s, int32_t n, const int32_t *index)
{
    for (int32_t i = 0; i < n; i++)
        if (is_empty_dim(s, index[i]))
            return true;
    return false;
}

static bool has_no_identity(md_fx_op op)
{
    return op == MD_FX_R_MAX || op == MD_FX_R_MIN || op == MD_FX_R_ARGMAX || op == MD_FX_R_ARGMIN;
}

static bool has_value(search *s, const md_fx_node *node);

static bool have_values(search *s, int32_t n, const md_fx_node *const *node)
{
    for (int32_t i = 0; i < n; i++)
        if (!has_value(s, node[i]))
            return false;
    return true;
}

/* False where the value is that of a reduction which has none. */
static bool has_value(search *s, const md_fx_node *node)
{
    int64_t condition;
    if (node->kind == MD_FX_REDUCE && is_over_nothing(s, node->n_bound, node->bound)) {
        s->op = node->op;
        return !has_no_identity(node->op);
    }
    if (node->kind == MD_FX_LOAD)
        s->is_read[node->id] = true;
    if (node->n_args == 0 || md_memo_find(&s->seen, node, NULL, 0, NULL))
        return true;
    (void)md_memo_put(&s->seen, node, NULL, 0, NULL); /* short of memory it is only slower */
    if (node->kind == MD_FX_OP && node->op == MD_FX_WHERE && md_fx_value_of_sizes(&condition, s->size, node->arg[0]))
        return has_value(s, node->arg[condition != 0 ? 1 : 2]);
    return have_values(s, node->n_args, node->arg);
}

static bool is_needed(search *s, const md_fx_stmt *stmt)
{
    const md_fx_tensor *t = &s->formula->tensor[stmt->tensor];
    return (t->role != MD_FX_TEMP || s->is_read[stmt->tensor]) && !is_over_nothing(s, stmt->n_free, stmt->free);
}

static bool all_have_values(search *s)
{
    for (int32_t i = s->formula->n_stmts - 1; i >= 0; i--) {
        const md_fx_stmt *stmt = &s->formula->stmt[i];
        if (is_needed(s, stmt) &&
            !(have_values(s, s->formula->tensor[stmt->tensor].rank, stmt->subscript) && has_value(s, stmt->value)))
            return false;
    }
    return true;
}

md_status md_fx_check_needed(const md_fx_formula *formula, const int64_t *size)
{
    bool has_empty = false;
    for (int32_t d = 0; d < formula->n_dims; d++)
        has_empty |= size[d] == 0;
    if (!has_empty)
        return MD_OK;
    search s = {.formula = formula, .size = size};
    const bool is_right = all_have_values(&s);
    md_memo_finish(&s.seen);
    return is_right ? MD_OK
                    : md_fail(MD_INVALID_ARGUMENT, "dim '%s' has size 0, but the %s of nothing has no value",
                              formula->dim[s.dim].name, md_fx_op_text(s.op));
}
