/* Recurrences: H[t] = A[t] * H[t-1] + B[t] becomes the scan recur[t](A[t], B[t]), H[t-1] + X[t] a cumsum, A[t] * H[t-1]
 * a cumprod, max(H[t-1], X[t]) a cummax, max(A[t] + H[t-1], B[t]) the scan recur_max[t](A[t], B[t]). The right side is
 * taken apart as it is written, before names mean anything: as a * before + b, or as the larger or smaller of (before +
 * a) and b. All else is not associative, and refused. */
#include "base/status.h"
#include "expr/front/front.h"
#include "expr/front/rewrite.h"
#include "expr/ops.h"

#include <string.h>

/* How an expression depends on the element before. LINEAR: a * before + b; EXTREME: op(a + before, b). A missing a is
 * the neutral factor or summand, a missing b the neutral element. */
typedef enum shape { FREE, LINEAR, EXTREME } shape;

typedef struct parts {
    shape shape;
    md_fx_op op; /* EXTREME: MAX or MIN */
    const md_syntax *a, *b;
    const md_syntax *restart; /* LINEAR: where this holds, the value does not depend on the element before */
} parts;

typedef struct finder {
    md_front *front;
    const md_syntax *target;
    int32_t axis; /* of the target, that the recurrence runs along; -1: none was met */
    bool is_reverse;
} finder;

/* ---- the element before ---- */

static bool is_own(const finder *f, const md_syntax *at)
{
    return at->kind == MD_SYNTAX_TENSOR && strcmp(at->name, f->target->name) == 0 &&
           !md_syntax_is_same_element(f->target, at);
}

static bool reads_own(const finder *f, const md_syntax *at)
{
    bool does = is_own(f, at);
    for (int32_t i = 0; i < at->n_args && !does; i++)
        does = reads_own(f, at->arg[i]);
    return does;
}

static bool is_name(const md_syntax *at, const char *name)
{
    return at->kind == MD_SYNTAX_NAME && strcmp(at->name, name) == 0;
}

static bool is_integer(const md_syntax *at, int64_t value)
{
    return at->kind == MD_SYNTAX_INTEGER && at->integer == value;
}

/* -1 for t - 1, 1 for t + 1, 0 for t; 2 for anything else. */
static int step_of(const md_syntax *at, const char *index)
{
    if (is_name(at, index))
        return 0;
    if (at->kind != MD_SYNTAX_OP || at->n_args != 2)
        return 2;
    if (at->op == MD_FX_SUB && is_name(at->arg[0], index) && is_integer(at->arg[1], 1))
        return -1;
    const bool adds = at->op == MD_FX_ADD && ((is_name(at->arg[0], index) && is_integer(at->arg[1], 1)) ||
                                              (is_integer(at->arg[0], 1) && is_name(at->arg[1], index)));
    return adds ? 1 : 2;
}

static md_status meet(finder *f, const md_syntax *at)
{
    int32_t axis = -1;
    int step = 0;
    bool is_right = true;
    for (int32_t i = 0; i < at->n_args; i++) {
        const md_syntax *const left = f->target->arg[i];
        const int s = left->kind == MD_SYNTAX_NAME ? step_of(at->arg[i], left->name) : 2;
        is_right &= s != 2 && (s == 0 || axis < 0);
        if (s == 1 || s == -1) {
            axis = i;
            step = s;
        }
    }
    is_right &= f->axis < 0 || (axis == f->axis && (step == 1) == f->is_reverse);
    if (!is_right || axis < 0)
        return MD_FRONT_ERROR(f->front, at,
                              "this recurrence is not associative, so it is no scan: '%s' may be read only at the "
                              "element before, %s[.., i-1, ..], or only at the one after, %s[.., i+1, ..], along one "
                              "index",
                              at->name, at->name, at->name);
    f->axis = axis;
    f->is_reverse = step == 1;
    return MD_OK;
}

static md_status refuse(const finder *f, const md_syntax *at)
{
    return MD_FRONT_ERROR(f->front, at,
                          "this recurrence is not associative, so it is no scan: '%s' may be multiplied by, divided by "
                          "and added to what does not read it, chosen by where, or stand in one max or min; of others, "
                          "write one op for each step",
                          f->target->name);
}

/* ---- taking apart ---- */

static md_status take(finder *f, parts *out, const md_syntax *at);

/* max(a + before, b), or min, plus or minus `by`, which does not read the element before: it is added to both a and b.
 */
static md_status shift(finder *f, parts *out, const md_syntax *at, const parts *p, const parts *by)
{
    *out = *p;
    if (p->a)
        MD_TRY(md_rewrite_combine(f->front, &out->a, at->op, at, p->a, by->b));
    else if (at->op == MD_FX_SUB)
        MD_TRY(md_rewrite_combine(f->front, &out->a, MD_FX_NEG, at, by->b, NULL));
    else
        out->a = by->b;
    return md_rewrite_combine(f->front, &out->b, at->op, at, p->b, by->b);
}

static md_status take_sum(finder *f, parts *out, const md_syntax *at, const parts *p, const parts *y)
{
    const bool is_difference = at->op == MD_FX_SUB;
    if (p->shape == EXTREME && y->shape == FREE)
        return shift(f, out, at, p, y);
    if (y->shape == EXTREME && p->shape == FREE && !is_difference)
        return shift(f, out, at, y, p);
    if (p->shape == EXTREME || y->shape == EXTREME || (p->restart && y->restart))
        return refuse(f, at);
    *out = (parts){.shape = LINEAR, .restart = p->restart ? p->restart : y->restart};
    if (out->restart && p->shape == LINEAR && y->shape == LINEAR)
        return refuse(f, at);
    const bool both = p->shape == LINEAR && y->shape == LINEAR, is_negated = is_difference && !both;
    const md_syntax *ax = p->a, *ay = y->a;
    if (both && !ax)
        MD_TRY(md_rewrite_number(f->front, &ax, at, 1));
    if ((both || (is_negated && y->shape == LINEAR)) && !ay)
        MD_TRY(md_rewrite_number(f->front, &ay, at, 1));
    if (both)
        MD_TRY(md_rewrite_combine(f->front, &out->a, at->op, at, ax, ay));
    else if (p->shape == LINEAR || !is_difference)
        out->a = p->shape == LINEAR ? ax : ay;
    else
        MD_TRY(md_rewrite_combine(f->front, &out->a, MD_FX_NEG, at, ay, NULL));
    if (p->b && y->b)
        return md_rewrite_combine(f->front, &out->b, at->op, at, p->b, y->b);
    out->b = p->b ? p->b : y->b;
    return is_difference && y->b ? md_rewrite_combine(f->front, &out->b, MD_FX_NEG, at, y->b, NULL) : MD_OK;
}

static md_status take_product(finder *f, parts *out, const md_syntax *at, const parts *p, const parts *y)
{
    if (p->shape == EXTREME || y->shape == EXTREME || (p->shape == LINEAR && y->shape == LINEAR))
        return refuse(f, at);
    *out = p->shape == LINEAR ? *p : *y;
    if (p->shape == LINEAR) {
        MD_TRY(md_rewrite_combine(f->front, &out->a, MD_FX_MUL, at, p->a, y->b));
        if (p->b)
            MD_TRY(md_rewrite_combine(f->front, &out->b, MD_FX_MUL, at, p->b, y->b));
        return MD_OK;
    }
    MD_TRY(md_rewrite_combine(f->front, &out->a, MD_FX_MUL, at, p->b, y->a));
    if (y->b)
        MD_TRY(md_rewrite_combine(f->front, &out->b, MD_FX_MUL, at, p->b, y->b));
    return MD_OK;
}

static md_status take_quotient(finder *f, parts *out, const md_syntax *at, const parts *p, const parts *y)
{
    if (y->shape != FREE || p->shape != LINEAR)
        return refuse(f, at);
    const md_syntax *a = p->a;
    *out = *p;
    if (!a)
        MD_TRY(md_rewrite_number(f->front, &a, at, 1));
    MD_TRY(md_rewrite_combine(f->front, &out->a, MD_FX_DIV, at, a, y->b));
    if (p->b)
        MD_TRY(md_rewrite_combine(f->front, &out->b, MD_FX_DIV, at, p->b, y->b));
    return MD_OK;
}

static md_status take_negative(finder *f, parts *out, const md_syntax *at, const parts *p)
{
    const md_syntax *a = p->a;
    if (p->shape != LINEAR)
        return refuse(f, at);
    *out = *p;
    if (!a)
        MD_TRY(md_rewrite_number(f->front, &a, at, 1));
    MD_TRY(md_rewrite_combine(f->front, &out->a, MD_FX_NEG, at, a, NULL));
    if (p->b)
        MD_TRY(md_rewrite_combine(f->front, &out->b, MD_FX_NEG, at, p->b, NULL));
    return MD_OK;
}

/* max(before + a, b), where a may be missing, and before + a may be such a max itself; min alike. */
static md_status take_extreme(finder *f, parts *out, const md_syntax *at, md_fx_op op, const parts *p, const parts *y)
{
    const parts *const own = p->shape == FREE ? y : p, *const other = p->shape == FREE ? p : y;
    const bool is_plain = own->shape == LINEAR && !own->a && !own->restart;
    if (other->shape != FREE || (!is_plain && (own->shape != EXTREME || own->op != op)))
        return refuse(f, at);
    *out = (parts){.shape = EXTREME, .op = op, .a = is_plain ? own->b : own->a};
    const md_syntax s = {
        .kind = MD_SYNTAX_CALL, .name = op == MD_FX_MAX ? "max" : "min", .line = at->line, .column = at->column};
    if (is_plain) {
        out->b = other->b;
        return MD_OK;
    }
    return md_rewrite_make(f->front, &out->b, s, 2, (const md_syntax *const[]){p->b, y->b});
}

/* True if the condition holds exactly where nothing comes before: t == 0, or t == size(t) - 1 of a reverse one.
 * `negated`: exactly elsewhere. */
static bool is_start(const finder *f, const md_syntax *c, bool negated)
{
    if (c->kind != MD_SYNTAX_OP || c->n_args != 2 || f->axis < 0)
        return false;
    const char *const index = f->target->arg[f->axis]->name;
    const md_syntax *const x = c->arg[0], *const y = c->arg[1];
    if (!is_name(x, index))
        return false;
    const bool is_last = y->kind == MD_SYNTAX_OP && y->op == MD_FX_SUB && y->n_args == 2 &&
                         y->arg[0]->kind == MD_SYNTAX_SIZE && y->arg[0]->integer < 0 &&
                         strcmp(y->arg[0]->name, index) == 0 && is_integer(y->arg[1], 1);
    const bool is_end = f->is_reverse ? is_last : is_integer(y, 0), is_one = !f->is_reverse && is_integer(y, 1);
    if (negated)
        return (is_end && (c->op == MD_FX_NE || c->op == (f->is_reverse ? MD_FX_LT : MD_FX_GT))) ||
               (is_one && c->op == MD_FX_GE);
    return (is_end && c->op == MD_FX_EQ) || (is_one && c->op == MD_FX_LT);
}

/* where(c, ..) of two arms, of which one may be missing: that is `missing`. */
static md_status either(finder *f, const md_syntax **out, const md_syntax *at, const md_syntax *c, int64_t missing,
                        const md_syntax *const arm[2])
{
    const md_syntax *arg[3] = {c, arm[0], arm[1]};
    for (int32_t i = 0; i < 2 && (arm[0] || arm[1]); i++)
        if (!arm[i])
            MD_TRY(md_rewrite_number(f->front, &arg[1 + i], at, missing));
    return arg[1] ? md_rewrite_choose(f->front, out, at, arg) : MD_OK;
}

/* The arm that does not read the element before multiplies it by 0, and says that the scan starts anew there. At the
 * start there is nothing before. */
static md_status take_arm(finder *f, parts *out, const md_syntax *at, const md_syntax *c, const parts *arm)
{
    const bool is_first = arm[0].shape == FREE, starts = is_start(f, c, !is_first);
    const parts *const own = &arm[is_first];
    const md_syntax *zero, *a[2] = {own->a, own->a};
    if (own->shape == EXTREME && !starts)
        return refuse(f, at);
    *out = *own;
    MD_TRY(either(f, &out->b, at, c, 0, (const md_syntax *const[]){arm[0].b, arm[1].b}));
    if (own->shape == EXTREME && own->a) /* a is not needed there, since the element before is not read */
        return either(f, &out->a, at, c, 0,
                      (const md_syntax *const[]){is_first ? NULL : own->a, is_first ? own->a : NULL});
    if (own->shape == EXTREME || (starts && !own->a && !own->restart))
        return MD_OK;
    MD_TRY(md_rewrite_number(f->front, &zero, at, 0));
    a[!is_first] = zero;
    MD_TRY(either(f, &out->a, at, c, 1, (const md_syntax *const[]){a[0], a[1]}));
    if (starts)
        return MD_OK;
    const md_syntax *restart[2] = {own->restart, own->restart};
    MD_TRY(md_rewrite_keyword(f->front, &restart[!is_first], at, true));
    if (!own->restart)
        MD_TRY(md_rewrite_keyword(f->front, &restart[is_first], at, false));
    return md_rewrite_choose(f->front, &out->restart, at, (const md_syntax *const[]){c, restart[0], restart[1]});
}

static md_status take_where(finder *f, parts *out, const md_syntax *at)
{
    parts arm[2];
    if (reads_own(f, at->arg[0]))
        return refuse(f, at);
    MD_TRY(take(f, &arm[0], at->arg[1]));
    MD_TRY(take(f, &arm[1], at->arg[2]));
    if (arm[0].shape == FREE || arm[1].shape == FREE)
        return take_arm(f, out, at, at->arg[0], arm);
    if (arm[0].shape != LINEAR || arm[1].shape != LINEAR)
        return refuse(f, at);
    *out = (parts){.shape = LINEAR};
    MD_TRY(either(f, &out->a, at, at->arg[0], 1, (const md_syntax *const[]){arm[0].a, arm[1].a}));
    MD_TRY(either(f, &out->b, at, at->arg[0], 0, (const md_syntax *const[]){arm[0].b, arm[1].b}));
    return either(f, &out->restart, at, at->arg[0], 0, (const md_syntax *const[]){arm[0].restart, arm[1].restart});
}

static md_status take_call(finder *f, parts *out, const md_syntax *at)
{
    const md_fx_op op = md_fx_function_named(at->name);
    parts p, y, z, product;
    if (op == MD_FX_WHERE && at->n_args == 3)
        return take_where(f, out, at);
    const bool is_extreme = (op == MD_FX_MAX || op == MD_FX_MIN) && at->n_args == 2;
    if (!is_extreme && !(op == MD_FX_FMA && at->n_args == 3))
        return refuse(f, at);
    MD_TRY(take(f, &p, at->arg[0]));
    MD_TRY(take(f, &y, at->arg[1]));
    if (is_extreme)
        return take_extreme(f, out, at, op, &p, &y);
    md_syntax sum = *at;
    sum.op = MD_FX_ADD;
    MD_TRY(take(f, &z, at->arg[2]));
    if (p.shape == FREE && y.shape == FREE) {
        product = (parts){.shape = FREE};
        MD_TRY(md_rewrite_combine(f->front, &product.b, MD_FX_MUL, at, p.b, y.b));
    } else {
        MD_TRY(take_product(f, &product, at, &p, &y));
    }
    return take_sum(f, out, &sum, &product, &z);
}

static md_status take_op(finder *f, parts *out, const md_syntax *at)
{
    parts p, y = {.shape = FREE};
    MD_TRY(take(f, &p, at->arg[0]));
    if (at->n_args > 1)
        MD_TRY(take(f, &y, at->arg[1]));
    switch ((int)at->op) {
    case MD_FX_NEG:
        return take_negative(f, out, at, &p);
    case MD_FX_ADD:
    case MD_FX_SUB:
        return take_sum(f, out, at, &p, &y);
    case MD_FX_MUL:
        return take_product(f, out, at, &p, &y);
    case MD_FX_DIV:
        return take_quotient(f, out, at, &p, &y);
    default:
        return refuse(f, at);
    }
}

static md_status take(finder *f, parts *out, const md_syntax *at)
{
    *out = (parts){.shape = FREE, .b = at};
    if (!reads_own(f, at))
        return MD_OK;
    if (is_own(f, at)) {
        *out = (parts){.shape = LINEAR};
        return meet(f, at);
    }
    if (at->kind == MD_SYNTAX_OP)
        return take_op(f, out, at);
    return at->kind == MD_SYNTAX_CALL ? take_call(f, out, at) : refuse(f, at);
}

/* ---- the scan ---- */

static md_status make_scan(finder *f, const md_syntax **out, const md_syntax *at, const parts *p)
{
    const md_syntax *arg[4] = {p->b};
    int32_t n = 1;
    md_syntax s = {.kind = MD_SYNTAX_BINDER, .op = MD_FX_S_SUM, .n_indices = 1, .line = at->line, .column = at->column};
    if (p->shape == EXTREME && p->a) {
        s.op = p->op == MD_FX_MAX ? MD_FX_S_MAX_PLUS : MD_FX_S_MIN_PLUS;
        arg[0] = p->a;
        arg[n++] = p->b;
    } else if (p->shape == EXTREME) {
        s.op = p->op == MD_FX_MAX ? MD_FX_S_MAX : MD_FX_S_MIN;
    } else if (p->a && !p->b && !p->restart) {
        s.op = MD_FX_S_PROD;
        arg[0] = p->a;
    } else if (p->a) {
        s.op = MD_FX_S_LINEAR;
        arg[0] = p->a;
        arg[n++] = p->b;
        if (p->restart)
            arg[n++] = p->restart;
    }
    for (int32_t i = 0; i < n; i++)
        if (!arg[i])
            MD_TRY(md_rewrite_number(f->front, &arg[i], at, 0));
    const md_syntax option = {.kind = MD_SYNTAX_NAME, .name = "reverse", .line = at->line, .column = at->column};
    if (f->is_reverse)
        MD_TRY(md_rewrite_make(f->front, &arg[n++], option, 0, NULL));
    s.name = md_fx_op_text(s.op);
    s.index = md_arena_alloc(f->front->scratch, sizeof(md_syntax *));
    if (!s.index)
        return md_fail_memory();
    s.index[0] = f->target->arg[f->axis];
    return md_rewrite_make(f->front, out, s, n, arg);
}

md_status md_front_recurrence(md_front *front, const md_syntax **out, int32_t stmt, const md_syntax_item *item)
{
    finder f = {.front = front, .target = item->target, .axis = -1};
    parts p;
    *out = item->value;
    const md_fx_tensor *const t = &front->formula->tensor[md_front_tensor(front, item->target->name)];
    if (item->assign != MD_FX_SET || t->stmt != stmt || !reads_own(&f, item->value))
        return MD_OK;
    MD_TRY(take(&f, &p, item->value));
    return make_scan(&f, out, item->value, &p);
}
