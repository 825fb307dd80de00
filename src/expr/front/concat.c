/* Concatenations: where(j < 12, P[j], K[j - 12]). */
#include "expr/front/front.h"
#include "expr/node.h"

/* True for what is one length: constants, sizes, scalars, and sums of them. */
static bool is_no_index(void *user, const md_fx_node *n)
{
    (void)user;
    return n->kind == MD_FX_CONST || n->kind == MD_FX_SIZE || n->kind == MD_FX_SCALAR || n->kind == MD_FX_OP;
}

/* The index that a condition compares with a length, else -1. *low: the arm in which it is the smaller. */
static int32_t compared_index(const md_fx_node *condition, int32_t *low)
{
    const md_fx_op op = condition->kind == MD_FX_OP ? condition->op : MD_FX_NO_OP;
    const bool is_less = op == MD_FX_LT || op == MD_FX_LE;
    if (!is_less && op != MD_FX_GT && op != MD_FX_GE)
        return -1;
    for (int side = 0; side < 2; side++)
        if (condition->arg[side]->kind == MD_FX_INDEX && md_fx_visit(condition->arg[1 - side], is_no_index, NULL)) {
            *low = is_less == (side == 0) ? 1 : 2;
            return condition->arg[side]->id;
        }
    return -1;
}

static bool shifts_not(void *user, const md_fx_node *n)
{
    const int32_t index = *(const int32_t *)user;
    for (int32_t i = 0; n->kind == MD_FX_LOAD && i < n->n_args; i++)
        if (n->arg[i]->kind != MD_FX_INDEX && md_fx_uses_index(n->arg[i], index))
            return false;
    return true;
}

typedef struct part {
    md_front *front;
    int32_t index;
} part;

static bool note_part(void *user, const md_fx_node *n)
{
    const part *const p = user;
    for (int32_t i = 0; n->kind == MD_FX_LOAD && i < n->n_args; i++)
        for (md_access *a = md_fx_is_index(n->arg[i], p->index) ? p->front->accesses : NULL; a; a = a->next)
            a->is_part |= a->subscript == n->arg[i];
    return true;
}

void md_front_note_concatenation(md_front *fr, md_fx_node *const arg[3])
{
    int32_t low = 0;
    part p = {.front = fr, .index = compared_index(arg[0], &low)};
    if (p.index >= 0 && !md_fx_visit(arg[3 - low], shifts_not, &p.index))
        (void)md_fx_visit(arg[low], note_part, &p);
}
