/* Tuning a formula without an op: what `mdctl tune` and md_tune_formula do. */
#ifndef MD_DISPATCH_POOL_TUNE_FORMULA_H
#define MD_DISPATCH_POOL_TUNE_FORMULA_H

#include "build/build.h"
#include "dispatch/pool/compile.h"
#include "tune/search/search.h"

typedef struct md_ds_tune_request {
    md_ds_compile_options compile; /* as of the ops that are to use the result */
    bool off_hints; /* GPUs: half of the time is for the extra points that pools look at (points.h) */
    md_bd *builder;
    const md_log *log; /* of warnings about the formula; may be NULL */
    /* rigor, budget_ms (of all stages), max_builds, all_directions, indices, exclude, seed, write, user */
    md_tn_job job;
} md_ds_tune_request;

/** Fills the wisdom for all stages at all hints. UNSUPPORTED where kernels cannot be compiled. */
md_status md_ds_tune_formula(const md_ds_tune_request *request, const char *formula);

#endif
