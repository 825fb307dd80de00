#include "dispatch/online/correction.h"

#include "base/task/fork.h"
#include "base/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The newest are kept; of one variant, one within SAME octaves. */
enum { MOST_CORRECTIONS = 256 };
static const double same_place = 0.1;
/* A lesson counts half as much this many octaves away, and by so much for other variants of its family, and for all
 * others. What all are off by at a place, a call's overhead for example, is nobody's merit: lessons are taken
 * relative to their mean there. */
static const double half_away = 2.0, family_weight = 0.06, other_weight = 0.01;

typedef struct lesson {
    int32_t stage, variant, place; /* those of one place have one number */
    double log_ratio;
    double at[MD_DS_MAX_DYNAMIC]; /* logarithms of sizes, in the order of the space */
} lesson;

struct md_ds_correction {
    pthread_mutex_t lock;
    int32_t n, oldest, n_places;
    _Atomic int32_t version;
    lesson list[MOST_CORRECTIONS];
};

md_status md_ds_correction_create(md_ds_correction **out)
{
    md_ds_correction *l = calloc(1, sizeof *l);
    if (!l)
        return md_fail_memory();
    md_mutex_init(&l->lock);
    *out = l;
    return MD_OK;
}

void md_ds_correction_destroy(md_ds_correction **correction)
{
    if (!*correction)
        return;
    md_mutex_finish(&(*correction)->lock);
    free(*correction);
    *correction = NULL;
}

static void place_of(double *at, const md_ds_space *space, const int64_t *by)
{
    for (int32_t i = 0; i < space->n; i++)
        at[i] = log2((double)MD_MAX(by[space->dim[i]], 1));
}

static double distance(const md_ds_space *space, const double *a, const double *b)
{
    double d = 0.0;
    for (int32_t i = 0; i < space->n; i++)
        d += space->weight[i] * fabs(a[i] - b[i]);
    return d;
}

/* Where it was seen before, else the oldest one's room. *place: its number. The lock is held. */
static lesson *room_for(int32_t *place, md_ds_correction *l, const md_ds_op *op, const lesson *from)
{
    *place = -1;
    for (int32_t i = 0; i < l->n; i++) {
        lesson *x = &l->list[i];
        if (x->stage != from->stage || distance(&op->space, from->at, x->at) > same_place)
            continue;
        *place = x->place;
        if (x->variant == from->variant)
            return x;
    }
    if (*place < 0)
        *place = l->n_places++ % MOST_CORRECTIONS;
    if (l->n < MOST_CORRECTIONS)
        return &l->list[l->n++];
    l->oldest = (l->oldest + 1) % MOST_CORRECTIONS;
    return &l->list[l->oldest];
}

void md_ds_correction_add(md_ds_correction *l, const md_ds_op *op, int32_t stage, int32_t variant, const int64_t *by,
                          double ratio)
{
    if (!(ratio > 0.0) || !isfinite(ratio) || pthread_mutex_trylock(&l->lock) != 0)
        return;
    lesson x = {.stage = stage, .variant = variant, .log_ratio = log(ratio)};
    place_of(x.at, &op->space, by);
    lesson *room = room_for(&x.place, l, op, &x);
    *room = x;
    atomic_fetch_add_explicit(&l->version, 1, memory_order_relaxed);
    pthread_mutex_unlock(&l->lock);
}

int32_t md_ds_correction_version(const md_ds_correction *l)
{
    return atomic_load_explicit(&l->version, memory_order_relaxed);
}

bool md_ds_correction_know(md_ds_correction *l, int32_t stage, int32_t variant)
{
    bool is_known = false;
    pthread_mutex_lock(&l->lock);
    for (int32_t k = 0; k < l->n && !is_known; k++)
        is_known = l->list[k].stage == stage && l->list[k].variant == variant;
    pthread_mutex_unlock(&l->lock);
    return is_known;
}

static double similarity(const md_ds_pool *c, int32_t a, int32_t b)
{
    return a == b ? 1.0 : c->variant[a]->family == c->variant[b]->family ? family_weight : other_weight;
}

/* What all are off by, by place. */
static void mean_of_places(double mean[MOST_CORRECTIONS], const md_ds_correction *l)
{
    int32_t n[MOST_CORRECTIONS] = {0};
    memset(mean, 0, MOST_CORRECTIONS * sizeof *mean);
    for (int32_t i = 0; i < l->n; i++) {
        const lesson *x = &l->list[i];
        mean[x->place] += (x->log_ratio - mean[x->place]) / ++n[x->place];
    }
}

void md_ds_correction_apply(double *us, md_ds_correction *l, const md_ds_op *op, int32_t stage, const int64_t *by,
                            const int32_t *variant, int32_t n)
{
    double sum[MD_DS_MAX_VARIANTS] = {0.0}, weight[MD_DS_MAX_VARIANTS] = {0.0}, mean[MOST_CORRECTIONS],
           at[MD_DS_MAX_DYNAMIC];
    place_of(at, &op->space, by);
    pthread_mutex_lock(&l->lock);
    mean_of_places(mean, l);
    for (int32_t k = 0; k < l->n; k++) {
        const lesson *x = &l->list[k];
        if (x->stage != stage)
            continue;
        const double near = exp2(-distance(&op->space, at, x->at) / half_away);
        for (int32_t i = 0; i < n; i++) {
            const double w = near * similarity(&op->stage[stage], variant[i], x->variant);
            sum[i] += w * (x->log_ratio - mean[x->place]);
            weight[i] += w;
        }
    }
    pthread_mutex_unlock(&l->lock);
    for (int32_t i = 0; i < n; i++)
        if (us[i] > 0.0 && weight[i] > 0.0)
            us[i] *= exp(sum[i] / weight[i]);
}
