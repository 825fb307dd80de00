/* The evaluator's machine: its life, and which tensors it can compute on demand. */
#include "expr/eval/code.h"

md_status md_eval_machine_init(md_eval_machine *m, const md_fx_formula *formula, const md_fx_binding *binding,
                               md_fx_fault *fault)
{
    *m = (md_eval_machine){.formula = formula, .binding = binding, .fault = fault};
    m->arena = md_arena_create();
    if (!m->arena)
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

/* True if each element of the tensor is written exactly once, at the position that its index names. */
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
