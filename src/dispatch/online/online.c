#include "dispatch/online/internal.h"

#include "base/clock.h"
#include "base/task/fork.h"
#include "base/status.h"
#include "dispatch/online/prepare.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/cache/shape_entry.h"

#include "tune/bench/bench.h"

#include <stdlib.h>

/* Shapes that are met no oftener get no trial; preparations at a time. */
enum { FIRST_CALLS = 1, MOST_JOBS = 1 };

/* A child has nobody who would do them. */
static void forget_jobs(void *user)
{
    struct md_ds_hybrid *h = user;
    atomic_store_explicit(&h->n_jobs, 0, memory_order_relaxed);
    atomic_store_explicit(&h->n_races, 0, memory_order_relaxed);
    atomic_store_explicit(&h->op->runtime->is_racing, false, memory_order_relaxed);
}

static bool has_marks(md_ds_timing *x, md_dev *dev)
{
    return (x->from || dev->ops->mark_create(&x->from, dev) == MD_OK) &&
           (x->to || dev->ops->mark_create(&x->to, dev) == MD_OK);
}

md_status md_ds_hybrid_create(struct md_ds_hybrid **out, md_ds_op *op)
{
    struct md_ds_hybrid *h = calloc(1, sizeof *h);
    if (!h)
        return md_fail_memory();
    md_status s = md_ds_correction_create(&h->correction);
    if (s != MD_OK) {
        free(h);
        return s;
    }
    h->op = op;
    for (int32_t i = 0; op->runtime->dev->ops->mark_create && i < MD_DS_HYBRID_TIMES; i++)
        (void)has_marks(&h->timing[i], op->runtime->dev); /* before calls need them; else then */
    if (op->runtime->dev->ops->mark_create && op->runtime->dev->ops->mark_create(&h->tail, op->runtime->dev) != MD_OK)
        h->tail = NULL; /* no races then */
    md_mutex_init(&h->lock);
    md_fork_watch(h, forget_jobs);
    *out = h;
    return MD_OK;
}

md_ds_correction *md_ds_hybrid_correction(const md_ds_op *op)
{
    return op->hybrid->correction;
}

void md_ds_hybrid_destroy(struct md_ds_hybrid **hybrid)
{
    struct md_ds_hybrid *h = *hybrid;
    if (!h)
        return;
    md_dev *dev = h->op->runtime->dev;
    atomic_store_explicit(&h->is_ending, true, memory_order_release);
    md_ds_prepare_wait(&h->n_jobs);
    md_ds_prepare_wait(&h->n_races);
    md_fork_leave(h);
    if (h->tail)
        dev->ops->mark_destroy(dev, h->tail);
    for (int32_t i = 0; i < MD_DS_HYBRID_TIMES; i++) {
        if (h->timing[i].entry)
            md_ds_shape_entry_give_back(h->op, h->timing[i].entry);
        if (h->timing[i].from)
            dev->ops->mark_destroy(dev, h->timing[i].from);
        if (h->timing[i].to)
            dev->ops->mark_destroy(dev, h->timing[i].to);
    }
    md_mutex_finish(&h->lock);
    md_ds_correction_destroy(&h->correction);
    free(h);
    *hybrid = NULL;
}

/* ---- What times say. The lock is held. */

static void add(_Atomic uint64_t *count)
{
    atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

void md_ds_put_in_charge(md_ds_op *op, md_ds_shape_entry *entry, const md_kn_shape *shape, int32_t challenger)
{
    md_ds_trial *t = md_ds_trial_in(entry);
    const md_ds_pick *old = &md_ds_plan_of(entry)->stage[t->stage].pick;
    double spread, us = md_ds_challenger_median(&spread, &t->challenger[challenger]),
                   before = md_ds_challenger_median(&spread, &t->challenger[0]);
    if (t->challenger[challenger].idle_us > 0.0 && t->challenger[0].idle_us > 0.0) {
        us = t->challenger[challenger].idle_us;
        before = t->challenger[0].idle_us;
    }
    md_ds_pick pick = t->challenger[challenger].plan->stage[t->stage].pick;
    pick.source = MD_DS_MEASURED;
    pick.runner_up = old->variant;
    pick.us = us;
    pick.margin = before > us && us > 0.0 ? before / us - 1.0 : 0.0;
    if (md_ds_switch(op, entry, shape, t->stage, &pick) != MD_OK)
        return;
    md_ds_trial_switch(t, challenger);
    add(&op->count.switches);
}

/* ---- What times say */

/* The model's error is the stage's, so only ops of one stage teach. */
void md_ds_teach(struct md_ds_hybrid *h, const md_ds_trial *t, const md_ds_challenger *r)
{
    double spread, us = r->idle_us > 0.0 ? r->idle_us : md_ds_challenger_median(&spread, r);
    if (h->op->n_stages == 1 && us > 0.0 && r->model_us > 0.0)
        md_ds_correction_add(h->correction, h->op, t->stage, r->variant, t->by, us / r->model_us);
}

/* What was seen at other shapes since. */
static void refresh(struct md_ds_hybrid *h, md_ds_trial *t)
{
    double us[MD_DS_CHALLENGERS];
    int32_t variant[MD_DS_CHALLENGERS];
    t->version = md_ds_correction_version(h->correction);
    for (int32_t i = 0; i < t->n_challengers; i++) {
        us[i] = t->challenger[i].model_us;
        variant[i] = t->challenger[i].variant;
    }
    md_ds_correction_apply(us, h->correction, h->op, t->stage, t->by, variant, t->n_challengers);
    for (int32_t i = 1; i < t->n_challengers && us[0] > 0.0; i++)
        t->challenger[i].expected = us[i] / us[0];
    for (int32_t i = 1; i < t->n_challengers; i++)
        t->challenger[i].is_known =
            t->challenger[i].is_known || md_ds_correction_know(h->correction, t->stage, t->challenger[i].variant);
    if (t->step == 0)
        md_ds_trial_next(t);
}

static void drop(struct md_ds_hybrid *h, md_ds_trial *t, int32_t challenger)
{
    md_ds_teach(h, t, &t->challenger[challenger]);
    t->challenger[challenger].is_out = true;
    md_ds_trial_next(t);
}

static void judge(struct md_ds_hybrid *h, md_ds_shape_entry *entry)
{
    md_ds_trial *t = md_ds_trial_in(entry);
    md_ds_verdict v = md_ds_trial_judge(t);
    if (v == MD_DS_SWITCH)
        md_ds_put_in_charge(h->op, entry, &t->shape, t->at);
    if (v != MD_DS_GO_ON)
        drop(h, t, t->at);
}

/* The trial is over: is it still as fast as it was? */
static void watch(struct md_ds_hybrid *h, md_ds_shape_entry *entry, double us)
{
    int32_t better = -1;
    if (!md_ds_trial_watch(&better, md_ds_trial_in(entry), us))
        return;
    add(&h->op->count.demotions);
    if (better > 0)
        md_ds_put_in_charge(h->op, entry, &md_ds_trial_in(entry)->shape, better);
}

/* us <= 0: it has none. */
static void take_time(struct md_ds_hybrid *h, md_ds_shape_entry *entry, int32_t challenger, int32_t generation,
                      double us)
{
    md_ds_trial *t = md_ds_trial_in(entry);
    double spread;
    t->n_running--;
    h->n_tried -= challenger > 0;
    if (generation != t->switches + t->demotions)
        return;
    if (t->is_over) {
        if (challenger == 0 && us > 0.0)
            watch(h, entry, us);
        return;
    }
    if (!md_ds_challenger_add(&t->challenger[challenger], us)) {
        if (challenger > 0)
            drop(h, t, challenger);
        return;
    }
    if (challenger == 0) {
        if (t->challenger[0].n == MD_DS_OWN_TIMES)
            md_ds_teach(h, t, &t->challenger[0]);
        return;
    }
    md_ds_budget_spend(&h->budget, us, md_ds_challenger_median(&spread, &t->challenger[0]));
    const int32_t looks = md_ds_trial_looks(t);
    if (t->challenger[challenger].n == looks && md_ds_trial_is_behind(t, challenger))
        drop(h, t, challenger);
    else if (t->challenger[challenger].n == looks)
        md_ds_trial_next(t);
}

/* Asks for the times that are under way. */
static void poll_times(struct md_ds_hybrid *h)
{
    md_dev *dev = h->op->runtime->dev;
    for (int32_t i = 0; i < MD_DS_HYBRID_TIMES; i++) {
        md_ds_timing *x = &h->timing[i];
        double us = -1.0;
        if (!x->entry || !x->is_put)
            continue;
        if (dev->ops->mark_time(&us, dev, x->from, x->to) == MD_OK && us < 0.0)
            continue;
        atomic_fetch_sub_explicit(&h->n_put, 1, memory_order_relaxed);
        take_time(h, x->entry, x->challenger, x->generation, us);
        md_ds_shape_entry_give_back(h->op, x->entry);
        x->entry = NULL;
    }
}

/* ---- Whose turn it is */

/* Calls take the long way seldom while it may not. */
static bool may_cost(struct md_ds_hybrid *h, md_ds_trial *t)
{
    if (h->n_tried > 0 && !h->budget.is_ahead)
        return false; /* what one costs is known before the next one may cost something */
    double spread;
    const bool may = md_ds_budget_covers(&h->budget, md_ds_challenger_median(&spread, &t->challenger[0]),
                                         md_ds_trial_ratio(t, t->at));
    t->is_waiting = !may;
    return may;
}

/* From the next plan on. */
static void set_rate(const struct md_ds_hybrid *h, md_ds_trial *t)
{
    const bool is_new = t->challenger[0].n < MD_DS_OWN_TIMES;
    const int32_t every = t->is_over || (t->is_waiting && !is_new) ? MD_DS_TRIAL_WAITS
                          : is_new || h->budget.is_ahead           ? MD_DS_TRIAL_EVERY
                                                                   : MD_DS_TRIAL_CALMLY;
    if (every == atomic_load_explicit(&t->every, memory_order_relaxed))
        return;
    atomic_store_explicit(&t->every, every, memory_order_relaxed);
    atomic_store_explicit(&t->wants_launch_plan, true, memory_order_relaxed);
}

/* Calls that stand behind one that went the long way. */
static int32_t calls_since(md_ds_trial *t, const md_ds_shape_entry *entry)
{
    const int32_t went = t->went;
    t->went = atomic_load_explicit(&t->published, memory_order_relaxed);
    return atomic_load_explicit(&md_ds_plan_of(entry)->has_no_launch_plan, memory_order_relaxed)
               ? atomic_load_explicit(&t->every, memory_order_relaxed)
               : went;
}

/* A B B A. */
static int32_t next_in_race(struct md_ds_hybrid *h, md_ds_shape_entry *entry)
{
    static const bool is_challenger[] = {false, true, true, false};
    md_ds_trial *t = md_ds_trial_in(entry);
    if (t->step == MD_COUNT(is_challenger)) {
        if (t->n_running == 0) { /* the verdict waits for the last times */
            t->step = 0;
            judge(h, entry);
        }
        return -1;
    }
    const bool is_turn = is_challenger[t->step];
    if (is_turn && !may_cost(h, t))
        return -1;
    t->step++;
    return is_turn ? t->at : 0;
}

static void give_up(md_ds_trial *t)
{
    for (int32_t i = 1; i < t->n_challengers; i++)
        t->challenger[i].is_out = true;
    md_ds_trial_next(t);
}

enum { REFRESH = -2 };

/* The rival that serves the next timed call; -1: nobody is timed. */
static int32_t next_challenger(struct md_ds_hybrid *h, md_ds_shape_entry *entry)
{
    md_ds_trial *t = md_ds_trial_in(entry);
    const int32_t n_own = t->challenger[0].n;
    if (t->is_over && t->version != md_ds_correction_version(h->correction))
        return REFRESH; /* behind this call's launch */
    if (t->is_over)
        return t->n_running == 0 ? 0 : -1;
    if (n_own < MD_DS_OWN_TIMES)
        return n_own + t->n_running < MD_DS_OWN_TIMES ? 0 : -1;
    if (t->at > 0 && t->challenger[t->at].n >= md_ds_trial_looks(t))
        return next_in_race(h, entry);
    if (h->budget.spent_us > h->op->policy.hybrid_cap_ms * 1e3) {
        give_up(t);
        return -1;
    }
    if (t->version != md_ds_correction_version(h->correction))
        return REFRESH;
    return t->n_running == 0 && may_cost(h, t) ? t->at : -1; /* who was looked at says who is next */
}

static bool may_try(const md_ds_op *op, const md_ds_shape_entry *entry, md_stream stream)
{
    const md_ds_plan *plan = md_ds_plan_of(entry);
    if (md_ds_is_capturing(op->runtime, stream)) {
        atomic_store_explicit(&op->hybrid->captured_ns, md_clock_ns(), memory_order_relaxed);
        return false;
    }
    return !entry->is_loose && !plan->by_reference && !plan->is_makeshift &&
           atomic_load_explicit(&op->frozen, memory_order_relaxed) == MD_DS_NOT_FROZEN;
}

/* A shape without a plan comes this way at each call; only as many count as of others. */
static bool is_due(md_ds_trial *t, const md_ds_shape_entry *entry, const md_ds_bound *bound)
{
    const int32_t every = atomic_load_explicit(&t->every, memory_order_relaxed);
    return bound->is_sample || !atomic_load_explicit(&md_ds_plan_of(entry)->has_no_launch_plan, memory_order_relaxed) ||
           t->n_slow++ % every == 0;
}

static md_ds_timing *find_marks(struct md_ds_hybrid *h)
{
    for (int32_t i = 0; i < MD_DS_HYBRID_TIMES; i++)
        if (!h->timing[i].entry)
            return has_marks(&h->timing[i], h->op->runtime->dev) ? &h->timing[i] : NULL;
    return NULL;
}

typedef struct turn { /* of one call */
    md_ds_trial *trial; /* NULL: nobody times it */
    bool is_stale; /* there are new lessons for the trial */
    md_ds_plan *plan; /* the rival's; NULL: the record's */
    int32_t challenger, generation;
    md_ds_timing *timing; /* NULL where the clock is the host's */
} turn;

static bool see_load(struct md_ds_hybrid *h, md_stream stream)
{
    md_dev *dev = h->op->runtime->dev;
    const uint64_t now = md_tn_now_ns(dev);
    const bool is_idle = !dev->ops->is_idle || dev->ops->is_idle(dev, stream);
    if (md_ds_budget_see(&h->budget, !is_idle, now))
        md_ds_budget_look(&h->budget, md_ds_calls_of(h->op), now);
    return is_idle;
}

static void take_turn(turn *out, struct md_ds_hybrid *h, md_ds_shape_entry *entry, md_stream stream,
                      const md_ds_bound *bound)
{
    md_dev *dev = h->op->runtime->dev;
    md_ds_trial *t = md_ds_trial_in(entry);
    md_ds_timing *x = NULL;
    double spread;
    if (!t || t->n_challengers < 2 || !is_due(t, entry, bound))
        return;
    const int32_t calls = calls_since(t, entry);
    const bool is_careful = dev->ops->mark_time && !h->budget.is_ahead;
    if (t->is_careful != is_careful && t->step == 0) {
        t->is_careful = is_careful;
        md_ds_trial_next(t);
    }
    const bool is_idle = t->is_over || see_load(h, stream); /* whose trial is over does not ask the device */
    if (t->challenger[0].n > 0)
        md_ds_budget_earn(&h->budget, h->op->policy.hybrid_share, md_ds_challenger_median(&spread, &t->challenger[0]),
                          calls, is_idle);
    if (dev->ops->mark_time && !(x = find_marks(h)))
        return;
    int32_t challenger = next_challenger(h, entry);
    out->is_stale = challenger == REFRESH;
    if (challenger < 0 || (x && dev->ops->mark_put(dev, x->from, stream) != MD_OK))
        return;
    *out = (turn){
        t, false, challenger > 0 ? t->challenger[challenger].plan : NULL, challenger, t->switches + t->demotions, x};
    t->n_running++;
    t->timed += challenger > 0;
    h->n_tried += challenger > 0;
    if (challenger > 0)
        add(&h->op->count.trials);
    if (!x)
        return;
    x->challenger = challenger;
    x->generation = out->generation;
    x->is_put = false;
    x->entry = entry;
    atomic_fetch_add_explicit(&entry->users, 1, memory_order_relaxed);
}

/* A launch that failed has no time. */
static void end_turn(const turn *u, struct md_ds_hybrid *h, md_ds_shape_entry *entry, md_stream stream, double us,
                     md_status s)
{
    md_dev *dev = h->op->runtime->dev;
    pthread_mutex_lock(&h->lock);
    if (u->timing && s == MD_OK && dev->ops->mark_put(dev, u->timing->to, stream) == MD_OK) {
        u->timing->is_put = true;
        atomic_fetch_add_explicit(&h->n_put, 1, memory_order_relaxed);
    } else {
        take_time(h, entry, u->challenger, u->generation, u->timing || s != MD_OK ? -1.0 : us);
        if (u->timing) {
            u->timing->entry = NULL;
            md_ds_shape_entry_give_back(h->op, entry);
        }
    }
    pthread_mutex_unlock(&h->lock);
}

/* Behind the launch, which waits for nothing of this. */
static void think(struct md_ds_hybrid *h, md_ds_shape_entry *entry, bool is_stale)
{
    if ((!is_stale && atomic_load_explicit(&h->n_put, memory_order_relaxed) == 0) ||
        pthread_mutex_trylock(&h->lock) != 0)
        return;
    if (is_stale)
        refresh(h, md_ds_trial_in(entry));
    poll_times(h);
    pthread_mutex_unlock(&h->lock);
}

md_status md_ds_hybrid_run(md_ds_op *op, md_ds_shape_entry *entry, md_stream stream, md_ds_bound *bound)
{
    struct md_ds_hybrid *h = op->hybrid;
    turn u = {0};
    double us = -1.0;
    const bool is_sync = !md_ds_is_async(op->runtime), may = may_try(op, entry, stream);
    if (may && pthread_mutex_trylock(&h->lock) == 0) {
        if (!md_ds_trial_in(entry) &&
            atomic_load_explicit(&entry->trial_state, memory_order_relaxed) == MD_DS_NO_TRIAL &&
            atomic_load_explicit(&entry->calls, memory_order_relaxed) >= FIRST_CALLS &&
            atomic_load_explicit(&h->n_jobs, memory_order_relaxed) < MOST_JOBS)
            md_ds_prepare_trial(&h->n_jobs, op, entry, bound);
        take_turn(&u, h, entry, stream, bound);
        if (md_ds_trial_in(entry))
            set_rate(h, md_ds_trial_in(entry));
        pthread_mutex_unlock(&h->lock);
    }
    bound->plan = u.plan;
    md_status s = md_ds_run(u.trial && is_sync ? &us : NULL, op, entry, stream, bound);
    bound->plan = NULL;
    if (u.trial)
        end_turn(&u, h, entry, stream, us, s);
    if (may) {
        think(h, entry, u.is_stale);
        md_ds_request_race(h, entry, stream);
    }
    /* A rival that does not launch has done nothing where there is but one stage: who serves does it after all. */
    return s != MD_OK && s != MD_INVALID_ARGUMENT && u.plan && op->n_stages == 1
               ? md_ds_run(NULL, op, entry, stream, bound)
               : s;
}
