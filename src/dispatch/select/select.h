/* Choosing a variant of one stage for one shape. */
#ifndef MD_DISPATCH_SELECT_SELECT_H
#define MD_DISPATCH_SELECT_SELECT_H

#include "dispatch/types.h"

/* What is asked for. */
typedef struct md_ds_query {
    const md_kn_shape *shape;
    const int64_t *by; /* sizes to choose by, by dim id */
    const md_kn_call *call; /* data for MD_SELECT_MEASURE; NULL falls back to the model */
    bool with_unbuilt; /* variants that are being built count as if they were there */
    uint64_t numeric_class; /* of this class only; 0: any */
} md_ds_query;

/** Picks by the op's policy among the candidates that fit. NOT_FOUND where there is none; UNSUPPORTED where a pinned
 * one does not fit. Builds nothing. */
md_status md_ds_select(md_ds_pick *out, md_ds_op *op, int32_t stage, const md_ds_query *query);

/** Whether distance is that to a lattice of points (md_ds_nearest_cell) and not only to the hints: on GPUs, where
 * nobody gave hints. */
bool md_ds_has_lattice(const md_ds_op *op);

/** The model's time of the first n candidates at sizes by dim id. */
void md_ds_predict_us(double *us, const md_ds_op *op, int32_t stage, const int64_t *by, int32_t n);
/** The same, corrected by measured times. */
void md_ds_model_us(double *us, md_ds_op *op, int32_t stage, const int64_t *by, int32_t n);

/** NULL where candidate i can serve the shape, else why not ("not built: ...", "longer than it was compiled for"). */
const char *md_ds_reject_reason(const md_ds_pool *c, int32_t i, const md_kn_shape *shape);

#endif
