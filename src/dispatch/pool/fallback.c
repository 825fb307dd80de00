/* Adds a variant for a shape that none of the pool fits. */
#include "dispatch/pool/fallback.h"

#include "base/status.h"
#include "dispatch/pool/numeric.h"

/* One family's best for a shape. */
typedef struct offer {
    const md_fa_family *family;
    md_fa_config config;
    double us;
} offer;

enum { MAX_OFFERS = 32 };

/* Best by the model first. A user's own kernels are left out: they are added, and verified, when the pool is made. */
static md_status list_offers(offer out[MAX_OFFERS], int32_t *n, const md_ds_pool *c, const md_kn_shape *shape,
                             bool last_resorts)
{
    *n = 0;
    const md_fa_family *f;
    for (int32_t i = 0; (f = md_fa_of(&c->target, i)) != NULL && *n < MAX_OFFERS; i++) {
        offer o = {.family = f};
        if (f->custom || f->is_last_resort != last_resorts || !md_ds_family_allowed(f, &c->target, &c->policy))
            continue;
        md_status s = md_ds_numeric_best(&o.config, &o.us, c, f, shape);
        if (s == MD_NOT_FOUND)
            continue;
        MD_TRY(s);
        int32_t at = (*n)++;
        for (; at > 0 && out[at - 1].us > o.us; at--)
            out[at] = out[at - 1];
        out[at] = o;
    }
    return MD_OK;
}

/* Adds the first offer that has not failed before; *slot is -1 where there is none. */
static md_status add_offer(int32_t *slot, md_ds_pool *c, const offer *list, int32_t n, const md_kn_shape *shape)
{
    int32_t made;
    *slot = -1;
    for (int32_t i = 0; i < n && *slot < 0; i++) {
        const int32_t kept = list[i].family->is_last_resort ? 0 : MD_DS_LAST_RESORTS;
        const md_ds_candidate candidate = {
            .family = list[i].family, .config = list[i].config, .limit = MD_DS_MAX_VARIANTS - kept};
        MD_TRY(md_ds_pool_add_locked(&made, c, &candidate));
        if (made >= 0 && atomic_load_explicit(&c->variant[made]->state, memory_order_acquire) != MD_BD_FAILED &&
            !md_kn_envelope_miss(&c->variant[made]->envelope, shape))
            *slot = made;
    }
    return MD_OK;
}

md_status md_ds_pool_add_fallback(int32_t *variant, md_ds_pool *c, const md_kn_shape *shape)
{
    int32_t slot = -1, n = 0;
    offer list[MAX_OFFERS];
    for (int32_t pass = 0; pass < 2 && slot < 0; pass++) {
        MD_TRY(list_offers(list, &n, c, shape, pass == 1));
        MD_TRY(add_offer(&slot, c, list, n, shape));
    }
    if (slot < 0)
        return md_fail(MD_NOT_FOUND, "no variant fits the shape");
    *variant = slot;
    return MD_OK;
}
