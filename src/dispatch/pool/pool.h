/* The pool of one stage: the variants that may serve it, and for every hint a ranking of them. This is the container;
 * fill.h says what goes in. Thread-safe for readers while variants are added. */
#ifndef MD_DISPATCH_POOL_POOL_H
#define MD_DISPATCH_POOL_POOL_H

#include "build/build.h"
#include "dispatch/policy.h"
#include "dispatch/space/space.h"
#include "tune/model/correction.h"
#include "tune/search/search.h"

#include <pthread.h>

/* Pools of at most so many hints have every family's best at each. */
enum { MD_DS_FEW_HINTS = 3, MD_DS_MAX_RANKED = 16 };

/* A variant at a hint. */
typedef struct md_ds_ranked {
    int32_t variant;
    double us; /* at the hint: measured by the tuner, or by the model */
    double model_us; /* the model's time where `us` is measured; 0: `us` is the model's */
} md_ds_ranked;

typedef struct md_ds_ranks {
    struct md_ds_ranks *older; /* calls under way may still read it */
    int32_t n[MD_DS_MAX_HINTS];
    md_ds_ranked of[MD_DS_MAX_HINTS][MD_DS_MAX_RANKED]; /* best first */
} md_ds_ranks;

typedef struct md_ds_pool {
    md_fa_target target;
    md_ds_policy policy;
    md_bd *builder; /* not owned */
    const md_ds_space *space; /* not owned */
    struct md_tn_estimates *estimates; /* while the pool is filled; NULL where nothing is kept */
    pthread_mutex_t lock_of_variants; /* held to add one; readers load n_variants (acquire): lower ones never change */
    _Atomic int32_t n_variants;
    md_bd_variant *variant[MD_DS_MAX_VARIANTS];
    int32_t envelope_of[MD_DS_MAX_VARIANTS]; /* the first variant with the same envelope */
    _Atomic int32_t n_followed; /* variants that were added for the traffic */
    _Atomic int32_t n_libraries; /* variants whose libraries load something */
    _Atomic int32_t agreement[MD_DS_MAX_VARIANTS]; /* md_tn_agreement of its results with those of others */
    _Atomic uint32_t likely; /* the last pick by the model and its runner-up (16 bits each, + 1): where to begin */
    _Atomic uint64_t recent; /* own variants that the model picked lately, of all: a byte each, + 1; 0: none */
    struct md_tn_correction *correction; /* of the model, by measured times (correct.c) */
    /* the same by times of tuning and of earlier processes alone, for the picks of ranks that agree: ranks that begin
     * alike choose alike. NULL unless policy.agrees */
    struct md_tn_correction *settled;
    int32_t pinned; /* variant, or -1 */
    struct md_ds_numeric *numeric; /* which class serves which shape; NULL: any */
    _Atomic(md_ds_ranks *) ranks; /* what readers see */
    md_ds_ranks *draft; /* what is being filled: the same, or a copy while readers use the pool */
    bool is_partial; /* has the first hint's variants only */
} md_ds_pool;

static inline const md_ds_ranks *md_ds_ranks_of(const md_ds_pool *pool)
{
    return atomic_load_explicit(&pool->ranks, memory_order_acquire);
}

/* A variant to add. */
typedef struct md_ds_candidate {
    const md_fa_family *family;
    md_fa_config config;
    int32_t limit; /* it is left out where the pool has so many variants */
} md_ds_candidate;

/** An empty pool. The builder, the space and what the target points to must outlive it. */
md_status md_ds_pool_init(md_ds_pool *pool, md_bd *builder, const md_fa_target *target, const md_ds_space *space,
                          const md_ds_policy *policy);
void md_ds_pool_finish(md_ds_pool *pool);
/** Adds a variant and queues its build, unless one of that name is there. *number: its place among them, -1 where it is
 * left out. md_ds_pool_add takes the lock of variants; of md_ds_pool_add_locked the caller holds it. */
md_status md_ds_pool_add(int32_t *number, md_ds_pool *pool, const md_ds_candidate *candidate);
md_status md_ds_pool_add_locked(int32_t *number, md_ds_pool *pool, const md_ds_candidate *candidate);
/** The number of the variant of that name; -1: the pool has none. */
int32_t md_ds_pool_find(const md_ds_pool *pool, const char *name);
/** Waits for all builds. Failed ones stay, and are never picked. */
void md_ds_pool_wait(md_ds_pool *pool);

/** The correction that picks are made by. */
static inline struct md_tn_correction *md_ds_pick_correction(const md_ds_pool *pool)
{
    return pool->settled ? pool->settled : pool->correction;
}
/** Applies it to the times of all n variants. */
void md_ds_correct_picks(double *us, md_ds_pool *pool, const int64_t *select_sizes, int32_t n);
/** Puts a variant into a hint's ranking, unless it is there. A full ranking keeps the best. */
void md_ds_rank(md_ds_pool *pool, int32_t hint, md_ds_ranked variant);
/** The hints whose rankings have the variant, a bit for each. */
uint64_t md_ds_hints_of(const md_ds_pool *pool, int32_t variant);

/* ---- correct.c: the correction of the model for the stage, by tune/model/correction.h. Thread-safe */

/* A measured time of one variant. */
typedef struct md_ds_measured {
    int32_t variant;
    md_tn_clock clock;
    double us, model_us; /* measured; by the model, uncorrected */
} md_ds_measured;

/** Tells the correction; `size` parallel to space->dim. Times that are not positive and finite are ignored. may_wait:
 * false on the path of a call, where the time is lost if another thread uses the correction now. */
void md_ds_observe(md_ds_pool *pool, const int64_t *size, const md_ds_measured *measured, bool may_wait);
/** As md_ds_observe, at sizes by dim id. */
void md_ds_observe_at(md_ds_pool *pool, const int64_t *select_sizes, const md_ds_measured *measured, bool may_wait);
/** Puts a variant into a hint's ranking (md_ds_rank), and tells the correction its time if that is measured. */
void md_ds_rank_observed(md_ds_pool *pool, int32_t hint, md_ds_ranked variant);
/** Corrects the model's times of n candidates (NULL: the first n) at sizes by dim id; those that are not positive
 * stay. */
void md_ds_correct(double *us, md_ds_pool *pool, const int64_t *select_sizes, const int32_t *variant, int32_t n);
/** True if the candidate was measured at any point. */
bool md_ds_is_measured(md_ds_pool *pool, int32_t variant);
/** Tells the correction the times of the pool's variants in installed wisdom, at any sizes. Families whose kernels have
 * another text since are left out. Failures are ignored: the model knows less then. */
void md_ds_note_elsewhere(md_ds_pool *pool);

#endif
