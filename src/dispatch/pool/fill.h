/* What a pool holds: for every hint the best config of every family that applies (of reductions always a persistent and
 * another variant, however slow the model finds them), on GPUs variants for extra points off the hints, a user's own
 * kernels, a library's, the representatives of numeric classes; or the pinned variant alone. */
#ifndef MD_DISPATCH_POOL_FILL_H
#define MD_DISPATCH_POOL_FILL_H

#include "build/build.h"
#include "dispatch/compile/compile.h"
#include "dispatch/pool/pool.h"
#include "tune/search/search.h"

/** Chooses configs and starts building them, in a pool that was initialized. only_first: those for the middle hint, if
 * there are any, the best of them before all else; md_ds_pool_fill_rest adds the others. */
md_status md_ds_pool_fill(md_ds_pool *pool, bool only_first);
/** Adds what only_first left out, while others read the pool. One thread. */
md_status md_ds_pool_fill_rest(md_ds_pool *pool);

/* ---- fallback.c: a variant for a shape that none of the pool fits */

/** Starts building the best config for the shape, of the best family that has not failed. NOT_FOUND if none fits. The
 * caller holds the lock of variants. */
md_status md_ds_pool_add_fallback(int32_t *variant, md_ds_pool *pool, const md_kn_shape *shape);
/** Starts building variants for a chain at the shape's depth and columns: the best for the shape, where none fits, and
 * where hints are the defaults those of a few batches, queries and keys. *has_fallback: the first was added. */
md_status md_ds_pool_adopt(bool *has_fallback, md_ds_pool *pool, const md_kn_shape *shape);
/** Adds variants until one that is built serves all sizes, strides and places of data. Waits for builds. NOT_FOUND if
 * none does. */
md_status md_ds_pool_cover(md_ds_pool *pool);

/* ---- follow.c: hints that follow the traffic. Nothing is added to a pool that a numeric class or a pin restricts, nor
 * beyond MD_DS_MOST_FOLLOWED variants: that bounds the memory. */

enum { MD_DS_MOST_FOLLOWED = 16 };
/** The model's time of the pool's pick over that of the best of all configs, beyond which a variant is added. */
#define MD_DS_FOLLOW_GAIN 1.1

bool md_ds_pool_may_follow(const md_ds_pool *pool);
/** Starts building the model's best for the shape, which `own` serves, if that is much slower. keeps_bits: the best of
 * own's numeric class, too, since that of another class serves other shapes alone. Takes up to some ms. */
md_status md_ds_pool_follow(bool *has_added, md_ds_pool *pool, const md_kn_shape *shape, int32_t own, bool keeps_bits);
/** Starts building what an earlier process added. INVALID_ARGUMENT for a name that is none. */
md_status md_ds_pool_follow_name(int32_t *added, md_ds_pool *pool, const char *name);

/* ---- tune_hints.c: tuning a formula without an op, as `mdctl tune` and md_tune_formula do */

typedef struct md_ds_tune_request {
    md_ds_compile_options compile; /* the same as of the ops that are to use the result */
    bool off_hints; /* GPUs: half of the time is for the extra points that pools look at (points.h) */
    md_bd *builder;
    const md_log *log; /* of warnings about the formula; may be NULL */
    /* rigor, budget_ms (of all stages), max_builds, all_directions, indices, exclude, seed, write, user */
    md_tn_job job;
} md_ds_tune_request;

/** Fills the wisdom for all stages at all hints. UNSUPPORTED where kernels cannot be compiled. */
md_status md_ds_tune_formula(const md_ds_tune_request *request, const char *formula);

#endif
