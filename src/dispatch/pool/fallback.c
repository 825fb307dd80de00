/* Adds a variant for a shape that none of the pool fits. */
#include "dispatch/pool/fill.h"

#include "base/status.h"
#include "dispatch/pool/internal.h"
#include "dispatch/numeric/numeric.h"
#include "dispatch/space/points.h"
#include "tune/tune.h"

/* One family's best for a shape. */
typedef struct offer {
    const md_fa_family *family;
    md_fa_config config;
    double us;
} offer;

enum { MAX_OFFERS = 32 };

/* Best by the model first. */
static void insert(offer out[MAX_OFFERS], int32_t *n, const offer *o)
{
    int32_t at = (*n)++;
    for (; at > 0 && out[at - 1].us > o->us; at--)
        out[at] = out[at - 1];
    out[at] = *o;
}

/* Best by the model first. A user's own kernels are left out: they are added, and verified, when the pool is made. */
static md_status list_offers(offer out[MAX_OFFERS], int32_t *n, const md_ds_pool *pool, const md_kn_shape *shape,
                             bool last_resorts)
{
    *n = 0;
    const md_fa_family *f;
    for (int32_t i = 0; (f = md_fa_of(&pool->target, i)) != NULL && *n < MAX_OFFERS; i++) {
        offer o = {.family = f};
        if (f->custom || f->is_last_resort != last_resorts || !md_ds_family_allowed(f, &pool->target, &pool->policy))
            continue;
        md_status s = md_ds_numeric_best(&o.config, &o.us, pool, f, shape);
        if (s == MD_NOT_FOUND)
            continue;
        MD_TRY(s);
        insert(out, n, &o);
    }
    return MD_OK;
}

/* Adds the first offer that has not failed before; *number is -1 where there is none. */
static md_status add_offer(int32_t *number, md_ds_pool *pool, const offer *list, int32_t n, const md_kn_shape *shape)
{
    int32_t made;
    *number = -1;
    for (int32_t i = 0; i < n && *number < 0; i++) {
        const int32_t stored = list[i].family->is_last_resort ? 0 : MD_DS_LAST_RESORTS;
        const md_ds_candidate candidate = {
            .family = list[i].family, .config = list[i].config, .limit = MD_DS_MAX_VARIANTS - stored};
        MD_TRY(md_ds_pool_add_locked(&made, pool, &candidate));
        if (made >= 0 && atomic_load_explicit(&pool->variant[made]->state, memory_order_acquire) != MD_BD_FAILED &&
            !md_kn_envelope_miss(&pool->variant[made]->envelope, shape))
            *number = made;
    }
    return MD_OK;
}

/* ---- Variants without limits, which bundles have for shapes that no other variant fits */

static bool is_general(const md_kn_envelope *e)
{
    bool is = !e->unit && !e->contiguous && !e->aligned && !e->aligned16 && !e->row_points_max && !e->rule_miss;
    for (int32_t d = 0; d < MD_KN_MAX_DIMS; d++)
        is = is && e->lo[d] <= 1 && e->hi[d] == 0;
    return is;
}

typedef struct general {
    const md_ds_pool *pool;
    md_fa_target target;
    const md_fa_family *family;
} general;

static bool accepts_general(void *user, const md_fa_config *config)
{
    const general *g = user;
    md_kn_envelope envelope = {0};
    md_fa_envelope_of(&envelope, g->family, &g->target, config);
    return is_general(&envelope) && md_ds_config_allowed(g->family, config, &g->target, &g->pool->policy);
}

/* Each family's best at the last hint, by the facts of the device that the bundle was made for, so that every
 * machine chooses the same. */
static md_status list_general(offer out[MAX_OFFERS], int32_t *n, const md_ds_pool *pool, bool last_resorts)
{
    const md_dev *dev = md_bd_device(pool->builder);
    general g = {.pool = pool, .target = pool->target};
    int64_t size[MD_FX_MAX_DIMS];
    md_kn_shape shape;
    if (dev->is_assumed)
        g.target.facts = &dev->assumed;
    md_ds_hint_sizes(size, pool->space, pool->space->n_hints - 1);
    md_ds_bring_into_reach(size, &pool->target);
    md_tn_shape(&shape, pool->target.program, size);
    *n = 0;
    for (int32_t i = 0; (g.family = md_fa_of(&g.target, i)) != NULL && *n < MAX_OFFERS; i++) {
        offer o = {.family = g.family};
        if (g.family->custom || g.family->is_last_resort != last_resorts ||
            !md_ds_family_allowed(g.family, &g.target, &pool->policy))
            continue;
        const md_status s =
            md_tn_best_of(&o.config, &o.us, &g.target, g.family, &shape, &(md_tn_filter){accepts_general, &g});
        if (s == MD_NOT_FOUND)
            continue;
        MD_TRY(s);
        insert(out, n, &o);
    }
    return MD_OK;
}

/* The first that can be built; *number is -1 where none can. */
static md_status add_general(int32_t *number, md_ds_pool *pool)
{
    offer list[MAX_OFFERS];
    int32_t n = 0, made;
    *number = -1;
    for (int32_t pass = 0; pass < 2 && *number < 0; pass++) {
        MD_TRY(list_general(list, &n, pool, pass == 1));
        for (int32_t i = 0; i < n && *number < 0; i++) {
            const md_ds_candidate one = {
                .family = list[i].family, .config = list[i].config, .limit = MD_DS_MAX_VARIANTS};
            MD_TRY(md_ds_pool_add_locked(&made, pool, &one));
            if (made >= 0 && md_bd_variant_wait(pool->variant[made]) == MD_OK)
                *number = made;
        }
    }
    return MD_OK;
}

/* Finds a variant of the pool that serves everything. Under a numeric policy the representatives serve all shapes. */
static int32_t find_general(const md_ds_pool *pool)
{
    for (int32_t i = 0; i < pool->n_variants; i++)
        if (is_general(&pool->variant[i]->envelope) && md_bd_variant_wait(pool->variant[i]) == MD_OK)
            return i;
    return -1;
}

md_status md_ds_pool_cover(md_ds_pool *pool)
{
    int32_t number = -1;
    if (pool->pinned >= 0)
        return MD_OK;
    pthread_mutex_lock(&pool->lock_of_variants);
    const md_status s = pool->numeric ? MD_OK : add_general(&number, pool);
    pthread_mutex_unlock(&pool->lock_of_variants);
    MD_TRY(s);
    if (pool->numeric)
        number = find_general(pool);
    return number >= 0 ? md_bd_bundled_keep(pool->variant[number])
                       : md_fail(MD_NOT_FOUND, "no variant serves all sizes, strides and places of data");
}

md_status md_ds_pool_add_fallback(int32_t *variant, md_ds_pool *pool, const md_kn_shape *shape)
{
    int32_t number = -1, n = 0;
    offer list[MAX_OFFERS];
    if (md_bd_is_bundled(pool->builder) && !pool->numeric)
        MD_TRY(add_general(&number, pool));
    for (int32_t pass = 0; pass < 2 && number < 0; pass++) {
        MD_TRY(list_offers(list, &n, pool, shape, pass == 1));
        MD_TRY(add_offer(&number, pool, list, n, shape));
    }
    if (number < 0)
        return md_fail(MD_NOT_FOUND, "no variant fits the shape");
    *variant = number;
    return MD_OK;
}
