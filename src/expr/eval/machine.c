/* The machine's life, and single elements. */
#include "expr/eval/code.h"

md_status md_eval_machine_init(md_eval_machine *m, const md_fx_formula *formula, const md_fx_binding *binding,
                               md_fx_fault *fault)
{
    *m = (md_eval_machine){.formula = formula, .binding = binding, .fault = fault};
    m->arena = md_arena_create();
    if (m->arena == NULL)
        return md_fail_memory();
    for (int32_t t = 0; t < formula->n_tensors; t++) {
        const md_fx_tensor *tensor = &formula->tensor[t];
        md_eval_access *a = &m->tensor[t];
        a->rank = tensor->rank;
        a->dtype = tensor->dtype;
        if (tensor->role != MD_FX_TEMP)
            a->base = binding->tensor[t].data;
        for (int32_t i = 0; i < tensor->rank; i++) {
            bool is_bound = tensor->role != MD_FX_TEMP;
            a->size[i] = is_bound ? binding->tensor[t].size[i] : binding->size[tensor->dim[i]];
            a->stride[i] = is_bound ? binding->tensor[t].stride[i] : 0;
        }
    }
    return MD_OK;
}

void md_eval_machine_finish(md_eval_machine *m)
{
    md_memo_finish(&m->compiled);
    md_memo_finish(&m->seen);
    md_arena_destroy(&m->arena);
}

md_status md_eval_statement(const md_eval_code **out, md_eval_machine *m, int32_t stmt)
{
    if (m->value[stmt] == NULL) {
        const md_fx_node *node = m->formula->stmt[stmt].value;
        if (md_eval_note_shared(m, node))
            m->value[stmt] = md_eval_compile(m, node);
    }
    *out = m->value[stmt];
    if (*out == NULL && m->status == MD_OK)
        m->status = md_fail_memory();
    return m->status;
}

/* Whether each element of the tensor is written exactly once, at the position that its index names. */
static bool is_pure(const md_fx_formula *f, int32_t tensor)
{
    const md_fx_tensor *t = &f->tensor[tensor];
    if (t->role == MD_FX_INPUT || t->is_updated)
        return false;
    const md_fx_stmt *s = &f->stmt[t->stmt];
    bool pure = s->assign == MD_FX_SET;
    for (int32_t i = 0; i < t->rank && pure; i++)
        pure = s->subscript[i]->kind == MD_FX_INDEX;
    return pure;
}

md_status md_eval_check_lazy(md_eval_machine *m, int32_t tensor)
{
    if (!m->is_lazy[tensor] || is_pure(m->formula, tensor))
        return MD_OK;
    m->status = md_fail(MD_UNSUPPORTED, "'%s' cannot be evaluated element by element: it is updated or scattered to",
                        m->formula->tensor[tensor].name);
    return m->status;
}

static md_status check_element(md_eval_machine *m, int32_t tensor, const int64_t *at)
{
    const md_fx_tensor *t = &m->formula->tensor[tensor];
    if (t->role == MD_FX_INPUT)
        return md_fail(MD_INVALID_ARGUMENT, "'%s' is an input: nothing to evaluate", t->name);
    MD_TRY(md_eval_check_lazy(m, tensor));
    for (int32_t i = 0; i < t->rank; i++)
        if (at[i] < 0 || at[i] >= m->binding->size[t->dim[i]])
            return md_fail(MD_INVALID_ARGUMENT, "'%s' has no element at %lld of axis %d: size %lld", t->name,
                           (long long)at[i], i, (long long)m->binding->size[t->dim[i]]);
    return MD_OK;
}

/* Runs the statement of the tensor for one element. */
static md_status evaluate_element(double *real, int64_t *whole, md_eval_machine *m, int32_t tensor, const int64_t *at)
{
    const md_fx_formula *f = m->formula;
    const md_fx_stmt *s = &f->stmt[f->tensor[tensor].stmt];
    md_dtype int_type = md_dtype_is_real(f->tensor[tensor].dtype) ? MD_I64 : f->tensor[tensor].dtype;
    const md_eval_code *value = NULL;
    int64_t cell = 0;
    MD_TRY(md_eval_statement(&value, m, f->tensor[tensor].stmt));
    for (int32_t i = 0; i < f->tensor[tensor].rank; i++)
        m->at[s->subscript[i]->id] = at[i];
    if (value->real != NULL) {
        double x = md_eval_real(m, value);
        md_dtype_store(int_type, &cell, 0, x);
        *real = x;
    } else {
        int64_t x = md_eval_int(m, value);
        md_dtype_store_int(int_type, &cell, 0, x);
        *real = (double)x;
    }
    *whole = md_dtype_load_int(int_type, &cell, 0);
    return m->status;
}

static md_status element(double *real, int64_t *whole, const md_fx_formula *formula, const md_fx_binding *binding,
                         int32_t tensor, const int64_t *at)
{
    md_fx_fault fault = {0};
    md_eval_machine m;
    double r = 0.0;
    int64_t w = 0;
    MD_TRY(md_eval_machine_init(&m, formula, binding, &fault));
    for (int32_t t = 0; t < formula->n_tensors; t++)
        m.is_lazy[t] = formula->tensor[t].role != MD_FX_INPUT;
    md_status status = check_element(&m, tensor, at);
    if (status == MD_OK)
        status = evaluate_element(&r, &w, &m, tensor, at);
    md_eval_machine_finish(&m);
    if (status == MD_OK) {
        *real = r;
        *whole = w;
    }
    return status;
}

md_status md_fx_evaluate_at(double *value, const md_fx_formula *formula, const md_fx_binding *binding, int32_t tensor,
                            const int64_t *at)
{
    int64_t whole;
    return element(value, &whole, formula, binding, tensor, at);
}

md_status md_fx_evaluate_int_at(int64_t *value, const md_fx_formula *formula, const md_fx_binding *binding,
                                int32_t tensor, const int64_t *at)
{
    double real;
    return element(&real, value, formula, binding, tensor, at);
}
