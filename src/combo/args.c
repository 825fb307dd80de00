/* The items of a combo: from a caller's arguments to plain words, and back. */
#include "base/dtype.h"
#include "base/status.h"
#include "combo/combo.h"
#include "dispatch/bind/bind.h"
#include "dispatch/merged.h"

#include <stdlib.h>
#include <string.h>

/* ---- Taking */

static void list_operands(md_cb_part *p)
{
    const md_fx_formula *f = p->op->formula;
    for (int32_t i = 0; i < f->n_args; i++) {
        const int32_t id = f->args[i].id;
        if (f->args[i].is_scalar) {
            p->scalar_arg[p->n_scalars++] = i;
            continue;
        }
        const md_fx_tensor *t = &f->tensor[id];
        p->operand[p->n_operands++] = (md_cb_operand){i, id, t->rank, p->n_words, t->dtype, t->role == MD_FX_OUTPUT};
        p->n_words += 2 * t->rank;
    }
}

/* Room for at least one item, so that NULL means that memory is short. */
static void *room(int64_t n_items, int64_t n, size_t size)
{
    return calloc((size_t)MD_MAX(n_items * n, 1), size);
}

static md_status make_room(md_cb_part *p)
{
    p->layout = room(p->n_items, p->n_words, sizeof *p->layout);
    p->data = room(p->n_items, p->n_operands, sizeof *p->data);
    p->scalar = room(p->n_items, p->n_scalars, sizeof *p->scalar);
    p->planned = room(p->n_items, p->n_operands, sizeof *p->planned);
    p->is_empty = room(p->n_items, 1, sizeof *p->is_empty);
    return p->layout && p->data && p->planned && p->scalar && p->is_empty ? MD_OK : md_fail_memory();
}

void md_cb_part_finish(md_cb_part *part)
{
    free(part->layout);
    free(part->data);
    free(part->planned);
    free(part->scalar);
    free(part->is_empty);
}

static md_kn_word scalar_word(const md_ds_op *op, int32_t arg, const md_fx_binding *b)
{
    const int32_t id = op->formula->args[arg].id;
    return op->formula->scalar[id].type == MD_I64 ? (md_kn_word){.i = b->integer[id]} : (md_kn_word){.d = b->real[id]};
}

static void keep_item(md_cb_part *p, int64_t item, const md_arg *args, const md_ds_bound *bound)
{
    int64_t *layout = p->layout + item * p->n_words;
    for (int32_t s = 0; s < p->n_operands; s++) {
        const md_cb_operand *operand = &p->operand[s];
        const md_tensor *t = args[operand->arg].tensor;
        memcpy(layout + operand->at, t->size, (size_t)operand->rank * sizeof *layout);
        memcpy(layout + operand->at + operand->rank, t->stride, (size_t)operand->rank * sizeof *layout);
        p->data[item * p->n_operands + s] = t->data;
    }
    for (int32_t s = 0; s < p->n_scalars; s++)
        p->scalar[item * p->n_scalars + s] = scalar_word(p->op, p->scalar_arg[s], &bound->binding);
    p->is_empty[item] = bound->is_empty;
}

static md_status take_part(md_cb_part *p, int32_t number, const md_combo_part *from)
{
    list_operands(p);
    MD_TRY(make_room(p));
    for (int64_t i = 0; i < p->n_items; i++) {
        md_ds_bound bound;
        const md_arg *args = from->args + i * from->n_args;
        const md_status s = md_ds_bind(&bound, p->op, args, from->n_args);
        if (s != MD_OK)
            return md_fail_more(s, " (part %d, item %lld)", (int)number, (long long)i);
        keep_item(p, i, args, &bound);
    }
    return MD_OK;
}

static md_status check_counts(const md_combo_part *part, const md_ds_op *op, int64_t n_before)
{
    if (part->n_items < 0)
        return md_fail(MD_INVALID_ARGUMENT, "n_items is %lld", (long long)part->n_items);
    if (part->n_items > MD_COMBO_MAX_ITEMS - n_before)
        return md_fail(MD_INVALID_ARGUMENT, "a combo has at most %lld items, not %lld", (long long)MD_COMBO_MAX_ITEMS,
                       (long long)(n_before + part->n_items));
    if (part->n_args != op->formula->n_args)
        return md_fail(MD_INVALID_ARGUMENT, "an item has %d arguments, but op %s takes %d", (int)part->n_args, op->name,
                       (int)op->formula->n_args);
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        if (md_dtype_is_packed(op->formula->tensor[t].dtype))
            return md_fail(MD_UNSUPPORTED, "op %s: combos have no packed tensors (%s)", op->name,
                           md_dtype_name(op->formula->tensor[t].dtype));
    return part->n_items == 0 || part->n_args == 0 || part->args ? MD_OK : md_fail(MD_INVALID_ARGUMENT, "args is NULL");
}

md_status md_cb_check_counts(const md_combo_part *parts, md_ds_op *const *op, int32_t n)
{
    int64_t n_items = 0;
    for (int32_t i = 0; i < n; i++) {
        const md_status status = check_counts(&parts[i], op[i], n_items);
        if (status != MD_OK)
            return md_fail_more(status, " (part %d)", (int)i);
        n_items += parts[i].n_items;
    }
    return MD_OK;
}

md_status md_cb_take(md_cb *cb, const md_combo_part *parts, md_ds_op *const *op)
{
    for (int32_t i = 0; i < cb->n_parts; i++) {
        cb->part[i].op = op[i];
        cb->part[i].n_items = parts[i].n_items;
        cb->part[i].first = cb->n_items;
        cb->n_items += parts[i].n_items;
    }
    for (int32_t i = 0; i < cb->n_parts; i++)
        MD_TRY(take_part(&cb->part[i], i, &parts[i]));
    return MD_OK;
}

/* ---- Giving back */

md_tensor md_cb_tensor(const md_cb_part *part, const md_cb_operand *operand, int64_t item)
{
    const int64_t *layout = part->layout + item * part->n_words + operand->at;
    md_tensor t = {.data = part->data[item * part->n_operands + (operand - part->operand)],
                   .dtype = operand->dtype,
                   .rank = operand->rank};
    memcpy(t.size, layout, (size_t)operand->rank * sizeof *layout);
    memcpy(t.stride, layout + operand->rank, (size_t)operand->rank * sizeof *layout);
    return t;
}

void md_cb_args_of(md_arg args[MD_FX_MAX_ARGS], md_tensor tensor[MD_FX_MAX_ARGS], const md_cb_part *part, int64_t item)
{
    const md_fx_formula *f = part->op->formula;
    for (int32_t s = 0; s < part->n_operands; s++) {
        tensor[s] = md_cb_tensor(part, &part->operand[s], item);
        args[part->operand[s].arg] = md_t(&tensor[s]);
    }
    for (int32_t s = 0; s < part->n_scalars; s++) {
        const md_kn_word word = part->scalar[item * part->n_scalars + s];
        const int32_t arg = part->scalar_arg[s];
        args[arg] = f->scalar[f->args[arg].id].type == MD_I64 ? md_i(word.i) : md_s(word.d);
    }
}

md_status md_cb_bind_item(md_ds_op **op, md_ds_bound *bound, const md_cb_part *part, int64_t item)
{
    md_arg args[MD_FX_MAX_ARGS];
    md_tensor tensor[MD_FX_MAX_ARGS];
    md_ds_merged_args joined;
    const int32_t n = part->op->formula->n_args;
    md_cb_args_of(args, tensor, part, item);
    *op = md_ds_merged_of(part->op);
    if (*op && md_ds_merged_take(&joined, part->op, args, n) && md_ds_bind(bound, *op, joined.arg, n) == MD_OK)
        return MD_OK;
    *op = part->op;
    return md_ds_bind(bound, *op, args, n);
}

/* ---- Changing */

md_status md_cb_point(md_cb *cb, int32_t part, int32_t arg, void *const *data)
{
    if (part < 0 || part >= cb->n_parts)
        return md_fail(MD_INVALID_ARGUMENT, "part %d: the combo has %d parts", (int)part, (int)cb->n_parts);
    md_cb_part *p = &cb->part[part];
    const md_fx_formula *f = p->op->formula;
    if (arg < 0 || arg >= f->n_args || f->args[arg].is_scalar)
        return md_fail(MD_INVALID_ARGUMENT, "part %d: argument %d of op %s is no tensor", (int)part, (int)arg,
                       p->op->name);
    if (p->n_items > 0 && !data)
        return md_fail(MD_INVALID_ARGUMENT, "data is NULL");
    const char *name = f->tensor[f->args[arg].id].name;
    const size_t size = md_dtype_size(f->tensor[f->args[arg].id].dtype);
    for (int64_t i = 0; i < p->n_items; i++)
        if ((!data[i] && !p->is_empty[i]) || (uintptr_t)data[i] % size)
            return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s': data is %s (part %d, item %lld)", (int)arg, name,
                           data[i] ? "not aligned to its elements" : "NULL", (int)part, (long long)i);
    int32_t operand = 0;
    while (p->operand[operand].arg != arg)
        operand++;
    for (int64_t i = 0; i < p->n_items; i++)
        p->data[i * p->n_operands + operand] = data[i];
    cb->has_moved = true;
    return MD_OK;
}

md_status md_cb_check_scalar(const md_cb_part *p, int64_t item, int32_t scalar, const md_arg *given)
{
    const md_fx_formula *f = p->op->formula;
    const int32_t arg = p->scalar_arg[scalar];
    const md_fx_scalar *s = &f->scalar[f->args[arg].id];
    const int64_t size = s->is_size ? p->scalar[item * p->n_scalars + scalar].i : 0;
    if (s->is_size && given->kind == MD_ARG_INT && given->integer != size)
        return md_fail(MD_INVALID_ARGUMENT,
                       "argument %d '%s' of op %s is a size, %lld in item %lld, which a combo cannot change to %lld",
                       (int)arg, s->name, p->op->name, (long long)size, (long long)item, (long long)given->integer);
    if (given->kind == MD_ARG_INT || (given->kind == MD_ARG_REAL && s->type != MD_I64))
        return MD_OK;
    return md_fail(MD_INVALID_ARGUMENT, "argument %d '%s' of op %s must be a scalar of type %s", (int)arg, s->name,
                   p->op->name, md_dtype_name(s->type));
}

md_kn_word md_cb_scalar(const md_cb_part *p, int32_t scalar, const md_arg *given)
{
    const md_fx_formula *f = p->op->formula;
    const md_dtype type = f->scalar[f->args[p->scalar_arg[scalar]].id].type;
    const double real = given->kind == MD_ARG_INT ? (double)given->integer : given->real;
    return type == MD_I64 ? (md_kn_word){.i = given->integer} : (md_kn_word){.d = real};
}

md_status md_cb_set_scalars(md_cb *cb, const md_arg *scalars, int32_t n)
{
    int32_t n_wanted = 0, at = 0;
    for (int32_t i = 0; i < cb->n_parts; i++)
        n_wanted += cb->part[i].n_scalars;
    if (n == 0)
        return MD_OK;
    if (n != n_wanted || !scalars)
        return md_fail(MD_INVALID_ARGUMENT, scalars ? "%d scalars given, but the parts take %d" : "scalars is NULL",
                       (int)n, (int)n_wanted);
    for (int32_t i = 0; i < cb->n_parts; i++)
        for (int32_t s = 0; s < cb->part[i].n_scalars; s++, at++)
            for (int64_t item = 0; item < MD_MAX(cb->part[i].n_items, 1); item++)
                MD_TRY(md_cb_check_scalar(&cb->part[i], item, s, &scalars[at]));
    at = 0;
    for (int32_t i = 0; i < cb->n_parts; i++)
        for (int32_t s = 0; s < cb->part[i].n_scalars; s++, at++) {
            const md_cb_part *p = &cb->part[i];
            const md_kn_word word = md_cb_scalar(p, s, &scalars[at]);
            for (int64_t item = 0; item < p->n_items; item++) {
                cb->has_scalars |= p->scalar[item * p->n_scalars + s].i != word.i;
                p->scalar[item * p->n_scalars + s] = word;
            }
        }
    return MD_OK;
}
