/* What index tensors held in calls that were looked at: for whoever tunes gathers and scatters later with a
 * service's own indices. */
#ifndef MD_DISPATCH_CALL_INDEX_SAMPLE_H
#define MD_DISPATCH_CALL_INDEX_SAMPLE_H

#include "dispatch/call/slow_call.h"

enum { MD_DS_INDEX_TENSORS = 4, MD_DS_INDEX_RUN = 256 };

typedef struct md_ds_indices md_ds_indices;

typedef struct md_ds_index_sample {
    int32_t tensor; /* of the formula */
    int64_t n, seen; /* values kept; values looked at */
    int64_t *value; /* runs of neighbours, MD_DS_INDEX_RUN at most */
} md_ds_index_sample;

/** Makes room for `most` values of each index tensor of a formula; *out stays NULL where it has none, or `most` is 0. */
md_status md_ds_indices_create(md_ds_indices **out, const md_fx_formula *formula, int32_t most);
void md_ds_indices_destroy(md_ds_indices **indices);
/** Looks at a run of each index tensor of a call, and waits for the stream where it must. What cannot be read is left
 * out. Thread-safe; not while captured. */
void md_ds_indices_take(md_ds_indices *indices, const md_ds_op *op, md_stream stream, const md_ds_bound *bound);
/** A copy of sample i, whose values the caller frees; false beyond the last, or where memory is short. */
bool md_ds_indices_get(md_ds_index_sample *out, md_ds_indices *indices, int32_t i);

#endif
