/* Single elements of outputs and temps, computed on demand. */
#include "expr/eval/code.h"

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
    if (value->real) {
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
