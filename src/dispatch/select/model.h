/* The model's times of a pool's variants. */
#ifndef MD_DISPATCH_SELECT_MODEL_H
#define MD_DISPATCH_SELECT_MODEL_H

#include "dispatch/op.h"
#include "dispatch/select/fit.h"

/** The sizes that a call is chosen by: its own, or those of md_as. Sizes beyond any machine stand for "large": they are
 * halved until 64 bits can count their work. */
void md_ds_select_sizes(int64_t out[MD_FX_MAX_DIMS], const md_ds_op *op, const int64_t *size, const md_ds_as *as);
/** The model's times in us of the first n variants of a stage, at sizes by dim id. `wanted`: NULL, or which of them to
 * compute; the others get -1. Each takes a tenth of a microsecond, more or less. */
void md_ds_predict_us(double *us, const md_ds_op *op, int32_t stage, const int64_t *sizes, int32_t n,
                      const bool *wanted);
/** As md_ds_predict_us for a pick: of variants of `wanted` that are neither the fastest nor the second, times may be
 * less than the model's, though more than the second's. Those of libraries, which their answers correct, are exact. */
void md_ds_predict_fastest(double *us, md_ds_op *op, int32_t stage, const int64_t *sizes, int32_t n,
                           const bool *wanted);
/** As md_ds_predict_us, corrected by measured times. */
void md_ds_model_us(double *us, md_ds_op *op, int32_t stage, const int64_t *sizes, int32_t n, const bool *wanted);
/** Corrects the times (> 0) of the first n variants by what their libraries answered for the shape, where `sizes` are
 * those of the shape. */
void md_ds_take_answers(double *us, const md_ds_op *op, int32_t stage, const md_kn_shape *shape, const int64_t *sizes,
                        int32_t n);
/** True for a library's variant that answered with more slices of a sum than it takes at other shapes like this: it is
 * not the kernel that a hint's list names. */
bool md_ds_answers_otherwise(const md_ds_op *op, int32_t stage, int32_t variant, const md_ds_query *query);

#endif
