/* What is taken from the arguments of a call without binding them: whether they are plainly right, and the bytes
 * that tell shapes apart. */
#ifndef MD_DISPATCH_BIND_ARGS_H
#define MD_DISPATCH_BIND_ARGS_H

#include "expr/formula.h"
#include "kernel/kernel.h"

#include <string.h>

typedef uint64_t __attribute__((__may_alias__)) md_ds_word; /* of plans, whose parts are structs */
enum {
    MD_DS_LAUNCH_PLAN_WORDS = 160,
    MD_DS_LAUNCH_PLAN_KEY = 64,
    MD_DS_LAUNCH_PLAN_TENSORS = 12,
    MD_DS_LAUNCH_PLAN_SCALARS = 16,
    MD_DS_LAUNCH_PLAN_BASES = 4,
    MD_DS_LOOKS = 3
};

/* What the arguments of an op look like: fixed when the op is made. */
typedef struct md_ds_arg_spec {
    bool is_scalar, is_output, is_real, is_f32;
    uint8_t slot; /* tensors and scalars are numbered apart, in order of the arguments */
    uint8_t rank, item; /* bytes of an element */
    uint64_t head; /* dtype and rank of a md_tensor, as they lie in memory */
    uint64_t within; /* bits of an address that lie within an element */
} md_ds_arg_spec;

typedef struct md_ds_arg_layout {
    bool is_possible; /* not too many arguments */
    int32_t first, last; /* the arguments that are the first and the last tensor */
    /* where sizes lie in those (bytes of a md_tensor) that tell most calls apart: the first's first and last, the
     * last's last */
    int32_t look[MD_DS_LOOKS];
    int32_t look_key[MD_DS_LOOKS]; /* and in the key; -1: the tensor has no axes, and its head is there */
    int32_t n_args, n_tensors, n_outputs, n_scalars, n_key;
    uint32_t outputs; /* bit by tensor number */
    uint64_t all_aligned; /* the last word of the key where all tensors lie on boundaries of 64 bytes */
    md_ds_arg_spec arg[MD_FX_MAX_ARGS];
    uint64_t odd[MD_DS_LAUNCH_PLAN_KEY]; /* for the hash */
    int32_t number[MD_FX_MAX_TENSORS]; /* of the tensor among the arguments; -1: a temporary */
} md_ds_arg_layout;

/* What is taken from the arguments of one call: what recipes number, from the key's first word on, the rest below 0. */
typedef struct md_ds_call_args {
    md_ds_word base[MD_DS_LAUNCH_PLAN_BASES]; /* md_ds_base; not taken */
    md_ds_word scalar[MD_DS_LAUNCH_PLAN_SCALARS];
    md_ds_word data[MD_DS_LAUNCH_PLAN_TENSORS];
    md_ds_word key
        [MD_DS_LAUNCH_PLAN_KEY]; /* sizes and strides of all tensors, in order; then a bit for each that lies on a boundary of 64 bytes, and of 16, and what
                                 * tells calls with sizes to choose by apart: of two that meet there, one is served by the other's choice, no less right */
    uint64_t hash; /* of the key; never 0 */
    uint64_t mixed; /* md_ds_mix of it, where that is known already; 0: not yet */
} md_ds_call_args;

void md_ds_arg_layout_init(md_ds_arg_layout *out, const md_fx_formula *formula);
/** Takes the key, the data and the scalars. False where some argument is not plainly right: the long way says what is
 * wrong. */
bool md_ds_call_args_take(md_ds_call_args *out, const md_ds_arg_layout *layout, const md_arg *args, int32_t n_args);

/** Dtype and rank of a tensor, as one word. */
static inline uint64_t md_ds_head_of(const md_tensor *t)
{
    uint64_t head;
    memcpy(&head, &t->dtype, sizeof head);
    return head;
}

/** As md_fx_bind does it: an integer may stand for a real, not the other way round. */
static inline bool md_ds_take_scalar(md_ds_word *out, const md_ds_arg_spec *a, const md_arg *arg)
{
    md_kn_word word;
    if (arg->kind == MD_ARG_INT && !a->is_real) {
        *out = (uint64_t)arg->integer;
        return true;
    }
    if (!a->is_real || (arg->kind != MD_ARG_REAL && arg->kind != MD_ARG_INT))
        return false;
    const double real = arg->kind == MD_ARG_INT ? (double)arg->integer : arg->real;
    word.d = a->is_f32 ? (double)(float)real : real;
    *out = (uint64_t)word.i;
    return true;
}

/** The last word of a key: by the last bits of each address; with a bit that no key has where one is not on a
 * boundary of its elements. */
uint64_t md_ds_call_args_alignment(const md_ds_arg_layout *layout, const md_ds_word *data);

#endif
