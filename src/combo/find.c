/* Finds a combo again by what a caller gives: ops, sizes and strides. Addresses and scalars then replace those of
 * before. */
#include "base/hash.h"
#include "base/status.h"
#include "combo/combo.h"

#include <string.h>

static uint64_t mix(uint64_t hash, const void *words, size_t n_bytes)
{
    return (hash ^ md_hash64(words, n_bytes)) * UINT64_C(0x9e3779b97f4a7c15);
}

static bool is_tensor(const md_arg *arg)
{
    return arg->kind == MD_ARG_TENSOR && arg->tensor && arg->tensor->rank >= 0 && arg->tensor->rank <= MD_MAX_RANK;
}

static bool is_size(const md_ds_op *op, int64_t arg)
{
    const md_fx_formula *f = op->formula;
    return arg < f->n_args && f->args[arg].is_scalar && f->scalar[f->args[arg].id].is_size;
}

uint64_t md_cb_hash(const md_combo_part *parts, md_ds_op *const *op, int32_t n)
{
    uint64_t hash = (uint64_t)n;
    for (int32_t p = 0; p < n; p++) {
        const int64_t n_args = parts[p].n_items * parts[p].n_args;
        hash = mix(hash, &op[p], sizeof op[p]);
        hash = mix(hash, &parts[p].n_items, sizeof parts[p].n_items);
        for (int64_t i = 0; i < n_args; i++) {
            const md_arg *arg = &parts[p].args[i];
            if (arg->kind == MD_ARG_INT && is_size(op[p], i % parts[p].n_args))
                hash = mix(hash, &arg->integer, sizeof arg->integer);
            if (!is_tensor(arg))
                continue;
            const size_t n_bytes = (size_t)arg->tensor->rank * sizeof(int64_t);
            hash = mix(hash, arg->tensor->size, n_bytes);
            hash = mix(hash, arg->tensor->stride, n_bytes);
        }
    }
    return hash;
}

static bool matches_item(const md_cb_part *part, int64_t item, const md_arg *args)
{
    const int64_t *layout = part->layout + item * part->n_words;
    for (int32_t s = 0; s < part->n_operands; s++) {
        const md_cb_operand *operand = &part->operand[s];
        const md_arg *arg = &args[operand->arg];
        const size_t n_bytes = (size_t)operand->rank * sizeof *layout;
        if (arg->kind != MD_ARG_TENSOR || !arg->tensor)
            return false;
        const md_tensor *t = arg->tensor;
        if (t->dtype != operand->dtype || t->rank != operand->rank || memcmp(t->size, layout + operand->at, n_bytes) ||
            memcmp(t->stride, layout + operand->at + operand->rank, n_bytes) || (!t->data && !part->is_empty[item]) ||
            (uintptr_t)t->data % md_dtype_size(t->dtype))
            return false;
    }
    for (int32_t s = 0; s < part->n_scalars; s++)
        if (md_cb_check_scalar(part, item, s, &args[part->scalar_arg[s]]) != MD_OK)
            return false;
    return true;
}

bool md_cb_matches(const md_cb *cb, const md_combo_part *parts, md_ds_op *const *op, int32_t n)
{
    if (cb->n_parts != n)
        return false;
    for (int32_t p = 0; p < n; p++) {
        const md_cb_part *part = &cb->part[p];
        if (part->op != op[p] || part->n_items != parts[p].n_items)
            return false;
        for (int64_t i = 0; i < part->n_items; i++)
            if (!matches_item(part, i, parts[p].args + i * parts[p].n_args))
                return false;
    }
    return true;
}

static void take_item(md_cb *cb, md_cb_part *part, int64_t item, const md_arg *args)
{
    for (int32_t s = 0; s < part->n_operands; s++) {
        void *data = args[part->operand[s].arg].tensor->data, **at = &part->data[item * part->n_operands + s];
        cb->has_moved |= *at != data;
        *at = data;
    }
    for (int32_t s = 0; s < part->n_scalars; s++)
        part->scalar[item * part->n_scalars + s] = md_cb_scalar(part, s, &args[part->scalar_arg[s]]);
}

void md_cb_move(md_cb *cb, const md_combo_part *parts)
{
    cb->has_scalars = true;
    for (int32_t p = 0; p < cb->n_parts; p++)
        for (int64_t i = 0; i < cb->part[p].n_items; i++)
            take_item(cb, &cb->part[p], i, parts[p].args + i * parts[p].n_args);
}
