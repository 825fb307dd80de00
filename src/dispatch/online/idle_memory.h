/* Memory that background benchmarks run on: sets of made-up inputs in the workspace of the tuning stream, taken in turn
 * so that runs find cold caches. One thread at a time. */
#ifndef MD_DISPATCH_ONLINE_IDLE_MEMORY_H
#define MD_DISPATCH_ONLINE_IDLE_MEMORY_H

#include "dispatch/op.h"

typedef struct md_ds_idle_memory {
    md_ds_op *op;
    int32_t stage;
    md_kn_shape shape;
    md_kn_call call; /* of the next run; points into this struct, which must not move */
    int64_t at[MD_KN_MAX_TENSORS]; /* offset of each tensor in a set, bytes */
    int64_t set_bytes, workspace_bytes;
    int32_t n_sets, next; /* set of the next run */
    char *memory; /* the sets, then the workspace; filled when the stream's workspace was here */
} md_ds_idle_memory;

/** Lays out the sets for one stage. UNSUPPORTED where the stage has index tensors (made-up values could be wrong ones)
 * or is larger than MD_DS_IDLE_BENCH_BYTES; OUT_OF_MEMORY where it needs more than 5% of what is free. */
md_status md_ds_idle_memory_plan(md_ds_idle_memory *out, md_ds_op *op, int32_t stage, const md_kn_shape *shape,
                                 int64_t workspace_bytes);
/** Gets the memory, which others may have moved since, and fills it. The runtime's lock of tuning is held, until the
 * runs are done. */
md_status md_ds_idle_memory_get(md_ds_idle_memory *m);
/** The call on the next set. For md_tn_runs. */
md_kn_call *md_ds_idle_memory_next(void *memory);

/** Stages whose tensors have more bytes are not timed in the background: long kernels would hold up the next call, and
 * calls tell them apart well enough. */
#define MD_DS_IDLE_BENCH_BYTES 64e6

#endif
