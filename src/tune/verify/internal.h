/* The checks of a candidate: verify_small.c on a small shape, verify_point.c at the tuned point. */
#ifndef MD_TUNE_VERIFY_INTERNAL_H
#define MD_TUNE_VERIFY_INTERNAL_H

#include "expr/eval/eval.h"
#include "tune/verify/verify.h"

/** verify_point.c: true if a result of this type, of sums with so many additions, is close enough; NaN equals NaN.
 * `moved`: what it may be off by besides, since something is rounded at another place (md_fa_moved_rounding). */
bool md_tn_is_close(md_dtype t, double additions, double moved, double got, double want);

/** verify_small.c: all results on a small shape in the variant's envelope; also true where there is none or the
 * reference would take too long. */
bool md_tn_check_small(char *why, size_t n_why, md_tn_work *w, const md_tn_trial *trial);
/** verify_point.c: samples of the results at the point. */
bool md_tn_check_samples(char *why, size_t n_why, md_tn_work *w, md_tn_tuning_point *tuning_point,
                         const md_tn_trial *trial, const md_tn_entry *entry);

/** An input tensor of the binding for the evaluator. */
void md_tn_bind(md_fx_binding *binding, const md_fx_formula *formula, const md_tn_data *data);

#endif
