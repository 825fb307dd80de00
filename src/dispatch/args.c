/* Reads the arguments of warm calls. */
#include "dispatch/args.h"

#include "base/hash.h"

#include <string.h>

_Static_assert(offsetof(md_tensor, rank) == offsetof(md_tensor, dtype) + 4 && sizeof(md_dtype) == 4,
               "dtype and rank are one word");

/* By the last bits of an address: bit 0 if it is a multiple of 64, bit 32 if of 16. */
static const uint64_t class_of[64] = {
    [0] = (uint64_t)1 << 32 | 1, [16] = (uint64_t)1 << 32, [32] = (uint64_t)1 << 32, [48] = (uint64_t)1 << 32};

/* `key`: the word of the key where the tensor's sizes begin. */
static void set_probe(md_ds_arg_layout *out, int32_t i, int32_t rank, int32_t axis, int32_t key)
{
    out->probe_offset[i] = rank > 0 ? (int32_t)(offsetof(md_tensor, size) + (size_t)axis * sizeof(int64_t))
                                    : (int32_t)offsetof(md_tensor, dtype);
    out->probe_key[i] = rank > 0 ? key + axis : -1;
}

void md_ds_arg_layout_init(md_ds_arg_layout *out, const md_fx_formula *formula)
{
    memset(out, 0, sizeof *out);
    int32_t n_scalars = 0, n_key = 1;
    for (int32_t t = 0; t < MD_FX_MAX_TENSORS; t++)
        out->number[t] = -1;
    out->n_args = formula->n_args;
    for (int32_t i = 0; i < formula->n_args; i++) {
        int32_t id = formula->args[i].id;
        md_ds_arg_spec *a = &out->arg[i];
        a->is_scalar = formula->args[i].is_scalar;
        if (a->is_scalar) {
            a->number = (uint8_t)id;
            a->is_real = formula->scalar[id].type != MD_I64;
            a->is_size = formula->scalar[id].is_size;
            out->n_sizes += a->is_size;
            n_scalars++;
            continue;
        }
        const md_fx_tensor *x = &formula->tensor[id];
        const md_tensor like = {.dtype = x->dtype, .rank = x->rank};
        a->number = (uint8_t)out->n_tensors;
        a->rank = (uint8_t)x->rank;
        a->item = (uint8_t)md_dtype_size(x->dtype);
        a->head = md_ds_head_of(&like);
        a->within = (uint64_t)a->item - 1;
        if (out->n_tensors == 0) {
            out->first = i;
            set_probe(out, 0, a->rank, 0, 0);
            set_probe(out, 1, a->rank, a->rank - 1, 0);
        }
        out->last = i;
        set_probe(out, 2, a->rank, a->rank - 1, n_key - 1);
        out->all_aligned |= class_of[0] << a->number;
        a->is_output = x->role == MD_FX_OUTPUT;
        out->outputs |= (uint32_t)a->is_output << out->n_tensors;
        out->number[id] = out->n_tensors++;
        n_key += 2 * x->rank;
    }
    n_key += out->n_sizes; /* sizes that are arguments come after all tensors */
    out->n_key = n_key;
    for (int32_t k = 0; k < MD_DS_LAUNCH_PLAN_KEY; k++)
        out->odd[k] = md_hash64(&k, sizeof k) | 1;
    out->n_scalars = n_scalars;
    out->n_outputs = __builtin_popcount(out->outputs);
    out->is_possible = out->n_tensors > 0 && n_key <= MD_DS_LAUNCH_PLAN_KEY &&
                       out->n_tensors <= MD_DS_LAUNCH_PLAN_TENSORS && n_scalars <= MD_DS_LAUNCH_PLAN_SCALARS;
}

/* The sizes of md_as are 39 bits of a hash in the key, between the alignment bits and never all 0. They are checked
 * when the shape is new. */
static __attribute__((noinline)) bool take_as(uint64_t *bits, const md_ds_arg_layout *layout, const md_arg *args,
                                              int32_t n_args)
{
    enum { SHIFT = MD_DS_LAUNCH_PLAN_TENSORS, PART = (1 << (32 - SHIFT)) - 1 };
    uint64_t sum = 0;
    if (n_args < layout->n_args || n_args - layout->n_args > MD_DS_LAUNCH_PLAN_KEY)
        return false;
    for (int32_t i = layout->n_args; i < n_args; i++) {
        if (args[i].kind != MD_ARG_AS || args[i].dim < 0 || args[i].dim >= MD_DS_LAUNCH_PLAN_KEY)
            return false;
        sum += ((uint64_t)args[i].integer + (layout->odd[args[i].dim] >> 32)) * layout->odd[args[i].dim];
    }
    sum = (sum ^ sum >> 32) * 0x94d049bb133111ebu;
    *bits = (sum & PART) << SHIFT | (sum >> 32 & PART >> 1) << (32 + SHIFT) | (uint64_t)1 << SHIFT;
    return true;
}

__attribute__((hot)) uint64_t md_ds_call_args_alignment(const md_ds_arg_layout *layout, const md_ds_word *data)
{
    uint64_t aligned = 0, within = 0;
    const md_ds_arg_spec *a = layout->arg;
    for (int32_t t = 0; t < layout->n_tensors; a++) {
        if (a->is_scalar)
            continue;
        aligned |= class_of[data[t] & 63] << t;
        within |= data[t] & a->within;
        t++;
    }
    return aligned | (uint64_t)(within != 0) << 63;
}

static inline uint64_t take_axis(md_ds_word *key, const md_tensor *t, uint32_t rank, uint32_t k, const uint64_t *odd)
{
    const uint64_t size = (uint64_t)t->size[k], stride = (uint64_t)t->stride[k];
    key[k] = size;
    key[rank + k] = stride;
    return (size ^ (stride << 32 | stride >> 32)) * odd[k];
}

/* The hash is a sum of products with random odd factors, so that no multiplication waits for another. */
__attribute__((hot)) bool md_ds_call_args_take(md_ds_call_args *out, const md_ds_arg_layout *layout, const md_arg *args,
                                               int32_t n_args)
{
    uint64_t as = 0, low = 0, hash = 0, differs = 0;
    const uint64_t *odd = layout->odd;
    md_ds_word *key = out->key, *data = out->data;
    if (!args || (n_args != layout->n_args && !take_as(&as, layout, args, n_args)))
        return false;
    const md_ds_arg_spec *a = layout->arg;
    for (const md_arg *arg = args, *end = args + layout->n_args; arg < end; arg++, a++) {
        if (a->is_scalar) {
            const bool is_whole = !a->is_real;
            if (!md_ds_take_scalar(&out->scalar[a->number], a, arg))
                return false;
            if (is_whole && a->is_size) {
                hash += (uint64_t)arg->integer * *odd++;
                *key++ = (uint64_t)arg->integer;
            }
            continue;
        }
        const md_tensor *t = arg->tensor;
        if (arg->kind != MD_ARG_TENSOR || !t || !t->data)
            return false;
        *data = (uint64_t)(uintptr_t)t->data;
        low |= *data++;
        differs |= md_ds_head_of(t) ^ a->head;
        const uint32_t rank = a->rank;
        if (rank > 0)
            hash += take_axis(key, t, rank, 0, odd);
        if (rank > 1)
            hash += take_axis(key, t, rank, 1, odd);
        for (uint32_t k = 2; k < rank; k++)
            hash += take_axis(key, t, rank, k, odd);
        key += 2 * rank;
        odd += 2 * rank;
    }
    *key = as | (low & 63 ? md_ds_call_args_alignment(layout, out->data) : layout->all_aligned);
    hash += *key * *odd;
    hash = (hash ^ hash >> 32) * 0x94d049bb133111ebu;
    out->hash = (hash ^ hash >> 29) | (uint64_t)1 << 63;
    out->mixed = 0;
    return !differs && !(*key >> 63);
}
