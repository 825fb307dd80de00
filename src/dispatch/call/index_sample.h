/* Samples of the values in index tensors, for tuning gathers and scatters later with a service's own indices. */
#ifndef MD_DISPATCH_CALL_INDEX_SAMPLE_H
#define MD_DISPATCH_CALL_INDEX_SAMPLE_H

#include "dispatch/op.h"

enum { MD_DS_INDEX_TENSORS = 4, MD_DS_INDEX_RUN = 256 };

typedef struct md_ds_indices md_ds_indices;

typedef struct md_ds_index_sample {
    int32_t tensor; /* of the formula */
    int64_t n, seen; /* values kept; values read */
    int64_t *value; /* runs of at most MD_DS_INDEX_RUN neighbours */
} md_ds_index_sample;

/** Makes room for `most` values of each index tensor of a formula. *out is NULL if it has none, or if `most` is 0. */
md_status md_ds_indices_create(md_ds_indices **out, const md_fx_formula *formula, int32_t most);
void md_ds_indices_destroy(md_ds_indices **indices);
/** Reads a run of each index tensor of a call; on a GPU it waits for the stream. Tensors that cannot be read are
 * skipped, and so is a stream under capture. Thread-safe. */
void md_ds_indices_take(md_ds_indices *indices, const md_ds_op *op, md_stream stream, const md_fx_binding *binding);
/** A copy of sample i, whose values the caller frees. False beyond the last one, or if memory is short. */
bool md_ds_indices_get(md_ds_index_sample *out, md_ds_indices *indices, int32_t i);

#endif
