/* The reference evaluator: f64 arithmetic in the order of the formula, one scalar at a time. It rounds at stores,
 * casts and typed lets only. expr/ops.def says what an operation gives for one element. Beyond that:
 * - Real sums are compensated: their error does not grow with the length.
 * - `where` reads only the arm that it takes; `and` and `or` read both sides.
 * - Results are as if no output overlapped another argument.
 * - Elements that several writers share are summed in f64 and rounded once; with `=` the last writer stays, in the
 *   order
 *   of the left side's indices.
 * - An empty output runs nothing, so no index into it is reported. */
#ifndef MD_EXPR_EVAL_EVAL_H
#define MD_EXPR_EVAL_EVAL_H

#include "base/cancel.h"
#include "expr/formula.h"

/* The data of one call. Arrays are indexed by tensor, scalar and dim id of the formula. */
typedef struct md_fx_binding {
    md_tensor tensor[MD_FX_MAX_TENSORS]; /* TEMPs need no data */
    double real[MD_FX_MAX_SCALARS];
    int64_t integer[MD_FX_MAX_SCALARS];
    int64_t size[MD_FX_MAX_DIMS];
} md_fx_binding;

/* An index that read or wrote outside, or a length in `tensor` that is above the size of a dim (axis:
 * md_fx_length_axis(dim)): what a kernel or the evaluator reports. */
typedef struct md_fx_fault {
    bool is_set;
    int32_t tensor, axis;
    int64_t value;
    const md_cancel *cancel; /* in: asked every few thousand steps; NULL: never */
} md_fx_fault;

/** Binds arguments: checks count, kind, NULL, dtype, rank, sizes, strides >= 0 (> 0 on outputs where size > 1), spans
 * that overflow 64 bits, reaches, declared ranges, that no element needs the max of nothing, alignment to elements;
 * fills sizes; f32 scalars are rounded. INVALID_ARGUMENT names argument, axis, dim and both values. */
md_status md_fx_bind(md_fx_binding *out, const md_fx_formula *formula, const md_arg *args, int32_t n_args);
/** INVALID_ARGUMENT with the place in the text if the n arguments of a call end before a size that it must give. */
md_status md_fx_check_sizes(const md_fx_formula *formula, int32_t n_args);
/** Evaluates all statements in order into the bound outputs. Temporaries are allocated in f64. OUT_OF_MEMORY,
 * CANCELLED. */
md_status md_fx_evaluate(const md_fx_formula *formula, md_fx_binding *binding, md_fx_fault *fault);
/** One element of an output or temp that no += touches, unrounded, without storing anything: temps are recomputed. */
md_status md_fx_evaluate_at(double *value, const md_fx_formula *formula, const md_fx_binding *binding, int32_t tensor,
                            const int64_t *at);
/** The integer value of an integer output element (argmax and such), exact. */
md_status md_fx_evaluate_int_at(int64_t *value, const md_fx_formula *formula, const md_fx_binding *binding,
                                int32_t tensor, const int64_t *at);

#endif
