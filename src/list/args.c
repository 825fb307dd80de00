/* The arguments of a call: checks, items as rows of equal length, where partial results lie. */
#include "base/status.h"
#include "expr/needed.h"
#include "list/list.h"

enum { VALUE_BYTES = 64, ALIGNMENT = 256 };

/* ---- Checks */

static md_status check_tensor(const md_fx_list_arg *arg, const md_tensor *t, int64_t item)
{
    char place[32] = "";
    if (arg->is_list)
        (void)snprintf(place, sizeof place, ", item %lld", (long long)item);
    if (t->rank != arg->rank)
        return md_fail(MD_INVALID_ARGUMENT, "argument %s%s: rank %d, but the formula has %d", arg->name, place,
                       (int)t->rank, (int)arg->rank);
    if (t->dtype != arg->dtype)
        return md_fail(MD_INVALID_ARGUMENT, "argument %s%s: dtype %s, but the formula has %s", arg->name, place,
                       md_dtype_name(t->dtype), md_dtype_name(arg->dtype));
    for (int32_t i = 0; i < t->rank; i++)
        if (t->size[i] < 0)
            return md_fail(MD_INVALID_ARGUMENT, "argument %s%s: size[%d] is %lld", arg->name, place, (int)i,
                           (long long)t->size[i]);
    return MD_OK;
}

static md_status check_list(md_li_call *call, const md_fx_list_arg *arg, const md_arg *given, const char **first)
{
    const int64_t n = given->integer;
    if (given->kind != MD_ARG_LIST || n < 0 || (n > 0 && !given->tensor))
        return md_fail(MD_INVALID_ARGUMENT, "argument %s is a list: it takes md_ts(tensors, n)", arg->name);
    if (n > MD_COMBO_MAX_ITEMS)
        return md_fail(MD_INVALID_ARGUMENT, "argument %s: %lld items; %lld are possible", arg->name, (long long)n,
                       (long long)MD_COMBO_MAX_ITEMS);
    if (*first && n != call->n_items)
        return md_fail(MD_INVALID_ARGUMENT, "argument %s has %lld items, but %s has %lld", arg->name, (long long)n,
                       *first, (long long)call->n_items);
    *first = arg->name;
    call->n_items = n;
    for (int64_t i = 0; i < n; i++)
        MD_TRY(check_tensor(arg, &given->tensor[i], i));
    return MD_OK;
}

md_status md_li_check(md_li_call *call, int32_t n_args)
{
    const md_fx_list *list = call->list->formula;
    const char *first = NULL;
    if (n_args != list->n_args || !call->args)
        return md_fail(MD_INVALID_ARGUMENT, "%d arguments; the formula has %d", call->args ? (int)n_args : 0,
                       (int)list->n_args);
    for (int32_t i = 0; i < n_args; i++) {
        const md_fx_list_arg *arg = &list->arg[i];
        const md_arg *given = &call->args[i];
        if (arg->is_list) {
            MD_TRY(check_list(call, arg, given, &first));
        } else if (arg->is_scalar) {
            if (given->kind != MD_ARG_INT && (given->kind != MD_ARG_REAL || arg->dtype == MD_I64))
                return md_fail(MD_INVALID_ARGUMENT, "argument %s is a scalar: it takes %s", arg->name,
                               arg->dtype == MD_I64 ? "md_i" : "md_s or md_i");
        } else if (given->kind != MD_ARG_TENSOR || !given->tensor) {
            return md_fail(MD_INVALID_ARGUMENT, "argument %s is one tensor for all items: it takes md_t", arg->name);
        } else {
            MD_TRY(check_tensor(arg, given->tensor, 0));
        }
    }
    return MD_OK;
}

/* ---- Items as rows */

static bool is_same_row(const md_tensor *a, const md_tensor *b, int64_t *n)
{
    *n = 1;
    for (int32_t i = a->rank; i-- > 0;) {
        if (a->size[i] != b->size[i] || (a->size[i] != 1 && b->stride[i] != *n))
            return false;
        *n *= a->size[i];
    }
    return true;
}

static bool is_empty(const md_tensor *t)
{
    for (int32_t i = 0; i < t->rank; i++)
        if (t->size[i] == 0)
            return true;
    return false;
}

/* Of no items there is a sum, but no largest element. */
static bool needs_one(const md_li_call *call, int32_t reduction)
{
    return call->list->formula->reduction[reduction].op[0] == 'm';
}

/* Tensors of the caller that an op reads from each item. */
static bool is_item(const md_li_call *call, const md_fx_list_name *name)
{
    return name->kind == MD_FX_NAME_ARG && call->list->formula->arg[name->id].is_list;
}

bool md_li_is_flat(const md_li_call *call, int32_t reduction, int64_t item, int64_t *n)
{
    const md_li_op *op = &call->list->flat[reduction];
    const md_tensor *like = NULL;
    bool is = op->op != NULL;
    for (int32_t i = 0; i < op->n_args && is; i++) {
        if (!is_item(call, op->arg[i]))
            continue;
        const md_tensor *t = &call->args[op->arg[i]->id].tensor[item];
        like = like ? like : t;
        is = t->rank == like->rank;
        for (int32_t k = 0; k < t->rank && is; k++)
            is = t->size[k] == like->size[k];
        if (is && is_empty(t))
            *n = 0;
        else
            is = is && is_same_row(like, t, n);
    }
    return is;
}

/* An item without elements has no largest one, and is left out. One whose value is a sum of nothing takes part. */
static bool has_value(const md_li_call *call, const md_li_op *op, int64_t item)
{
    const md_fx_formula *f = op->op->ds->formula;
    int64_t size[MD_FX_MAX_DIMS];
    md_tensor room;
    for (int32_t d = 0; d < f->n_dims; d++)
        size[d] = f->dim[d].size;
    for (int32_t i = 0; i < op->n_args; i++) {
        const md_fx_arg *arg = &f->args[i];
        if (arg->is_scalar || op->arg[i]->kind != MD_FX_NAME_ARG)
            continue;
        (void)md_li_arg(call, op->arg[i], item, &room);
        const md_tensor *t = is_item(call, op->arg[i]) ? &room : call->args[op->arg[i]->id].tensor;
        for (int32_t a = 0; a < t->rank && a < f->tensor[arg->id].rank; a++)
            size[f->tensor[arg->id].dim[a]] = t->size[a];
    }
    return md_fx_check_needed(f, size) == MD_OK;
}

int64_t md_li_count(const md_li_call *call, int32_t reduction, int64_t item)
{
    int64_t n;
    if (md_li_is_flat(call, reduction, item, &n))
        return (n + MD_FX_LIST_TILE - 1) / MD_FX_LIST_TILE;
    const md_li_op *op = &call->list->whole[reduction];
    bool has_empty = false;
    for (int32_t i = 0; i < op->n_args; i++)
        has_empty |= is_item(call, op->arg[i]) && is_empty(&call->args[op->arg[i]->id].tensor[item]);
    return !has_empty || !needs_one(call, reduction) || has_value(call, op, item);
}

/* True if the formula has anything to compute: an element of an item, or a number. */
static bool has_results(const md_li_call *call)
{
    const md_fx_list *list = call->list->formula;
    for (int32_t i = 0; i < list->n_args; i++) {
        const md_arg *given = &call->args[i];
        if (list->arg[i].is_written && !list->arg[i].is_list && !is_empty(given->tensor))
            return true;
        for (int64_t k = 0; list->arg[i].is_written && list->arg[i].is_list && k < call->n_items; k++)
            if (!is_empty(&given->tensor[k]))
                return true;
    }
    return false;
}

md_status md_li_lay_out(md_li_call *call, size_t *n_bytes)
{
    const md_fx_list *list = call->list->formula;
    size_t at = (size_t)list->n_values * VALUE_BYTES;
    for (int32_t r = 0; r < list->n_reductions; r++) {
        int64_t n = 0, unused;
        for (int64_t i = 0; i < call->n_items; i++) {
            if (!md_li_is_flat(call, r, i, &unused))
                MD_TRY(md_li_make(call->list, &call->list->whole[r], list->reduction[r].whole, call->list->numeric));
            n += md_li_count(call, r, i);
        }
        call->is_done |= n == 0 && needs_one(call, r) && !has_results(call);
        if (n == 0 && needs_one(call, r) && !call->is_done)
            return md_fail(MD_INVALID_ARGUMENT, "all items are empty, but the %s of no elements has no value",
                           list->reduction[r].op);
        at = (at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        call->partials[r] = at;
        call->n_partials[r] = n;
        at += (size_t)n * md_dtype_size(list->reduction[r].dtype);
    }
    *n_bytes = at + ALIGNMENT;
    return MD_OK;
}

/* ---- Arguments of ops */

md_arg md_li_arg(const md_li_call *call, const md_fx_list_name *name, int64_t item, md_tensor *room)
{
    if (name->kind == MD_FX_NAME_ARG) {
        const md_arg *given = &call->args[name->id];
        if (given->kind != MD_ARG_LIST)
            return *given;
        *room = given->tensor[item];
    } else if (name->kind == MD_FX_NAME_VALUE) {
        *room = (md_tensor){.data = call->memory + (size_t)name->id * VALUE_BYTES, .dtype = name->dtype};
    } else {
        *room = (md_tensor){.data = call->memory + call->partials[name->id],
                            .dtype = name->dtype,
                            .rank = 1,
                            .size = {call->n_partials[name->id]},
                            .stride = {1}};
    }
    return md_t(room);
}
