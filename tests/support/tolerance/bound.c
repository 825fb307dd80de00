/* Error bounds of a formula's outputs, and the comparison of results with them. */
#include "support/tolerance/bound.h"

#include "base/dtype.h"
#include "base/status.h"
#include "expr/node.h"
#include "support/tolerance/bound_walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t count_of(const bound_axes *a)
{
    int64_t n = 1;
    for (int32_t i = 0; i < a->rank; i++)
        n *= a->size[i];
    return n;
}

/* ---- statements ---- */

typedef struct target {
    const md_fx_stmt *stmt;
    const md_fx_tensor *tensor;
    bound_axes axes;
    bool is_real, value_is_real, all_uncertain;
    bound_value *array; /* before the store's rounding */
    bound_running *sum; /* of += and the like; NULL otherwise */
    unsigned char *touched;
} target;

static void write(target *t, int64_t position, bound_value a)
{
    bound_value *old = &t->array[position];
    if (t->stmt->assign != MD_FX_SET) {
        if (!t->touched[position])
            bound_run_add(&t->sum[position], *old);
        bound_run_add(&t->sum[position], a);
    } else {
        *old = t->touched[position] ? bound_either(a, *old, t->is_real) : a; /* any one writer */
    }
    t->touched[position] = 1;
}

static void run_element(bound_walker *walker, target *t)
{
    int64_t at[MD_MAX_RANK];
    bool uncertain = false;
    for (int32_t i = 0; i < t->tensor->rank; i++) {
        bound_value s = bound_value_of(walker, t->stmt->subscript[i]);
        uncertain |= s.e > 0.0;
        at[i] = s.i;
    }
    t->all_uncertain |= uncertain;
    int64_t position = bound_position_of(walker, &t->axes, at);
    if (position < 0)
        return;
    bound_value a = bound_value_of(walker, t->stmt->value);
    if (t->is_real && !t->value_is_real)
        a = bound_real((double)a.i, a.e);
    else if (!t->is_real && t->value_is_real)
        a = bound_cast(t->tensor->dtype, true, a);
    write(t, position, a);
}

static bool is_no_scan(void *found, const md_fx_node *node)
{
    if (node->kind == MD_FX_SCAN)
        *(const md_fx_node **)found = node;
    return node->kind != MD_FX_SCAN;
}

/* The statement's free indices, the one that a scan runs along last: a scan's line stays until another index
 * moves. */
static void order_of(int32_t order[MD_MAX_RANK * 2], const md_fx_stmt *s)
{
    const md_fx_node *scan = NULL;
    int32_t n = 0;
    (void)md_fx_visit(s->value, is_no_scan, &scan);
    const int32_t last = scan ? scan->bound[0] : -1;
    for (int32_t i = 0; i < s->n_free; i++)
        if (s->free[i] != last)
            order[n++] = s->free[i];
    if (n < s->n_free)
        order[n] = last;
}

static void run_loop(bound_walker *walker, target *t)
{
    const md_fx_stmt *s = t->stmt;
    int32_t order[MD_MAX_RANK * 2];
    order_of(order, s);
    for (int32_t i = 0; i < s->n_free; i++) {
        walker->at[order[i]] = 0;
        if (bound_size_of(walker, order[i]) == 0)
            return;
    }
    for (;;) {
        run_element(walker, t);
        int32_t i = s->n_free - 1;
        for (; i >= 0 && ++walker->at[order[i]] == bound_size_of(walker, order[i]); i--)
            walker->at[order[i]] = 0;
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
        bound_value v = bound_run_result(&t->sum[i]);
        if (t->is_real && t->stmt->assign == MD_FX_ADD_TO && isfinite(v.v))
            v.e += t->sum[i].n * u * t->sum[i].magnitude;
        if (t->is_real && t->stmt->assign == MD_FX_MUL_TO && isfinite(v.v)) {
            v.e += bound_sum_factor(t->sum[i].n) * u * (fabs(v.v) + v.e);
            if (t->tensor->dtype == MD_F16 && (t->sum[i].magnitude > 15.9 || t->sum[i].shrink > 13.9))
                v.e = (double)INFINITY; /* products on the way may leave the range */
        }
        t->array[i] = v;
    }
}

static void read_start(const bound_walker *walker, const target *t, int64_t n)
{
    int64_t at[MD_MAX_RANK] = {0};
    for (int64_t i = 0; i < n; i++) {
        t->array[i] = bound_read_memory(&walker->b->tensor[t->stmt->tensor], at);
        for (int32_t k = t->axes.rank - 1; k >= 0 && ++at[k] == t->axes.size[k]; k--)
            at[k] = 0;
    }
}

static void make_result(bound_result *result, int64_t n)
{
    if (result->value != NULL) /* of an earlier statement to the tensor */
        return;
    result->n = n;
    result->value = calloc((size_t)n + 1, sizeof(double));
    result->error = calloc((size_t)n + 1, sizeof(double));
    result->whole = calloc((size_t)n + 1, sizeof(int64_t));
}

static void run_statement(bound_walker *walker, const md_fx_stmt *stmt, bound_result *result)
{
    static const md_fx_op as[] = {MD_FX_R_SUM, MD_FX_R_SUM, MD_FX_R_PROD, MD_FX_R_MAX, MD_FX_R_MIN};
    target t = {.stmt = stmt, .tensor = &walker->f->tensor[stmt->tensor], .axes = bound_axes_of(walker, stmt->tensor)};
    const int64_t n = count_of(&t.axes);
    t.is_real = md_dtype_is_real(t.tensor->dtype);
    t.value_is_real = md_dtype_is_real(stmt->value->type);
    t.array = calloc((size_t)n + 1, sizeof(*t.array));
    t.touched = calloc((size_t)n + 1, 1);
    t.sum = stmt->assign != MD_FX_SET ? calloc((size_t)n + 1, sizeof(*t.sum)) : NULL;
    if (walker->array[stmt->tensor] != NULL) { /* written before */
        memcpy(t.array, walker->array[stmt->tensor], (size_t)n * sizeof(*t.array));
        free(walker->array[stmt->tensor]);
        walker->array[stmt->tensor] = NULL;
    } else if (t.tensor->is_updated) {
        read_start(walker, &t, n);
    }
    for (int64_t i = 0; i < n && t.sum != NULL; i++)
        t.sum[i] = bound_run_start(as[stmt->assign], t.is_real ? md_dtype_compute(t.tensor->dtype) : MD_I64);
    run_loop(walker, &t);
    if (t.sum != NULL)
        settle_sums(&t, n);
    if (t.tensor->role == MD_FX_OUTPUT)
        make_result(result, n);
    for (int64_t i = 0; i < n; i++) {
        if (t.all_uncertain)
            t.array[i].e = (double)INFINITY;
        if (t.tensor->role != MD_FX_TEMP || t.tensor->is_declared) {
            if (t.tensor->role == MD_FX_OUTPUT) {
                result->value[i] = t.array[i].v;
                result->error[i] = t.array[i].e;
            }
            t.array[i] = bound_convert(walker, t.tensor->dtype, t.is_real, t.array[i]);
            if (t.tensor->role == MD_FX_OUTPUT)
                result->whole[i] = t.array[i].i;
        }
    }
    walker->array[stmt->tensor] = t.array;
    free(t.touched);
    free(t.sum);
}

static void forget(bound_walker *walker)
{
    bound_walk_finish(walker);
    for (int32_t t = 0; t < MD_FX_MAX_TENSORS; t++)
        free(walker->array[t]);
    free(walker);
}

md_status bound_evaluate(bound_result *result, const md_fx_formula *formula, const md_fx_binding *binding,
                         const bound_options *options)
{
    bound_walker *walker = calloc(1, sizeof(*walker));
    if (walker == NULL)
        return md_fail_memory();
    walker->f = formula;
    walker->b = binding;
    if (options != NULL)
        walker->options = *options;
    memset(result, 0, (size_t)formula->n_tensors * sizeof(*result));
    for (int32_t i = 0; i < formula->n_stmts; i++)
        run_statement(walker, &formula->stmt[i], &result[formula->stmt[i].tensor]);
    forget(walker);
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
        bound_value got = bound_read_memory(t, at);
        if (isinf(r->error[i])) {
            ++*n_unchecked;
        } else if (!is_within(r, i, t->dtype, got.v, got.i) && n_wrong++ == 0) {
            int n = snprintf(text, n_text,
                             is_real ? "element %lld of %lld is %.9g, expected %.9g +- %.3g"
                                     : "element %lld of %lld is %.0f, expected %.0f +- %.0f",
                             (long long)i, (long long)r->n, is_real ? got.v : (double)got.i,
                             is_real ? r->value[i] : (double)r->whole[i], r->error[i]);
            for (int32_t k = 0; k < t->rank && n > 0 && (size_t)n < n_text; k++)
                n += snprintf(text + n, n_text - (size_t)n, "%s%lld%s", k ? "," : " at [", (long long)at[k],
                              k == t->rank - 1 ? "]" : "");
        }
        for (int32_t k = t->rank - 1; k >= 0 && ++at[k] == t->size[k]; k--)
            at[k] = 0;
    }
    if (n_wrong > 1 && strlen(text) + 40 < n_text)
        (void)snprintf(text + strlen(text), n_text - strlen(text), " (and %lld more)", (long long)n_wrong - 1);
    return n_wrong == 0;
}
