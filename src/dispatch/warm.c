#include "dispatch/warm.h"

#include "base/dtype.h"
#include "base/hash.h"

#include <string.h>

_Static_assert(offsetof(md_tensor, rank) == offsetof(md_tensor, dtype) + 4 && sizeof(md_dtype) == 4, "dtype and rank are one word");

static uint64_t head_of(const md_tensor *t)
{
    uint64_t head;
    memcpy(&head, &t->dtype, sizeof head);
    return head;
}

void md_ds_warm_init(md_ds_warm *out, const md_fx_formula *formula)
{
    memset(out, 0, sizeof *out);
    int32_t n_scalars = 0, n_key = 1;
    out->first = -1;
    for (int32_t t = 0; t < MD_FX_MAX_TENSORS; t++)
        out->number[t] = -1;
    out->n_args = formula->n_args;
    for (int32_t i = 0; i < formula->n_args; i++) {
        int32_t id = formula->args[i].id;
        md_ds_warm_arg *a = &out->arg[i];
        a->is_scalar = formula->args[i].is_scalar;
        if (a->is_scalar) {
            a->slot = (uint8_t)id;
            a->is_real = formula->scalar[id].type != MD_I64;
            a->is_f32 = formula->scalar[id].type == MD_F32;
            n_scalars++;
            continue;
        }
        const md_fx_tensor *x = &formula->tensor[id];
        const md_tensor like = {.dtype = x->dtype, .rank = x->rank};
        a->slot = (uint8_t)out->n_tensors;
        a->rank = (uint8_t)x->rank;
        a->item = (uint8_t)md_dtype_size(x->dtype);
        a->head = head_of(&like);
        a->within = (uint64_t)a->item - 1;
        out->first = out->first < 0 ? i : out->first;
        a->is_output = x->role == MD_FX_OUTPUT;
        out->outputs |= (uint32_t)a->is_output << out->n_tensors;
        out->number[id] = out->n_tensors++;
        n_key += 2 * x->rank;
    }
    out->n_key = n_key;
    for (int32_t k = 0; k < MD_DS_PLAN_KEY; k++)
        out->odd[k] = md_hash64(&k, sizeof k) | 1;
    out->n_scalars = n_scalars;
    out->n_outputs = __builtin_popcount(out->outputs);
    out->is_possible = n_key <= MD_DS_PLAN_KEY && out->n_tensors <= MD_DS_PLAN_TENSORS && n_scalars <= MD_DS_PLAN_SCALARS;
}

/* As md_fx_bind does it: an integer may stand for a real, not the other way round. */
__attribute__((hot)) static bool take_scalar(md_kn_word *out, const md_ds_warm_arg *a, const md_arg *arg)
{
    if (arg->kind == MD_ARG_INT && !a->is_real) {
        out->i = arg->integer;
        return true;
    }
    if (!a->is_real || (arg->kind != MD_ARG_REAL && arg->kind != MD_ARG_INT))
        return false;
    double real = arg->kind == MD_ARG_INT ? (double)arg->integer : arg->real;
    out->d = a->is_f32 ? (double)(float)real : real;
    return true;
}

/* Sizes to choose by: 40 bits of a hash between the bits of tensors, never all 0. Whether they are right is seen when the shape is new. */
static __attribute__((noinline)) bool take_as(uint64_t *bits, const md_ds_warm *warm, const md_arg *args, int32_t n_args)
{
    enum { SHIFT = MD_DS_PLAN_TENSORS, PART = (1 << (32 - SHIFT)) - 1 };
    uint64_t sum = 0;
    if (n_args < warm->n_args || n_args - warm->n_args > MD_DS_PLAN_KEY)
        return false;
    for (int32_t i = warm->n_args; i < n_args; i++) {
        if (args[i].kind != MD_ARG_AS || args[i].dim < 0 || args[i].dim >= MD_DS_PLAN_KEY)
            return false;
        sum += ((uint64_t)args[i].integer + (warm->odd[args[i].dim] >> 32)) * warm->odd[args[i].dim];
    }
    sum = (sum ^ sum >> 32) * 0x94d049bb133111ebu;
    *bits = (sum & PART) << SHIFT | (sum >> 32 & PART) << (32 + SHIFT) | (uint64_t)1 << SHIFT;
    return true;
}

/* By the last bits of an address: bit 0 on a boundary of 64 bytes, bit 32 on one of 16. */
static const uint64_t class_of[64] = {[0] = (uint64_t)1 << 32 | 1, [16] = (uint64_t)1 << 32, [32] = (uint64_t)1 << 32, [48] = (uint64_t)1 << 32};

__attribute__((hot)) bool md_ds_warm_take(md_ds_warm_call *out, const md_ds_warm *warm, const md_arg *args, int32_t n_args)
{
    uint64_t aligned = 0; /* bits of tensors, and those that warm_as sets */
    if (!args || (n_args != warm->n_args && !take_as(&aligned, warm, args, n_args)))
        return false;
    int32_t at = 0;
    for (int32_t i = 0; i < warm->n_args; i++) {
        const md_ds_warm_arg *a = &warm->arg[i];
        if (a->is_scalar) {
            if (!take_scalar(&out->scalar[a->slot], a, &args[i]))
                return false;
            continue;
        }
        const md_tensor *t = args[i].tensor;
        if (args[i].kind != MD_ARG_TENSOR || !t || head_of(t) != a->head || !t->data || ((uint64_t)(uintptr_t)t->data & a->within))
            return false;
        out->data[a->slot] = t->data;
        aligned |= class_of[(uintptr_t)t->data & 63] << a->slot;
        for (int32_t k = 0; k < a->rank; k++) {
            out->key[at + k] = t->size[k];
            out->key[at + a->rank + k] = t->stride[k];
        }
        at += 2 * a->rank;
    }
    out->key[at] = (int64_t)aligned;
    return true;
}

__attribute__((hot)) bool md_ds_warm_match(md_ds_word *data, md_ds_word *scalar, const md_ds_warm *warm, const md_arg *args, const md_ds_word *key)
{
    uint64_t aligned = 0;
    const md_ds_warm_arg *a = warm->arg;
    for (const md_arg *arg = args, *end = args + warm->n_args; arg < end; arg++, a++) {
        if (a->is_scalar) {
            md_kn_word word;
            if (!take_scalar(&word, a, arg))
                return false;
            scalar[a->slot] = (uint64_t)word.i;
            continue;
        }
        const md_tensor *t = arg->tensor;
        if (arg->kind != MD_ARG_TENSOR || !t || !t->data)
            return false;
        const uint64_t p = (uint64_t)(uintptr_t)t->data, *size = (const uint64_t *)t->size, *stride = (const uint64_t *)t->stride;
        const uint32_t rank = a->rank;
        uint64_t differs = (head_of(t) ^ a->head) | (p & a->within);
        if (rank > 0)
            differs |= (size[0] ^ key[0]) | (stride[0] ^ key[rank]);
        if (rank > 1)
            differs |= (size[1] ^ key[1]) | (stride[1] ^ key[rank + 1]);
        for (uint32_t k = 2; k < rank; k++)
            differs |= (size[k] ^ key[k]) | (stride[k] ^ key[rank + k]);
        if (differs)
            return false;
        data[a->slot] = p;
        aligned |= class_of[p & 63] << a->slot;
        key += 2 * rank;
    }
    return aligned == *key;
}

/* Products with random odd numbers: no multiplication waits for another. */
__attribute__((hot)) uint64_t md_ds_warm_hash(const md_ds_warm *warm, const md_ds_warm_call *call)
{
    uint64_t hash = 0;
    for (int32_t k = 0; k < warm->n_key; k++)
        hash += ((uint64_t)call->key[k] + (warm->odd[k] >> 32)) * warm->odd[k];
    hash = (hash ^ hash >> 32) * 0x94d049bb133111ebu;
    return (hash ^ hash >> 29) | (uint64_t)1 << 63;
}
