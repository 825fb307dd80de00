/* The life of a formula over lists. */
#include "api/context.h"
#include "base/status.h"
#include "base/task/fork.h"
#include "expr/catalogue.h"
#include "list/list.h"

#include <stdlib.h>

static md_status check_options(const md_op_options *o)
{
    const char *bad = o->sizes      ? "sizes"
                      : o->hints    ? "hints"
                      : o->weights  ? "weights"
                      : o->pin      ? "pin"
                      : o->n_custom ? "custom"
                      : o->name     ? "name"
                                    : NULL;
    return bad ? md_fail(MD_INVALID_ARGUMENT, "option %s: not for formulas over lists, which become several ops", bad)
               : MD_OK;
}

md_status md_li_make(md_list *list, md_li_op *op, const char *text, md_numeric numeric)
{
    md_op_options o = list->options;
    md_arg_info info;
    if (op->op)
        return MD_OK;
    o.numeric = numeric;
    MD_TRY(md_op_create(&op->op, list->context, text, &o));
    op->n_args = md_op_n_args(op->op);
    for (int32_t i = 0; i < op->n_args; i++) {
        MD_TRY(md_op_arg(&info, op->op, i));
        op->arg[i] = md_fx_list_find(list->formula, info.name);
        if (!op->arg[i])
            return md_fail(MD_INTERNAL, "a step has an argument '%s' that nobody knows", info.name);
    }
    return MD_OK;
}

static md_status make_ops(md_list *list)
{
    const md_fx_list *formula = list->formula;
    list->step = calloc((size_t)formula->n_steps + 2 * (size_t)formula->n_reductions + 1, sizeof *list->step);
    if (!list->step)
        return md_fail_memory();
    list->flat = list->step + formula->n_steps;
    list->whole = list->flat + formula->n_reductions;
    for (int32_t i = 0; i < formula->n_steps; i++)
        if (formula->step[i].kind != MD_FX_STEP_REDUCE)
            MD_TRY(md_li_make(list, &list->step[i], formula->step[i].text,
                              formula->step[i].kind == MD_FX_STEP_ITEMS ? list->options.numeric : list->numeric));
    const bool makes_all = md_bd_is_recording(list->context->builder); /* a bundle serves items of any kind */
    for (int32_t i = 0; i < formula->n_reductions; i++) {
        if (formula->reduction[i].flat)
            MD_TRY(md_li_make(list, &list->flat[i], formula->reduction[i].flat, list->numeric));
        if (!formula->reduction[i].flat || makes_all)
            MD_TRY(md_li_make(list, &list->whole[i], formula->reduction[i].whole, list->numeric));
    }
    return MD_OK;
}

md_status md_list_create(md_list **out, md_context *context, const char *formula, const md_op_options *options)
{
    static const md_op_options none = {0};
    const md_op_options *o = options ? options : &none;
    if (!out || !context || !formula)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", !out ? "out" : !context ? "context" : "formula");
    MD_TRY(check_options(o));
    md_list *list = calloc(1, sizeof *list);
    if (!list)
        return md_fail_memory();
    list->context = context;
    list->options = *o;
    list->numeric = o->numeric ? o->numeric : MD_NUMERIC_BATCH_INVARIANT;
    md_mutex_init(&list->lock);
    const md_fx_options fx = {.dtype = o->dtype, .bounds = o->bounds};
    const char *text, *name;
    md_status s = md_api_find_formula(&text, &name, formula);
    if (s == MD_OK)
        s = md_fx_list_create(&list->formula, text, &fx);
    if (s == MD_OK)
        s = make_ops(list);
    if (s == MD_OK)
        *out = list;
    else
        md_list_destroy(&list);
    return s;
}

static void free_memory(const md_list *list, md_li_memory *m)
{
    while (m) {
        md_li_memory *next = m->next;
        md_free(list->context, m->p);
        free(m);
        m = next;
    }
}

void md_list_destroy(md_list **list)
{
    if (!list || !*list)
        return;
    md_list *l = *list;
    const int32_t n_ops = l->step ? l->formula->n_steps + 2 * l->formula->n_reductions : 0;
    for (int32_t i = 0; i < n_ops; i++)
        md_op_destroy(&l->step[i].op);
    free(l->step);
    free_memory(l, l->memory);
    free_memory(l, l->retired);
    md_fx_list_destroy(&l->formula);
    md_mutex_finish(&l->lock);
    free(l);
    *list = NULL;
}

void md_list_catalogue(int32_t i, const char **name, const char **formula, const char **description)
{
    const md_catalogue_entry *e = md_catalogue_list_at(i);
    if (name)
        *name = e ? e->name : NULL;
    if (formula)
        *formula = e ? e->formula : NULL;
    if (description)
        *description = e ? e->description : NULL;
}

int32_t md_list_n_args(const md_list *list)
{
    return list ? list->formula->n_args : 0;
}

md_status md_list_arg(md_list_info *out, const md_list *list, int32_t i)
{
    if (!out || !list || i < 0 || i >= list->formula->n_args)
        return md_fail(MD_INVALID_ARGUMENT, "argument %d is out of range: the formula has %d", (int)i,
                       (int)md_list_n_args(list));
    const md_fx_list_arg *a = &list->formula->arg[i];
    *out = (md_list_info){.name = a->name,
                          .is_scalar = a->is_scalar,
                          .is_list = a->is_list,
                          .is_input = a->is_scalar || a->is_read,
                          .is_output = a->is_written,
                          .dtype = a->dtype,
                          .rank = a->rank};
    return MD_OK;
}
