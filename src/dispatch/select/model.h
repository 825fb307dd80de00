/* The model's times of a pool's variants. */
#ifndef MD_DISPATCH_SELECT_MODEL_H
#define MD_DISPATCH_SELECT_MODEL_H

#include "dispatch/op.h"

/** The model's times in us of the first n variants of a stage, at sizes by dim id. `wanted`: NULL, or which of them to
 * compute; the others get -1. Each takes about a microsecond. */
void md_ds_predict_us(double *us, const md_ds_op *op, int32_t stage, const int64_t *sizes, int32_t n,
                      const bool *wanted);
/** The same, corrected by measured times. */
void md_ds_model_us(double *us, md_ds_op *op, int32_t stage, const int64_t *sizes, int32_t n, const bool *wanted);

#endif
