/* What is taken from the arguments of a call without binding them: whether they are plainly right, and the bytes that tell shapes apart. */
#ifndef MD_DISPATCH_WARM_H
#define MD_DISPATCH_WARM_H

#include "expr/formula.h"
#include "kernel/kernel.h"

typedef uint64_t __attribute__((__may_alias__)) md_ds_word; /* of plans, whose parts are structs */
enum { MD_DS_PLAN_WORDS = 160, MD_DS_PLAN_KEY = 64, MD_DS_PLAN_TENSORS = 12, MD_DS_PLAN_SCALARS = 16 };

/* What the arguments of an op look like: fixed when the op is made. */
typedef struct md_ds_warm_arg {
    bool is_scalar, is_output, is_real, is_f32;
    uint8_t slot; /* tensors and scalars are numbered apart, in order of the arguments */
    uint8_t rank, item; /* bytes of an element */
    uint64_t head; /* dtype and rank of a md_tensor, as they lie in memory */
    uint64_t within; /* bits of an address that lie within an element */
} md_ds_warm_arg;

typedef struct md_ds_warm {
    bool is_possible; /* not too many arguments */
    int32_t n_args, n_tensors, n_outputs, n_scalars, n_key;
    int32_t first; /* the argument that is tensor 0; -1: none */
    uint32_t outputs; /* bit by tensor number */
    int32_t number[MD_FX_MAX_TENSORS]; /* of the tensor among the arguments; -1: a temporary */
    md_ds_warm_arg arg[MD_FX_MAX_ARGS];
    uint64_t odd[MD_DS_PLAN_KEY]; /* for the hash */
} md_ds_warm;

/* What is taken from the arguments of one call. */
typedef struct md_ds_warm_call {
    int64_t key[MD_DS_PLAN_KEY]; /* sizes and strides of all tensors, in order; then a bit for each that lies on a boundary of 64 bytes, and of 16, and what
                                 * tells calls with sizes to choose by apart: of two that meet there, one is served by the other's choice, no less right */
    char *data[MD_DS_PLAN_TENSORS];
    md_kn_word scalar[MD_DS_PLAN_SCALARS];
} md_ds_warm_call;

void md_ds_warm_init(md_ds_warm *out, const md_fx_formula *formula);
/** Takes the key, the data and the scalars. False where some argument is not plainly right: the long way says what is wrong. */
bool md_ds_warm_take(md_ds_warm_call *out, const md_ds_warm *warm, const md_arg *args, int32_t n_args);

/** The same of as many arguments as there must be, but only where the key is `key`; false where it is not, too. Data and scalars are written in any case. */
bool md_ds_warm_match(md_ds_word *data, md_ds_word *scalar, const md_ds_warm *warm, const md_arg *args, const md_ds_word *key);

/** Never 0. */
uint64_t md_ds_warm_hash(const md_ds_warm *warm, const md_ds_warm_call *call);

#endif
