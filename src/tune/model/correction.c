/* Measured over modelled times near a point in log2 shape space, and what they say of the model's times there. */
#include "tune/model/correction.h"

#include "base/hash.h"
#include "base/status.h"
#include "base/task/fork.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Points within so many octaves are one place. */
static const double SAME_PLACE = 0.1;
/* An observation says no more than a factor of MOST_OFF about its variant. Beyond NEAR octaves it says less, half as
 * much in every HALF_AWAY more. */
static const double MOST_OFF = 3.0, NEAR = 4.0, HALF_AWAY = 4.0;
/* What others' observations count for a variant that has none: by nearness, halved every OTHERS_HALF_AWAY octaves, and
 * by whether they are of its family. */
static const double OTHERS_HALF_AWAY = 2.0, OF_FAMILY = 0.06, OF_OTHERS = 0.01;
/* Own observations are weighted by 1 / (distance^2 + SHARPNESS): at a place that was observed, that one decides. An
 * estimate counts as if it were an octave away. */
static const double SHARPNESS = 0.01, SHARPNESS_OF_ESTIMATES = 1.0;

typedef struct entry {
    md_tn_observation o;
    double at[MD_TN_MAX_AXES], log_ratio; /* log2 of the sizes, times the weights */
    int32_t place; /* entries of one place and one clock have one number */
} entry;

struct md_tn_correction {
    pthread_mutex_t lock;
    int32_t n_axes;
    double weight[MD_TN_MAX_AXES];
    int32_t n, room, oldest, n_places; /* oldest: replaced next, once all MD_TN_MOST_OBSERVATIONS are there */
    _Atomic int32_t version;
    entry *list;
};

md_tn_subject md_tn_subject_of(const md_bd_variant *variant)
{
    return (md_tn_subject){md_hash64(variant->name, strlen(variant->name)),
                           md_hash64(variant->family->name, strlen(variant->family->name))};
}

md_status md_tn_correction_create(md_tn_correction **out, int32_t n_axes, const double *weight)
{
    md_tn_correction *c = calloc(1, sizeof *c);
    if (!c)
        return md_fail_memory();
    c->n_axes = MD_MIN(n_axes, MD_TN_MAX_AXES);
    memcpy(c->weight, weight, (size_t)c->n_axes * sizeof *weight);
    md_mutex_init(&c->lock);
    *out = c;
    return MD_OK;
}

void md_tn_correction_destroy(md_tn_correction **correction)
{
    md_tn_correction *c = *correction;
    if (!c)
        return;
    md_mutex_finish(&c->lock);
    free(c->list);
    free(c);
    *correction = NULL;
}

static void locate(double *at, const md_tn_correction *c, const int64_t *size)
{
    for (int32_t i = 0; i < c->n_axes; i++)
        at[i] = c->weight[i] * (size[i] > 0 ? log2((double)size[i]) : -1.0);
}

static double distance(const md_tn_correction *c, const double *a, const double *b)
{
    double d = 0.0;
    for (int32_t i = 0; i < c->n_axes; i++)
        d += fabs(a[i] - b[i]);
    return d;
}

/* ---- Adding */

/* A new entry at the end; the oldest when all are there; NULL where there is no memory. */
static entry *new_entry(md_tn_correction *c)
{
    enum { FIRST = 32 };
    if (c->n == MD_TN_MOST_OBSERVATIONS) {
        c->oldest = (c->oldest + 1) % MD_TN_MOST_OBSERVATIONS;
        return &c->list[(c->oldest + MD_TN_MOST_OBSERVATIONS - 1) % MD_TN_MOST_OBSERVATIONS];
    }
    if (c->n == c->room) {
        const int32_t room = MD_MIN(MD_MAX(2 * c->room, FIRST), MD_TN_MOST_OBSERVATIONS);
        entry *list = realloc(c->list, (size_t)room * sizeof *list);
        if (!list)
            return NULL;
        c->list = list;
        c->room = room;
    }
    return &c->list[c->n++];
}

/* The entry of the same variant, clock and place, else a new one. Sets the place's number in *from. */
static entry *find_entry(md_tn_correction *c, entry *from)
{
    from->place = -1;
    for (int32_t i = 0; i < c->n; i++) {
        entry *x = &c->list[i];
        if (x->o.clock != from->o.clock || distance(c, from->at, x->at) > SAME_PLACE)
            continue;
        from->place = x->place;
        if (x->o.subject.variant == from->o.subject.variant)
            return x;
    }
    if (from->place < 0)
        from->place = c->n_places++ % MD_TN_MOST_OBSERVATIONS;
    return new_entry(c);
}

void md_tn_correction_add(md_tn_correction *c, const md_tn_observation *observation, bool may_wait)
{
    if (!(observation->ratio > 0.0) || !isfinite(observation->ratio))
        return;
    if (may_wait)
        pthread_mutex_lock(&c->lock);
    else if (pthread_mutex_trylock(&c->lock) != 0)
        return;
    entry x = {.o = *observation, .log_ratio = log(observation->ratio)};
    locate(x.at, c, observation->size);
    entry *to = find_entry(c, &x);
    if (to) {
        *to = x;
        atomic_fetch_add_explicit(&c->version, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&c->lock);
}

int32_t md_tn_correction_version(const md_tn_correction *c)
{
    return atomic_load_explicit(&c->version, memory_order_relaxed);
}

bool md_tn_correction_knows(md_tn_correction *c, md_tn_subject subject)
{
    bool is_known = false;
    pthread_mutex_lock(&c->lock);
    for (int32_t i = 0; i < c->n && !is_known; i++)
        is_known = c->list[i].o.subject.variant == subject.variant;
    pthread_mutex_unlock(&c->lock);
    return is_known;
}

void md_tn_correction_each(md_tn_correction *c, void (*visit)(void *user, const md_tn_observation *observation),
                           void *user)
{
    pthread_mutex_lock(&c->lock);
    for (int32_t i = 0; i < c->n; i++)
        visit(user, &c->list[(c->oldest + i) % c->n].o);
    pthread_mutex_unlock(&c->lock);
}

/* ---- Applying */

/* What is known about one variant at a point: weighted sums of log ratios relative to their places' means. */
typedef struct evidence {
    double own, own_weight, nearest; /* of its own observations; nearest: octaves to the nearest of them */
    double others, others_weight;
} evidence;

/* The same sums over all variants of a family. */
typedef struct family_evidence {
    uint64_t family;
    double off, weight;
} family_evidence;

enum { MOST_FAMILIES = 64 }; /* of one correction; further ones count as one */

typedef struct evidence_of_all {
    family_evidence family[MOST_FAMILIES], all;
    int32_t n_families;
} evidence_of_all;

static void find_means(double mean[MD_TN_MOST_OBSERVATIONS], const md_tn_correction *c)
{
    int32_t n[MD_TN_MOST_OBSERVATIONS] = {0};
    for (int32_t i = 0; i < c->n; i++) {
        const entry *x = &c->list[i];
        if (n[x->place]++ == 0)
            mean[x->place] = 0.0;
        mean[x->place] += (x->log_ratio - mean[x->place]) / n[x->place];
    }
}

static family_evidence *family_of(evidence_of_all *a, uint64_t family)
{
    int32_t i = 0;
    while (i < a->n_families && a->family[i].family != family)
        i++;
    if (i == MOST_FAMILIES)
        return &a->family[MOST_FAMILIES - 1];
    if (i == a->n_families)
        a->family[a->n_families++] = (family_evidence){.family = family};
    return &a->family[i];
}

/* `near`: weight by the distance d; off by `off` from the mean of its place. */
static void add_to_all(evidence_of_all *a, const entry *x, double off, double near)
{
    family_evidence *f = family_of(a, x->o.subject.family);
    f->off += near * off;
    f->weight += near;
    a->all.off += near * off;
    a->all.weight += near;
}

static void add_to_own(evidence *e, const entry *x, double off, double d)
{
    const double w = 1.0 / (d * d + (x->o.clock == MD_TN_CLOCK_ESTIMATE ? SHARPNESS_OF_ESTIMATES : SHARPNESS));
    e->own += w * off;
    e->own_weight += w;
    e->nearest = fmin(e->nearest, d);
}

/* A variant without observations of its own is judged by those of its family and of all others. */
static void judge_by_others(evidence *e, evidence_of_all *a, uint64_t family)
{
    const family_evidence *f = family_of(a, family);
    e->others = OF_FAMILY * f->off + OF_OTHERS * (a->all.off - f->off);
    e->others_weight = OF_FAMILY * f->weight + OF_OTHERS * (a->all.weight - f->weight);
}

/* The logarithm of the variant's factor relative to the others'. */
static double expected_off(const evidence *e)
{
    const double most = log(MOST_OFF);
    if (e->own_weight > 0.0)
        return fmax(-most, fmin(most, e->own / e->own_weight)) * exp2(-fmax(0.0, e->nearest - NEAR) / HALF_AWAY);
    return e->others_weight > 0.0 ? fmax(-most, fmin(most, e->others / e->others_weight)) : 0.0;
}

/* Adds up all observations. The lock is held. Returns the logarithm of what all variants are off by. */
static double add_up(evidence *e, evidence_of_all *a, const md_tn_correction *c, const double *at,
                     const md_tn_subject *subject, int32_t n)
{
    double mean[MD_TN_MOST_OBSERVATIONS], usual = 0.0, weight = 0.0;
    find_means(mean, c);
    for (int32_t k = 0; k < c->n; k++) {
        const entry *x = &c->list[k];
        const double d = distance(c, at, x->at), near = exp2(-d / OTHERS_HALF_AWAY),
                     off = x->log_ratio - mean[x->place];
        usual += near * x->log_ratio;
        weight += near;
        add_to_all(a, x, off, near);
        for (int32_t i = 0; i < n; i++)
            if (subject[i].variant == x->o.subject.variant)
                add_to_own(&e[i], x, off, d);
    }
    return weight > 0.0 ? usual / weight : 0.0;
}

void md_tn_correction_apply(double *us, md_tn_correction *c, const int64_t *size, const md_tn_subject *subject,
                            int32_t n)
{
    double at[MD_TN_MAX_AXES];
    evidence_of_all all = {.n_families = 0};
    evidence *e = md_tn_correction_version(c) > 0 ? calloc((size_t)MD_MAX(n, 1), sizeof *e) : NULL;
    if (!e)
        return;
    for (int32_t i = 0; i < n; i++)
        e[i].nearest = INFINITY;
    locate(at, c, size);
    pthread_mutex_lock(&c->lock);
    const double usual = add_up(e, &all, c, at, subject, n);
    pthread_mutex_unlock(&c->lock);
    for (int32_t i = 0; i < n; i++) {
        judge_by_others(&e[i], &all, subject[i].family);
        if (us[i] > 0.0)
            us[i] *= exp(usual + expected_off(&e[i]));
    }
    free(e);
}
