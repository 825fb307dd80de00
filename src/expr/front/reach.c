/* What subscripts may look like, and which of them must be checked against a tensor's size at each call. */
#include "base/status.h"
#include "expr/diag.h"
#include "expr/front/front.h"
#include "expr/node.h"

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

/* ---- the shape of subscripts ---- */

static bool is_constant(const md_fx_node *n)
{
    return n->kind == MD_FX_CONST;
}

/* Without tensors, a subscript is made of + - * // % over indices, sizes and constants, so that its range is known. */
static md_status check_affine(md_front *fr, const md_fx_node *n)
{
    const bool is_sum = n->op == MD_FX_ADD || n->op == MD_FX_SUB || n->op == MD_FX_NEG;
    const bool is_division = n->op == MD_FX_FLOORDIV || n->op == MD_FX_MOD;
    if (n->kind != MD_FX_OP)
        return n->kind == MD_FX_CAST ? MD_FRONT_ERROR(fr, n, "a conversion in a subscript that reads no tensor")
                                     : MD_OK;
    if (n->op == MD_FX_MUL && !is_constant(n->arg[0]) && !is_constant(n->arg[1]))
        return MD_FRONT_ERROR(fr, n, "a subscript multiplies by constants and static sizes only");
    if (is_division && (!is_constant(n->arg[1]) || n->arg[1]->integer < 1))
        return MD_FRONT_ERROR(fr, n, "a subscript divides by a positive constant or static size only");
    if (!is_sum && !is_division && n->op != MD_FX_MUL)
        return MD_FRONT_ERROR(fr, n, "'%s' in a subscript that reads no tensor; it may use + - * // %% only",
                              md_fx_op_text(n->op));
    for (int32_t i = 0; i < n->n_args; ++i)
        MD_TRY(check_affine(fr, n->arg[i]));
    return MD_OK;
}

/* ---- collecting ---- */

static md_status add_reach(walk *w, int32_t tensor, int32_t axis, const md_fx_node *subscript)
{
    reach_list *const r = md_arena_alloc(w->front->scratch, sizeof *r);
    const md_fx_node **const guard = md_arena_alloc(w->front->arena, (size_t)MD_MAX(w->held.n, 1) * sizeof(*guard));
    if (!r || !guard)
        return md_fail_memory();
    for (int32_t i = 0; i < w->held.n; ++i)
        guard[i] = w->held.node[i];
    r->reach = (md_fx_reach){.tensor = tensor,
                             .axis = axis,
                             .subscript = subscript,
                             .n_guards = w->held.n,
                             .guard = guard,
                             .line = subscript->line,
                             .column = subscript->column};
    *w->last = r;
    w->last = &r->next;
    ++w->n;
    return MD_OK;
}

/* A plain index needs no check where its axis has its size, by being of one dim with it. */
static md_status note_subscript(walk *w, int32_t tensor, int32_t axis, const md_fx_node *n)
{
    const md_fx_formula *const f = w->front->formula;
    if (md_fx_has_kind(n, MD_FX_LOAD))
        return MD_OK;
    MD_TRY(check_affine(w->front, n));
    if (n->kind == MD_FX_INDEX && f->index[n->id].dim == f->tensor[tensor].dim[axis])
        return MD_OK;
    return add_reach(w, tensor, axis, n);
}

static void hold(walk *w, const md_fx_node *condition)
{
    if (w->held.n < MAX_GUARDS)
        w->held.node[w->held.n++] = condition;
}

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

static md_status visit(walk *w, const md_fx_node *n);

static md_status visit_where(walk *w, const md_fx_node *n)
{
    const int32_t n_held = w->held.n;
    MD_TRY(visit(w, n->arg[0]));
    for (int arm = 0; arm < 2; ++arm) {
        MD_TRY(hold_condition(w, n->arg[0], arm == 0));
        MD_TRY(visit(w, n->arg[1 + arm]));
        w->held.n = n_held;
    }
    return MD_OK;
}

static md_status visit(walk *w, const md_fx_node *n)
{
    if (n->kind == MD_FX_OP && n->op == MD_FX_WHERE)
        return visit_where(w, n);
    for (int32_t i = 0; i < n->n_args; ++i) {
        if (n->kind == MD_FX_LOAD)
            MD_TRY(note_subscript(w, n->id, i, n->arg[i]));
        MD_TRY(visit(w, n->arg[i]));
    }
    return MD_OK;
}

static md_status visit_statement(walk *w, const md_fx_stmt *s)
{
    for (int32_t i = 0; i < w->front->formula->tensor[s->tensor].rank; ++i)
        MD_TRY(visit(w, s->subscript[i])); /* the loads within an indirect subscript; it itself is plain or indirect */
    return visit(w, s->value);
}

/* ---- the list ---- */

static bool is_same(const md_fx_formula *f, const md_fx_reach *a, const md_fx_reach *b)
{
    bool same = a->tensor == b->tensor && a->axis == b->axis && a->n_guards == b->n_guards &&
                md_fx_equal(f, a->subscript, b->subscript);
    for (int32_t i = 0; same && i < a->n_guards; ++i)
        same = md_fx_equal(f, a->guard[i], b->guard[i]);
    return same;
}

md_status md_front_reaches(md_front *front)
{
    md_fx_formula *const f = front->formula;
    walk w = {.front = front};
    w.last = &w.first;
    for (int32_t i = 0; i < f->n_stmts; ++i)
        MD_TRY(visit_statement(&w, &f->stmt[i]));
    md_fx_reach *const list = md_arena_alloc(front->arena, (size_t)MD_MAX(w.n, 1) * sizeof(*list));
    if (!list)
        return md_fail_memory();
    f->reach = list;
    for (const reach_list *r = w.first; r; r = r->next) {
        bool is_new = true;
        for (int32_t i = MD_MAX(0, f->n_reaches - 64); is_new && i < f->n_reaches; ++i)
            is_new = !is_same(f, &list[i], &r->reach);
        if (is_new)
            list[f->n_reaches++] = r->reach;
    }
    return MD_OK;
}
