/* Measured picks of an op: reads them, and finds them by shape. */
#include "dispatch/select/stored.h"

#include "base/status.h"
#include "base/task/fork.h"
#include "dispatch/pool/fill.h"
#include "dispatch/select/stored_state.h"
#include "expr/formula.h"
#include "tune/bench/bench.h"
#include "tune/tune.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct pick_key {
    md_digest128 shape;
    int64_t stage;
} pick_key;

/* ---- Picks in memory */

static pick_key key_of(int32_t stage, md_digest128 shape)
{
    pick_key key;
    memset(&key, 0, sizeof key);
    key.shape = shape;
    key.stage = stage;
    return key;
}

/* The pick as it is remembered; NULL: there is no room. The lock is held. A pick that this process measured replaces
 * one from the store; an imported one replaces both. */
static md_ds_stored_pick *remember(struct md_ds_stored *stored, const md_tn_stored_pick *pick, bool is_own,
                                   bool is_given)
{
    const pick_key key = key_of(pick->stage, pick->shape);
    void *old = NULL;
    md_ds_stored_pick *there = md_table_find(stored->picks, &key, sizeof key);
    if (there && ((there->is_given && !is_given) || (there->is_own && !is_own)))
        return there;
    if (!there && md_table_count(stored->picks) >= MD_TN_STORED_PICKS)
        return NULL;
    md_ds_stored_pick *p = malloc(sizeof *p);
    if (!p)
        return NULL;
    *p = (md_ds_stored_pick){.pick = *pick, .is_own = is_own, .is_new = is_own && !is_given, .is_given = is_given};
    if (md_table_put(stored->picks, &key, sizeof key, p, &old) != MD_OK) {
        free(p);
        return NULL;
    }
    free(old);
    stored->is_dirty |= p->is_new;
    atomic_store_explicit(&stored->n_picks, (int32_t)md_table_count(stored->picks), memory_order_relaxed);
    return p;
}

static bool recall(md_ds_stored_pick *out, struct md_ds_stored *stored, int32_t stage, md_digest128 shape)
{
    const pick_key key = key_of(stage, shape);
    pthread_mutex_lock(&stored->lock);
    const md_ds_stored_pick *p = md_table_find(stored->picks, &key, sizeof key);
    if (p)
        *out = *p;
    pthread_mutex_unlock(&stored->lock);
    return p != NULL;
}

bool md_ds_stored_has_any(const md_ds_op *op)
{
    return op->stored && atomic_load_explicit(&op->stored->n_picks, memory_order_relaxed) > 0;
}

bool md_ds_stored_find(md_ds_pick *out, md_ds_op *op, int32_t stage, const md_ds_query *query)
{
    md_ds_stored_pick stored;
    const md_ds_pool *pool = &op->stage[stage];
    if (!query->key || !md_ds_stored_has_any(op) || !recall(&stored, op->stored, stage, *query->key))
        return false;
    if (stored.is_for_later || (op->policy.select == MD_SELECT_DISTANCE && !stored.is_given))
        return false;
    if (op->policy.agrees && stored.is_own && !stored.is_given) /* it serves from the next agreement on */
        return false;
    const int32_t variant = md_ds_pool_find(pool, stored.pick.variant);
    if (variant < 0 || !(stored.is_own || md_ds_stored_is_fact(op->stored, &stored.pick.at)) ||
        !md_ds_fits(pool, variant, query))
        return false;
    out->variant = variant;
    out->runner_up = -1;
    out->source = stored.is_given ? MD_DS_GIVEN : stored.is_own ? MD_DS_MEASURED : MD_DS_STORED;
    out->us = stored.pick.us;
    out->margin = 0.0;
    return true;
}

void md_ds_stored_put(md_ds_op *op, int32_t stage, md_digest128 shape, const md_ds_pick *pick, bool serves_now)
{
    struct md_ds_stored *stored = op->stored;
    md_tn_stored_pick p;
    if (!stored || pick->variant < 0 || !(pick->us > 0.0))
        return;
    memset(&p, 0, sizeof p);
    p.shape = shape;
    p.stage = stage;
    p.us = pick->us;
    p.at = md_tn_conditions_now(stored->store, op->runtime->dev);
    memcpy(p.variant, op->stage[stage].variant[pick->variant]->name, sizeof p.variant);
    pthread_mutex_lock(&stored->lock);
    md_ds_stored_pick *there = remember(stored, &p, true, false);
    if (there && !there->is_given)
        there->is_for_later = !serves_now;
    pthread_mutex_unlock(&stored->lock);
    md_ds_stored_write_later(stored);
}

static md_tn_stored_pick pick_of(const md_ds_op *op, int32_t stage, md_digest128 shape, int32_t variant)
{
    md_tn_stored_pick p;
    memset(&p, 0, sizeof p);
    p.shape = shape;
    p.stage = stage;
    memcpy(p.variant, op->stage[stage].variant[variant]->name, sizeof p.variant);
    return p;
}

md_status md_ds_stored_give(md_ds_op *op, int32_t stage, md_digest128 shape, int32_t variant)
{
    struct md_ds_stored *stored = op->stored;
    const md_tn_stored_pick p = pick_of(op, stage, shape, variant);
    const pick_key key = key_of(stage, shape);
    pthread_mutex_lock(&stored->lock);
    const bool ok = remember(stored, &p, true, true) != NULL;
    if (stored->proposals)
        free(md_table_remove(stored->proposals, &key, sizeof key));
    pthread_mutex_unlock(&stored->lock);
    return ok ? MD_OK : md_fail_memory();
}

/* ---- Proposals, until ranks agree */

void md_ds_propose(md_ds_op *op, int32_t stage, md_digest128 shape, int32_t variant, double us)
{
    struct md_ds_stored *stored = op->stored;
    const pick_key key = key_of(stage, shape);
    md_ds_stored_pick *p = malloc(sizeof *p);
    void *old = p;
    if (!p)
        return; /* what serves goes on serving */
    *p = (md_ds_stored_pick){.pick = pick_of(op, stage, shape, variant), .is_own = true};
    p->pick.us = us;
    pthread_mutex_lock(&stored->lock);
    const md_ds_stored_pick *there = md_table_find(stored->proposals, &key, sizeof key);
    const bool is_better = there ? us < there->pick.us : md_table_count(stored->proposals) < MD_TN_STORED_PICKS;
    if (is_better && md_table_put(stored->proposals, &key, sizeof key, p, &old) == MD_OK && old == p)
        old = NULL;
    pthread_mutex_unlock(&stored->lock);
    free(old);
}

int32_t md_ds_proposal_of(const md_ds_op *op, int32_t stage, md_digest128 shape)
{
    struct md_ds_stored *stored = op->stored;
    const pick_key key = key_of(stage, shape);
    pthread_mutex_lock(&stored->lock);
    const md_ds_stored_pick *p = md_table_find(stored->proposals, &key, sizeof key);
    const int32_t variant = p ? md_ds_pool_find(&op->stage[stage], p->pick.variant) : -1;
    pthread_mutex_unlock(&stored->lock);
    return variant;
}

const char *md_ds_stored_key(const md_ds_op *op)
{
    return op->stored->key;
}

/* ---- Variants that an earlier process added */

enum { MOST_BROUGHT = 64 };

typedef struct brought {
    const md_ds_op *op;
    int32_t n;
    md_tn_stored_pick pick[MOST_BROUGHT];
} brought;

static void note_missing(void *user, const void *key, size_t n_bytes, void *value)
{
    brought *b = user;
    const md_tn_stored_pick *p = &((const md_ds_stored_pick *)value)->pick;
    (void)key, (void)n_bytes;
    if (b->n < MOST_BROUGHT && p->stage >= 0 && p->stage < b->op->n_stages &&
        md_ds_stored_is_fact(b->op->stored, &p->at) && md_ds_pool_find(&b->op->stage[p->stage], p->variant) < 0)
        b->pick[b->n++] = *p;
}

void md_ds_stored_bring(md_ds_op *op)
{
    brought *b = op->policy.idle_tune && md_ds_stored_has_any(op) ? malloc(sizeof *b) : NULL;
    if (!b)
        return;
    b->op = op;
    b->n = 0;
    pthread_mutex_lock(&op->stored->lock);
    md_table_each(op->stored->picks, note_missing, b);
    pthread_mutex_unlock(&op->stored->lock);
    for (int32_t i = 0; i < b->n; i++) {
        int32_t added; /* what cannot be added is left out */
        (void)md_ds_pool_follow_name(&added, &op->stage[b->pick[i].stage], b->pick[i].variant);
    }
    free(b);
}

/* ---- Lifetime */

/* In a child after fork, which has no thread that writes. */
static void forget_jobs(void *user)
{
    struct md_ds_stored *stored = user;
    atomic_store_explicit(&stored->n_jobs, 0, memory_order_relaxed);
}

/* A pick of another version is left out, and the log says so once an op: its shape is chosen anew. */
static bool is_current(const struct md_ds_stored *stored, const char *variant, bool *was_said)
{
    if (md_fa_is_current(variant))
        return true;
    if (!*was_said)
        md_log_at(stored->op->runtime->log, MD_LOG_WARN,
                  "op %s: stored picks are of another version of this library, and left out: it has no variant '%s'",
                  stored->op->name, variant);
    *was_said = true;
    return false;
}

static void load(struct md_ds_stored *stored)
{
    bool was_said = false;
    md_tn_stored_load(&stored->times, stored->store, stored->key);
    for (int32_t i = 0; i < stored->times.n_picks; i++) {
        if (stored->times.pick[i].at.environment == md_tn_stored_environment(stored->store) &&
            is_current(stored, stored->times.pick[i].variant, &was_said))
            (void)remember(stored, &stored->times.pick[i], false, false);
    }
    free(stored->times.pick);
    stored->times.pick = NULL;
    stored->times.n_picks = 0;
    atomic_store_explicit(&stored->op->count.stored_picks, (uint64_t)md_table_count(stored->picks),
                          memory_order_relaxed);
    atomic_store_explicit(&stored->op->count.stored_times, (uint64_t)stored->times.n_times, memory_order_relaxed);
}

md_status md_ds_stored_create(struct md_ds_stored **out, md_ds_op *op)
{
    struct md_ds_stored *stored = calloc(1, sizeof *stored);
    if (!stored)
        return md_fail_memory();
    stored->op = op;
    stored->store = op->policy.stored;
    stored->key = md_ds_stored_make_key(op, op->runtime->dev->facts.name);
    stored->picks = md_table_create();
    stored->proposals = op->policy.agrees ? md_table_create() : NULL;
    md_mutex_init(&stored->lock);
    md_mutex_init(&stored->lock_of_writes);
    md_fork_watch(stored, forget_jobs);
    if (!stored->key || !stored->picks || (op->policy.agrees && !stored->proposals)) {
        md_ds_stored_destroy(&stored);
        return md_fail_memory();
    }
    load(stored);
    md_ds_stored_load_siblings(stored);
    *out = stored;
    return MD_OK;
}

void md_ds_stored_destroy(struct md_ds_stored **stored)
{
    struct md_ds_stored *s = *stored;
    if (!s)
        return;
    atomic_store_explicit(&s->is_ending, true, memory_order_release);
    while (atomic_load_explicit(&s->n_jobs, memory_order_acquire) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    pthread_mutex_lock(&s->lock); /* the job has left it */
    pthread_mutex_unlock(&s->lock);
    if (s->key && s->picks)
        md_ds_stored_write(s);
    md_fork_leave(s);
    md_table_destroy(&s->picks, free);
    md_table_destroy(&s->proposals, free);
    md_tn_stored_list_finish(&s->times);
    for (int32_t i = 0; i < s->n_siblings; i++)
        md_tn_stored_list_finish(&s->sibling[i].times);
    md_mutex_finish(&s->lock);
    md_mutex_finish(&s->lock_of_writes);
    free(s->key);
    free(s);
    *stored = NULL;
}
