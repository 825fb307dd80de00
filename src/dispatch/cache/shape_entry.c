#include "dispatch/cache/shape_entry.h"

#include "base/status.h"
#include "dispatch/select/describe.h"
#include "dispatch/online/online.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/cache/plan_cache.h"

#include <stdlib.h>
#include <string.h>

md_status md_ds_shape_entry_make(md_ds_shape_entry **out, md_ds_op *op, const md_kn_shape *shape, const md_ds_as *as,
                                 const md_kn_call *call, md_ds_effort effort)
{
    md_ds_plan *plan = NULL;
    md_ds_shape_entry *r = calloc(1, sizeof *r);
    if (!r)
        return md_fail_memory();
    md_status s = md_ds_plan_make(&plan, op, shape, as, call, effort);
    if (s != MD_OK) {
        free(r);
        return s;
    }
    memcpy(r->size, shape->size, sizeof r->size);
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        r->is_strided |= !(shape->contiguous >> t & 1);
    int64_t by[MD_FX_MAX_DIMS] = {0};
    r->as = *as;
    md_ds_as_sizes(by, &op->space, shape->size, as);
    (void)md_ds_nearest_hint(&r->nearest, &op->space, op->policy.metric, by);
    r->is_uncovered = r->nearest > op->policy.uncovered;
    atomic_init(&r->plan, plan);
    *out = r;
    return MD_OK;
}

void md_ds_shape_entry_free(void *entry)
{
    md_ds_shape_entry *r = entry;
    md_ds_plan *plan = atomic_load_explicit(&r->plan, memory_order_relaxed);
    while (plan) {
        md_ds_plan *older = plan->older;
        free(plan);
        plan = older;
    }
    md_ds_trial_free(atomic_load_explicit(&r->trial, memory_order_relaxed));
    free(r->key);
    free(r);
}

uint64_t md_ds_shape_entry_ns(const md_ds_shape_entry *entry)
{
    uint64_t calls = atomic_load_explicit(&entry->calls, memory_order_relaxed);
    uint64_t n = atomic_load_explicit(&entry->n_timed, memory_order_relaxed),
             ns = atomic_load_explicit(&entry->time_ns, memory_order_relaxed);
    if (n == 0)
        return (uint64_t)(md_ds_plan_of(entry)->model_us * 1e3 * (double)calls);
    return n >= calls ? ns : (uint64_t)((double)ns / (double)n * (double)calls);
}

/* What a record counted outlives it, as a sum. */
static void forget(md_ds_op *op, md_ds_shape_entry *r)
{
    atomic_fetch_add_explicit(&op->count.forgotten_calls, atomic_load_explicit(&r->calls, memory_order_relaxed),
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&op->count.forgotten_ns, md_ds_shape_entry_ns(r), memory_order_relaxed);
    atomic_fetch_add_explicit(&op->count.forgotten_timed, atomic_load_explicit(&r->n_timed, memory_order_relaxed),
                              memory_order_relaxed);
    md_ds_shape_entry_free(r);
}

void md_ds_shape_entry_give_back(md_ds_op *op, md_ds_shape_entry *entry)
{
    if (atomic_fetch_sub_explicit(&entry->users, 1, memory_order_acq_rel) == 1)
        forget(op, entry);
}

/* The ring doubles where its length is 0 or a power of two from 16 on. */
static bool ring_has_room(md_ds_op *op)
{
    int64_t n = op->n_entries;
    if (n % 16 || (n & (n - 1)))
        return true;
    md_ds_shape_entry **ring = realloc(op->ring, (size_t)MD_MAX(2 * n, 16) * sizeof *ring);
    if (ring)
        op->ring = ring;
    return ring != NULL;
}

/* A place in the ring: a new one while there is room, else that of a record that nobody holds and nobody used since
 * the hand passed; -1 where all are held or memory is short. */
static int64_t find_place(md_ds_op *op)
{
    if (op->n_entries < op->max_entries) {
        if (!ring_has_room(op))
            return -1;
        op->ring[op->n_entries] = NULL;
        return op->n_entries++;
    }
    for (int64_t step = 0; step < 2 * op->n_entries + 1; step++) {
        int64_t at = op->hand;
        md_ds_shape_entry *r = op->ring[at];
        op->hand = (op->hand + 1) % op->n_entries;
        if (!r || (!atomic_exchange_explicit(&r->is_hot, false, memory_order_relaxed) &&
                   atomic_load_explicit(&r->users, memory_order_acquire) == 1)) /* the table's */
            return at;
    }
    return -1;
}

static void evict(md_ds_op *op, int64_t place)
{
    md_ds_shape_entry *old = op->ring[place];
    if (!old)
        return;
    (void)md_table_remove(op->entries, old->key, old->key_bytes);
    md_ds_shape_entry_give_back(op, old);
    op->ring[place] = NULL;
    atomic_fetch_add_explicit(&op->count.evictions, 1, memory_order_relaxed);
}

/* False where there is no place or no memory for it: the call is served all the same, and the next of its shape
 * chooses anew. */
static bool remember(md_ds_op *op, md_ds_shape_entry *r, const md_ds_key *key)
{
    size_t key_bytes = (size_t)key->n * sizeof *key->word;
    r->key = malloc(MD_MAX(key_bytes, 1));
    if (!r->key)
        return false;
    memcpy(r->key, key->word, key_bytes);
    r->key_bytes = key_bytes;
    int64_t place = find_place(op);
    if (place < 0 && md_ds_plan_cache_drop(atomic_load_explicit(&op->plan_cache, memory_order_acquire), op))
        place = find_place(op); /* plans hold their records: all of them let go */
    if (place < 0)
        return false;
    evict(op, place);
    if (md_table_put(op->entries, r->key, key_bytes, r, NULL) != MD_OK)
        return false;
    op->ring[place] = r;
    atomic_fetch_add_explicit(&r->users, 1, memory_order_relaxed);
    return true;
}

static md_ds_shape_entry *take(md_ds_shape_entry *r)
{
    atomic_fetch_add_explicit(&r->users, 1, memory_order_relaxed);
    atomic_store_explicit(&r->is_hot, true, memory_order_relaxed);
    return r;
}

md_ds_shape_entry *md_ds_shape_entry_find(md_ds_op *op, const md_ds_key *key)
{
    pthread_mutex_lock(&op->lock_of_entries);
    md_ds_shape_entry *r = md_table_find(op->entries, key->word, (size_t)key->n * sizeof *key->word);
    if (r)
        take(r);
    pthread_mutex_unlock(&op->lock_of_entries);
    atomic_fetch_add_explicit(r ? &op->count.hits : &op->count.misses, 1, memory_order_relaxed);
    return r;
}

/* What a captured stream made do with serves that call only, where another call would measure; so does what nobody
 * can promote. */
static bool is_lasting(const md_ds_op *op, const md_ds_shape_entry *r, const struct md_ds_upgrade *waiting)
{
    return !md_ds_plan_of(r)->is_makeshift || (op->policy.select != MD_SELECT_MEASURE && waiting);
}

/* Chosen outside the lock, so that other shapes go on; of two threads that chose one shape at once, the first to
 * return wins. */
md_status md_ds_shape_entry_add(md_ds_shape_entry **out, md_ds_op *op, const md_ds_key *key, const md_kn_shape *shape,
                                const md_ds_as *as, const md_kn_call *call, md_ds_effort effort)
{
    md_ds_shape_entry *r = NULL;
    MD_TRY(md_ds_shape_entry_make(&r, op, shape, as, call, effort));
    if (effort != MD_DS_ONLY_READY)
        md_ds_trace_choice(op, r);
    struct md_ds_upgrade *waiting = md_ds_plan_of(r)->is_makeshift ? md_ds_upgrade_make(op, shape) : NULL;
    pthread_mutex_lock(&op->lock_of_entries);
    md_ds_shape_entry *other = md_table_find(op->entries, key->word, (size_t)key->n * sizeof *key->word);
    if (!other) {
        r->is_loose = !is_lasting(op, r, waiting) || !remember(op, r, key);
        if (waiting && !r->is_loose) {
            md_ds_upgrade_add(op, waiting, r);
            waiting = NULL;
        }
    }
    *out = take(other ? other : r);
    pthread_mutex_unlock(&op->lock_of_entries);
    free(waiting);
    if (other)
        md_ds_shape_entry_free(r);
    else if (md_ds_is_due(op, md_ds_plan_of(r)))
        md_ds_upgrade_ready(op); /* what it waits for may have come meanwhile */
    return MD_OK;
}

typedef struct visit {
    void (*fn)(void *user, const md_ds_shape_entry *entry);
    void *user;
} visit;

static void visit_one(void *user, const void *key, size_t n_bytes, void *value)
{
    (void)key;
    (void)n_bytes;
    const visit *v = user;
    v->fn(v->user, value);
}

void md_ds_shape_entry_each(md_ds_op *op, void (*fn)(void *user, const md_ds_shape_entry *entry), void *user)
{
    visit v = {fn, user};
    md_ds_plan_cache_flush(atomic_load_explicit(&op->plan_cache, memory_order_acquire), op);
    pthread_mutex_lock(&op->lock_of_entries);
    md_table_each(op->entries, visit_one, &v);
    pthread_mutex_unlock(&op->lock_of_entries);
}
