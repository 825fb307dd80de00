/* Checks variants against a shape: state, agreement with other variants, envelope, numeric class. */
#include "dispatch/select/fit.h"

#include "dispatch/pool/numeric.h"
#include "tune/verify/agree.h"

const char *md_ds_misfit(const md_ds_pool *c, int32_t i, const md_kn_shape *shape)
{
    const md_bd_variant *v = c->variant[i];
    int32_t state = atomic_load_explicit(&v->state, memory_order_acquire);
    if (state == MD_BD_FAILED)
        return v->config.custom ? v->failure : "could not be built";
    if (state != MD_BD_READY)
        return "is being built";
    if (atomic_load_explicit(&c->agreement[i], memory_order_relaxed) >= MD_TN_DIFFERS)
        return "gives other results than most variants";
    const char *miss = md_kn_envelope_miss(&v->envelope, shape);
    if (!miss && c->numeric && v->numeric_class != md_ds_numeric_class(c->numeric, shape))
        return "of another numeric class";
    if (!miss && md_bd_variant_load(v, shape, MD_BD_LOAD_LOOK) == MD_BD_CANNOT_LOAD)
        return "its library has no kernel for this shape";
    return miss;
}

const char *md_ds_reject_reason(const md_ds_pool *c, int32_t i, const md_kn_shape *shape)
{
    const char *misfit = md_ds_misfit(c, i, shape);
    if (!misfit && md_bd_variant_load(c->variant[i], shape, MD_BD_LOAD_LOOK) == MD_BD_DEFERRED)
        return "its library's kernel is not loaded (md_prepare loads it, and so do many calls)";
    return misfit;
}

bool md_ds_fits(const md_ds_pool *c, int32_t i, const md_ds_query *query)
{
    const md_bd_variant *v = c->variant[i];
    int32_t state = atomic_load_explicit(&v->state, memory_order_acquire);
    if (state == MD_BD_FAILED || (state != MD_BD_READY && !query->with_unbuilt) ||
        (query->numeric_class && v->numeric_class != query->numeric_class))
        return false;
    if (query->only_deferred && !v->family->library_calls)
        return false;
    if (atomic_load_explicit(&c->agreement[i], memory_order_relaxed) >= MD_TN_DIFFERS ||
        md_kn_envelope_miss(&v->envelope, query->shape))
        return false;
    const md_bd_load_state load = md_bd_variant_load(v, query->shape, MD_BD_LOAD_LOOK);
    if (query->without_unasked && v->family->library_call_us && state == MD_BD_READY && load == MD_BD_NOT_LOADED)
        return false;
    return load == MD_BD_LOADED || (query->loads && load != MD_BD_CANNOT_LOAD) ||
           (query->with_unbuilt &&
            ((load == MD_BD_NOT_LOADED && !query->only_deferred) || (load == MD_BD_DEFERRED && query->may_load)));
}
