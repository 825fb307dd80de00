/* What the files that fill pools share: configs of a point, configs of a hint, and the measured search. */
#ifndef MD_DISPATCH_POOL_INTERNAL_H
#define MD_DISPATCH_POOL_INTERNAL_H

#include "dispatch/pool/pool.h"
#include "dispatch/space/points.h"

/* ---- decide.c */

/** The config of a family at a point with this shape (md_ds_point_shape): under a numeric policy that of the class that
 * serves the point, else by wisdom and model as `rigor` says. NOT_FOUND where none is legal. */
md_status md_ds_decide(md_tn_decision *out, const md_ds_pool *pool, const md_fa_family *family,
                       const md_tn_point *point, const md_kn_shape *shape, md_tune rigor);
/** The best of all families but libraries and last resorts at a point; where some are measured there, of those. *best
 * NULL: none fits. */
md_status md_ds_best_at(const md_fa_family **best, md_fa_config *config, const md_ds_pool *pool,
                        const md_tn_point *point);

/** The best legal config of a family for a shape, by the model, among those of the class that serves the shape;
 * without a policy as md_tn_best. NOT_FOUND where there is none. */
md_status md_ds_numeric_best(md_fa_config *out, double *us, const md_ds_pool *pool, const md_fa_family *family,
                             const md_kn_shape *shape);

/* ---- hints.c */

/* Variants for points off the hints, above the policy's limit. They take places of MD_DS_SPARE_VARIANTS. */
enum { MD_DS_MAX_EXTRA = 68 };
_Static_assert((int)MD_DS_MAX_EXTRA + (int)MD_DS_LAST_RESORTS <= (int)MD_DS_SPARE_VARIANTS,
               "places are left for last resorts");

/** Adds every family's best at a hint: of the families of last resort, or of the others. `is_ragged`: rows and data
 * start at no boundary of memory, as with odd lengths. */
md_status md_ds_add_hint(md_ds_pool *pool, int32_t hint, bool last_resort, bool is_ragged);

/** True for host pools of default hints without numeric classes or measured results. There every variant is a run of
 * the C compiler that nobody asked for. */
bool md_ds_is_frugal(const md_ds_pool *pool);
/** Adds every family once, with its config of the hint where it does best, and for every hint the best of all, if no
 * variant of the pool comes near it; then the best between hints, where the pool is far behind. Families of last resort
 * are left out. */
md_status md_ds_add_frugally(md_ds_pool *pool);
/** Adds the best at a hint, which serves until the rest is there, and the library's. */
md_status md_ds_add_first(md_ds_pool *pool, int32_t hint);

/* ---- tune_hints.c */

/* Variants for extra points that are queued behind the first builds of a search, so that they compile while it
 * measures. The pool asks for the same ones afterwards and finds them built. */
typedef struct md_ds_prebuilt {
    const md_ds_pool *pool;
    int32_t n;
    md_bd_variant *variant[MD_DS_MAX_HINTS + MD_DS_MAX_CORNERS];
} md_ds_prebuilt;

/** Fills the wisdom for the hints of a pool's stage, from which md_tn_decide then answers. Nothing below
 * MD_TUNE_MEASURE. `prebuilt` is zeroed; finish it when the pool is filled. */
md_status md_ds_tune_hints(md_ds_prebuilt *prebuilt, const md_ds_pool *pool);
void md_ds_prebuilt_finish(md_ds_prebuilt *prebuilt);
/** Searches one stage at some points; `job` says all but target, points, wisdom and counters. */
md_status md_ds_tune_points(const md_tn_job *job, const md_fa_target *target, const md_ds_policy *policy,
                            const md_tn_point *point, int32_t n);
/** Ragged twins of all hints, and lopsided points where hints are the defaults; each once. Returns how many, at most
 * n_hints + MD_DS_MAX_CORNERS. */
int32_t md_ds_extra_points(md_tn_point *out, const md_fa_target *target, const md_ds_policy *policy,
                           const md_ds_space *space);

/** Ranks what else of the pool was timed at a hint: the model does not decide where a time is known. */
md_status md_ds_note_measured(md_ds_pool *pool);

#endif
