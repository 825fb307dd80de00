/* Lengths. In where(j < n[b], s, -inf) n[b] says how many of the elements along j there are; so it does in
 * where(j <= n[b] - size(i) + i, s, -inf). One that is above the size of j is a mistake of the caller, like an index
 * out of range. The index stands on the left: n[b] > j is any comparison. */
#include "base/dtype.h"
#include "base/status.h"
#include "expr/front/front.h"
#include "expr/node.h"

#include <math.h>

typedef struct marker {
    const md_front *front;
    int32_t dim; /* of the index that is compared */
} marker;

static bool is_length(const md_front *fr, const md_fx_node *n)
{
    if (n->kind != MD_FX_LOAD || n->type != MD_I64)
        return false;
    const md_fx_tensor *t = &fr->formula->tensor[n->id];
    return t->role == MD_FX_INPUT && t->dtype != MD_BOOL;
}

/* The node with other operands. */
static const md_fx_node *with_operands(md_arena *arena, const md_fx_node *n, int32_t which, const md_fx_node *operand)
{
    md_fx_node *const copy = operand ? md_fx_node_new(arena, n->kind, n->type) : NULL;
    const md_fx_node **const arg = copy ? md_arena_alloc(arena, (size_t)n->n_args * sizeof *arg) : NULL;
    if (!arg)
        return NULL;
    *copy = *n;
    for (int32_t i = 0; i < n->n_args; i++)
        arg[i] = i == which ? operand : n->arg[i];
    copy->arg = arg;
    return copy;
}

/* True for what may stand beside a length: sizes and indices, and numbers that do not make it longer. */
static bool is_beside(const md_fx_node *n, bool is_added)
{
    if (n->kind == MD_FX_CONST)
        return n->type == MD_I64 && (is_added ? n->integer <= 0 : n->integer >= 0);
    return n->kind == MD_FX_INDEX || n->kind == MD_FX_SIZE;
}

/* The sum with its length marked; the sum itself where it has none. */
static const md_fx_node *mark_sum(const marker *m, const md_fx_node *n)
{
    if (is_length(m->front, n))
        return md_fx_length_node(m->front->arena, n, m->dim);
    const bool is_sum = n->kind == MD_FX_OP && n->op == MD_FX_ADD;
    if (!is_sum && (n->kind != MD_FX_OP || n->op != MD_FX_SUB))
        return n;
    for (int32_t i = 0; i < (is_sum ? 2 : 1); i++) {
        if (!is_beside(n->arg[1 - i], is_sum))
            continue;
        const md_fx_node *marked = mark_sum(m, n->arg[i]);
        if (marked != n->arg[i])
            return with_operands(m->front->arena, n, i, marked);
    }
    return n;
}

static const md_fx_node *mark_condition(md_front *fr, const md_fx_node *n)
{
    if (n->kind != MD_FX_OP)
        return n;
    for (int32_t i = 0; i < 2 && n && n->op == MD_FX_AND; i++) {
        const md_fx_node *marked = mark_condition(fr, n->arg[i]);
        n = marked == n->arg[i] ? n : with_operands(fr->arena, n, i, marked);
    }
    if (!n || (n->op != MD_FX_LT && n->op != MD_FX_LE) || n->arg[0]->kind != MD_FX_INDEX)
        return n;
    const marker m = {fr, fr->formula->index[n->arg[0]->id].dim};
    const md_fx_node *marked = mark_sum(&m, n->arg[1]);
    return marked == n->arg[1] ? n : with_operands(fr->arena, n, 1, marked);
}

static const md_fx_node *mark_mask(void *user, const md_fx_node *n)
{
    md_front *const fr = user;
    if (n->kind != MD_FX_OP || n->op != MD_FX_WHERE || n->arg[2]->kind != MD_FX_CONST ||
        !md_dtype_is_real(n->arg[2]->type) || n->arg[2]->num != -INFINITY)
        return n;
    const md_fx_node *marked = mark_condition(fr, n->arg[0]);
    return marked == n->arg[0] ? n : with_operands(fr->arena, n, 0, marked);
}

md_status md_front_lengths(md_front *front)
{
    md_fx_formula *const f = front->formula;
    for (int32_t i = 0; i < f->n_stmts; i++) {
        f->stmt[i].value = md_fx_rewrite(front->arena, f->stmt[i].value, mark_mask, front);
        if (!f->stmt[i].value)
            return md_fail_memory();
    }
    return MD_OK;
}
