/* Finds the numeric class that serves a shape, and the best config of a family within it. */
#include "dispatch/pool/numeric.h"

#include "base/status.h"
#include "family/numeric.h"
#include "tune/search/estimates.h"
#include "tune/tune.h"

#include <math.h>

/* ---- What serves a shape */

/* The nearest probe that was not passed over, ties to the earlier one; -1 at the end. */
static int32_t next_probe(const md_ds_numeric *x, const double *at, const uint64_t *passed)
{
    int32_t best = -1;
    double least = INFINITY;
    for (int32_t i = 0; i < x->n_probes; i++) {
        double d = 0;
        for (int32_t k = 0; k < x->n_dims; k++)
            d += fabs(at[k] - x->probe[i].at[k]);
        if (d < least && !(*passed >> i & 1)) {
            least = d;
            best = i;
        }
    }
    return best;
}

static bool is_broken(const md_ds_representative *l)
{
    return l->variant && atomic_load_explicit(&l->variant->state, memory_order_acquire) == MD_BD_FAILED;
}

/* A probe none of whose representatives fits is passed over: there was not room for all of them. */
static uint64_t class_at(const md_ds_numeric *x, const md_kn_shape *shape)
{
    double at[MD_DS_MAX_DYNAMIC];
    uint64_t passed = 0;
    for (int32_t k = 0; k < x->n_dims; k++)
        at[k] = log2((double)MD_MAX(shape->size[x->dim[k]], 1));
    for (int32_t i; (i = next_probe(x, at, &passed)) >= 0; passed |= UINT64_C(1) << i)
        for (int32_t k = 0; k < x->probe[i].n; k++) {
            const md_ds_representative *l = &x->representative[x->probe[i].representative[k]];
            bool is_last = l->family->is_last_resort && __builtin_popcountll(passed) + 1 < x->n_probes;
            if (!is_last && !is_broken(l) && !md_kn_envelope_miss(&l->envelope, shape))
                return l->id;
        }
    return MD_DS_NO_CLASS;
}

uint64_t md_ds_numeric_class(const md_ds_numeric *numeric, const md_kn_shape *shape)
{
    return numeric ? class_at(numeric, shape) : 0;
}

/* ---- The best of a family within a class */

typedef struct wanted {
    const md_ds_pool *c;
    const md_fa_family *family;
    uint64_t id;
} wanted;

static bool is_of_class(void *user, const md_fa_config *config)
{
    const wanted *w = user;
    md_fa_numeric numeric;
    md_fa_numeric_of(&numeric, &w->c->target, w->family, config);
    return numeric.id == w->id && md_ds_config_allowed(w->family, config, &w->c->target, &w->c->policy);
}

md_status md_ds_numeric_best(md_fa_config *out, double *us, const md_ds_pool *c, const md_fa_family *family,
                             const md_kn_shape *shape)
{
    if (!c->numeric) {
        MD_TRY(md_tn_estimate(out, us, c->estimates, &c->target, family, shape));
        return md_ds_config_allowed(family, out, &c->target, &c->policy)
                   ? MD_OK
                   : md_ds_best_allowed(out, us, family, &c->target, &c->policy, shape);
    }
    wanted w = {c, family, md_ds_numeric_class(c->numeric, shape)};
    return md_tn_best_of(out, us, &c->target, family, shape, &(md_tn_filter){is_of_class, &w});
}
