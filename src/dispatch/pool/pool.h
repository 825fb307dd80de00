/* The candidates of one stage: for every hint, the best config of every family that applies, ranked; equal configs
 * merge. */
#ifndef MD_DISPATCH_POOL_POOL_H
#define MD_DISPATCH_POOL_POOL_H

#include "build/build.h"
#include "dispatch/pool/policy.h"
#include "dispatch/pool/space.h"
#include "tune/search/search.h"

#include <pthread.h>

/* At so many hints pools have every family's best. */
enum { MD_DS_FEW_HINTS = 3 };

typedef struct md_ds_ranked {
    int32_t variant;
    double us; /* at the hint: by the tuner, or by the model */
    double model_us; /* what the model says where the tuner measured; 0: it did not */
} md_ds_ranked;

typedef struct md_ds_ranks {
    struct md_ds_ranks *older; /* readers may still be at it */
    int32_t n[MD_DS_MAX_HINTS];
    md_ds_ranked of[MD_DS_MAX_HINTS][16]; /* best first */
} md_ds_ranks;

typedef struct md_ds_pool {
    md_fa_target target;
    md_ds_policy policy;
    struct md_tn_estimates *estimates; /* while the pool is made; NULL where nothing is kept */
    pthread_mutex_t lock_of_variants; /* held to add one; readers read n_variants (acquire), slots below never change */
    _Atomic int32_t n_variants;
    md_bd_variant *variant[MD_DS_MAX_VARIANTS];
    int32_t from_hint[MD_DS_MAX_VARIANTS]; /* the first hint it won; -1: added for a shape that none fitted */
    _Atomic double measured_us[MD_DS_MAX_VARIANTS]; /* at from_hint, by the tuner; 0: only the model knows */
    _Atomic double hint_us[MD_DS_MAX_VARIANTS]; /* by the model, where it was measured; 0: not asked yet */
    _Atomic int32_t agreement[MD_DS_MAX_VARIANTS]; /* md_tn_agreement: with the results of others */
    int32_t pinned; /* variant, or -1 */
    struct md_ds_numeric *numeric; /* which class serves which shape; NULL: any */
    _Atomic(md_ds_ranks *) ranks; /* what readers see */
    md_ds_ranks *draft; /* what is being made of it: the same, or a copy while the pool grows */
    bool is_partial; /* the first hint's only */
} md_ds_pool;

static inline const md_ds_ranks *md_ds_ranks_of(const md_ds_pool *c)
{
    return atomic_load_explicit(&c->ranks, memory_order_acquire);
}

/** Chooses configs and starts building them. `target` and `space` must outlive it. only_first: those for the first
 * hint, if there are any; md_ds_pool_fill does the rest. */
md_status md_ds_pool_init(md_ds_pool *c, md_bd *builder, const md_fa_target *target, const md_ds_space *space,
                          const md_ds_policy *policy, bool only_first);
/** Adds what is left, while others read. One thread. */
md_status md_ds_pool_fill(md_ds_pool *c, md_bd *builder, const md_ds_space *space);
void md_ds_pool_finish(md_ds_pool *c);
/** Waits for all builds. Failed ones stay, and are never picked. */
void md_ds_pool_wait(md_ds_pool *c);
/** For a shape that no variant fits: starts building the best config for it, of the best family that has not failed.
 * NOT_FOUND if none fits. The lock of variants is held. */
md_status md_ds_pool_add_fallback(int32_t *variant, md_ds_pool *c, md_bd *builder, const md_kn_shape *shape);

/** Puts a variant into a hint's list, unless it is there or the list is full. */
void md_ds_rank(md_ds_pool *c, int32_t hint, int32_t variant, double us, double model_us);
/** The best of all families at a point; where some were measured there, of those. *best NULL: none fits. */
md_status md_ds_best_at(const md_fa_family **best, md_fa_config *config, const md_ds_pool *c, const md_tn_point *point);

#endif
