/* Whole results: the statements in order, each element by element. */
#include "expr/eval/code.h"

#include <stdlib.h>
#include <string.h>

/* An array of the evaluator's own, in f64 or i64: a temp, or an output that is put into place only at the end because
 * it is read and written (scatter targets) or lies where an input lies. */
typedef struct staged {
    bool is_used, is_output;
    void *values;
    unsigned char *touched; /* outputs: which elements were written */
    int64_t n;
} staged;

typedef struct evaluation {
    md_eval_machine m;
    staged array[MD_FX_MAX_TENSORS];
} evaluation;

/* ---- arrays ---- */

static bool count_elements(int64_t *n, const md_eval_access *a)
{
    *n = 1;
    for (int32_t i = 0; i < a->rank; i++)
        if (__builtin_mul_overflow(*n, a->size[i], n))
            return false;
    return *n >= 0 && *n <= INT64_MAX / 16;
}

static void make_contiguous(md_eval_access *a)
{
    int64_t stride = 1;
    for (int32_t i = a->rank - 1; i >= 0; i--) {
        a->stride[i] = stride;
        stride *= a->size[i] > 0 ? a->size[i] : 1;
    }
}

/* Visits every position of an access, row-major; at[] starts as zeros. */
static bool next_position(const md_eval_access *a, int64_t *at)
{
    for (int32_t i = a->rank - 1; i >= 0; i--) {
        if (++at[i] < a->size[i])
            return true;
        at[i] = 0;
    }
    return false;
}

static void copy_in(const md_eval_access *from, const md_eval_access *to)
{
    int64_t at[MD_MAX_RANK] = {0}, n = 0;
    do {
        int64_t offset = md_eval_offset(from, at);
        if (to->dtype == MD_F64)
            ((double *)to->base)[n++] = md_dtype_load(from->dtype, from->base, offset);
        else
            ((int64_t *)to->base)[n++] = md_dtype_load_int(from->dtype, from->base, offset);
    } while (next_position(from, at));
}

static md_status stage(evaluation *e, int32_t tensor, bool is_output)
{
    md_eval_access *a = &e->m.tensor[tensor], original = *a;
    staged *s = &e->array[tensor];
    if (!count_elements(&s->n, a))
        return md_fail(MD_OUT_OF_MEMORY, "'%s' has too many elements", e->m.formula->tensor[tensor].name);
    s->is_used = true;
    s->is_output = is_output;
    s->values = malloc((size_t)MD_MAX(s->n, 1) * sizeof(double));
    s->touched = is_output ? calloc((size_t)MD_MAX(s->n, 1), 1) : NULL;
    if (!s->values || (is_output && !s->touched))
        return md_fail_memory();
    a->base = s->values;
    a->dtype = md_dtype_is_real(original.dtype) ? MD_F64 : MD_I64;
    make_contiguous(a);
    if (is_output && s->n > 0)
        copy_in(&original, a);
    return MD_OK;
}

/* Puts a staged output into place: only what was written. */
static void put(evaluation *e, int32_t tensor)
{
    const md_tensor *to = &e->m.binding->tensor[tensor];
    const md_eval_access *from = &e->m.tensor[tensor];
    md_eval_access place = *from;
    memcpy(place.stride, to->stride, sizeof(place.stride));
    int64_t at[MD_MAX_RANK] = {0}, n = 0;
    if (e->array[tensor].n == 0)
        return;
    do {
        if (e->array[tensor].touched[n]) {
            int64_t offset = md_eval_offset(&place, at);
            if (from->dtype == MD_F64)
                md_dtype_store(to->dtype, to->data, offset, ((const double *)from->base)[n]);
            else
                md_dtype_store_int(to->dtype, to->data, offset, ((const int64_t *)from->base)[n]);
        }
        n++;
    } while (next_position(from, at));
}

/* ---- which outputs need an array ---- */

typedef struct span {
    uintptr_t first, end; /* the bytes it spans; both are equal if it is empty */
} span;

static span span_of(const md_tensor *t)
{
    uintptr_t last = 0;
    for (int32_t i = 0; i < t->rank; i++) {
        if (t->size[i] == 0)
            return (span){0, 0};
        last += (uintptr_t)(t->size[i] - 1) * (uintptr_t)t->stride[i];
    }
    uintptr_t first = (uintptr_t)t->data;
    return (span){first, first + (uintptr_t)md_dtype_span(t->dtype, (int64_t)last + 1)};
}

static bool overlaps_other(const md_fx_formula *f, const md_fx_binding *b, int32_t tensor)
{
    span mine = span_of(&b->tensor[tensor]);
    for (int32_t t = 0; t < f->n_tensors; t++) {
        if (t == tensor || f->tensor[t].role == MD_FX_TEMP)
            continue;
        span other = span_of(&b->tensor[t]);
        if (mine.first < other.end && other.first < mine.end)
            return true;
    }
    return false;
}

static md_status stage_all(evaluation *e)
{
    const md_fx_formula *f = e->m.formula;
    for (int32_t t = 0; t < f->n_tensors; t++) {
        const md_fx_tensor *tensor = &f->tensor[t];
        if (tensor->role == MD_FX_TEMP)
            MD_TRY(stage(e, t, false));
        else if (tensor->role == MD_FX_OUTPUT && (tensor->is_updated || overlaps_other(f, e->m.binding, t)))
            MD_TRY(stage(e, t, true));
    }
    return MD_OK;
}

/* ---- statements ---- */

typedef struct statement {
    const md_fx_stmt *stmt;
    const md_fx_tensor *tensor;
    const md_eval_code *value;
    const md_eval_code *subscript[MD_MAX_RANK]; /* NULL where plain */
    staged *array;
    md_eval_access *access;
    bool is_rounded; /* each element is rounded when it is stored; false where more may still be added to it */
} statement;

static double add_real(md_fx_assign assign, double old, double x)
{
    switch (assign) {
    case MD_FX_ADD_TO:
        return old + x;
    case MD_FX_MUL_TO:
        return old * x;
    default:
        return assign == MD_FX_MAX_TO ? md_scalar_max(old, x) : md_scalar_min(old, x);
    }
}

static int64_t add_int(md_fx_assign assign, int64_t old, int64_t x)
{
    if (assign == MD_FX_ADD_TO)
        return (int64_t)((uint64_t)old + (uint64_t)x);
    if (assign == MD_FX_MUL_TO)
        return (int64_t)((uint64_t)old * (uint64_t)x);
    return (assign == MD_FX_MAX_TO) == (old > x) ? old : x;
}

static int64_t to_int(md_dtype type, double x)
{
    int64_t cell = 0;
    md_dtype_store(type, &cell, 0, x);
    return md_dtype_load_int(type, &cell, 0);
}

static void write_real(const statement *s, int64_t offset, double x)
{
    if (s->stmt->assign != MD_FX_SET)
        x = add_real(s->stmt->assign, md_dtype_load(s->access->dtype, s->access->base, offset), x);
    else if (s->is_rounded)
        x = md_dtype_round(s->tensor->dtype, x);
    md_dtype_store(s->access->dtype, s->access->base, offset, x);
}

static void write_int(const statement *s, int64_t offset, int64_t x)
{
    int64_t cell = 0;
    if (s->stmt->assign != MD_FX_SET) {
        const bool compares = s->stmt->assign == MD_FX_MAX_TO || s->stmt->assign == MD_FX_MIN_TO;
        /* with the highest bit inverted, i64 orders u64 values */
        int64_t sign = s->tensor->dtype == MD_U64 && compares ? INT64_MIN : 0;
        int64_t old = md_dtype_load_int(s->access->dtype, s->access->base, offset);
        x = add_int(s->stmt->assign, old ^ sign, x ^ sign) ^ sign;
    } else if (s->is_rounded) {
        md_dtype_store_int(s->tensor->dtype, &cell, 0, x);
        x = md_dtype_load_int(s->tensor->dtype, &cell, 0);
    }
    md_dtype_store_int(s->access->dtype, s->access->base, offset, x);
}

static void run_element(md_eval_machine *m, const statement *s)
{
    int64_t at[MD_MAX_RANK];
    for (int32_t i = 0; i < s->tensor->rank; i++) {
        const md_eval_code *c = s->subscript[i];
        at[i] = c ? md_eval_int(m, c) : m->at[s->stmt->subscript[i]->id];
    }
    if (!md_eval_locate(m, s->stmt->tensor, at))
        return;
    int64_t offset = md_eval_offset(s->access, at);
    bool to_real = md_dtype_is_real(s->tensor->dtype);
    if (s->value->real) {
        double x = md_eval_real(m, s->value);
        if (to_real)
            write_real(s, offset, x);
        else
            write_int(s, offset, to_int(s->tensor->dtype, x));
    } else {
        int64_t x = md_eval_int(m, s->value);
        if (to_real)
            write_real(s, offset, (double)x);
        else
            write_int(s, offset, x);
    }
    if (s->array->touched)
        s->array->touched[offset] = 1;
}

static void run_loop(md_eval_machine *m, const statement *s)
{
    const md_fx_formula *f = m->formula;
    int64_t size[MD_MAX_RANK * 2];
    for (int32_t i = 0; i < s->stmt->n_free; i++) {
        size[i] = m->binding->size[f->index[s->stmt->free[i]].dim];
        m->at[s->stmt->free[i]] = 0;
        if (size[i] == 0)
            return;
    }
    for (;;) {
        run_element(m, s);
        if (md_eval_is_over(m))
            return;
        int32_t i = s->stmt->n_free - 1;
        for (; i >= 0; i--) {
            if (++m->at[s->stmt->free[i]] < size[i])
                break;
            m->at[s->stmt->free[i]] = 0;
        }
        if (i < 0)
            return;
    }
}

/* Sums into one element are rounded once, when all terms are in. */
static void round_sums(const statement *s)
{
    for (int64_t i = 0; i < s->array->n; i++) {
        if (!s->array->touched[i])
            continue;
        if (s->access->dtype == MD_F64) {
            double *x = (double *)s->access->base + i;
            *x = md_dtype_round(s->tensor->dtype, *x);
        } else {
            int64_t *x = (int64_t *)s->access->base + i, cell = 0;
            md_dtype_store_int(s->tensor->dtype, &cell, 0, *x);
            *x = md_dtype_load_int(s->tensor->dtype, &cell, 0);
        }
    }
}

static md_status run_statement(evaluation *e, int32_t index)
{
    md_eval_machine *m = &e->m;
    const md_fx_stmt *stmt = &m->formula->stmt[index];
    statement s = {.stmt = stmt, .tensor = &m->formula->tensor[stmt->tensor], .array = &e->array[stmt->tensor]};
    s.access = &m->tensor[stmt->tensor];
    s.is_rounded = s.tensor->role != MD_FX_TEMP || s.tensor->is_declared;
    m->walked = stmt;
    MD_TRY(md_eval_statement(&s.value, m, index));
    for (int32_t i = 0; i < s.tensor->rank; i++) {
        if (stmt->subscript[i]->kind == MD_FX_INDEX)
            continue;
        s.subscript[i] = md_eval_compile(m, stmt->subscript[i]);
        if (!s.subscript[i])
            return m->status != MD_OK ? m->status : md_fail_memory();
    }
    int64_t n = 0;
    if (count_elements(&n, s.access) && n == 0)
        return m->status; /* an empty output runs nothing: no index into it is outside */
    run_loop(m, &s);
    if (stmt->assign != MD_FX_SET && s.array->touched)
        round_sums(&s);
    return m->status;
}

static md_status run_all(evaluation *e)
{
    MD_TRY(stage_all(e));
    for (int32_t i = 0; i < e->m.formula->n_stmts; i++)
        MD_TRY(run_statement(e, i));
    for (int32_t t = 0; t < e->m.formula->n_tensors; t++)
        if (e->array[t].is_output)
            put(e, t);
    return MD_OK;
}

md_status md_fx_evaluate(const md_fx_formula *formula, md_fx_binding *binding, md_fx_fault *fault)
{
    md_fx_fault ignored = {0};
    evaluation *e = calloc(1, sizeof *e);
    if (!e)
        return md_fail_memory();
    md_status status = md_eval_machine_init(&e->m, formula, binding, fault ? fault : &ignored);
    if (status == MD_OK)
        status = run_all(e);
    for (int32_t t = 0; t < formula->n_tensors; t++) {
        free(e->array[t].values);
        free(e->array[t].touched);
    }
    md_eval_machine_finish(&e->m);
    free(e);
    return status;
}
