#include "interpret.h"

#include "base/dtype.h"
#include "base/status.h"
#include "expr/scalar.h"
#include "support/check.h"

#include <math.h>

typedef struct value {
    bool is_real;
    double real;
    int64_t whole;
} value;

/* Results of a row, or of a part of one. */
typedef struct results {
    int64_t count;
    value ref[MD_ST_MAX_REDUCTIONS];
    value best[MD_ST_MAX_REDUCTIONS]; /* ARGMAX and ARGMIN: what lies at the position */
    bool is_part; /* of a row that is put together */
} results;

typedef struct machine {
    const md_st_program *program;
    const md_fx_formula *formula;
    const md_fx_binding *binding;
    const interpret_options *options;
    md_tensor tensor[MD_FX_MAX_TENSORS];
    int64_t at[MD_FX_MAX_INDICES * 2];
    const results *row;
} machine;

static value real(double x)
{
    return (value){.is_real = true, .real = x};
}

static value whole(int64_t x)
{
    return (value){.whole = x};
}

static double to_real(value v)
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

static value evaluate(machine *m, const md_fx_node *n);

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
        if (!md_fx_has_kind(n->arg[i], MD_FX_LOAD) && (at[i] < 0 || at[i] >= t->size[i]))
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
        return real(assign == MD_FX_ADD_TO ? x + y : assign == MD_FX_MAX_TO ? md_scalar_max(x, y) : md_scalar_min(x, y));
    }
    b = convert(b, MD_I64);
    if (assign == MD_FX_ADD_TO)
        return whole((int64_t)((uint64_t)a.whole + (uint64_t)b.whole));
    return whole(assign == MD_FX_MAX_TO ? MD_MAX(a.whole, b.whole) : MD_MIN(a.whole, b.whole));
}

static void store(machine *m, const md_st_store *s, value v)
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

static value identity(md_fx_op op, md_dtype type, md_dtype body_type)
{
    bool is_real = md_dtype_is_real(type), is_bool = body_type == MD_BOOL;
    switch ((int)op) {
    case MD_FX_R_PROD:
    case MD_FX_S_PROD:
        return is_real ? real(1) : whole(1);
    case MD_FX_R_MAX:
    case MD_FX_S_MAX:
        return is_real ? real(-INFINITY) : whole(is_bool ? 0 : INT64_MIN);
    case MD_FX_R_MIN:
    case MD_FX_S_MIN:
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

static value combine(md_fx_op op, value a, value b)
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

/* Whether b, which lies further on, takes the place of a: a NaN does, unless there was one. */
static bool is_better(md_fx_op op, value a, value b)
{
    if (!a.is_real)
        return op == MD_FX_R_ARGMAX ? b.whole > a.whole : b.whole < a.whole;
    if (isnan(a.real) || isnan(b.real))
        return !isnan(a.real);
    return op == MD_FX_R_ARGMAX ? b.real > a.real : b.real < a.real;
}

static bool is_position(md_fx_op op)
{
    return op == MD_FX_R_ARGMAX || op == MD_FX_R_ARGMIN;
}

/* ---- reductions and scans inside nests ---- */

static int64_t size_of(const machine *m, int32_t index)
{
    return md_st_size(m->program, index, m->binding->size);
}

/* The next position of some indices, the last moving fastest; false at the end. */
static bool next(machine *m, int32_t n, const int32_t *index)
{
    for (int32_t i = n - 1; i >= 0; i--) {
        if (++m->at[index[i]] < size_of(m, index[i]))
            return true;
        m->at[index[i]] = 0;
    }
    return false;
}

static bool first(machine *m, int32_t n, const int32_t *index)
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

static value scan_to(machine *m, md_fx_op op, md_dtype type, bool exclusive, bool reverse, const md_fx_node *body, int32_t index)
{
    int64_t n = size_of(m, index), last = m->at[index];
    value sum = identity(op, type, body->type);
    for (int64_t i = reverse ? n - 1 : 0; exclusive ? i != last : reverse ? i >= last : i <= last; i += reverse ? -1 : 1) {
        m->at[index] = i;
        sum = combine(op, sum, evaluate(m, body));
    }
    m->at[index] = last;
    return sum;
}

static value evaluate(machine *m, const md_fx_node *n)
{
    switch (n->kind) {
    case MD_FX_CONST:
        return md_dtype_is_real(n->type) ? real(n->num) : whole(n->integer);
    case MD_FX_INDEX:
        return whole(m->at[n->id]);
    case MD_FX_SIZE:
        return whole(m->binding->size[n->id]);
    case MD_FX_SCALAR:
        return md_dtype_is_real(n->type) ? real(m->binding->real[n->id]) : whole(m->binding->integer[n->id]);
    case MD_FX_LOAD:
        return load(m, n);
    case MD_FX_OP:
        return operate(m, n);
    case MD_FX_CAST:
        return convert(evaluate(m, n->arg[0]), n->to);
    case MD_FX_REDUCE:
        return reduce(m, n);
    case MD_FX_SCAN:
        return scan_to(m, n->op, n->type, n->exclusive, n->reverse, n->arg[0], n->bound[0]);
    case MD_FX_REF:
        return m->row->ref[n->id];
    case MD_FX_COUNT:
        return whole(m->row->count);
    }
    fail_msg("kind %d", n->kind);
    return whole(0);
}

/* ---- rows ---- */

static void clear(const md_st_row *row, results *r)
{
    for (int32_t i = 0; i < row->n_reductions; i++)
        r->ref[i] = identity(row->reduction[i].op, row->reduction[i].type, row->reduction[i].body_type);
}

/* In a part where all is masked exp(-inf - -inf) would be NaN, though such elements count as 0 in the row. */
static value body_value(machine *m, const md_st_reduction *d)
{
    const results *r = m->row;
    if (!r->is_part || d->merge != MD_ST_MERGE_RESCALED || r->ref[d->shift].real != -INFINITY)
        return evaluate(m, d->body);
    results unshifted = *r;
    unshifted.ref[d->shift] = real(0);
    m->row = &unshifted;
    value v = evaluate(m, d->body);
    m->row = r;
    return v;
}

/* All levels over elements [begin, end) of the axis. */
static void run_part(machine *m, const md_st_stage *s, results *r, int64_t begin, int64_t end)
{
    clear(&s->row, r);
    r->count = end - begin;
    m->row = r;
    for (int32_t level = 0; level < s->row.n_levels; level++)
        for (int32_t i = 0; i < s->row.n_reductions; i++) {
            const md_st_reduction *d = &s->row.reduction[i];
            value sum = r->ref[i];
            for (int64_t x = begin; x < end && d->level == level; x++) {
                m->at[s->axis] = x;
                value v = body_value(m, d);
                if (!is_position(d->op)) {
                    sum = combine(d->op, sum, v);
                } else if (x == begin || is_better(d->op, r->best[i], v)) {
                    r->best[i] = v;
                    sum = whole(x);
                }
            }
            r->ref[i] = sum;
        }
}

static double weighted(double sum, double shift, double merged)
{
    return shift == merged || shift == -INFINITY ? sum : sum * exp(shift - merged);
}

static double chan(const results *a, const results *b, int32_t i, int32_t sum)
{
    if (a->count == 0 || b->count == 0)
        return a->count == 0 ? b->ref[i].real : a->ref[i].real;
    double n_a = (double)a->count, n_b = (double)b->count;
    double delta = to_real(b->ref[sum]) / n_b - to_real(a->ref[sum]) / n_a;
    return a->ref[i].real + b->ref[i].real + delta * delta * n_a * n_b / (n_a + n_b);
}

/* Results of a part and of one that lies behind it. */
static void merge(const md_st_row *row, results *a, const results *b)
{
    results both = *a;
    both.count = a->count + b->count;
    for (int32_t i = 0; i < row->n_reductions; i++) { /* shifts stand in front of what depends on them */
        const md_st_reduction *d = &row->reduction[i];
        if (is_position(d->op)) {
            bool is_b = b->count > 0 && (a->count == 0 || is_better(d->op, a->best[i], b->best[i]));
            both.ref[i] = is_b ? b->ref[i] : a->ref[i];
            both.best[i] = is_b ? b->best[i] : a->best[i];
        } else if (d->merge == MD_ST_MERGE_PLAIN) {
            both.ref[i] = combine(d->op, a->ref[i], b->ref[i]);
        } else if (d->merge == MD_ST_MERGE_RESCALED) {
            int32_t k = d->shift;
            assert_true(k >= 0 && k < i && row->reduction[k].merge == MD_ST_MERGE_PLAIN);
            both.ref[i] = real(weighted(a->ref[i].real, a->ref[k].real, both.ref[k].real) +
                               weighted(b->ref[i].real, b->ref[k].real, both.ref[k].real));
        } else {
            assert_int_equal(d->merge, MD_ST_MERGE_CHAN);
            assert_true(d->shift >= 0 && d->shift < i);
            both.ref[i] = real(chan(a, b, i, d->shift));
        }
    }
    *a = both;
}

/* Cuts [begin, end) at random, down to single elements and empty parts; merges neighbours. */
static void run_online(machine *m, const md_st_stage *s, results *r, int64_t begin, int64_t end, int depth)
{
    if (depth == 0 || check_random(m->options->random) % 5 == 0) {
        run_part(m, s, r, begin, end);
        return;
    }
    int64_t cut = begin + (int64_t)(check_random(m->options->random) % (uint64_t)(end - begin + 1));
    results behind;
    memset(&behind, 0, sizeof(behind));
    behind.is_part = true;
    run_online(m, s, r, begin, cut, depth - 1);
    run_online(m, s, &behind, cut, end, depth - 1);
    merge(&s->row, r, &behind);
}

static void settle(const md_st_row *row, results *r)
{
    for (int32_t i = 0; i < row->n_reductions; i++) {
        const md_st_reduction *d = &row->reduction[i];
        if (d->merge == MD_ST_MERGE_RESCALED && r->count > 0 && r->ref[d->shift].real == -INFINITY)
            r->ref[i] = real(NAN);
    }
}

static void run_row(machine *m, const md_st_stage *s)
{
    results r;
    memset(&r, 0, sizeof(r));
    int64_t n = size_of(m, s->axis);
    if (s->row.is_online && m->options->online) {
        r.is_part = true;
        run_online(m, s, &r, 0, n, 4);
        settle(&s->row, &r);
    } else {
        run_part(m, s, &r, 0, n);
    }
    m->row = &r;
    for (int64_t x = 0; x < n && s->row.has_elements; x++) {
        value v[MD_ST_MAX_STORES];
        m->at[s->axis] = x;
        for (int32_t i = 0; i < s->n_stores; i++)
            v[i] = s->store[i].per_row ? (value){0} : evaluate(m, s->store[i].value);
        for (int32_t i = 0; i < s->n_stores; i++)
            if (!s->store[i].per_row)
                store(m, &s->store[i], v[i]);
    }
    m->at[s->axis] = INT64_MIN / 2; /* per-row values must not depend on it */
    for (int32_t i = 0; i < s->n_stores; i++)
        if (s->store[i].per_row)
            store(m, &s->store[i], evaluate(m, s->store[i].value));
}

/* ---- stages ---- */

static void store_all(machine *m, const md_st_stage *s)
{
    value v[MD_ST_MAX_STORES];
    for (int32_t i = 0; i < s->n_stores; i++)
        v[i] = evaluate(m, s->store[i].value);
    for (int32_t i = 0; i < s->n_stores; i++)
        store(m, &s->store[i], v[i]);
}

static void run_along_axis(machine *m, const md_st_stage *s)
{
    results r;
    memset(&r, 0, sizeof(r));
    m->row = &r;
    int64_t n = s->axis >= 0 ? size_of(m, s->axis) : 1;
    for (int64_t x = 0; x < n; x++) {
        if (s->axis >= 0)
            m->at[s->axis] = x;
        if (s->kind == MD_ST_SCAN)
            r.ref[0] = scan_to(m, s->scan.op, s->scan.type, s->scan.exclusive, s->scan.reverse, s->scan.body, s->axis);
        store_all(m, s);
    }
    m->row = NULL;
}

static void run_product(machine *m, const md_st_stage *s)
{
    const md_st_product *g = &s->product;
    results r;
    memset(&r, 0, sizeof(r));
    m->row = &r;
    for (int32_t p = 0; p < g->n_products; p++) {
        value sum = identity(MD_FX_R_SUM, g->type, g->type);
        for (bool more = first(m, g->n_k, g->k); more; more = next(m, g->n_k, g->k)) {
            value a = evaluate(m, g->a[p]), b = evaluate(m, g->b[p]);
            value ab = md_dtype_is_real(g->type) ? real(to_real(a) * to_real(b))
                                                 : whole((int64_t)((uint64_t)a.whole * (uint64_t)b.whole));
            sum = combine(MD_FX_R_SUM, sum, ab);
        }
        r.ref[p] = sum;
    }
    store_all(m, s);
    m->row = NULL;
}

static void check_product(const machine *m, const md_st_stage *s)
{
    const md_st_product *g = &s->product;
    assert_true(g->n_m > 0 && g->n_n > 0 && g->n_k > 0 && g->n_products > 0);
    assert_int_equal(g->n_batch + g->n_m + g->n_n, s->n_outer);
    for (int32_t p = 0; p < g->n_products; p++) {
        for (int32_t i = 0; i < g->n_n; i++)
            assert_false(md_fx_uses_index(g->a[p], g->n[i]));
        for (int32_t i = 0; i < g->n_m; i++)
            assert_false(md_fx_uses_index(g->b[p], g->m[i]));
    }
    (void)m;
}

static void run_stage(machine *m, const md_st_stage *s)
{
    static void (*const fn[])(machine *, const md_st_stage *) = {
        [MD_ST_POINTWISE] = run_along_axis, [MD_ST_ROW] = run_row, [MD_ST_PRODUCT] = run_product,
        [MD_ST_SCAN] = run_along_axis, [MD_ST_NEST] = run_along_axis};
    if (s->kind == MD_ST_PRODUCT)
        check_product(m, s);
    for (int32_t i = 0; i < MD_COUNT(m->at); i++)
        m->at[i] = INT64_MIN / 2; /* an index that no loop sets makes a load fail */
    for (bool more = first(m, s->n_outer, s->outer); more; more = next(m, s->n_outer, s->outer))
        fn[s->kind](m, s);
}

static void make_temp(machine *m, int32_t t)
{
    const md_fx_tensor *tensor = &m->formula->tensor[t];
    int64_t size[MD_MAX_RANK], n = 1;
    for (int32_t i = 0; i < tensor->rank; i++) {
        size[i] = m->binding->size[tensor->dim[i]];
        n *= size[i];
    }
    md_dtype dtype = tensor->is_declared ? tensor->dtype : md_dtype_is_real(tensor->dtype) ? MD_F64 : MD_I64;
    m->tensor[t] = md_tensor_make(calloc((size_t)n + 1, 8), dtype, tensor->rank, size);
    assert_non_null(m->tensor[t].data);
}

void interpret(const md_st_program *program, const md_fx_binding *binding, const interpret_options *options)
{
    machine m = {.program = program, .formula = program->formula, .binding = binding, .options = options};
    memcpy(m.tensor, binding->tensor, sizeof(m.tensor));
    for (int32_t t = 0; t < m.formula->n_tensors; t++)
        if (m.formula->tensor[t].role == MD_FX_TEMP) {
            m.tensor[t].data = NULL; /* of one that is not stored: a load of it crashes */
            if (program->is_temp_stored[t])
                make_temp(&m, t);
        }
    for (int32_t i = 0; i < program->n_stages; i++)
        run_stage(&m, &program->stage[i]);
    for (int32_t t = 0; t < m.formula->n_tensors; t++)
        if (program->is_temp_stored[t])
            free(m.tensor[t].data);
}
