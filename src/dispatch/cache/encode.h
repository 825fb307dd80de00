/* From launch plans to the words of a plan entry. */
#ifndef MD_DISPATCH_CACHE_ENCODE_H
#define MD_DISPATCH_CACHE_ENCODE_H

#include "dispatch/cache/launch_plan.h"
#include "dispatch/cache/plan_entry.h"

/** Encodes a launch plan of n words, as a compact one if it can be. */
void md_ds_encode(md_ds_packed_launch *out, const md_ds_op *op, md_ds_word *launch_plan, int32_t n_words);

#endif
