/* Values of expressions, for the interpreter of programs. */
#include "evaluate.h"

#include "base/dtype.h"
#include "base/status.h"
#include "expr/scalar.h"
#include "support/check.h"

#include <math.h>

value real(double x)
{
    return (value){.is_real = true, .real = x};
}

value whole(int64_t x)
{
    return (value){.whole = x};
}

double to_real(value v)
{
    return v.is_real ? v.real : (double)v.whole;
}

static bool to_bool(value v)
{
    return v.is_real ? v.real != 0 : v.whole != 0;
}

/* Through memory: whatever a store and a load do. */
static value convert(value v, md_dtype to)
{
    int64_t cell = 0;
    if (to == MD_BOOL)
        return whole(to_bool(v));
    if (md_dtype_is_real(to))
        return real(md_dtype_round(to, to_real(v)));
    if (v.is_real)
        md_dtype_store(to, &cell, 0, v.real);
    else
        md_dtype_store_int(to, &cell, 0, v.whole);
    return whole(md_dtype_load_int(to, &cell, 0));
}

/* ---- memory ---- */

static bool locate(const machine *m, const md_tensor *t, int64_t *at, int64_t *offset)
{
    *offset = 0;
    for (int32_t i = 0; i < t->rank; i++) {
        if (at[i] < 0 || at[i] >= t->size[i]) {
            if (m->formula->bounds != MD_BOUNDS_CLAMP || t->size[i] == 0)
                return false;
            at[i] = at[i] < 0 ? 0 : t->size[i] - 1;
        }
        *offset += at[i] * t->stride[i];
    }
    return true;
}

static value load_from(const md_tensor *t, int64_t offset)
{
    return md_dtype_is_real(t->dtype) ? real(md_dtype_load(t->dtype, t->data, offset))
                                      : whole(md_dtype_load_int(t->dtype, t->data, offset));
}

static value load(machine *m, const md_fx_node *n)
{
    const md_tensor *t = &m->tensor[n->id];
    int64_t at[MD_MAX_RANK], offset;
    assert_int_equal(n->n_args, t->rank);
    for (int32_t i = 0; i < n->n_args; i++)
        at[i] = evaluate(m, n->arg[i]).whole;
    if (locate(m, t, at, &offset))
        return load_from(t, offset);
    for (int32_t i = 0; i < n->n_args; i++) /* only what is found in memory may lie outside */
        if (!md_fx_is_checked(n->arg[i]) && (at[i] < 0 || at[i] >= t->size[i]))
            fail_msg("%s is read at %lld of %lld in axis %d", m->formula->tensor[n->id].name, (long long)at[i],
                     (long long)t->size[i], i);
    return md_dtype_is_real(t->dtype) ? real(0) : whole(0);
}

static value accumulate(md_fx_assign assign, value a, value b)
{
    if (assign == MD_FX_SET)
        return b;
    if (a.is_real) {
        double x = a.real, y = to_real(b);
        return real(assign == MD_FX_ADD_TO   ? x + y
                    : assign == MD_FX_MUL_TO ? x * y
                    : assign == MD_FX_MAX_TO ? md_scalar_max(x, y)
                                             : md_scalar_min(x, y));
    }
    b = convert(b, MD_I64);
    if (assign == MD_FX_ADD_TO)
        return whole((int64_t)((uint64_t)a.whole + (uint64_t)b.whole));
    if (assign == MD_FX_MUL_TO)
        return whole((int64_t)((uint64_t)a.whole * (uint64_t)b.whole));
    return whole(assign == MD_FX_MAX_TO ? MD_MAX(a.whole, b.whole) : MD_MIN(a.whole, b.whole));
}

void store(machine *m, const md_st_store *s, value v)
{
    const md_tensor *t = &m->tensor[s->tensor];
    int64_t at[MD_MAX_RANK], offset;
    for (int32_t i = 0; i < s->n_subscripts; i++)
        at[i] = evaluate(m, s->subscript[i]).whole;
    if (!locate(m, t, at, &offset))
        return;
    v = accumulate(s->assign, load_from(t, offset), v);
    if (v.is_real)
        md_dtype_store(t->dtype, t->data, offset, v.real);
    else
        md_dtype_store_int(t->dtype, t->data, offset, v.whole);
}

/* ---- operations ---- */

static value operate(machine *m, const md_fx_node *n)
{
    value a[3] = {0};
    if (n->op == MD_FX_WHERE) {
        value chosen = evaluate(m, n->arg[to_bool(evaluate(m, n->arg[0])) ? 1 : 2]);
        return md_dtype_is_real(n->type) ? real(to_real(chosen)) : chosen;
    }
    bool is_real = md_dtype_is_real(n->type);
    for (int32_t i = 0; i < n->n_args; i++) {
        a[i] = evaluate(m, n->arg[i]);
        is_real |= a[i].is_real;
    }
    if (n->op == MD_FX_AND || n->op == MD_FX_OR || n->op == MD_FX_NOT) {
        bool x = to_bool(a[0]), y = to_bool(a[1]);
        return whole(n->op == MD_FX_NOT ? !x : n->op == MD_FX_AND ? x && y : x || y);
    }
    if (!is_real)
        return whole(md_scalar_int(n->op)(a[0].whole, a[1].whole, a[2].whole));
    if (n->type == MD_BOOL)
        return whole(md_scalar_test(n->op)(to_real(a[0]), to_real(a[1])));
    return real(md_scalar_real(n->op)(to_real(a[0]), to_real(a[1]), to_real(a[2])));
}

value identity(md_fx_op op, md_dtype type, md_dtype body_type)
{
    bool is_real = md_dtype_is_real(type), is_bool = body_type == MD_BOOL;
    switch ((int)op) {
    case MD_FX_R_PROD:
    case MD_FX_S_PROD:
        return is_real ? real(1) : whole(1);
    case MD_FX_R_MAX:
    case MD_FX_S_MAX:
    case MD_FX_S_MAX_PLUS:
        return is_real ? real(-INFINITY) : whole(is_bool ? 0 : INT64_MIN);
    case MD_FX_R_MIN:
    case MD_FX_S_MIN:
    case MD_FX_S_MIN_PLUS:
        return is_real ? real(INFINITY) : whole(is_bool ? 1 : INT64_MAX);
    case MD_FX_R_ALL:
        return whole(1);
    default:
        return is_real ? real(0) : whole(0);
    }
}

static value combine_whole(md_fx_op op, int64_t a, int64_t b)
{
    switch ((int)op) {
    case MD_FX_R_SUM:
    case MD_FX_S_SUM:
        return whole((int64_t)((uint64_t)a + (uint64_t)b));
    case MD_FX_R_PROD:
    case MD_FX_S_PROD:
        return whole((int64_t)((uint64_t)a * (uint64_t)b));
    case MD_FX_R_MAX:
    case MD_FX_S_MAX:
        return whole(MD_MAX(a, b));
    case MD_FX_R_MIN:
    case MD_FX_S_MIN:
        return whole(MD_MIN(a, b));
    case MD_FX_R_ANY:
        return whole(a != 0 || b != 0);
    case MD_FX_R_ALL:
        return whole(a != 0 && b != 0);
    }
    fail_msg("operation %s", md_fx_op_text(op));
    return whole(0);
}

value combine(md_fx_op op, value a, value b)
{
    if (op == MD_FX_R_ANY || op == MD_FX_R_ALL)
        b = whole(to_bool(b));
    if (!a.is_real)
        return combine_whole(op, a.whole, b.whole);
    double x = a.real, y = to_real(b);
    switch ((int)op) {
    case MD_FX_R_SUM:
    case MD_FX_S_SUM:
        return real(x + y);
    case MD_FX_R_PROD:
    case MD_FX_S_PROD:
        return real(x * y);
    case MD_FX_R_MAX:
    case MD_FX_S_MAX:
        return real(md_scalar_max(x, y));
    default:
        return real(md_scalar_min(x, y));
    }
}

/* True if b, which lies further on, takes the place of a: a NaN does, unless there was one. */
bool is_better(md_fx_op op, value a, value b)
{
    if (!a.is_real)
        return op == MD_FX_R_ARGMAX ? b.whole > a.whole : b.whole < a.whole;
    if (isnan(a.real) || isnan(b.real))
        return !isnan(a.real);
    return op == MD_FX_R_ARGMAX ? b.real > a.real : b.real < a.real;
}

bool is_position(md_fx_op op)
{
    return op == MD_FX_R_ARGMAX || op == MD_FX_R_ARGMIN;
}

/* ---- reductions and scans inside nests ---- */

int64_t size_of(const machine *m, int32_t index)
{
    return md_st_size(m->program, index, m->binding->size);
}

/* The next position of some indices, the last moving fastest; false at the end. */
bool next(machine *m, int32_t n, const int32_t *index)
{
    for (int32_t i = n - 1; i >= 0; i--) {
        if (++m->at[index[i]] < size_of(m, index[i]))
            return true;
        m->at[index[i]] = 0;
    }
    return false;
}

bool first(machine *m, int32_t n, const int32_t *index)
{
    bool has_any = true;
    for (int32_t i = 0; i < n; i++) {
        m->at[index[i]] = 0;
        has_any &= size_of(m, index[i]) > 0;
    }
    return has_any;
}

static value reduce(machine *m, const md_fx_node *n)
{
    value sum = identity(n->op, n->type, n->arg[0]->type), best = {0};
    int64_t position = 0, best_position = 0;
    int64_t before[MD_MAX_RANK];
    for (int32_t i = 0; i < n->n_bound; i++)
        before[i] = m->at[n->bound[i]];
    for (bool more = first(m, n->n_bound, n->bound); more; more = next(m, n->n_bound, n->bound), position++) {
        value x = evaluate(m, n->arg[0]);
        if (!is_position(n->op)) {
            sum = combine(n->op, sum, x);
        } else if (position == 0 || is_better(n->op, best, x)) {
            best = x;
            best_position = position;
        }
    }
    for (int32_t i = 0; i < n->n_bound; i++)
        m->at[n->bound[i]] = before[i];
    return is_position(n->op) ? whole(best_position) : sum;
}

/* One step of a recurrence. */
static value step(machine *m, const md_fx_node *n, value before, md_fx_op op)
{
    const value b = evaluate(m, n->arg[1]);
    if (n->n_args > 2 && evaluate(m, n->arg[2]).whole != 0)
        return b;
    const value a = evaluate(m, n->arg[0]);
    if (op != MD_FX_S_LINEAR) {
        const double none = op == MD_FX_S_MAX_PLUS ? -INFINITY : INFINITY;
        const value sum = real(a.real == none || before.real == none ? none : a.real + before.real);
        return combine(op == MD_FX_S_MAX_PLUS ? MD_FX_S_MAX : MD_FX_S_MIN, sum, b);
    }
    if (md_dtype_is_real(n->type))
        return real(a.real * before.real + b.real);
    return whole((int64_t)((uint64_t)a.whole * (uint64_t)before.whole + (uint64_t)b.whole));
}

value scan_to(machine *m, const md_st_scan *s, int32_t index)
{
    int64_t n = size_of(m, index), last = m->at[index];
    const bool is_recurrence = md_fx_is_recurrence(s->op);
    value sum = s->op == MD_FX_S_LINEAR ? (md_dtype_is_real(s->type) ? real(0.0) : whole(0))
                                        : identity(s->op, s->type, s->body->type);
    for (int64_t i = s->reverse ? n - 1 : 0; s->exclusive ? i != last
                                             : s->reverse ? i >= last
                                                          : i <= last;
         i += s->reverse ? -1 : 1) {
        m->at[index] = i;
        sum = is_recurrence ? step(m, s->body, sum, s->op) : combine(s->op, sum, evaluate(m, s->body));
    }
    m->at[index] = last;
    return sum;
}

value evaluate(machine *m, const md_fx_node *n)
{
    switch (n->kind) {
    case MD_FX_CONST:
        return md_dtype_is_real(n->type) ? real(n->num) : whole(n->integer);
    case MD_FX_INDEX:
        return whole(m->at[n->id]);
    case MD_FX_SIZE:
        return whole(m->binding->size[n->id]);
    case MD_FX_SCALAR:
        return md_dtype_is_real(n->type) ? real(md_dtype_round(n->type, m->binding->real[n->id]))
                                         : whole(m->binding->integer[n->id]);
    case MD_FX_LOAD:
        return load(m, n);
    case MD_FX_OP:
        return operate(m, n);
    case MD_FX_CAST:
        return convert(evaluate(m, n->arg[0]), n->to);
    case MD_FX_REDUCE:
        return reduce(m, n);
    case MD_FX_SCAN:
        return scan_to(
            m,
            &(md_st_scan){
                .op = n->op, .type = n->type, .exclusive = n->exclusive, .reverse = n->reverse, .body = n->arg[0]},
            n->bound[0]);
    case MD_FX_CHECK:
    case MD_FX_LENGTH:
        return evaluate(m, n->arg[0]);
    case MD_FX_REF:
        return m->row->ref[n->id];
    case MD_FX_COUNT:
        return whole(m->row->count);
    }
    fail_msg("kind %d", n->kind);
    return whole(0);
}
