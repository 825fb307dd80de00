/* Writes measured picks and times to the store: in the background, many at a time. */
#include "base/status.h"
#include "dispatch/pool/pool.h"
#include "dispatch/select/stored_state.h"
#include "dispatch/select/select.h"
#include "tune/tune.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Picks are written together: a write waits FIRST_MS, and twice as long each time that more picks came meanwhile. */
enum { FIRST_MS = 20, MOST_MS = 1000 };

/* ---- What is to be written */

static void take_pick(void *user, const void *key, size_t n_bytes, void *value)
{
    md_tn_stored_list *list = user;
    md_ds_stored_pick *p = value;
    (void)key;
    (void)n_bytes;
    if (p->is_new)
        md_tn_stored_add_pick(list, &p->pick);
    p->is_new = false;
}

typedef struct copies {
    md_tn_observation *list;
    int32_t n;
} copies;

static void copy_observation(void *user, const md_tn_observation *o)
{
    copies *c = user;
    if (c->n < MD_TN_MOST_OBSERVATIONS && !o->is_stored && o->clock != MD_TN_CLOCK_TUNING)
        c->list[c->n++] = *o;
}

static int32_t find_variant(const md_ds_pool *pool, uint64_t digest)
{
    const int32_t n = atomic_load_explicit(&pool->n_variants, memory_order_acquire);
    for (int32_t i = 0; i < n; i++)
        if (md_tn_subject_of(pool->variant[i]).variant == digest)
            return i;
    return -1;
}

static void take_time(md_tn_stored_list *list, const md_ds_op *op, int32_t stage, const md_tn_observation *o)
{
    const md_ds_pool *pool = &op->stage[stage];
    const int32_t i = find_variant(pool, o->subject.variant);
    int64_t size[MD_FX_MAX_DIMS];
    md_tn_stored_time t;
    if (i < 0)
        return;
    const md_bd_variant *v = pool->variant[i];
    memset(&t, 0, sizeof t);
    t.stage = stage;
    t.clock = o->clock;
    t.n_sizes = pool->space->n;
    memcpy(t.size, o->size, sizeof t.size);
    md_ds_point_sizes(size, pool->space, t.size);
    t.us = o->ratio * md_tn_predict_us(&pool->target, v->family, &v->config, size);
    t.at = (md_tn_conditions){.environment = md_tn_stored_environment(op->stored->store),
                              .mhz = abs(o->mhz),
                              .is_throttled = o->mhz < 0,
                              .date = o->date};
    memcpy(t.variant, v->name, sizeof t.variant);
    if (t.us > 0.0)
        md_tn_stored_add_time(list, &t);
}

/* Tuned times are in the wisdom already. */
static void take_times(md_tn_stored_list *list, struct md_ds_stored *stored, int32_t stage)
{
    md_ds_pool *pool = &stored->op->stage[stage];
    const int32_t version = pool->correction ? md_tn_correction_version(pool->correction) : 0;
    pthread_mutex_lock(&stored->lock);
    const bool is_written = version == stored->version[stage];
    stored->version[stage] = version;
    pthread_mutex_unlock(&stored->lock);
    if (is_written)
        return;
    copies o = {malloc(MD_TN_MOST_OBSERVATIONS * sizeof *o.list), 0};
    if (!o.list)
        return;
    md_tn_correction_each(pool->correction, copy_observation, &o);
    for (int32_t i = 0; i < o.n; i++)
        take_time(list, stored->op, stage, &o.list[i]);
    free(o.list);
}

/* ---- Writing */

/* So that other chips of the architecture find what this one took. */
static void note_chip(struct md_ds_stored *stored)
{
    const md_dev_facts *f = &stored->op->runtime->dev->facts;
    if (!stored->has_noted_chip && f->arch[0])
        (void)md_tn_stored_note_chip(stored->store, f->arch, f->name);
    stored->has_noted_chip = true;
}

void md_ds_stored_write(struct md_ds_stored *stored)
{
    md_tn_stored_list list = {0};
    if (!md_tn_stored_is_writable(stored->store))
        return;
    pthread_mutex_lock(&stored->lock_of_writes);
    pthread_mutex_lock(&stored->lock);
    if (stored->is_dirty)
        md_table_each(stored->picks, take_pick, &list);
    stored->is_dirty = false;
    pthread_mutex_unlock(&stored->lock);
    for (int32_t s = 0; s < stored->op->n_stages; s++)
        take_times(&list, stored, s);
    if (list.n_picks + list.n_times > 0) {
        (void)md_tn_stored_save(stored->store, stored->key,
                                &list); /* a store that cannot be written is warned of once */
        note_chip(stored);
    }
    pthread_mutex_unlock(&stored->lock_of_writes);
    md_tn_stored_list_finish(&list);
}

/* The lock is held: a thread that adds a pick afterwards sees that no job is left to write it, and starts one. */
static bool is_done(struct md_ds_stored *stored)
{
    pthread_mutex_lock(&stored->lock);
    const bool is = !stored->is_dirty || !md_tn_stored_is_writable(stored->store) ||
                    atomic_load_explicit(&stored->is_ending, memory_order_acquire);
    if (is)
        atomic_store_explicit(&stored->n_jobs, 0, memory_order_release);
    pthread_mutex_unlock(&stored->lock);
    return is;
}

static void wait_for_more(const struct md_ds_stored *stored, int32_t ms)
{
    for (int32_t i = 0; i < ms && !atomic_load_explicit(&stored->is_ending, memory_order_acquire); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void run_write(void *user)
{
    struct md_ds_stored *stored = user;
    int32_t ms = FIRST_MS;
    do {
        wait_for_more(stored, ms);
        md_ds_stored_write(stored);
        ms = MD_MIN(2 * ms, MOST_MS);
    } while (!is_done(stored));
}

void md_ds_stored_write_later(struct md_ds_stored *stored)
{
    int32_t none = 0;
    if (!md_tn_stored_is_writable(stored->store) ||
        !atomic_compare_exchange_strong_explicit(&stored->n_jobs, &none, 1, memory_order_acq_rel, memory_order_relaxed))
        return;
    if (!md_tn_stored_submit(stored->store, run_write, stored))
        atomic_store_explicit(&stored->n_jobs, 0, memory_order_release);
}
