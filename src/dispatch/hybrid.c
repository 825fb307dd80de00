#include "dispatch/hybrid.h"

#include "base/status.h"
#include "dispatch/choose.h"
#include "dispatch/prepare_trial.h"
#include "dispatch/promote.h"
#include "dispatch/record.h"

#include <math.h>
#include <stdlib.h>

/* Shapes that are met no oftener get no trial; jobs at a time; times under way at a time; 1 in WATCH_EVERY long ways of a shape without trial is timed. */
enum { FIRST_CALLS = 1, MOST_JOBS = 4, MOST_TIMES = 16, SHORT_WAYS = 256 };

typedef struct timing { /* two marks on a stream, and whose time lies between them */
    md_dev_mark *from, *to;
    md_ds_record *record; /* held; NULL: free */
    bool is_put; /* both marks are */
    int32_t rival;
    int32_t generation; /* of the trial: what was timed before a switch counts for nobody */
} timing;

struct md_ds_hybrid {
    md_ds_op *op;
    pthread_mutex_t lock; /* of all trials of the op */
    double all_us, spent_us; /* GPU time of the op as far as it was timed and what it stands for; what rivals took more than who serves */
    _Atomic int32_t n_jobs;
    timing timing[MOST_TIMES];
};

md_status md_ds_hybrid_create(struct md_ds_hybrid **out, md_ds_op *op)
{
    struct md_ds_hybrid *h = calloc(1, sizeof *h);
    if (!h)
        return md_fail_memory();
    h->op = op;
    pthread_mutex_init(&h->lock, NULL);
    *out = h;
    return MD_OK;
}

void md_ds_hybrid_destroy(struct md_ds_hybrid **hybrid)
{
    struct md_ds_hybrid *h = *hybrid;
    if (!h)
        return;
    md_dev *dev = h->op->runtime->dev;
    md_ds_prepare_wait(&h->n_jobs);
    for (int32_t i = 0; i < MOST_TIMES; i++) {
        if (h->timing[i].record)
            md_ds_record_give_back(h->op, h->timing[i].record);
        if (h->timing[i].from)
            dev->ops->mark_destroy(dev, h->timing[i].from);
        if (h->timing[i].to)
            dev->ops->mark_destroy(dev, h->timing[i].to);
    }
    pthread_mutex_destroy(&h->lock);
    free(h);
    *hybrid = NULL;
}

static md_ds_trial *trial_of(const md_ds_record *record)
{
    return atomic_load_explicit(&record->trial, memory_order_acquire);
}

/* ---- What times say. The lock is held. */

static void add(_Atomic uint64_t *count)
{
    atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

static void put_in_charge(md_ds_op *op, md_ds_record *record, const md_kn_shape *shape, int32_t rival)
{
    md_ds_trial *t = trial_of(record);
    const md_ds_pick *old = &md_ds_way_of(record)->stage[t->stage].pick;
    double spread, us = md_ds_rival_median(&spread, &t->rival[rival]), before = md_ds_rival_median(&spread, &t->rival[0]);
    md_ds_pick pick = t->rival[rival].way->stage[t->stage].pick;
    pick.source = MD_DS_MEASURED;
    pick.runner_up = old->variant;
    pick.us = us;
    pick.margin = before > us && us > 0.0 ? before / us - 1.0 : 0.0;
    if (md_ds_switch(op, record, shape, t->stage, &pick) != MD_OK)
        return;
    md_ds_trial_switch(t, rival);
    add(&op->count.switches);
}

static void judge(md_ds_op *op, md_ds_record *record, const md_kn_shape *shape)
{
    md_ds_trial *t = trial_of(record);
    md_ds_verdict v = md_ds_trial_judge(t);
    if (v == MD_DS_SWITCH)
        put_in_charge(op, record, shape, t->at);
    if (v != MD_DS_GO_ON) {
        t->rival[t->at].is_out = true;
        md_ds_trial_next(t);
    }
}

/* The model may be off for a variant everywhere: what is seen at one shape is expected at the next. */
static void learn(md_ds_candidates *c, const md_ds_rival *r, double ratio)
{
    float before = atomic_load_explicit(&c->surprise[r->variant], memory_order_relaxed);
    double seen = ratio / r->expected * (before > 0.0f ? (double)before : 1.0); /* expected has what was known */
    atomic_store_explicit(&c->surprise[r->variant], (float)(before > 0.0f ? sqrt(seen * (double)before) : seen), memory_order_relaxed);
}

static void take_time(struct md_ds_hybrid *h, md_ds_record *record, int32_t rival, int32_t generation, double us, const md_kn_shape *shape)
{
    md_ds_trial *t = trial_of(record);
    double spread;
    int32_t better = -1;
    t->n_running--;
    if (generation != t->switches + t->demotions || !(us > 0.0))
        return;
    if (t->is_over) {
        h->all_us += us * SHORT_WAYS;
        if (rival == 0 && shape && md_ds_trial_watch(&better, t, us)) {
            add(&h->op->count.demotions);
            if (better > 0)
                put_in_charge(h->op, record, shape, better);
        }
        return;
    }
    if (!md_ds_rival_add(&t->rival[rival], us))
        return;
    double own = md_ds_rival_median(&spread, &t->rival[0]);
    h->all_us += us * (rival == 0 ? MD_DS_TRIAL_EVERY : 1);
    if (rival > 0 && us > own)
        h->spent_us += us - own;
    if (rival > 0 && own > 0.0 && t->rival[rival].n == 1)
        learn(&h->op->stage[t->stage], &t->rival[rival], us / own);
}

/* Asks for the times that are under way; those of the record of this call bring its shape, which a switch needs. */
static void poll_times(struct md_ds_hybrid *h)
{
    md_dev *dev = h->op->runtime->dev;
    for (int32_t i = 0; i < MOST_TIMES; i++) {
        timing *x = &h->timing[i];
        double us = -1.0;
        if (!x->record || !x->is_put)
            continue;
        if (dev->ops->mark_time(&us, dev, x->from, x->to) == MD_OK && us < 0.0)
            continue;
        take_time(h, x->record, x->rival, x->generation, us, &trial_of(x->record)->shape);
        md_ds_record_give_back(h->op, x->record);
        x->record = NULL;
    }
}

/* ---- Whose turn it is */

/* What it may cost more than who serves must fit the share of the time that was seen, and the cap. */
static bool is_affordable(const struct md_ds_hybrid *h, const md_ds_trial *t)
{
    const md_ds_rival *r = &t->rival[t->at];
    double spread, own = md_ds_rival_median(&spread, &t->rival[0]), known = md_ds_rival_median(&spread, r);
    double more = MD_MAX(known > 0.0 ? known - own : (r->expected - 1.0) * own, 0.05 * own);
    return h->spent_us + more <= h->op->policy.hybrid_share * h->all_us && h->spent_us + more <= h->op->policy.hybrid_cap_ms * 1e3;
}

/* By its first time already. */
static bool is_hopeless(const md_ds_trial *t)
{
    double spread, own = md_ds_rival_median(&spread, &t->rival[0]), us = md_ds_rival_median(&spread, &t->rival[t->at]);
    return own > 0.0 && us > 1.5 * own;
}

/* The rival that serves the next timed call; -1: nobody is timed. */
static int32_t next_rival(struct md_ds_hybrid *h, md_ds_record *record, const md_kn_shape *shape)
{
    static const bool is_rival[] = {false, true, true, false};
    md_ds_trial *t = trial_of(record);
    if (t->is_over)
        return t->n_running == 0 ? 0 : -1;
    if (t->step == MD_COUNT(is_rival)) {
        if (t->n_running > 0)
            return -1; /* the verdict waits for the last times */
        t->step = 0;
        judge(h->op, record, shape);
        if (t->is_over)
            return -1;
    }
    if (t->step == 2 && t->n_running > 0)
        return -1; /* its second turn depends on how the first went */
    if (t->step == 2 && is_hopeless(t)) {
        t->rival[t->at].is_out = true;
        md_ds_trial_next(t);
        return -1;
    }
    bool is_turn = is_rival[t->step] && t->rival[0].n > 0;
    if (is_turn && !is_affordable(h, t))
        return 0; /* the time of who serves earns a share */
    t->step++;
    return is_turn ? t->at : 0;
}

static bool may_try(const md_ds_op *op, const md_ds_record *record, md_stream stream)
{
    const md_ds_way *way = md_ds_way_of(record);
    return !record->is_loose && !way->by_reference && !way->is_makeshift && atomic_load_explicit(&op->frozen, memory_order_relaxed) == MD_DS_NOT_FROZEN &&
           !md_ds_is_capturing(op->runtime, stream);
}

/* A shape without a plan comes this way at each call; only as many count as of others. */
static bool is_due(md_ds_trial *t, const md_ds_record *record, const md_ds_bound *bound)
{
    const int32_t every = t->is_over ? SHORT_WAYS : MD_DS_TRIAL_EVERY;
    return bound->is_sample || !atomic_load_explicit(&md_ds_way_of(record)->has_no_plan, memory_order_relaxed) || t->n_way++ % every == 0;
}

/* Free marks, made when they are first needed. */
static timing *find_marks(struct md_ds_hybrid *h)
{
    md_dev *dev = h->op->runtime->dev;
    for (int32_t i = 0; i < MOST_TIMES; i++) {
        timing *x = &h->timing[i];
        if (x->record)
            continue;
        if ((x->from || dev->ops->mark_create(&x->from, dev) == MD_OK) && (x->to || dev->ops->mark_create(&x->to, dev) == MD_OK))
            return x;
        return NULL;
    }
    return NULL;
}

typedef struct turn { /* of one call */
    md_ds_trial *trial; /* NULL: nobody times it */
    int32_t rival, generation;
    timing *timing; /* NULL where the clock is the host's */
} turn;

static void take_turn(turn *out, struct md_ds_hybrid *h, md_ds_record *record, md_stream stream, const md_ds_bound *bound)
{
    md_dev *dev = h->op->runtime->dev;
    md_ds_trial *t = trial_of(record);
    timing *x = NULL;
    if (dev->ops->mark_time)
        poll_times(h);
    if (!t || t->n_rivals < 2 || !is_due(t, record, bound) || (dev->ops->mark_time && !(x = find_marks(h))))
        return;
    int32_t rival = next_rival(h, record, &bound->shape);
    if (rival < 0 || (x && dev->ops->mark_put(dev, x->from, stream) != MD_OK))
        return;
    *out = (turn){t, rival, t->switches + t->demotions, x};
    t->n_running++;
    t->timed += rival > 0;
    if (rival > 0)
        add(&h->op->count.trials);
    if (!x)
        return;
    x->rival = rival;
    x->generation = out->generation;
    x->is_put = false;
    x->record = record;
    atomic_fetch_add_explicit(&record->users, 1, memory_order_relaxed);
}

static void end_turn(const turn *u, struct md_ds_hybrid *h, md_ds_record *record, md_stream stream, double us, md_status s)
{
    md_dev *dev = h->op->runtime->dev;
    pthread_mutex_lock(&h->lock);
    if (u->timing && s == MD_OK && dev->ops->mark_put(dev, u->timing->to, stream) == MD_OK) {
        u->timing->is_put = true;
    } else {
        take_time(h, record, u->rival, u->generation, u->timing || s != MD_OK ? -1.0 : us, &u->trial->shape);
        if (u->timing) {
            u->timing->record = NULL;
            md_ds_record_give_back(h->op, record);
        }
    }
    if (s != MD_OK && u->rival > 0)
        u->trial->rival[u->rival].is_out = true;
    pthread_mutex_unlock(&h->lock);
}

md_status md_ds_hybrid_run(md_ds_op *op, md_ds_record *record, md_stream stream, md_ds_bound *bound)
{
    struct md_ds_hybrid *h = op->hybrid;
    turn u = {0};
    double us = -1.0;
    const bool is_sync = !md_ds_is_async(op->runtime);
    if (may_try(op, record, stream) && pthread_mutex_trylock(&h->lock) == 0) {
        if (!trial_of(record) && atomic_load_explicit(&record->trial_state, memory_order_relaxed) == MD_DS_NO_TRIAL &&
            atomic_load_explicit(&record->calls, memory_order_relaxed) >= FIRST_CALLS &&
            atomic_load_explicit(&h->n_jobs, memory_order_relaxed) < MOST_JOBS)
            md_ds_prepare_trial(&h->n_jobs, op, record, bound);
        take_turn(&u, h, record, stream, bound);
        pthread_mutex_unlock(&h->lock);
    }
    if (!u.trial)
        return md_ds_run(NULL, op, record, stream, bound);
    bound->way = u.rival > 0 ? u.trial->rival[u.rival].way : NULL;
    md_status s = md_ds_run(is_sync ? &us : NULL, op, record, stream, bound);
    end_turn(&u, h, record, stream, us, s);
    bound->way = NULL;
    /* A rival that does not launch has done nothing where there is but one stage: who serves does it after all. */
    return s != MD_OK && s != MD_INVALID_ARGUMENT && u.rival > 0 && op->n_stages == 1 ? md_ds_run(NULL, op, record, stream, bound) : s;
}

uint32_t md_ds_hybrid_every(const md_ds_op *op, const md_ds_record *record, uint32_t otherwise)
{
    const md_ds_trial *t = trial_of(record);
    const bool is_open = t ? !t->is_over : atomic_load_explicit(&record->trial_state, memory_order_relaxed) != MD_DS_TRIAL_VAIN;
    return op->hybrid && is_open ? MD_DS_TRIAL_EVERY : otherwise;
}

bool md_ds_hybrid_wants_plan(const md_ds_record *record)
{
    md_ds_trial *t = trial_of(record);
    return t && atomic_load_explicit(&t->wants_plan, memory_order_relaxed) && atomic_exchange_explicit(&t->wants_plan, false, memory_order_relaxed);
}

bool md_ds_trial_of(md_ds_trial_state *out, const md_ds_record *record)
{
    const md_ds_trial *t = trial_of(record);
    if (t)
        *out = (md_ds_trial_state){t->n_rivals - 1, t->timed, t->switches, t->demotions, t->is_over};
    return t != NULL;
}
