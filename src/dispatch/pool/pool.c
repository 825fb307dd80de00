/* The container: variants are added under a lock and read without; rankings are replaced as a whole. */
#include "dispatch/pool/pool.h"

#include "base/task/fork.h"
#include "base/status.h"
#include "tune/model/correction.h"

#include <stdlib.h>
#include <string.h>

/* True if rows of some tensor have this length. */
static bool is_length_of_rows(const md_fx_formula *f, int32_t dim)
{
    for (int32_t i = 0; i < f->n_tensors; i++)
        if (f->tensor[i].rank > 0 && f->tensor[i].dim[f->tensor[i].rank - 1] == dim)
            return true;
    return false;
}

md_status md_ds_pool_init(md_ds_pool *pool, md_bd *builder, const md_fa_target *target, const md_ds_space *space,
                          const md_ds_policy *policy)
{
    memset(pool, 0, sizeof *pool);
    pool->target = *target;
    pool->policy = *policy;
    pool->builder = builder;
    pool->space = space;
    pool->pinned = -1;
    md_mutex_init(&pool->lock_of_variants);
    pool->draft = calloc(1, sizeof *pool->draft);
    if (!pool->draft)
        return md_fail_memory();
    atomic_init(&pool->ranks, pool->draft);
    bool has_rows[MD_DS_MAX_DYNAMIC];
    for (int32_t i = 0; i < space->n; i++)
        has_rows[i] = space->weight[i] > 0.0 && is_length_of_rows(target->program->formula, space->dim[i]);
    MD_TRY(md_tn_correction_create(&pool->correction, space->n, space->weight, has_rows));
    return pool->policy.agrees ? md_tn_correction_create(&pool->settled, space->n, space->weight, has_rows) : MD_OK;
}

void md_ds_pool_finish(md_ds_pool *pool)
{
    if (!pool->target.program)
        return;
    for (int32_t i = 0; i < pool->n_variants; i++)
        md_bd_variant_destroy(&pool->variant[i]);
    free(pool->numeric);
    md_tn_correction_destroy(&pool->correction);
    md_tn_correction_destroy(&pool->settled);
    md_tn_estimates_close(&pool->estimates);
    for (md_ds_ranks *r = pool->draft; r;) {
        md_ds_ranks *older = r->older;
        free(r);
        r = older;
    }
    md_mutex_finish(&pool->lock_of_variants);
    memset(pool, 0, sizeof *pool);
}

/* The first variant whose envelope has the same bytes. */
static int32_t same_envelope(const md_ds_pool *pool, int32_t variant)
{
    int32_t i = 0;
    while (memcmp(&pool->variant[i]->envelope, &pool->variant[variant]->envelope, sizeof(md_kn_envelope)) != 0)
        i++;
    return i;
}

int32_t md_ds_pool_find(const md_ds_pool *pool, const char *name)
{
    const int32_t n = atomic_load_explicit(&pool->n_variants, memory_order_acquire);
    for (int32_t i = 0; i < n; i++)
        if (!strcmp(pool->variant[i]->name, name))
            return i;
    return -1;
}

md_status md_ds_pool_add_locked(int32_t *number, md_ds_pool *pool, const md_ds_candidate *candidate)
{
    char name[MD_FA_NAME];
    md_fa_name(name, candidate->family, &candidate->config);
    const int32_t n = atomic_load_explicit(&pool->n_variants, memory_order_relaxed);
    *number = md_ds_pool_find(pool, name);
    if (*number >= 0 || n >= candidate->limit)
        return MD_OK;
    MD_TRY(
        md_bd_variant_create(&pool->variant[n], pool->builder, &pool->target, candidate->family, &candidate->config));
    pool->envelope_of[n] = same_envelope(pool, n);
    if (candidate->family->library_calls)
        atomic_fetch_add_explicit(&pool->n_libraries, 1, memory_order_relaxed);
    atomic_store_explicit(&pool->n_variants, n + 1, memory_order_release);
    *number = n;
    return MD_OK;
}

md_status md_ds_pool_add(int32_t *number, md_ds_pool *pool, const md_ds_candidate *candidate)
{
    pthread_mutex_lock(&pool->lock_of_variants);
    const md_status s = md_ds_pool_add_locked(number, pool, candidate);
    pthread_mutex_unlock(&pool->lock_of_variants);
    return s;
}

void md_ds_pool_wait(md_ds_pool *pool)
{
    const int32_t n = atomic_load_explicit(&pool->n_variants, memory_order_acquire);
    for (int32_t i = 0; i < n; i++)
        (void)md_bd_variant_wait(pool->variant[i]);
}

static bool is_ranked(const md_ds_ranks *r, int32_t hint, int32_t variant)
{
    for (int32_t i = 0; i < r->n[hint]; i++)
        if (r->of[hint][i].variant == variant)
            return true;
    return false;
}

void md_ds_rank(md_ds_pool *pool, int32_t hint, md_ds_ranked variant)
{
    md_ds_ranks *r = pool->draft;
    if (is_ranked(r, hint, variant.variant))
        return;
    int32_t at = r->n[hint];
    if (at == MD_DS_MAX_RANKED) {
        if (r->of[hint][at - 1].us <= variant.us)
            return;
        at = --r->n[hint];
    }
    for (; at > 0 && r->of[hint][at - 1].us > variant.us; at--)
        r->of[hint][at] = r->of[hint][at - 1];
    r->of[hint][at] = variant;
    r->n[hint]++;
}

uint64_t md_ds_hints_of(const md_ds_pool *pool, int32_t variant)
{
    const md_ds_ranks *r = md_ds_ranks_of(pool);
    uint64_t hints = 0;
    for (int32_t h = 0; h < pool->space->n_hints; h++)
        hints |= is_ranked(r, h, variant) ? UINT64_C(1) << h : 0;
    return hints;
}
