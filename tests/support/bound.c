#include "support/bound.h"

#include "base/dtype.h"
#include "base/status.h"
#include "expr/memo.h"
#include "expr/scalar.h"
#include "support/bound_value.h"

#include <stdlib.h>
#include <string.h>

typedef struct axis {
    int32_t rank;
    int64_t size[MD_MAX_RANK];
} axis;

typedef struct bounder {
    const md_fx_formula *f;
    const md_fx_binding *b;
    bound_options options;
    int64_t at[MD_FX_MAX_INDICES];
    bound_value *array[MD_FX_MAX_TENSORS]; /* temps and outputs, as a later statement reads them */
    md_memo kept; /* reduction or scan -> kept */
    bool failed; /* memory */
} bounder;

/* What a reduction or scan gave when the indices that it uses stood where they stood. */
typedef struct kept {
    bool is_valid;
    int32_t n;
    int32_t index[MD_FX_MAX_INDICES];
    int64_t at[MD_FX_MAX_INDICES];
    bound_value *value; /* one, or one for each position of the scan */
} kept;

static bound_value value_of(bounder *x, const md_fx_node *node);

static axis axis_of(const bounder *x, int32_t tensor)
{
    const md_fx_tensor *t = &x->f->tensor[tensor];
    axis a = {.rank = t->rank};
    for (int32_t i = 0; i < t->rank; i++)
        a.size[i] = t->role == MD_FX_TEMP ? x->b->size[t->dim[i]] : x->b->tensor[tensor].size[i];
    return a;
}

static int64_t count_of(const axis *a)
{
    int64_t n = 1;
    for (int32_t i = 0; i < a->rank; i++)
        n *= a->size[i];
    return n;
}

/* Position in row-major order; -1 where an index lies outside and is not clamped. */
static int64_t position_of(const bounder *x, const axis *a, int64_t *at)
{
    int64_t position = 0;
    for (int32_t i = 0; i < a->rank; i++) {
        if ((at[i] < 0 || at[i] >= a->size[i]) && (x->f->bounds != MD_BOUNDS_CLAMP || a->size[i] == 0))
            return -1;
        at[i] = at[i] < 0 ? 0 : at[i] >= a->size[i] ? a->size[i] - 1 : at[i];
        position = position * a->size[i] + at[i];
    }
    return position;
}

static bound_value read_memory(const md_tensor *t, const int64_t *at)
{
    int64_t offset = 0;
    for (int32_t i = 0; i < t->rank; i++)
        offset += at[i] * t->stride[i];
    if (md_dtype_is_real(t->dtype))
        return bound_real(md_dtype_load(t->dtype, t->data, offset), 0.0);
    return bound_int(md_dtype_load_int(t->dtype, t->data, offset), 0.0);
}

static bound_value load(bounder *x, const md_fx_node *node)
{
    int64_t at[MD_MAX_RANK];
    bool uncertain = false;
    for (int32_t i = 0; i < node->n_args; i++) {
        bound_value s = value_of(x, node->arg[i]);
        uncertain |= s.e > 0.0;
        at[i] = s.i;
    }
    axis a = axis_of(x, node->id);
    int64_t position = position_of(x, &a, at);
    bound_value v = bound_real(0.0, 0.0);
    if (position >= 0)
        v = x->array[node->id] != NULL ? x->array[node->id][position] : read_memory(&x->b->tensor[node->id], at);
    if (uncertain)
        v.e = (double)INFINITY;
    return v;
}

static bound_value leaf(bounder *x, const md_fx_node *node)
{
    bool is_real = md_dtype_is_real(node->type);
    switch (node->kind) {
    case MD_FX_CONST:
        return is_real ? bound_real(node->num, 0.0) : bound_int(node->integer, 0.0);
    case MD_FX_INDEX:
        return bound_int(x->at[node->id], 0.0);
    case MD_FX_SIZE:
        return bound_int(x->b->size[node->id], 0.0);
    default: /* SCALAR */
        return is_real ? bound_real(x->b->real[node->id], 0.0) : bound_int(x->b->integer[node->id], 0.0);
    }
}

/* ---- reductions ---- */

static int64_t size_of(const bounder *x, int32_t index)
{
    return x->b->size[x->f->index[index].dim];
}

static bool begin(bounder *x, const md_fx_node *node)
{
    bool any = true;
    for (int32_t i = 0; i < node->n_bound; i++) {
        x->at[node->bound[i]] = 0;
        any &= size_of(x, node->bound[i]) > 0;
    }
    return any;
}

static bool next(bounder *x, const md_fx_node *node)
{
    for (int32_t i = node->n_bound - 1; i >= 0; i--) {
        if (++x->at[node->bound[i]] < size_of(x, node->bound[i]))
            return true;
        x->at[node->bound[i]] = 0;
    }
    return false;
}

/* A running sum, product, maximum or minimum. */
typedef struct running {
    md_fx_op op; /* of the reduction or the scan, as a reduction */
    md_dtype type;
    double n, v, low, e, magnitude; /* magnitude: of the terms together; of a product, log2 of the factors beyond 1 */
    double shrink; /* log2 of the factors below 1 */
    double highest, lowest; /* of max and min: bounds of the result */
    int64_t i;
    bool has_nan; /* a certain one */
} running;

static running run_start(md_fx_op op, md_dtype type)
{
    running r = {.op = op, .type = type};
    r.v = op == MD_FX_R_PROD ? 1.0 : op == MD_FX_R_MAX ? (double)-INFINITY : op == MD_FX_R_MIN ? (double)INFINITY : 0.0;
    r.i = op == MD_FX_R_PROD ? 1 : op == MD_FX_R_MAX ? (type == MD_BOOL ? 0 : INT64_MIN) : op == MD_FX_R_MIN ? (type == MD_BOOL ? 1 : INT64_MAX) : 0;
    r.highest = r.lowest = r.v;
    return r;
}

static void run_sum(running *r, bound_value a)
{
    double t = r->v + a.v, b = t - r->v;
    double lost = (r->v - (t - b)) + (a.v - b);
    r->v = t;
    r->low += isfinite(lost) ? lost : 0.0;
    r->e += a.e;
    r->magnitude += fabs(a.v) + a.e;
    r->i = (int64_t)((uint64_t)r->i + (uint64_t)a.i);
}

static void run_product(running *r, bound_value a)
{
    double size = fabs(a.v) + a.e;
    r->e = fabs(r->v) * a.e + (fabs(a.v) + a.e) * r->e;
    r->v *= a.v;
    r->i = (int64_t)((uint64_t)r->i * (uint64_t)a.i);
    r->magnitude += size > 1.0 && isfinite(size) ? log2(size) : 0.0;
    r->shrink += size < 1.0 && size > 0.0 ? -log2(size) : 0.0;
}

static void run_extreme(running *r, bound_value a, bool is_max)
{
    md_scalar_real_fn pick = md_scalar_real(is_max ? MD_FX_MAX : MD_FX_MIN);
    bool is_real = md_dtype_is_real(r->type);
    double v = is_real ? a.v : (double)a.i;
    r->highest = pick(r->highest, v + a.e, 0.0);
    r->lowest = pick(r->lowest, v - a.e, 0.0);
    r->v = pick(r->v, v, 0.0);
    r->i = is_max ? MD_MAX(r->i, a.i) : MD_MIN(r->i, a.i);
    r->e = isinf(a.e) ? (double)INFINITY : r->e;
}

static void run_add(running *r, bound_value a)
{
    r->n += 1.0;
    r->has_nan |= isnan(a.v) && a.e == 0.0;
    if (r->op == MD_FX_R_PROD)
        run_product(r, a);
    else if (r->op == MD_FX_R_MAX || r->op == MD_FX_R_MIN)
        run_extreme(r, a, r->op == MD_FX_R_MAX);
    else
        run_sum(r, a);
}

static bound_value run_result(const running *r)
{
    bound_type t = bound_type_of(r->type);
    bool is_real = md_dtype_is_real(r->type);
    double v = r->op == MD_FX_R_SUM ? r->v + r->low : r->v; /* -0 + 0 would be 0 */
    if (is_real && r->has_nan)
        return bound_real((double)NAN, 0.0);
    if (r->op == MD_FX_R_MAX || r->op == MD_FX_R_MIN) {
        double above = r->highest == r->v ? 0.0 : r->highest - r->v, below = r->lowest == r->v ? 0.0 : r->v - r->lowest;
        double e = isinf(r->e) || isnan(above) || isnan(below) ? (double)INFINITY : fmax(above, below);
        return is_real ? bound_real(r->v, e) : bound_int(r->i, e);
    }
    if (!is_real)
        return bound_int(r->i, r->e);
    if (!isfinite(v))
        return bound_real(r->v, isfinite(r->e) ? 0.0 : (double)INFINITY);
    if (r->op == MD_FX_R_PROD) {
        double e = r->e + bound_sum_factor(r->n) * t.u * (fabs(v) + r->e);
        bool certain = r->magnitude < log2(t.max) && (r->shrink < -log2(t.tiny) || v == 0.0);
        return bound_rounded(t, v, certain || r->n <= 1.0 ? e : (double)INFINITY, true);
    }
    if (r->magnitude > t.max)
        return bound_real(v, (double)INFINITY);
    if (r->n <= 1.0)
        return bound_real(v, r->e);
    return bound_rounded(t, v, r->e + bound_sum_factor(r->n - 1.0) * t.u * r->magnitude, true);
}

static bound_value body_of(bounder *x, const md_fx_node *node, bool to_real)
{
    bound_value a = value_of(x, node->arg[0]);
    return to_real && !md_dtype_is_real(node->arg[0]->type) ? bound_real((double)a.i, a.e) : a;
}

static bound_value plain_reduction(bounder *x, const md_fx_node *node)
{
    running r = run_start(node->op, node->type);
    for (bool more = begin(x, node); more; more = next(x, node))
        run_add(&r, body_of(x, node, false));
    return run_result(&r);
}

static bound_value mean(bounder *x, const md_fx_node *node, double *n)
{
    bound_type t = bound_type_of(node->type);
    running r = run_start(MD_FX_R_SUM, node->type);
    for (bool more = begin(x, node); more; more = next(x, node))
        run_add(&r, body_of(x, node, true));
    bound_value s = run_result(&r);
    *n = r.n;
    if (r.n == 0.0)
        return bound_real((double)NAN, 0.0);
    if (!isfinite(s.v) || !isfinite(s.e))
        return s;
    return bound_rounded(t, s.v / r.n, s.e / r.n + 2.0 * t.u * fabs(s.v / r.n), true);
}

static bound_value variance(bounder *x, const md_fx_node *node)
{
    bound_type t = bound_type_of(node->type);
    double n, sum = 0.0, e = 0.0;
    bound_value m = mean(x, node, &n);
    double count = node->unbiased ? n - 1.0 : n;
    if (!isfinite(m.v))
        return bound_real((double)NAN, isfinite(m.e) ? 0.0 : (double)INFINITY);
    for (bool more = begin(x, node); more; more = next(x, node)) {
        bound_value a = body_of(x, node, true);
        double d = a.v - m.v, off = a.e + m.e + t.u * (fabs(a.v) + fabs(m.v));
        sum += d * d;
        e += 2.0 * fabs(d) * off + off * off;
    }
    if (count <= 0.0)
        return bound_real((double)NAN, isfinite(e) ? 0.0 : (double)INFINITY);
    if (sum > t.max)
        e = (double)INFINITY;
    return bound_rounded(t, sum / count, e / count + (bound_sum_factor(n) + 4.0) * t.u * (sum / count), true);
}

static bound_value arg_reduction(bounder *x, const md_fx_node *node)
{
    double sign = node->op == MD_FX_R_ARGMAX ? 1.0 : -1.0;
    bound_value best = bound_real(0.0, 0.0);
    int64_t position = 0, found = 0;
    double rival = (double)-INFINITY; /* the highest that another candidate with an error may reach */
    bool uncertain = false;
    for (bool more = begin(x, node); more; more = next(x, node), position++) {
        bound_value a = body_of(x, node, true);
        a.v *= sign;
        uncertain |= !isfinite(a.e);
        bool better = position == 0 || a.v > best.v || (isnan(a.v) && !isnan(best.v));
        bound_value loser = better ? best : a;
        if (position > 0 && (loser.e > 0.0 || (better ? a.e : best.e) > 0.0))
            rival = fmax(rival, loser.v + loser.e);
        if (better) {
            best = a;
            found = position;
        }
    }
    uncertain |= !isnan(best.v) && rival >= best.v - best.e;
    return bound_int(found, uncertain ? (double)INFINITY : 0.0);
}

static bound_value any_all(bounder *x, const md_fx_node *node)
{
    bool is_any = node->op == MD_FX_R_ANY, uncertain = false, settled = false;
    for (bool more = begin(x, node); more; more = next(x, node)) {
        bound_value a = value_of(x, node->arg[0]);
        bool is_real = md_dtype_is_real(node->arg[0]->type);
        bool truth = is_real ? a.v != 0.0 : a.i != 0, unsure = is_real ? fabs(a.v) <= a.e && a.e > 0.0 : a.e > 0.0;
        settled |= !unsure && truth == is_any;
        uncertain |= unsure;
    }
    return bound_int(settled ? is_any : !is_any, uncertain && !settled ? (double)INFINITY : 0.0);
}

static bound_value reduction(bounder *x, const md_fx_node *node)
{
    double n;
    switch ((int)node->op) {
    case MD_FX_R_MEAN:
        return mean(x, node, &n);
    case MD_FX_R_VAR:
        return variance(x, node);
    case MD_FX_R_ARGMAX:
    case MD_FX_R_ARGMIN:
        return arg_reduction(x, node);
    case MD_FX_R_ANY:
    case MD_FX_R_ALL:
        return any_all(x, node);
    default:
        return plain_reduction(x, node);
    }
}

/* ---- scans, and what is kept ---- */

static void scan(bounder *x, const md_fx_node *node, bound_value *out)
{
    static const md_fx_op as[] = {[MD_FX_S_SUM - MD_FX_S_SUM] = MD_FX_R_SUM, [MD_FX_S_PROD - MD_FX_S_SUM] = MD_FX_R_PROD,
                                  [MD_FX_S_MAX - MD_FX_S_SUM] = MD_FX_R_MAX, [MD_FX_S_MIN - MD_FX_S_SUM] = MD_FX_R_MIN};
    int64_t size = size_of(x, node->bound[0]), stood = x->at[node->bound[0]];
    running r = run_start(as[node->op - MD_FX_S_SUM], node->type);
    for (int64_t i = 0; i < size; i++) {
        int64_t position = node->reverse ? size - 1 - i : i;
        x->at[node->bound[0]] = position;
        bound_value before = run_result(&r);
        run_add(&r, value_of(x, node->arg[0]));
        out[position] = node->exclusive ? before : run_result(&r);
    }
    x->at[node->bound[0]] = stood;
}

static kept *kept_of(bounder *x, const md_fx_node *node)
{
    const void *known = NULL;
    if (md_memo_find(&x->kept, node, NULL, 0, &known))
        return (kept *)known;
    kept *k = calloc(1, sizeof(*k));
    bool is_scan = node->kind == MD_FX_SCAN;
    if (k != NULL)
        k->value = calloc(is_scan ? (size_t)size_of(x, node->bound[0]) + 1 : 1, sizeof(*k->value));
    if (k == NULL || k->value == NULL || !md_memo_put(&x->kept, node, NULL, 0, k))
        abort(); /* a test has no use for going on */
    for (int32_t id = 0; id < x->f->n_indices; id++)
        if (md_fx_uses_index(node, id) && !(is_scan && id == node->bound[0]))
            k->index[k->n++] = id;
    return k;
}

static bound_value reduction_or_scan(bounder *x, const md_fx_node *node)
{
    kept *k = kept_of(x, node);
    bool same = k->is_valid;
    for (int32_t i = 0; i < k->n && same; i++)
        same = k->at[i] == x->at[k->index[i]];
    if (!same) {
        if (node->kind == MD_FX_SCAN)
            scan(x, node, k->value);
        else
            *k->value = reduction(x, node);
        for (int32_t i = 0; i < k->n; i++)
            k->at[i] = x->at[k->index[i]];
        k->is_valid = true;
    }
    return k->value[node->kind == MD_FX_SCAN ? x->at[node->bound[0]] : 0];
}

static bound_value operation(bounder *x, const md_fx_node *node)
{
    bound_value a[3];
    if (node->op == MD_FX_WHERE) {
        bound_value c = value_of(x, node->arg[0]);
        bool truth = md_dtype_is_real(node->arg[0]->type) ? c.v != 0.0 : c.i != 0;
        if (c.e == 0.0)
            return value_of(x, node->arg[truth ? 1 : 2]);
        return bound_either(value_of(x, node->arg[truth ? 1 : 2]), value_of(x, node->arg[truth ? 2 : 1]),
                            md_dtype_is_real(node->type));
    }
    for (int32_t i = 0; i < node->n_args; i++)
        a[i] = value_of(x, node->arg[i]);
    return bound_op(node, a, &x->options);
}

static bound_value value_of(bounder *x, const md_fx_node *node)
{
    switch (node->kind) {
    case MD_FX_LOAD:
        return load(x, node);
    case MD_FX_OP:
        return operation(x, node);
    case MD_FX_CAST:
        return bound_cast(node->to, md_dtype_is_real(node->arg[0]->type), value_of(x, node->arg[0]));
    case MD_FX_REDUCE:
    case MD_FX_SCAN:
        return reduction_or_scan(x, node);
    default:
        return leaf(x, node);
    }
}

/* ---- statements ---- */

typedef struct target {
    const md_fx_stmt *stmt;
    const md_fx_tensor *tensor;
    axis axes;
    bool is_real, value_is_real, all_uncertain;
    bound_value *array; /* before the store's rounding */
    running *sum; /* of += and the like; NULL otherwise */
    unsigned char *touched;
} target;

static void write(target *t, int64_t position, bound_value a)
{
    bound_value *old = &t->array[position];
    if (t->stmt->assign != MD_FX_SET) {
        if (!t->touched[position])
            run_add(&t->sum[position], *old);
        run_add(&t->sum[position], a);
    } else {
        *old = t->touched[position] ? bound_either(a, *old, t->is_real) : a; /* any one writer */
    }
    t->touched[position] = 1;
}

static void run_element(bounder *x, target *t)
{
    int64_t at[MD_MAX_RANK];
    bool uncertain = false;
    for (int32_t i = 0; i < t->tensor->rank; i++) {
        bound_value s = value_of(x, t->stmt->subscript[i]);
        uncertain |= s.e > 0.0;
        at[i] = s.i;
    }
    t->all_uncertain |= uncertain;
    int64_t position = position_of(x, &t->axes, at);
    if (position < 0)
        return;
    bound_value a = value_of(x, t->stmt->value);
    if (t->is_real && !t->value_is_real)
        a = bound_real((double)a.i, a.e);
    else if (!t->is_real && t->value_is_real)
        a = bound_cast(t->tensor->dtype, true, a);
    write(t, position, a);
}

static void run_loop(bounder *x, target *t)
{
    const md_fx_stmt *s = t->stmt;
    for (int32_t i = 0; i < s->n_free; i++) {
        x->at[s->free[i]] = 0;
        if (size_of(x, s->free[i]) == 0)
            return;
    }
    for (;;) {
        run_element(x, t);
        int32_t i = s->n_free - 1;
        for (; i >= 0 && ++x->at[s->free[i]] == size_of(x, s->free[i]); i--)
            x->at[s->free[i]] = 0;
        if (i < 0)
            return;
    }
}

/* Sums into one element may round at every step, in the dtype of the memory. */
static void settle_sums(const target *t, int64_t n)
{
    double u = md_dtype_roundoff(t->tensor->dtype);
    for (int64_t i = 0; i < n; i++) {
        if (!t->touched[i])
            continue;
        bound_value v = run_result(&t->sum[i]);
        if (t->is_real && t->stmt->assign == MD_FX_ADD_TO && isfinite(v.v))
            v.e += t->sum[i].n * u * t->sum[i].magnitude;
        t->array[i] = v;
    }
}

static void read_start(const bounder *x, const target *t, int64_t n)
{
    int64_t at[MD_MAX_RANK] = {0};
    for (int64_t i = 0; i < n; i++) {
        t->array[i] = read_memory(&x->b->tensor[t->stmt->tensor], at);
        for (int32_t k = t->axes.rank - 1; k >= 0 && ++at[k] == t->axes.size[k]; k--)
            at[k] = 0;
    }
}

static void run_statement(bounder *x, const md_fx_stmt *stmt, bound_result *result)
{
    static const md_fx_op as[] = {MD_FX_R_SUM, MD_FX_R_SUM, MD_FX_R_MAX, MD_FX_R_MIN};
    target t = {.stmt = stmt, .tensor = &x->f->tensor[stmt->tensor], .axes = axis_of(x, stmt->tensor)};
    const int64_t n = count_of(&t.axes);
    t.is_real = md_dtype_is_real(t.tensor->dtype);
    t.value_is_real = md_dtype_is_real(stmt->value->type);
    t.array = calloc((size_t)n + 1, sizeof(*t.array));
    t.touched = calloc((size_t)n + 1, 1);
    t.sum = stmt->assign != MD_FX_SET ? calloc((size_t)n + 1, sizeof(*t.sum)) : NULL;
    if (t.tensor->is_updated)
        read_start(x, &t, n);
    for (int64_t i = 0; i < n && t.sum != NULL; i++)
        t.sum[i] = run_start(as[stmt->assign], t.is_real ? md_dtype_compute(t.tensor->dtype) : MD_I64);
    run_loop(x, &t);
    if (t.sum != NULL)
        settle_sums(&t, n);
    if (t.tensor->role == MD_FX_OUTPUT) {
        result->n = n;
        result->value = calloc((size_t)n + 1, sizeof(double));
        result->error = calloc((size_t)n + 1, sizeof(double));
        result->whole = calloc((size_t)n + 1, sizeof(int64_t));
    }
    for (int64_t i = 0; i < n; i++) {
        if (t.all_uncertain)
            t.array[i].e = (double)INFINITY;
        if (t.tensor->role != MD_FX_TEMP || t.tensor->is_declared) {
            if (t.tensor->role == MD_FX_OUTPUT) {
                result->value[i] = t.array[i].v;
                result->error[i] = t.array[i].e;
            }
            t.array[i] = bound_cast(t.tensor->dtype, t.is_real, t.array[i]);
            if (t.tensor->role == MD_FX_OUTPUT)
                result->whole[i] = t.array[i].i;
        }
    }
    x->array[stmt->tensor] = t.array;
    free(t.touched);
    free(t.sum);
}

static void forget(bounder *x)
{
    for (size_t i = 0; i < x->kept.capacity; i++)
        if (x->kept.slot[i].a != NULL) {
            kept *k = (kept *)x->kept.slot[i].value;
            free(k->value);
            free(k);
        }
    md_memo_finish(&x->kept);
    for (int32_t t = 0; t < MD_FX_MAX_TENSORS; t++)
        free(x->array[t]);
    free(x);
}

md_status bound_evaluate(bound_result *result, const md_fx_formula *formula, const md_fx_binding *binding,
                         const bound_options *options)
{
    bounder *x = calloc(1, sizeof(*x));
    if (x == NULL)
        return md_fail_memory();
    x->f = formula;
    x->b = binding;
    if (options != NULL)
        x->options = *options;
    memset(result, 0, (size_t)formula->n_tensors * sizeof(*result));
    for (int32_t i = 0; i < formula->n_stmts; i++)
        run_statement(x, &formula->stmt[i], &result[formula->stmt[i].tensor]);
    forget(x);
    return MD_OK;
}

void bound_finish(bound_result *result, const md_fx_formula *formula)
{
    for (int32_t t = 0; t < formula->n_tensors; t++) {
        free(result[t].value);
        free(result[t].error);
        free(result[t].whole);
        result[t] = (bound_result){0};
    }
}

/* ---- comparing ---- */

static bool is_within(const bound_result *r, int64_t i, md_dtype dtype, double got, int64_t whole)
{
    double v = r->value[i], e = r->error[i];
    if (!md_dtype_is_real(dtype))
        return fabs((double)whole - (double)r->whole[i]) <= e && (e > 0.0 || whole == r->whole[i]);
    if (isnan(v) || isnan(got))
        return isnan(v) && isnan(got);
    return got >= md_dtype_round(dtype, v - e) && got <= md_dtype_round(dtype, v + e);
}

bool bound_check(const bound_result *r, const md_tensor *t, int64_t *n_unchecked, char *text, size_t n_text)
{
    int64_t at[MD_MAX_RANK] = {0}, n_wrong = 0;
    bool is_real = md_dtype_is_real(t->dtype);
    for (int64_t i = 0; i < r->n; i++) {
        bound_value got = read_memory(t, at);
        if (isinf(r->error[i])) {
            ++*n_unchecked;
        } else if (!is_within(r, i, t->dtype, got.v, got.i) && n_wrong++ == 0) {
            int n = snprintf(text, n_text, is_real ? "element %lld of %lld is %.9g, expected %.9g +- %.3g" : "element %lld of %lld is %.0f, expected %.0f +- %.0f",
                             (long long)i, (long long)r->n, is_real ? got.v : (double)got.i,
                             is_real ? r->value[i] : (double)r->whole[i], r->error[i]);
            for (int32_t k = 0; k < t->rank && n > 0 && (size_t)n < n_text; k++)
                n += snprintf(text + n, n_text - (size_t)n, "%s%lld%s", k ? "," : " at [", (long long)at[k], k == t->rank - 1 ? "]" : "");
        }
        for (int32_t k = t->rank - 1; k >= 0 && ++at[k] == t->size[k]; k--)
            at[k] = 0;
    }
    if (n_wrong > 1 && strlen(text) + 40 < n_text)
        (void)snprintf(text + strlen(text), n_text - strlen(text), " (and %lld more)", (long long)n_wrong - 1);
    return n_wrong == 0;
}
