/* What warm calls read of their arguments without binding them: data pointers, scalars, and the key that a launch plan
 * is found by. */
#ifndef MD_DISPATCH_ARGS_H
#define MD_DISPATCH_ARGS_H

#include "expr/formula.h"
#include "kernel/kernel.h"

#include <string.h>

typedef uint64_t __attribute__((__may_alias__)) md_ds_word; /* a word of a launch plan, which structs overlay */
enum {
    MD_DS_LAUNCH_PLAN_WORDS = 160,
    MD_DS_LAUNCH_PLAN_KEY = 64,
    MD_DS_LAUNCH_PLAN_TENSORS = 12,
    MD_DS_LAUNCH_PLAN_SCALARS = 16,
    MD_DS_LAUNCH_PLAN_BASES = 4,
    MD_DS_PROBES = 3 /* sizes that a thread cache is indexed by */
};

/* One argument of an op. */
typedef struct md_ds_arg_spec {
    bool is_scalar, is_output, is_real;
    bool is_size; /* a scalar that is a word of the key */
    uint8_t number; /* its number among the tensors, or among the scalars, in order of the arguments */
    uint8_t rank, item; /* item: bytes of an element */
    uint64_t head; /* md_ds_head_of a right tensor */
    uint64_t within; /* the bits of an address that are 0 if it is a multiple of `item` */
} md_ds_arg_spec;

/* The arguments of an op. Never changes once the op is made. */
typedef struct md_ds_arg_layout {
    bool is_possible; /* false: too many arguments for launch plans */
    int32_t first, last; /* the arguments that are the first and the last tensor */
    /* The probes: three sizes that tell most calls apart. The first tensor's first and last, and the last tensor's
     * last. */
    int32_t probe_offset[MD_DS_PROBES]; /* bytes in md_tensor; the head's if the tensor has no axes */
    int32_t probe_key[MD_DS_PROBES]; /* word of the key; -1 if the tensor has no axes */
    int32_t n_args, n_tensors, n_outputs, n_scalars, n_sizes, n_key;
    uint32_t outputs; /* bit by tensor number */
    uint64_t all_aligned; /* the last word of the key if all tensors are aligned to 64 bytes */
    md_ds_arg_spec arg[MD_FX_MAX_ARGS];
    uint64_t odd[MD_DS_LAUNCH_PLAN_KEY]; /* random odd factors of the hash */
    int32_t number[MD_FX_MAX_TENSORS]; /* by tensor of the formula: its number among the arguments; -1: a temporary */
} md_ds_arg_layout;

/* What is read of the arguments of one call. Param maps number these words: 0 is the first of `key`, those before it
 * are negative. */
typedef struct md_ds_call_args {
    md_ds_word base[MD_DS_LAUNCH_PLAN_BASES]; /* md_ds_base; not set here */
    md_ds_word scalar[MD_DS_LAUNCH_PLAN_SCALARS];
    md_ds_word data[MD_DS_LAUNCH_PLAN_TENSORS];
    /* Sizes and strides of all tensors, in order, then the sizes that are arguments. The last word has a bit for each
     * tensor that is aligned to 64 bytes, and one for 16 bytes, and between them 39 bits of a hash of the sizes to
     * choose by. If those hashes collide, one call uses the choice of the other, which is still correct. */
    md_ds_word key[MD_DS_LAUNCH_PLAN_KEY];
    uint64_t hash; /* of the key; never 0 */
    uint64_t mixed; /* md_ds_mix_probes, if the caller has computed it; else 0 */
} md_ds_call_args;

void md_ds_arg_layout_init(md_ds_arg_layout *out, const md_fx_formula *formula);
/** Reads data, scalars and key. False if an argument is not certainly right; the slow call then says what is wrong. */
bool md_ds_call_args_take(md_ds_call_args *out, const md_ds_arg_layout *layout, const md_arg *args, int32_t n_args);

/** Dtype and rank of a tensor, as one word. */
static inline uint64_t md_ds_head_of(const md_tensor *t)
{
    uint64_t head;
    memcpy(&head, &t->dtype, sizeof head);
    return head;
}

/** Reads a scalar as md_fx_bind does: an integer may stand for a real, not the other way round. */
static inline bool md_ds_take_scalar(md_ds_word *out, const md_ds_arg_spec *a, const md_arg *arg)
{
    md_kn_word word;
    if (arg->kind == MD_ARG_INT && !a->is_real) {
        *out = (uint64_t)arg->integer;
        return true;
    }
    if (!a->is_real || (arg->kind != MD_ARG_REAL && arg->kind != MD_ARG_INT))
        return false;
    word.d = arg->kind == MD_ARG_INT ? (double)arg->integer : arg->real;
    *out = (uint64_t)word.i;
    return true;
}

/** The alignment bits of the key's last word, from the last bits of each address. Bit 63, which no valid key has, is
 * set if an address is no multiple of its element size. */
uint64_t md_ds_call_args_alignment(const md_ds_arg_layout *layout, const md_ds_word *data);

#endif
