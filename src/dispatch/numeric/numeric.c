/* Numeric policies: which classes serve at the probes, and the class that serves a shape. */
#include "dispatch/numeric/numeric.h"

#include "base/status.h"
#include "dispatch/space/points.h"
#include "family/numeric.h"
#include "tune/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Classes that are compared at a probe. */
enum { MAX_CLASSES = 256 };

/* Under a numeric policy results must not depend on measured rates or settings: these facts get fixed values. */
static void fix_facts(md_dev_facts *facts)
{
    facts->factors = NULL;
    if (facts->kind != MD_DEV_HOST)
        return;
    facts->threads = 8;
    facts->memory_gbps = 64;
    facts->lane_gbps = 16;
    facts->cache_gbps = 64;
    facts->gflops = 60.0 * facts->vector_bytes / 4;
    facts->launch_us = 1;
}

/* ---- The best config of every class at a probe */

/* A class that competes at a probe. Side 0 is of aligned tensors, side 1 of others. */
typedef struct entry {
    uint64_t id;
    const md_fa_family *family[2]; /* NULL: none fits */
    md_fa_config config[2];
    double us[2];
    bool is_last_resort;
} entry;

typedef struct tournament {
    const md_fa_target *target;
    const md_fa_family *family;
    md_kn_shape shape[2];
    const md_ds_policy *policy;
    int32_t side, n;
    entry entry[MAX_CLASSES];
} tournament;

static entry *entry_of(tournament *t, uint64_t id)
{
    for (int32_t i = 0; i < t->n; i++)
        if (t->entry[i].id == id)
            return &t->entry[i];
    if (t->n == MAX_CLASSES)
        return NULL;
    t->entry[t->n] = (entry){.id = id, .us = {INFINITY, INFINITY}, .is_last_resort = t->family->is_last_resort};
    return &t->entry[t->n++];
}

static bool compete(void *user, const md_fa_config *config)
{
    tournament *t = user;
    md_kn_envelope envelope = {0};
    md_fa_numeric numeric;
    md_fa_envelope_of(&envelope, t->family, t->target, config);
    if (md_kn_envelope_miss(&envelope, &t->shape[t->side]) ||
        !md_ds_config_allowed(t->family, config, t->target, t->policy))
        return true;
    md_fa_numeric_of(&numeric, t->target, t->family, config);
    entry *e = md_fa_numeric_allows(t->policy->numeric, &numeric) ? entry_of(t, numeric.id) : NULL;
    if (!e)
        return true;
    double us = md_tn_form_us(t->target, t->family, config, t->shape[t->side].size);
    if (us < e->us[t->side]) {
        e->us[t->side] = us;
        e->family[t->side] = t->family;
        e->config[t->side] = *config;
    }
    return true;
}

static void hold_tournament(tournament *t, const int64_t *size, const md_ds_policy *policy)
{
    int64_t ragged[MD_FX_MAX_DIMS];
    memcpy(ragged, size, sizeof ragged);
    for (t->side = 0; t->side < 2; t->side++) {
        md_kn_shape *shape = &t->shape[t->side];
        for (int32_t d = 0; t->side == 1 && d < t->target->program->formula->n_dims; d++)
            if (t->target->program->formula->dim[d].size < 0 && ragged[d] > 1 &&
                (ragged[d] | 1) <= t->target->program->formula->dim[d].hi)
                ragged[d] |= 1;
        md_tn_shape(shape, t->target->program, ragged);
        if (t->side == 1)
            shape->aligned = shape->aligned16 = 0;
        for (int32_t i = 0; (t->family = md_fa_of(t->target, i)) != NULL; i++)
            if (md_ds_family_allowed(t->family, t->target, policy))
                md_fa_each(t->target, t->family, shape->size, compete, t);
    }
}

/* ---- Representatives */

/* The representative of a class (0: any class) that fits the shape and is fastest there by the model; -1. */
static int32_t cheapest(double *us, const md_ds_numeric *numeric, const md_fa_target *target, uint64_t id,
                        const md_kn_shape *shape)
{
    int32_t best = -1;
    *us = INFINITY;
    for (int32_t i = 0; i < numeric->n_representatives; i++) {
        const md_ds_representative *representative = &numeric->representative[i];
        if ((id && representative->id != id) || md_kn_envelope_miss(&representative->envelope, shape))
            continue;
        double t = md_tn_form_us(target, representative->family, &representative->config, shape->size);
        if (t < *us) {
            *us = t;
            best = i;
        }
    }
    return best;
}

/* Adds a representative; -1 where there are `most` already. */
static int32_t add_representative(md_ds_numeric *numeric, const md_fa_target *target, uint64_t id,
                                  const md_fa_family *family, const md_fa_config *config, int32_t most)
{
    if (numeric->n_representatives >= most)
        return -1;
    md_ds_representative *representative = &numeric->representative[numeric->n_representatives];
    *representative = (md_ds_representative){.id = id, .family = family, .config = *config};
    md_fa_envelope_of(&representative->envelope, family, target, config);
    return numeric->n_representatives++;
}

/* The representative of an entry's class for one side: an existing one if it is about as fast, else a new one. */
static int32_t representative_of(md_ds_numeric *numeric, const tournament *t, const entry *e, int32_t side)
{
    double us;
    int32_t there = cheapest(&us, numeric, t->target, e->id, &t->shape[side]);
    if (there >= 0 && us <= 1.15 * e->us[side])
        return there;
    int32_t made =
        add_representative(numeric, t->target, e->id, e->family[side], &e->config[side], MD_DS_MAX_REPRESENTATIVES - 1);
    return made >= 0 ? made : there;
}

static void append(md_ds_probe *p, int32_t representative)
{
    for (int32_t i = 0; i < p->n; i++)
        if (p->representative[i] == representative)
            return;
    if (representative >= 0 && p->n < MD_DS_PROBE_REPRESENTATIVES)
        p->representative[p->n++] = representative;
}

/* The entry that is best at one side. `both`: of those that serve both sides, so that shapes of any alignment have one
 * class. Last resorts only where there is nothing else. Chains have none: those that need boundaries leave
 * other shapes to their parts. */
static const entry *winner(const md_ds_numeric *numeric, const tournament *t, int32_t side, bool both)
{
    const entry *best = NULL;
    double least = INFINITY;
    for (int32_t pass = 0; pass < 2 && !best; pass++)
        for (int32_t i = 0; i < t->n; i++) {
            const entry *e = &t->entry[i];
            const bool has_both = both && (e->family[1] || md_fa_stage(t->target)->kind != MD_ST_CHAIN);
            double us = has_both ? 0.8 * e->us[0] + 0.2 * e->us[1] : e->us[both ? 0 : side];
            bool is_known = false; /* preferred: few classes shall serve many shapes */
            for (int32_t k = 0; k < numeric->n_representatives; k++)
                is_known |= numeric->representative[k].id == e->id;
            us *= is_known ? 0.9 : 1;
            if (e->is_last_resort == (pass == 1) && us < least) {
                least = us;
                best = e;
            }
        }
    return best;
}

/* Lists a probe's representatives: that of aligned tensors first. Where one class serves both sides, that of the other
 * side comes first, since it fits all. */
static void list_representatives(md_ds_numeric *numeric, md_ds_probe *p, const tournament *t)
{
    bool both = t->policy->numeric == MD_NUMERIC_BATCH_INVARIANT;
    for (int32_t k = 0; k < 2; k++) {
        double us;
        int32_t side = both ? 1 - k : k;
        const entry *e = winner(numeric, t, side, both);
        int32_t representative = e && e->family[side] ? representative_of(numeric, t, e, side) : -1;
        if (representative < 0 && e && !(both && k == 1))
            representative = cheapest(&us, numeric, t->target, 0, &t->shape[side]);
        if (both && k == 1 && p->n > 0 && representative >= 0 &&
            numeric->representative[representative].id != numeric->representative[p->representative[0]].id)
            return; /* its class has no representative: the one in the list serves all */
        append(p, representative);
    }
}

/* The family that fits everything ends every list, and is the last of all representatives. */
static void add_last(md_ds_numeric *n, const md_fa_target *target, const md_ds_policy *policy)
{
    for (const md_fa_family *const *f = md_fa_families(target->facts->kind); *f; f++) {
        md_fa_config config = md_fa_default(*f);
        md_fa_numeric numeric;
        if (!(*f)->is_last_resort || !md_ds_family_allowed(*f, target, policy))
            continue;
        md_fa_numeric_of(&numeric, target, *f, &config);
        if (!md_fa_numeric_allows(policy->numeric, &numeric))
            continue;
        int32_t last = add_representative(n, target, numeric.id, *f, &config, MD_DS_MAX_REPRESENTATIVES);
        for (int32_t i = 0; i < n->n_probes; i++) {
            md_ds_probe *p = &n->probe[i];
            p->n = MD_MIN(p->n, MD_DS_PROBE_REPRESENTATIVES - 1);
            append(p, last);
        }
        return;
    }
}

/* The order in which probes choose representatives while there is room: those in the middle first. */
static int32_t probe_in_order(int32_t i, int32_t n)
{
    int32_t middle = n / 2, step = (i + 1) / 2;
    return i % 2 ? middle - step : middle + step;
}

md_status md_ds_numeric_create(md_ds_numeric **out, const md_fa_target *target, const md_ds_space *space,
                               const md_ds_policy *policy)
{
    md_ds_levels level[MD_DS_MAX_DYNAMIC];
    md_dev_facts facts = *target->facts;
    fix_facts(&facts);
    md_fa_target fixed = *target;
    fixed.facts = &facts;
    md_ds_numeric *numeric = calloc(1, sizeof *numeric);
    tournament *t = malloc(sizeof *t);
    if (!numeric || !t) {
        free(numeric);
        free(t);
        return md_fail_memory();
    }
    md_ds_probes_lay_out(level, numeric, target, space, policy->numeric);
    for (int32_t k = 0; k < 2 * numeric->n_probes + 2; k++) {
        int64_t size[MD_FX_MAX_DIMS];
        int32_t i = probe_in_order(k, numeric->n_probes);
        if (i < 0 || i >= numeric->n_probes)
            continue;
        md_ds_probe_place(size, numeric, i, level, target, space);
        *t = (tournament){.target = &fixed, .policy = policy};
        hold_tournament(t, size, policy);
        list_representatives(numeric, &numeric->probe[i], t);
    }
    add_last(numeric, target, policy);
    free(t);
    *out = numeric;
    return MD_OK;
}

/* ---- What serves a shape */

/* The nearest probe that was not passed over, ties to the earlier one; -1 at the end. */
static int32_t next_probe(const md_ds_numeric *numeric, const double *at, const uint64_t *passed)
{
    int32_t best = -1;
    double least = INFINITY;
    for (int32_t i = 0; i < numeric->n_probes; i++) {
        double d = 0;
        for (int32_t k = 0; k < numeric->n_dims; k++)
            d += fabs(at[k] - numeric->probe[i].at[k]);
        if (d < least && !(*passed >> i & 1)) {
            least = d;
            best = i;
        }
    }
    return best;
}

static bool is_broken(const md_ds_representative *representative)
{
    return representative->variant &&
           atomic_load_explicit(&representative->variant->state, memory_order_acquire) == MD_BD_FAILED;
}

/* A probe none of whose representatives fits is passed over: there was not room for all of them. */
static uint64_t class_at(const md_ds_numeric *numeric, const md_kn_shape *shape)
{
    double at[MD_DS_MAX_DYNAMIC];
    uint64_t passed = 0;
    for (int32_t k = 0; k < numeric->n_dims; k++)
        at[k] = log2((double)MD_MAX(shape->size[numeric->dim[k]], 1));
    for (int32_t i; (i = next_probe(numeric, at, &passed)) >= 0; passed |= UINT64_C(1) << i)
        for (int32_t k = 0; k < numeric->probe[i].n; k++) {
            const md_ds_representative *representative = &numeric->representative[numeric->probe[i].representative[k]];
            bool is_last =
                representative->family->is_last_resort && __builtin_popcountll(passed) + 1 < numeric->n_probes;
            if (!is_last && !is_broken(representative) && !md_kn_envelope_miss(&representative->envelope, shape))
                return representative->id;
        }
    return MD_DS_NO_CLASS;
}

uint64_t md_ds_numeric_class(const md_ds_numeric *numeric, const md_kn_shape *shape)
{
    return numeric ? class_at(numeric, shape) : 0;
}
