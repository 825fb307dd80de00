/* Picks the variants to time: the fastest by the model, and the best of each family, where the model errs most. */
#include "dispatch/select/select.h"

#include "tune/bench/bench.h"

/* The model errs by less than this between variants, and between the best of two families. */
static const double WITHIN = 2.0, OF_FAMILY = 3.0;
enum { MOST_FAMILIES = 4 };

typedef struct racers {
    const md_ds_pool *pool;
    const double *us;
    int32_t n; /* variants of the pool */
    int32_t *list, n_listed;
} racers;

static bool is_listed(const racers *r, int32_t variant)
{
    for (int32_t i = 0; i < r->n_listed; i++)
        if (r->list[i] == variant)
            return true;
    return false;
}

static bool has_family(const racers *r, int32_t variant)
{
    for (int32_t i = 0; i < r->n_listed; i++)
        if (r->pool->variant[r->list[i]]->family == r->pool->variant[variant]->family)
            return true;
    return false;
}

/* Lists the fastest within `most` that is not listed, of a family that is not if asked for. False if there is none. */
static bool add_next(racers *r, double most, bool of_new_family)
{
    int32_t best = -1;
    for (int32_t i = 0; i < r->n; i++)
        if (r->us[i] > 0.0 && r->us[i] <= most && (best < 0 || r->us[i] < r->us[best]) && !is_listed(r, i) &&
            !(of_new_family && has_family(r, i)))
            best = i;
    if (best >= 0)
        r->list[r->n_listed++] = best;
    return best >= 0;
}

static void sort_by_us(int32_t *list, int32_t n, const double *us)
{
    for (int32_t i = 1; i < n; i++) {
        const int32_t v = list[i];
        int32_t at = i;
        for (; at > 0 && us[list[at - 1]] > us[v]; at--)
            list[at] = list[at - 1];
        list[at] = v;
    }
}

int32_t md_ds_pick_racers(int32_t variant[MD_DS_RACERS], const md_ds_pool *pool, const double *us, int32_t n)
{
    racers r = {.pool = pool, .us = us, .n = n, .list = variant};
    double least = 0.0;
    for (int32_t i = 0; i < n; i++)
        if (us[i] > 0.0 && (!(least > 0.0) || us[i] < least))
            least = us[i];
    while (r.n_listed < MOST_FAMILIES && add_next(&r, OF_FAMILY * least, true))
        ;
    while (r.n_listed < MD_DS_OWN_RACERS && add_next(&r, WITHIN * least, false))
        ;
    for (int32_t i = 0; i < n && r.n_listed < MD_DS_RACERS; i++)
        if (us[i] > 0.0 && pool->variant[i]->family->custom > 0 && !is_listed(&r, i))
            variant[r.n_listed++] = i;
    sort_by_us(variant, r.n_listed, us);
    return r.n_listed;
}

int32_t md_ds_load_racers(int32_t *variant, int32_t n, const md_ds_pool *pool, const md_ds_query *query,
                          double budget_ms)
{
    const md_dev *dev = query->call->device;
    const uint64_t end_ns = md_tn_now_ns(dev) + (uint64_t)(budget_ms * 1e6);
    int32_t n_ready = 0;
    for (int32_t i = 0; i < n; i++) {
        const md_bd_load_effort effort = md_tn_now_ns(dev) < end_ns ? MD_BD_LOAD_WAIT : MD_BD_LOAD_LOOK;
        if (md_bd_variant_load(pool->variant[variant[i]], query->shape, effort) == MD_BD_LOADED)
            variant[n_ready++] = variant[i];
    }
    return n_ready;
}
