/* A digest of what ops chose, so that processes that must run the same kernels (ranks of one model) can compare
 * themselves. */
#ifndef MD_STATS_DIGEST_H
#define MD_STATS_DIGEST_H

#include "base/hash.h"
#include "dispatch/types.h"

typedef struct md_ss_choices {
    int64_t n, capacity;
    md_digest128 *choice;
    bool failed; /* memory was short */
} md_ss_choices; /* a zeroed struct is empty */

/** Adds what the op chose: formula, sizes and variants of every shape. Counts, times and reasons are not in it. */
void md_ss_choices_add(md_ss_choices *choices, md_ds_op *op);
/** Of the set: the order of calls and of ops does not matter, nor how often a choice was made. Frees the choices.
 * OUT_OF_MEMORY. */
md_status md_ss_choices_digest(md_digest128 *out, md_ss_choices *choices);

#endif
