#include "dispatch/cache/shape_entry.h"

#include "base/status.h"
#include "dispatch/select/describe.h"
#include "dispatch/online/online.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/cache/plan_cache.h"

#include <stdlib.h>
#include <string.h>

md_status md_ds_record_make(md_ds_record **out, md_ds_op *op, const md_kn_shape *shape, const md_ds_as *as, const md_kn_call *call,
                            md_ds_effort effort)
{
    md_ds_way *way = NULL;
    md_ds_record *r = calloc(1, sizeof *r);
    if (!r)
        return md_fail_memory();
    md_status s = md_ds_way_make(&way, op, shape, as, call, effort);
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
    atomic_init(&r->way, way);
    *out = r;
    return MD_OK;
}

void md_ds_record_free(void *record)
{
    md_ds_record *r = record;
    md_ds_way *way = atomic_load_explicit(&r->way, memory_order_relaxed);
    while (way) {
        md_ds_way *older = way->older;
        free(way);
        way = older;
    }
    md_ds_trial_free(atomic_load_explicit(&r->trial, memory_order_relaxed));
    free(r->key);
    free(r);
}

uint64_t md_ds_record_ns(const md_ds_record *record)
{
    uint64_t calls = atomic_load_explicit(&record->calls, memory_order_relaxed);
    uint64_t n = atomic_load_explicit(&record->n_timed, memory_order_relaxed), ns = atomic_load_explicit(&record->time_ns, memory_order_relaxed);
    if (n == 0)
        return (uint64_t)(md_ds_way_of(record)->model_us * 1e3 * (double)calls);
    return n >= calls ? ns : (uint64_t)((double)ns / (double)n * (double)calls);
}

/* What a record counted outlives it, as a sum. */
static void forget(md_ds_op *op, md_ds_record *r)
{
    atomic_fetch_add_explicit(&op->count.forgotten_calls, atomic_load_explicit(&r->calls, memory_order_relaxed), memory_order_relaxed);
    atomic_fetch_add_explicit(&op->count.forgotten_ns, md_ds_record_ns(r), memory_order_relaxed);
    atomic_fetch_add_explicit(&op->count.forgotten_timed, atomic_load_explicit(&r->n_timed, memory_order_relaxed), memory_order_relaxed);
    md_ds_record_free(r);
}

void md_ds_record_give_back(md_ds_op *op, md_ds_record *record)
{
    if (atomic_fetch_sub_explicit(&record->users, 1, memory_order_acq_rel) == 1)
        forget(op, record);
}

/* The ring doubles where its length is 0 or a power of two from 16 on. */
static bool ring_has_room(md_ds_op *op)
{
    int64_t n = op->n_records;
    if (n % 16 || (n & (n - 1)))
        return true;
    md_ds_record **ring = realloc(op->ring, (size_t)MD_MAX(2 * n, 16) * sizeof *ring);
    if (ring)
        op->ring = ring;
    return ring != NULL;
}

/* A place in the ring: a new one while there is room, else that of a record that nobody holds and nobody used since the hand
 * passed; -1 where all are held or memory is short. */
static int64_t find_place(md_ds_op *op)
{
    if (op->n_records < op->max_records) {
        if (!ring_has_room(op))
            return -1;
        op->ring[op->n_records] = NULL;
        return op->n_records++;
    }
    for (int64_t step = 0; step < 2 * op->n_records + 1; step++) {
        int64_t at = op->hand;
        md_ds_record *r = op->ring[at];
        op->hand = (op->hand + 1) % op->n_records;
        if (!r || (!atomic_exchange_explicit(&r->is_hot, false, memory_order_relaxed) &&
                   atomic_load_explicit(&r->users, memory_order_acquire) == 1)) /* the table's */
            return at;
    }
    return -1;
}

static void evict(md_ds_op *op, int64_t place)
{
    md_ds_record *old = op->ring[place];
    if (!old)
        return;
    (void)md_table_remove(op->records, old->key, old->key_bytes);
    md_ds_record_give_back(op, old);
    op->ring[place] = NULL;
    atomic_fetch_add_explicit(&op->count.evictions, 1, memory_order_relaxed);
}

/* False where there is no place or no memory for it: the call is served all the same, and the next of its shape chooses anew. */
static bool remember(md_ds_op *op, md_ds_record *r, const md_ds_key *key)
{
    size_t key_bytes = (size_t)key->n * sizeof *key->word;
    r->key = malloc(MD_MAX(key_bytes, 1));
    if (!r->key)
        return false;
    memcpy(r->key, key->word, key_bytes);
    r->key_bytes = key_bytes;
    int64_t place = find_place(op);
    if (place < 0 && md_ds_slots_drop(atomic_load_explicit(&op->slots, memory_order_acquire), op))
        place = find_place(op); /* plans hold their records: all of them let go */
    if (place < 0)
        return false;
    evict(op, place);
    if (md_table_put(op->records, r->key, key_bytes, r, NULL) != MD_OK)
        return false;
    op->ring[place] = r;
    atomic_fetch_add_explicit(&r->users, 1, memory_order_relaxed);
    return true;
}

static md_ds_record *take(md_ds_record *r)
{
    atomic_fetch_add_explicit(&r->users, 1, memory_order_relaxed);
    atomic_store_explicit(&r->is_hot, true, memory_order_relaxed);
    return r;
}

md_ds_record *md_ds_record_find(md_ds_op *op, const md_ds_key *key)
{
    pthread_mutex_lock(&op->lock_of_records);
    md_ds_record *r = md_table_find(op->records, key->word, (size_t)key->n * sizeof *key->word);
    if (r)
        take(r);
    pthread_mutex_unlock(&op->lock_of_records);
    atomic_fetch_add_explicit(r ? &op->count.hits : &op->count.misses, 1, memory_order_relaxed);
    return r;
}

/* What a captured stream made do with serves that call only, where another call would measure; so does what nobody can promote. */
static bool is_lasting(const md_ds_op *op, const md_ds_record *r, const struct md_ds_waiting *waiting)
{
    return !md_ds_way_of(r)->is_makeshift || (op->policy.select != MD_SELECT_MEASURE && waiting);
}

/* Chosen outside the lock, so that other shapes go on; of two threads that chose one shape at once, the first to return wins. */
md_status md_ds_record_add(md_ds_record **out, md_ds_op *op, const md_ds_key *key, const md_kn_shape *shape, const md_ds_as *as,
                           const md_kn_call *call, md_ds_effort effort)
{
    md_ds_record *r = NULL;
    MD_TRY(md_ds_record_make(&r, op, shape, as, call, effort));
    if (effort != MD_DS_ONLY_READY)
        md_ds_trace_choice(op, r);
    struct md_ds_waiting *waiting = md_ds_way_of(r)->is_makeshift ? md_ds_waiting_make(op, shape) : NULL;
    pthread_mutex_lock(&op->lock_of_records);
    md_ds_record *other = md_table_find(op->records, key->word, (size_t)key->n * sizeof *key->word);
    if (!other) {
        r->is_loose = !is_lasting(op, r, waiting) || !remember(op, r, key);
        if (waiting && !r->is_loose) {
            md_ds_waiting_add(op, waiting, r);
            waiting = NULL;
        }
    }
    *out = take(other ? other : r);
    pthread_mutex_unlock(&op->lock_of_records);
    free(waiting);
    if (other)
        md_ds_record_free(r);
    else if (md_ds_is_due(op, md_ds_way_of(r)))
        md_ds_promote_ready(op); /* what it waits for may have come meanwhile */
    return MD_OK;
}

typedef struct visit {
    void (*fn)(void *user, const md_ds_record *record);
    void *user;
} visit;

static void visit_one(void *user, const void *key, size_t n_bytes, void *value)
{
    (void)key;
    (void)n_bytes;
    const visit *v = user;
    v->fn(v->user, value);
}

void md_ds_record_each(md_ds_op *op, void (*fn)(void *user, const md_ds_record *record), void *user)
{
    visit v = {fn, user};
    md_ds_slots_flush(atomic_load_explicit(&op->slots, memory_order_acquire), op);
    pthread_mutex_lock(&op->lock_of_records);
    md_table_each(op->records, visit_one, &v);
    pthread_mutex_unlock(&op->lock_of_records);
}
