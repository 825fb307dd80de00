#include "dispatch/agreement.h"

#include "base/status.h"
#include "tune/tune.h"

#include <string.h>

/* What is checked takes no more than these bytes. */
static const double most_bytes = 2e6;

/* A smaller shape of its kind, that is quickly made and checked. False where some variant does not take it. */
static bool shrink(md_kn_shape *out, const md_ds_op *op, md_bd_variant *const *v, int32_t n, const md_kn_shape *shape)
{
    int64_t size[MD_FX_MAX_DIMS] = {0};
    *out = *shape;
    memcpy(size, shape->size, (size_t)op->formula->n_dims * sizeof *size);
    for (int32_t round = 0; md_tn_agree_bytes(&v[0]->target, out) > most_bytes; round++) {
        int32_t largest = op->space.n ? op->space.dim[0] : -1;
        for (int32_t i = 1; i < op->space.n; i++)
            if (size[op->space.dim[i]] > size[largest])
                largest = op->space.dim[i];
        if (largest < 0 || size[largest] < 2 || round == 64)
            return false;
        size[largest] = size[largest] / 2 | 1; /* at no boundary */
        md_tn_shape(out, op->program, size);
    }
    for (int32_t i = 0; i < n; i++)
        if (md_kn_envelope_miss(&v[i]->envelope, out))
            return false;
    return true;
}

void md_ds_quarantine(md_ds_op *op, int32_t stage, int32_t variant, md_tn_agreement found)
{
    md_ds_candidates *c = &op->stage[stage];
    if (found == MD_TN_UNSURE)
        return;
    int32_t before = atomic_exchange_explicit(&c->agreement[variant], (int32_t)found, memory_order_relaxed);
    if (before == (int32_t)found || found < MD_TN_DIFFERS)
        return;
    atomic_fetch_add_explicit(&op->count.quarantined, 1, memory_order_relaxed);
    md_log_at(op->runtime->log, MD_LOG_WARN, "op %s, stage %d: %s %s: it is not used any more", op->name, stage, c->variant[variant]->name,
              found == MD_TN_FAILS ? "does not run" : "gives other results than most variants do");
}

void md_ds_agree(md_ds_op *op, int32_t stage, const int32_t *variant, int32_t n, const md_kn_shape *shape)
{
    md_ds_candidates *c = &op->stage[stage];
    md_bd_variant *v[MD_DS_MAX_VARIANTS];
    md_tn_agreement found[MD_DS_MAX_VARIANTS];
    md_kn_shape small;
    bool is_known = true;
    for (int32_t i = 0; i < n; i++) {
        v[i] = c->variant[variant[i]];
        is_known &= atomic_load_explicit(&c->agreement[variant[i]], memory_order_relaxed) != MD_TN_UNSURE;
    }
    if (is_known || n < 2 || !shrink(&small, op, v, n, shape))
        return;
    pthread_mutex_lock(&op->runtime->lock_of_tuning);
    md_status s = md_tn_agree(found, v, n, &small);
    pthread_mutex_unlock(&op->runtime->lock_of_tuning);
    for (int32_t i = 0; i < n && s == MD_OK; i++)
        md_ds_quarantine(op, stage, variant[i], found[i]);
}
