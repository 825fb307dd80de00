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
/* Sizes of rows that two divides differently often, up to MOST_TWOS times, are so many octaves apart: kernels copy and
 * store aligned rows in other pieces. */
static const double UNEVEN = 2.0;
enum { MOST_TWOS = 3 };
/* An observation says no more than a factor of MOST_OFF about its variant. */
static const double MOST_OFF = 3.0;
/* Observations are weighted by 1 / (distance^2 + SHARPNESS): at a place that was observed, that one decides. An
 * estimate counts as if it were an octave away. Farther ones must stand against the model itself, which has the weight
 * PRIOR. By cross-validation (data/results/model.md). */
static const double SHARPNESS = 0.01, SHARPNESS_OF_ESTIMATES = 1.0, PRIOR = 0.1;
/* What all variants are off by is told by all observations, halved every so many octaves. */
static const double USUAL_HALF_AWAY = 2.0;

typedef struct entry {
    md_tn_observation o;
    double at[MD_TN_MAX_AXES], log_ratio; /* log2 of the sizes, times the weights */
    uint8_t twos[MD_TN_MAX_AXES]; /* of axes along which rows lie; of others 0 */
    int32_t place; /* entries of one place and one clock have one number */
} entry;

struct md_tn_correction {
    pthread_mutex_t lock;
    int32_t n_axes;
    double weight[MD_TN_MAX_AXES];
    bool has_rows[MD_TN_MAX_AXES];
    int32_t n, room, oldest, n_places; /* oldest: replaced next, once all MD_TN_MOST_OBSERVATIONS are there */
    _Atomic int32_t version;
    entry *list;
};

md_tn_subject md_tn_subject_of(const md_bd_variant *variant)
{
    return (md_tn_subject){md_hash64(variant->name, strlen(variant->name))};
}

md_status md_tn_correction_create(md_tn_correction **out, int32_t n_axes, const double *weight, const bool *has_rows)
{
    md_tn_correction *c = calloc(1, sizeof *c);
    if (!c)
        return md_fail_memory();
    c->n_axes = MD_MIN(n_axes, MD_TN_MAX_AXES);
    memcpy(c->weight, weight, (size_t)c->n_axes * sizeof *weight);
    for (int32_t i = 0; i < c->n_axes && has_rows; i++)
        c->has_rows[i] = has_rows[i];
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

static void locate(entry *e, const md_tn_correction *c, const int64_t *size)
{
    for (int32_t i = 0; i < c->n_axes; i++) {
        e->at[i] = c->weight[i] * (size[i] > 0 ? log2((double)size[i]) : -1.0);
        e->twos[i] = c->has_rows[i] && size[i] > 0 ? (uint8_t)MD_MIN(__builtin_ctzll((uint64_t)size[i]), MOST_TWOS) : 0;
    }
}

static double distance(const md_tn_correction *c, const entry *a, const entry *b)
{
    double d = 0.0;
    for (int32_t i = 0; i < c->n_axes; i++)
        d += fabs(a->at[i] - b->at[i]) + (a->twos[i] != b->twos[i] ? UNEVEN : 0.0);
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
        entry *e = &c->list[i];
        if (e->o.clock != from->o.clock || distance(c, from, e) > SAME_PLACE)
            continue;
        from->place = e->place;
        if (e->o.subject.variant == from->o.subject.variant)
            return e;
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
    entry e = {.o = *observation, .log_ratio = log(observation->ratio)};
    locate(&e, c, observation->size);
    entry *to = find_entry(c, &e);
    if (to) {
        *to = e;
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

/* Weighted sums over one variant's observations, of log ratios relative to their places' means. */
typedef struct evidence {
    double off, weight;
} evidence;

static void find_means(double mean[MD_TN_MOST_OBSERVATIONS], const md_tn_correction *c)
{
    int32_t n[MD_TN_MOST_OBSERVATIONS] = {0};
    for (int32_t i = 0; i < c->n; i++) {
        const entry *e = &c->list[i];
        if (n[e->place]++ == 0)
            mean[e->place] = 0.0;
        mean[e->place] += (e->log_ratio - mean[e->place]) / n[e->place];
    }
}

/* Subjects by their digests. */
enum { BUCKETS = 256 };
typedef struct index_of {
    const md_tn_subject *subject;
    int16_t bucket[BUCKETS]; /* 0: empty; else 1 + its number */
} index_of;

static void make_index(index_of *out, const md_tn_subject *subject, int32_t n)
{
    *out = (index_of){.subject = subject};
    for (int32_t i = 0; i < n; i++) {
        uint32_t at = (uint32_t)subject[i].variant % BUCKETS;
        while (out->bucket[at])
            at = (at + 1) % BUCKETS;
        out->bucket[at] = (int16_t)(i + 1);
    }
}

/* Equal subjects lie in one run. */
static void add_to(evidence *e, const index_of *index, uint64_t variant, double off, double weight)
{
    for (uint32_t at = (uint32_t)variant % BUCKETS; index->bucket[at]; at = (at + 1) % BUCKETS) {
        const int32_t i = index->bucket[at] - 1;
        if (index->subject[i].variant == variant) {
            e[i].off += weight * off;
            e[i].weight += weight;
        }
    }
}

/* The logarithm of the variant's factor relative to the others'. */
static double expected_off(const evidence *e)
{
    const double most = log(MOST_OFF);
    if (!(e->weight > 0.0))
        return 0.0;
    const double far_2 = fmax(1.0 / e->weight - SHARPNESS, 0.0); /* one observation at this distance, squared */
    return fmax(-most, fmin(most, e->off / e->weight)) / (1.0 + PRIOR * far_2);
}

/* Adds up all observations. The lock is held. Returns the logarithm of what all variants are off by. */
static double add_up(evidence *e, const md_tn_correction *c, const entry *here, const index_of *index)
{
    double mean[MD_TN_MOST_OBSERVATIONS], usual = 0.0, weight = 0.0;
    find_means(mean, c);
    for (int32_t k = 0; k < c->n; k++) {
        const entry *x = &c->list[k];
        const double d = distance(c, here, x), near = exp2(-d / USUAL_HALF_AWAY);
        const double sharpness = x->o.clock == MD_TN_CLOCK_ESTIMATE ? SHARPNESS_OF_ESTIMATES : SHARPNESS;
        usual += near * x->log_ratio;
        weight += near;
        add_to(e, index, x->o.subject.variant, x->log_ratio - mean[x->place], 1.0 / (d * d + sharpness));
    }
    return weight > 0.0 ? usual / weight : 0.0;
}

void md_tn_correction_apply(double *us, md_tn_correction *c, const int64_t *size, const md_tn_subject *subject,
                            int32_t n)
{
    enum { MOST = BUCKETS / 2 };
    entry here = {.place = -1};
    evidence e[MOST] = {{0}};
    index_of index;
    if (md_tn_correction_version(c) == 0)
        return;
    for (; n > MOST; n -= MOST, us += MOST, subject += MOST)
        md_tn_correction_apply(us, c, size, subject, MOST);
    make_index(&index, subject, n);
    locate(&here, c, size);
    pthread_mutex_lock(&c->lock);
    const double usual = add_up(e, c, &here, &index);
    pthread_mutex_unlock(&c->lock);
    for (int32_t i = 0; i < n; i++)
        if (us[i] > 0.0)
            us[i] *= exp(usual + expected_off(&e[i]));
}
