/* Choosing a plan for a shape: a variant for every stage. */
#ifndef MD_DISPATCH_SELECT_CHOOSE_H
#define MD_DISPATCH_SELECT_CHOOSE_H

#include "dispatch/op.h"

/* What a plan is chosen for. */
typedef struct md_ds_request {
    const md_kn_shape *shape;
    const md_ds_as *as; /* sizes to choose by */
    const void *key; /* bytes of the shape key, to find stored picks by; NULL: none is looked for */
    size_t key_bytes;
    const md_kn_call *call; /* data for MD_SELECT_MEASURE; NULL: the model chooses */
    md_ds_effort effort;
} md_ds_request;

/** Chooses a plan, which the caller frees. The reference evaluator serves if nothing can be built. Thread-safe. */
md_status md_ds_choose(md_ds_plan **out, md_ds_op *op, const md_ds_request *request);

#endif
