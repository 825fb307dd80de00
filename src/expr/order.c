/* Whether the tensors of a formula, printed, would appear in the order of their numbers: the operands of a recurrence
 * may stand in another order than in the text that it was taken from. */
#include "expr/order.h"

typedef struct walk {
    int32_t n; /* tensors below this number have appeared */
    bool is_right;
} walk;

static void see(walk *w, int32_t tensor)
{
    w->is_right &= tensor <= w->n;
    w->n += tensor == w->n;
}

static void follow(walk *w, const md_fx_node *node)
{
    if (node->kind == MD_FX_LOAD)
        see(w, node->id);
    for (int32_t i = 0; i < node->n_args && w->is_right && w->n < MD_FX_MAX_TENSORS; i++)
        follow(w, node->arg[i]);
}

bool md_fx_is_in_order(const md_fx_formula *formula)
{
    walk w = {.is_right = true};
    for (int32_t i = 0; i < formula->n_stmts && w.is_right && w.n < formula->n_tensors; i++) {
        const md_fx_stmt *const s = &formula->stmt[i];
        see(&w, s->tensor);
        for (int32_t k = 0; k < formula->tensor[s->tensor].rank; k++)
            follow(&w, s->subscript[k]);
        follow(&w, s->value);
    }
    return w.is_right;
}
