/* What subscripts may look like, and which of them must be checked against a tensor's size at each call. */
#include "base/status.h"
#include "expr/front/front.h"
#include "expr/node.h"

#include <string.h>

enum { MAX_GUARDS = 64 };

typedef struct guards {
    int32_t n;
    const md_fx_node *node[MAX_GUARDS]; /* more are forgotten: the check is then stricter than it need be */
} guards;

typedef struct reach_list reach_list;
struct reach_list {
    reach_list *next;
    md_fx_reach reach;
};

typedef struct walk {
    md_front *front;
    reach_list *first, **last;
    int32_t n;
    guards held;
} walk;

static bool is_constant(const md_fx_node *n)
{
    return n->kind == MD_FX_CONST;
}

/* Refuses a subscript with which no call could read anything. */
static md_status check_shape(walk *w, int32_t tensor, int32_t axis, const md_fx_node *n)
{
    const md_fx_formula *const f = w->front->formula;
    const bool is_division = n->kind == MD_FX_OP && (n->op == MD_FX_FLOORDIV || n->op == MD_FX_MOD);
    if (is_division && is_constant(n->arg[1]) && n->arg[1]->integer == 0)
        return MD_FRONT_ERROR(w->front, n, "division by zero");
    if (is_constant(n) && n->integer < 0 && w->held.n == 0)
        return MD_FRONT_ERROR(w->front, n,
                              "subscript %lld lies before the first element, which is 0; the last one is size(%s.%d)-1",
                              (long long)n->integer, f->tensor[tensor].name, (int)axis);
    return MD_OK;
}

/* ---- what a call can decide ---- */

static md_fx_op opposite(md_fx_op op)
{
    switch ((int)op) {
    case MD_FX_LT:
        return MD_FX_GE;
    case MD_FX_GE:
        return MD_FX_LT;
    case MD_FX_GT:
        return MD_FX_LE;
    case MD_FX_LE:
        return MD_FX_GT;
    case MD_FX_EQ:
        return MD_FX_NE;
    case MD_FX_NE:
        return MD_FX_EQ;
    default:
        return MD_FX_NO_OP;
    }
}

static bool is_comparison(const md_fx_node *n);

/* True if indices, sizes and constants give the value, by operations whose ranges are exact: no products. Choices of
 * such values are among them where they are asked for. */
static bool is_regular(const md_fx_node *n, bool with_choices)
{
    if (n->kind != MD_FX_OP)
        return n->kind == MD_FX_CONST || n->kind == MD_FX_INDEX || n->kind == MD_FX_SIZE;
    const bool is_division = n->op == MD_FX_FLOORDIV || n->op == MD_FX_MOD, is_where = n->op == MD_FX_WHERE;
    if (is_division || n->op == MD_FX_MUL)
        return (is_constant(n->arg[1]) && (!is_division || n->arg[1]->integer > 0) &&
                is_regular(n->arg[0], with_choices)) ||
               (!is_division && is_constant(n->arg[0]) && is_regular(n->arg[1], with_choices));
    if (is_where && !is_comparison(n->arg[0]))
        return false;
    for (int32_t i = is_where; i < n->n_args; i++)
        if (!is_regular(n->arg[i], with_choices))
            return false;
    const bool is_choice =
        is_where || n->op == MD_FX_MIN || n->op == MD_FX_MAX || n->op == MD_FX_CLAMP || n->op == MD_FX_ABS;
    return n->op == MD_FX_ADD || n->op == MD_FX_SUB || n->op == MD_FX_NEG || (with_choices && is_choice);
}

static bool is_comparison(const md_fx_node *n)
{
    return is_constant(n) || (n->kind == MD_FX_OP && opposite(n->op) != MD_FX_NO_OP && is_regular(n->arg[0], false) &&
                              is_regular(n->arg[1], false));
}

/* True if sizes alone tell whether the subscript stays inside. Otherwise the kernel checks it. */
static bool is_decided(const md_fx_formula *f, const md_fx_reach *r)
{
    bool is = is_regular(r->subscript, true);
    for (int32_t i = 0; i < r->n_guards; i++)
        is &= is_comparison(r->guard[i]);
    return is || md_fx_is_inside(f, r);
}

/* ---- collecting ---- */

/* Notes a subscript that must be checked; *out is the one to use in its place. */
static md_status add_reach(walk *w, const md_fx_node **out, int32_t tensor, int32_t axis)
{
    const md_fx_node *const subscript = *out;
    reach_list *const r = md_arena_alloc(w->front->scratch, sizeof *r);
    const md_fx_node **const guard = md_arena_alloc(w->front->arena, (size_t)MD_MAX(w->held.n, 1) * sizeof *guard);
    if (!r || !guard)
        return md_fail_memory();
    for (int32_t i = 0; i < w->held.n; i++)
        guard[i] = w->held.node[i];
    r->reach = (md_fx_reach){.tensor = tensor,
                             .axis = axis,
                             .subscript = subscript,
                             .n_guards = w->held.n,
                             .guard = guard,
                             .line = subscript->line,
                             .column = subscript->column};
    r->reach.is_checked = !is_decided(w->front->formula, &r->reach);
    if (r->reach.is_checked)
        *out = md_fx_check_node(w->front->arena, subscript);
    *w->last = r;
    w->last = &r->next;
    w->n++;
    return *out ? MD_OK : md_fail_memory();
}

/* A plain index needs no check where its axis has its size, by being of one dim with it. */
static md_status note_subscript(walk *w, const md_fx_node **out, int32_t tensor, int32_t axis)
{
    const md_fx_node *const n = *out;
    const md_fx_formula *const f = w->front->formula;
    if (md_fx_has_kind(n, MD_FX_LOAD))
        return MD_OK;
    MD_TRY(check_shape(w, tensor, axis, n));
    if (n->kind == MD_FX_INDEX && f->index[n->id].dim == f->tensor[tensor].dim[axis])
        return MD_OK;
    return add_reach(w, out, tensor, axis);
}

static void hold(walk *w, const md_fx_node *condition)
{
    if (w->held.n < MAX_GUARDS)
        w->held.node[w->held.n++] = condition;
}

/* Adds what a condition says where it holds, or where it does not. */
static md_status hold_condition(walk *w, const md_fx_node *c, bool holds)
{
    const bool is_op = c->kind == MD_FX_OP;
    if (is_op && c->op == MD_FX_NOT)
        return hold_condition(w, c->arg[0], !holds);
    if (is_op && c->op == (holds ? MD_FX_AND : MD_FX_OR)) {
        MD_TRY(hold_condition(w, c->arg[0], holds));
        return hold_condition(w, c->arg[1], holds);
    }
    if (holds) {
        hold(w, c);
        return MD_OK;
    }
    /* Of integers only: among reals, not(a < b) is not a >= b where one is NaN. */
    const md_fx_op other = is_op && c->arg[0]->type == MD_I64 ? opposite(c->op) : MD_FX_NO_OP;
    const md_fx_node *const negated =
        other ? md_fx_op2(w->front->arena, other, c->arg[0], c->arg[1]) : md_fx_op1(w->front->arena, MD_FX_NOT, c);
    if (!negated)
        return md_fail_memory();
    hold(w, negated);
    return MD_OK;
}

/* The node with another operand; the copy is made once, when *out still is the node. */
static md_status replace_arg(walk *w, const md_fx_node **out, const md_fx_node *n, int32_t i, const md_fx_node *arg)
{
    if (arg == (*out)->arg[i])
        return MD_OK;
    md_fx_node *const copy = md_fx_node_new(w->front->arena, n->kind, n->type);
    const md_fx_node **const args = md_arena_alloc(w->front->arena, (size_t)n->n_args * sizeof *args);
    if (!copy || !args)
        return md_fail_memory();
    memcpy(args, (*out)->arg, (size_t)n->n_args * sizeof *args);
    args[i] = arg;
    *copy = *n;
    copy->arg = args;
    *out = copy;
    return MD_OK;
}

static md_status visit(walk *w, const md_fx_node **node);

static md_status visit_where(walk *w, const md_fx_node **node)
{
    const md_fx_node *const n = *node, *arg = n->arg[0];
    const int32_t n_held = w->held.n;
    MD_TRY(visit(w, &arg));
    MD_TRY(replace_arg(w, node, n, 0, arg));
    for (int arm = 0; arm < 2; arm++) {
        MD_TRY(hold_condition(w, n->arg[0], arm == 0));
        arg = n->arg[1 + arm];
        MD_TRY(visit(w, &arg));
        MD_TRY(replace_arg(w, node, n, 1 + arm, arg));
        w->held.n = n_held;
    }
    return MD_OK;
}

/* Collects the reaches of a node, and makes CHECKs of subscripts that the kernel must check. */
static md_status visit(walk *w, const md_fx_node **node)
{
    const md_fx_node *const n = *node;
    if (n->kind == MD_FX_OP && n->op == MD_FX_WHERE)
        return visit_where(w, node);
    for (int32_t i = 0; i < n->n_args; i++) {
        const md_fx_node *arg = n->arg[i];
        MD_TRY(visit(w, &arg));
        if (n->kind == MD_FX_LOAD)
            MD_TRY(note_subscript(w, &arg, n->id, i));
        MD_TRY(replace_arg(w, node, n, i, arg));
    }
    return MD_OK;
}

static md_status visit_statement(walk *w, md_fx_stmt *s)
{
    for (int32_t i = 0; i < w->front->formula->tensor[s->tensor].rank; i++)
        MD_TRY(visit(w, &s->subscript[i])); /* the loads within an indirect subscript; it itself is plain or indirect */
    return visit(w, &s->value);
}

/* ---- the list ---- */

static bool is_same(const md_fx_formula *f, const md_fx_reach *a, const md_fx_reach *b)
{
    bool same = a->tensor == b->tensor && a->axis == b->axis && a->n_guards == b->n_guards &&
                md_fx_equal(f, a->subscript, b->subscript);
    for (int32_t i = 0; same && i < a->n_guards; i++)
        same = md_fx_equal(f, a->guard[i], b->guard[i]);
    return same;
}

md_status md_front_reaches(md_front *front)
{
    md_fx_formula *const f = front->formula;
    walk w = {.front = front};
    w.last = &w.first;
    for (int32_t i = 0; i < f->n_stmts; i++)
        MD_TRY(visit_statement(&w, &f->stmt[i]));
    md_fx_reach *const list = md_arena_alloc(front->arena, (size_t)MD_MAX(w.n, 1) * sizeof *list);
    if (!list)
        return md_fail_memory();
    f->reach = list;
    for (const reach_list *r = w.first; r; r = r->next) {
        bool is_new = true;
        for (int32_t i = MD_MAX(0, f->n_reaches - 64); is_new && i < f->n_reaches; i++)
            is_new = !is_same(f, &list[i], &r->reach);
        if (is_new)
            list[f->n_reaches++] = r->reach;
    }
    return MD_OK;
}
