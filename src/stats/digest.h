/* A digest of the choices of ops. Processes that must run the same kernels (the ranks of a model) can compare it. */
#ifndef MD_STATS_DIGEST_H
#define MD_STATS_DIGEST_H

#include "base/hash.h"
#include "dispatch/op.h"

typedef struct md_ss_choices {
    int64_t n, capacity;
    md_digest128 *choice;
    bool failed; /* memory was short */
} md_ss_choices; /* a zeroed struct is empty */

/** Adds the choices of an op: formula, sizes and variants of every shape, without counts, times and reasons. */
void md_ss_choices_add(md_ss_choices *choices, md_ds_op *op);
/** The digest of the set of choices: their order and number do not matter. Frees the choices. OUT_OF_MEMORY. */
md_status md_ss_choices_digest(md_digest128 *out, md_ss_choices *choices);

#endif
