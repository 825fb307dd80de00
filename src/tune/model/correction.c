/* Measured over modelled times near a point in log2 shape space, and what they say of the model's times there. */
#include "tune/model/correction.h"

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

/* What applying reads of every entry. */
typedef struct summary {
    double log_ratio, off; /* off: log_ratio less the mean of its place */
    int32_t variant; /* number of its subject */
    bool is_beside; /* it lies where the entry before it in the list lies, and counts as much */
    bool is_foreign;
} summary;

/* The digests of all subjects, by number and by hash. */
enum { MOST_SUBJECTS = MD_TN_MOST_OBSERVATIONS, BUCKETS = 2 * MOST_SUBJECTS };
typedef struct subjects {
    int32_t n;
    uint64_t digest[MOST_SUBJECTS];
    int16_t bucket[BUCKETS]; /* 0: empty; else 1 + its number */
} subjects;

struct md_tn_correction {
    pthread_mutex_t lock;
    int32_t n_axes;
    double weight[MD_TN_MAX_AXES];
    bool has_rows[MD_TN_MAX_AXES];
    int32_t n, room, oldest, n_places; /* oldest: replaced next, once all MD_TN_MOST_OBSERVATIONS are there */
    _Atomic int32_t version;
    entry *list;
    summary *summary; /* parallel to list */
    subjects subjects;
};

md_tn_subject md_tn_subject_of(const md_bd_variant *variant)
{
    return (md_tn_subject){variant->name_hash};
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
    free(c->summary);
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

/* ---- Subjects */

/* The bucket of a digest, or the empty one where it would be. */
static int16_t *bucket_of(subjects *s, uint64_t digest)
{
    uint32_t at = (uint32_t)digest % BUCKETS;
    while (s->bucket[at] && s->digest[s->bucket[at] - 1] != digest)
        at = (at + 1) % BUCKETS;
    return &s->bucket[at];
}

/* The subject's number, a new one if it has none; -1: there are too many. */
static int32_t number_of(subjects *s, uint64_t digest)
{
    int16_t *bucket = bucket_of(s, digest);
    if (!*bucket) {
        if (s->n == MOST_SUBJECTS)
            return -1;
        s->digest[s->n++] = digest;
        *bucket = (int16_t)s->n;
    }
    return *bucket - 1;
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
        c->list = list ? list : c->list;
        summary *summaries = list ? realloc(c->summary, (size_t)room * sizeof *summaries) : NULL;
        if (!summaries)
            return NULL;
        c->summary = summaries;
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

static bool is_beside(const md_tn_correction *c, const entry *a, const entry *b)
{
    const size_t n = (size_t)c->n_axes;
    return !memcmp(a->at, b->at, n * sizeof *a->at) && !memcmp(a->twos, b->twos, n * sizeof *a->twos) &&
           (a->o.clock == MD_TN_CLOCK_ESTIMATE) == (b->o.clock == MD_TN_CLOCK_ESTIMATE);
}

/* Gives all entries their subjects' numbers again: subjects that no entry has any more are dropped. */
static void number_all(md_tn_correction *c)
{
    memset(&c->subjects, 0, sizeof c->subjects);
    for (int32_t i = 0; i < c->n; i++)
        c->summary[i].variant = number_of(&c->subjects, c->list[i].o.subject.variant);
}

/* What follows from all entries together, so that applying them is cheap. */
static void derive(md_tn_correction *c, const entry *added)
{
    double mean[MD_TN_MOST_OBSERVATIONS];
    int32_t *const number = &c->summary[added - c->list].variant;
    *number = number_of(&c->subjects, added->o.subject.variant);
    if (*number < 0)
        number_all(c);
    find_means(mean, c);
    for (int32_t i = 0; i < c->n; i++) {
        const entry *e = &c->list[i];
        c->summary[i].log_ratio = e->log_ratio;
        c->summary[i].off = e->log_ratio - mean[e->place];
        c->summary[i].is_beside = i > 0 && is_beside(c, e, e - 1);
        c->summary[i].is_foreign = e->o.is_foreign;
    }
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
        derive(c, to);
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
    pthread_mutex_lock(&c->lock);
    const bool is_known = *bucket_of(&c->subjects, subject.variant) != 0;
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

/* The logarithm of the variant's factor relative to the others'. */
static double expected_off(const evidence *e)
{
    const double most = log(MOST_OFF);
    if (!(e->weight > 0.0))
        return 0.0;
    const double far_2 = fmax(1.0 / e->weight - SHARPNESS, 0.0); /* one observation at this distance, squared */
    return fmax(-most, fmin(most, e->off / e->weight)) / (1.0 + PRIOR * far_2);
}

/* Adds up all observations, by their variants' numbers. Returns the logarithm of what all variants are off by. */
static double add_up(evidence *e, const md_tn_correction *c, const entry *here)
{
    double usual = 0.0, total = 0.0, near = 0.0, weight = 0.0;
    for (int32_t k = 0; k < c->n; k++) {
        const summary *x = &c->summary[k];
        if (!x->is_beside) {
            const entry *at = &c->list[k];
            const double d = distance(c, here, at);
            near = exp2(-d / USUAL_HALF_AWAY);
            weight = 1.0 / (d * d + (at->o.clock == MD_TN_CLOCK_ESTIMATE ? SHARPNESS_OF_ESTIMATES : SHARPNESS));
        }
        if (!x->is_foreign) {
            usual += near * x->log_ratio;
            total += near;
        }
        e[x->variant].off += weight * x->off;
        e[x->variant].weight += weight;
    }
    return total > 0.0 ? usual / total : 0.0;
}

void md_tn_correction_apply(double *us, md_tn_correction *c, const int64_t *size, const md_tn_subject *subject,
                            int32_t n)
{
    entry here = {.place = -1};
    evidence e[MOST_SUBJECTS];
    if (md_tn_correction_version(c) == 0)
        return;
    locate(&here, c, size);
    pthread_mutex_lock(&c->lock);
    memset(e, 0, (size_t)c->subjects.n * sizeof *e);
    const double usual = add_up(e, c, &here);
    for (int32_t i = 0; i < n; i++) {
        const int32_t number = us[i] > 0.0 ? *bucket_of(&c->subjects, subject[i].variant) - 1 : -1;
        if (us[i] > 0.0)
            us[i] *= exp(usual + (number < 0 ? 0.0 : expected_off(&e[number])));
    }
    pthread_mutex_unlock(&c->lock);
}
