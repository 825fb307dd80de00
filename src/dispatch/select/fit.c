/* Checks variants against a shape: state, agreement with other variants, envelope, numeric class. */
#include "dispatch/select/select.h"

#include "dispatch/numeric/numeric.h"
#include "tune/verify/verify.h"

#include <string.h>

const char *md_ds_misfit(const md_ds_pool *pool, int32_t i, const md_kn_shape *shape)
{
    const md_bd_variant *v = pool->variant[i];
    int32_t state = atomic_load_explicit(&v->state, memory_order_acquire);
    if (state == MD_BD_FAILED)
        return v->config.custom ? v->failure : "could not be built";
    if (state != MD_BD_READY)
        return "is being built";
    if (atomic_load_explicit(&pool->agreement[i], memory_order_relaxed) >= MD_TN_DIFFERS)
        return "gives other results than most variants";
    const char *miss = md_kn_envelope_miss(&v->envelope, shape);
    if (!miss && pool->numeric && v->numeric_class != md_ds_numeric_class(pool->numeric, shape))
        return "of another numeric class";
    if (!miss && md_bd_variant_load(v, shape, MD_BD_LOAD_LOOK) == MD_BD_CANNOT_LOAD)
        return "its library has no kernel for this shape";
    return miss;
}

const char *md_ds_reject_reason(const md_ds_pool *pool, int32_t i, const md_kn_shape *shape)
{
    const char *misfit = md_ds_misfit(pool, i, shape);
    if (!misfit && md_bd_variant_load(pool->variant[i], shape, MD_BD_LOAD_LOOK) == MD_BD_DEFERRED)
        return "its library's kernel is not loaded (md_prepare loads it, and so do many calls)";
    return misfit;
}

/* True if the variant's state, its numeric class and other variants' results let it serve, whatever the shape. */
static bool may_serve(const md_ds_pool *pool, int32_t i, int32_t state, const md_ds_query *query)
{
    const md_bd_variant *v = pool->variant[i];
    if (state == MD_BD_FAILED || (state != MD_BD_READY && !query->with_unbuilt) ||
        (query->numeric_class && v->numeric_class != query->numeric_class))
        return false;
    if (query->only_deferred && !v->family->library_calls)
        return false;
    return atomic_load_explicit(&pool->agreement[i], memory_order_relaxed) < MD_TN_DIFFERS;
}

/* What the variant's library says. */
static bool is_loaded(const md_bd_variant *v, int32_t state, const md_ds_query *query)
{
    if (!v->family->library_calls)
        return true;
    const md_bd_load_state load = md_bd_variant_load(v, query->shape, MD_BD_LOAD_LOOK);
    if (query->without_unasked && v->family->library_answer && state == MD_BD_READY && load == MD_BD_NOT_LOADED)
        return false;
    return load == MD_BD_LOADED || (query->loads && load != MD_BD_CANNOT_LOAD) ||
           (query->with_unbuilt &&
            ((load == MD_BD_NOT_LOADED && !query->only_deferred) || (load == MD_BD_DEFERRED && query->may_load)));
}

bool md_ds_fits(const md_ds_pool *pool, int32_t i, const md_ds_query *query)
{
    const md_bd_variant *v = pool->variant[i];
    const int32_t state = atomic_load_explicit(&v->state, memory_order_acquire);
    return may_serve(pool, i, state, query) && !md_kn_envelope_miss(&v->envelope, query->shape) &&
           is_loaded(v, state, query);
}

static void fit_recent(bool *fits, const md_ds_pool *pool, int32_t n, const md_ds_query *query)
{
    memset(fits, 0, (size_t)n * sizeof *fits);
    for (uint64_t left = atomic_load_explicit(&pool->recent, memory_order_relaxed); left; left >>= 8) {
        const int32_t i = (int32_t)(left & 0xff) - 1;
        if (i < n)
            fits[i] = md_ds_fits(pool, i, query);
    }
}

/* What is known of an envelope. */
enum { UNKNOWN, HOLDS, MISSES };

enum { AHEAD = 6 }; /* variants */

/* Asks the memory for a variant, and for its envelope if it is the first that has it: other work has driven a pool of
 * 200 KB out of the caches. */
static void look_ahead(const md_ds_pool *pool, int32_t i, int32_t n)
{
    if (i >= n)
        return;
    md_bd_variant_prefetch(pool->variant[i]);
    if (pool->envelope_of[i] == i) {
        const md_kn_envelope *envelope = &pool->variant[i]->envelope;
        __builtin_prefetch(envelope->lo);
        __builtin_prefetch(envelope->hi);
        __builtin_prefetch(&envelope->unit);
    }
}

void md_ds_fit_all(bool *fits, const md_ds_pool *pool, int32_t n, const md_ds_query *query)
{
    uint8_t holds[MD_DS_MAX_VARIANTS] = {UNKNOWN}; /* by the first variant with the envelope */
    const int32_t n_dims = pool->target.program->formula->n_dims;
    if (query->only_recent) {
        fit_recent(fits, pool, n, query);
        return;
    }
    for (int32_t i = 0; i < AHEAD; i++)
        look_ahead(pool, i, n);
    for (int32_t i = 0; i < n; i++) {
        const md_bd_variant *v = pool->variant[i];
        look_ahead(pool, i + AHEAD, n);
        const int32_t state = atomic_load_explicit(&v->state, memory_order_acquire);
        uint8_t *known = &holds[pool->envelope_of[i]];
        fits[i] = may_serve(pool, i, state, query);
        if (fits[i] && *known == UNKNOWN)
            *known = md_kn_envelope_miss_of(&v->envelope, query->shape, n_dims) ? MISSES : HOLDS;
        fits[i] = fits[i] && *known == HOLDS && is_loaded(v, state, query);
    }
}
