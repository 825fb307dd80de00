/* Runs variants on a small shape and compares their results. */
#include "dispatch/select/select.h"

#include "base/status.h"
#include "tune/tune.h"

#include <string.h>

/* Tensors of a check take few bytes: larger copies would block other threads' calls of the driver. Where variants serve
 * no shape that small, a larger one will do. */
static const double few_bytes = 128e3, most_bytes = 4e6;

/* Half the size; a multiple of BOUNDARY if the size is one. */
static int64_t half_of(int64_t size)
{
    enum { BOUNDARY = 16 };
    int64_t half = size / 2;
    return size % BOUNDARY ? half | 1 : MD_MAX(half / BOUNDARY * BOUNDARY, BOUNDARY);
}

/* A shape on its way to fewer bytes. */
typedef struct shrinking {
    const md_ds_op *op;
    const md_ds_pool *pool;
    const int32_t *variant; /* those that are to be compared */
    int32_t n;
    const md_kn_shape *from;
    md_kn_shape shape;
    int64_t size[MD_FX_MAX_DIMS];
} shrinking;

/* True if the variants that fit the shape it began with fit this one, too. */
static bool all_fit(const shrinking *s, const md_kn_shape *small)
{
    for (int32_t i = 0; i < s->n; i++) {
        const md_kn_envelope *envelope = &s->pool->variant[s->variant[i]]->envelope;
        if (md_kn_envelope_miss(envelope, small) && !md_kn_envelope_miss(envelope, s->from))
            return false;
    }
    return true;
}

/* The dim of the largest size that can be halved and is not kept; -1: there is none. */
static int32_t largest_dim(const shrinking *s, const bool is_kept[MD_FX_MAX_DIMS])
{
    int32_t largest = -1;
    for (int32_t i = 0; i < s->op->space.n; i++) {
        const int32_t dim = s->op->space.dim[i];
        if (!is_kept[dim] && s->size[dim] >= 2 && half_of(s->size[dim]) < s->size[dim] &&
            (largest < 0 || s->size[dim] > s->size[largest]))
            largest = dim;
    }
    return largest;
}

/* Halves the largest size that can be halved without a variant that does not fit any longer. False: there is none. */
static bool halve(shrinking *s)
{
    bool is_kept[MD_FX_MAX_DIMS] = {false};
    for (int32_t dim; (dim = largest_dim(s, is_kept)) >= 0; is_kept[dim] = true) {
        const int64_t whole = s->size[dim];
        md_kn_shape small = s->shape;
        s->size[dim] = half_of(whole);
        md_tn_shape(&small, s->op->program, s->size);
        small.aligned &= s->from->aligned;
        small.aligned16 &= s->from->aligned16;
        if (all_fit(s, &small)) {
            s->shape = small;
            return true;
        }
        s->size[dim] = whole;
    }
    return false;
}

/* A small shape of the same alignment classes that the variants fit as they do `shape`. False if there is none. */
static bool shrink(md_kn_shape *out, const md_ds_op *op, const md_ds_pool *pool, const int32_t *variant, int32_t n,
                   const md_kn_shape *shape)
{
    shrinking s = {.op = op, .pool = pool, .variant = variant, .n = n, .from = shape, .shape = *shape};
    memcpy(s.size, shape->size, (size_t)op->formula->n_dims * sizeof *s.size);
    while (md_tn_agree_bytes(&pool->target, &s.shape) > few_bytes && halve(&s))
        ;
    *out = s.shape;
    return md_tn_agree_bytes(&pool->target, out) <= most_bytes;
}

void md_ds_quarantine(md_ds_op *op, int32_t stage, int32_t variant, md_tn_agreement found)
{
    md_ds_pool *pool = &op->stage[stage];
    if (found == MD_TN_UNSURE)
        return;
    int32_t before = atomic_exchange_explicit(&pool->agreement[variant], (int32_t)found, memory_order_relaxed);
    if (before == (int32_t)found || found < MD_TN_DIFFERS)
        return;
    atomic_fetch_add_explicit(&op->count.quarantined, 1, memory_order_relaxed);
    md_log_at(op->runtime->log, MD_LOG_WARN, "op %s, stage %d: %s %s: it is not used any more", op->name, stage,
              pool->variant[variant]->name,
              found == MD_TN_FAILS ? "does not run" : "gives other results than most variants do");
}

/* The variants that were not checked yet, and one more of those that were found right, so that wrong ones cannot
 * outvote them. */
static int32_t list_unsure(int32_t *out, const md_ds_pool *pool, const int32_t *variant, int32_t n,
                           const md_kn_shape *small)
{
    int32_t n_out = 0, n_right = 0;
    for (int32_t i = 0; i < n; i++)
        if (atomic_load_explicit(&pool->agreement[variant[i]], memory_order_relaxed) == MD_TN_UNSURE &&
            !md_kn_envelope_miss(&pool->variant[variant[i]]->envelope, small))
            out[n_out++] = variant[i];
    for (int32_t i = 0, n_unsure = n_out; i < n && n_right <= n_unsure && n_unsure > 0; i++)
        if (atomic_load_explicit(&pool->agreement[variant[i]], memory_order_relaxed) == MD_TN_AGREES &&
            !md_kn_envelope_miss(&pool->variant[variant[i]]->envelope, small)) {
            out[n_out++] = variant[i];
            n_right++;
        }
    return n_out;
}

void md_ds_agree(md_ds_op *op, int32_t stage, const int32_t *variant, int32_t n, const md_kn_shape *shape)
{
    md_ds_pool *pool = &op->stage[stage];
    md_bd_variant *v[MD_DS_MAX_VARIANTS];
    int32_t number[MD_DS_MAX_VARIANTS], n_fit = 0;
    md_tn_agreement found[MD_DS_MAX_VARIANTS];
    md_kn_shape small;
    bool is_known = true;
    for (int32_t i = 0; i < n; i++)
        is_known &= atomic_load_explicit(&pool->agreement[variant[i]], memory_order_relaxed) != MD_TN_UNSURE;
    if (is_known || !shrink(&small, op, pool, variant, n, shape))
        return;
    n_fit = list_unsure(number, pool, variant, n, &small);
    for (int32_t i = 0; i < n_fit; i++)
        v[i] = pool->variant[number[i]];
    if (n_fit < 2)
        return;
    pthread_mutex_lock(&op->runtime->lock_of_tuning);
    md_status s = md_tn_agree(found, v, n_fit, &small);
    pthread_mutex_unlock(&op->runtime->lock_of_tuning);
    for (int32_t i = 0; i < n_fit && s == MD_OK; i++)
        md_ds_quarantine(op, stage, number[i], found[i]);
}
