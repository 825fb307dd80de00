/* Predicts a run of a combo both ways, from what the model says of each item alone. */
#include "base/status.h"
#include "combo/decide/combo_fit.h"
#include "combo/decide/decide.h"
#include "combo/merge.h"

#include <math.h>

/* Times of items alone, without what their launches cost. */
typedef struct sums {
    double work, slowest, bytes, rate; /* rate: the highest of an item, bytes a us */
} sums;

static void add(sums *s, const md_cb_unit *u, double work)
{
    s->work += work;
    s->slowest = fmax(s->slowest, work);
    s->bytes += u->bytes;
    s->rate = fmax(s->rate, u->bytes / fmax(work, 1e-3));
}

/* A unit's part of its item's time. */
static double gpu_work(const md_cb_unit *u)
{
    return fmax(u->plan->model_us - GPU_LAUNCH, 0.1) / MD_MAX(u->op->n_stages, 1);
}

/* How many of the threads that a group occupies have work. */
static double busy_part(const md_cb *cb, const md_cb_group *g)
{
    double all = 0, busy = 0;
    for (int64_t i = 0; i < g->n; i++) {
        const md_kn_geometry *own = &cb->plan->unit[g->unit[i]].geometry;
        busy += (double)own->blocks * own->block[0];
        all += (double)own->blocks * g->kernel.threads;
    }
    return g->kernel.by_warps || all <= 0 ? 1 : fmin(fmax(busy / all, 0.25), 1);
}

static void predict_gpu(double us[MD_CB_HOWS], const md_cb *cb)
{
    const double rate = fmax(cb->runtime->dev->facts.memory_gbps, 1) * 1e3; /* bytes a us */
    us[MD_CB_ONE] = us[MD_CB_EACH] = GPU_LAUNCH;
    for (int64_t g = 0; g < cb->merged->n; g++) {
        const md_cb_group *group = &cb->merged->group[g];
        sums s = {0};
        for (int64_t i = 0; i < group->n; i++)
            add(&s, &cb->plan->unit[group->unit[i]], gpu_work(&cb->plan->unit[group->unit[i]]));
        us[MD_CB_EACH] += s.work + GPU_NEXT_LAUNCH * (double)group->n;
        const double reached = fmax(fmin(s.rate, rate), LEAST_RATE * rate) * busy_part(cb, group);
        us[MD_CB_ONE] += fmax(s.bytes / reached, s.slowest) + GPU_NEXT_LAUNCH + GPU_STEP * log2((double)group->n);
    }
    for (int64_t i = 0; i < cb->merged->n_alone; i++) {
        const double own = gpu_work(&cb->plan->unit[cb->merged->alone[i]]) + GPU_NEXT_LAUNCH;
        us[MD_CB_ONE] += own;
        us[MD_CB_EACH] += own;
    }
}

/* A loop shares the work of all items among the threads; one item alone may be too small for that. */
static void predict_host(double us[MD_CB_HOWS], const md_cb *cb)
{
    const md_dev_facts *f = &cb->runtime->dev->facts;
    const double n = (double)cb->plan->n_units, lanes = MD_MAX(f->threads, 1);
    double shared = 0;
    sums s = {0};
    for (int64_t i = 0; i < cb->plan->n_units; i++) {
        const md_cb_unit *u = &cb->plan->unit[i];
        const double work = u->plan->model_us / MD_MAX(u->op->n_stages, 1);
        add(&s, u, work);
        shared += fmin(work, fmax(work / lanes, u->bytes / fmax(f->memory_gbps, 1) * 1e-3));
    }
    const bool is_short = s.work < HOST_SHORT || lanes == 1;
    us[MD_CB_EACH] = s.work + HOST_CALL * n;
    us[MD_CB_ONE] = HOST_ITEM * n + (is_short ? s.work : shared + f->launch_us);
}

void md_cb_predict(double us[MD_CB_HOWS], const md_cb *cb)
{
    if (cb->merged)
        predict_gpu(us, cb);
    else
        predict_host(us, cb);
}

md_cb_how md_cb_prefer(const double us[MD_CB_HOWS])
{
    return us[MD_CB_ONE] < LEAST_GAIN * us[MD_CB_EACH] ? MD_CB_ONE : MD_CB_EACH;
}
