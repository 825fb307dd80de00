#include "dispatch/record.h"

#include "base/dtype.h"
#include "base/status.h"
#include "dispatch/choose.h"
#include "dispatch/describe.h"
#include "dispatch/slots.h"
#include "tune/tune.h"

#include <stdlib.h>
#include <string.h>

static md_status temp_bytes(size_t *out, const md_ds_op *op, int32_t t, const int64_t *size)
{
    const md_fx_tensor *x = &op->formula->tensor[t];
    int64_t n = (int64_t)md_dtype_size(x->dtype);
    bool is_empty = false, overflows = false;
    for (int32_t a = 0; a < x->rank; a++) {
        is_empty |= size[x->dim[a]] == 0;
        overflows |= __builtin_mul_overflow(n, size[x->dim[a]], &n);
    }
    if (overflows && !is_empty)
        return md_fail(MD_INVALID_ARGUMENT, "temporary '%s' would exceed 2^63 bytes", x->name);
    *out = is_empty ? 0 : md_ds_align((size_t)n);
    return MD_OK;
}

static md_status too_large(const md_ds_op *op)
{
    return md_fail(MD_INVALID_ARGUMENT, "op %s: its temporaries and workspace would exceed 2^63 bytes at these sizes", op->name);
}

/* Temps first, then the workspace that the stages use one after the other. */
static md_status lay_out(md_ds_record *r, const md_ds_op *op)
{
    size_t at = 0, most = 0;
    for (int32_t t = 0; t < op->formula->n_tensors; t++) {
        if (!op->program->is_temp_stored[t])
            continue;
        size_t n = 0;
        MD_TRY(temp_bytes(&n, op, t, r->size));
        r->temp_offset[t] = at;
        if (__builtin_add_overflow(at, n, &at))
            return too_large(op);
    }
    for (int32_t s = 0; s < op->n_stages; s++) {
        r->stage[s].workspace_offset = at;
        if (r->stage[s].geometry.workspace_bytes < 0)
            return too_large(op);
        most = MD_MAX(most, md_ds_align((size_t)r->stage[s].geometry.workspace_bytes));
    }
    return __builtin_add_overflow(at, most, &r->workspace_bytes) ? too_large(op) : MD_OK;
}

static md_status choose_stages(md_ds_record *r, md_ds_op *op, const md_kn_shape *shape, const md_kn_call *call, bool is_captured)
{
    int64_t by[MD_FX_MAX_DIMS] = {0};
    md_ds_as_sizes(by, &op->space, shape->size, &r->as);
    (void)md_ds_nearest_hint(&r->nearest, &op->space, op->policy.metric, by);
    r->is_uncovered = r->nearest > op->policy.uncovered;
    for (int32_t s = 0; s < op->n_stages; s++) {
        md_ds_stage_plan *plan = &r->stage[s];
        if (!(md_ds_work(&op->stage[s].target, shape->size) <= MD_DS_MOST_WORK))
            return md_fail(MD_INVALID_ARGUMENT, "op %s: more than 10^18 operations and bytes at these sizes", op->name);
        md_status status = md_ds_choose(&plan->pick, op, s, shape, by, call, is_captured);
        if (status == MD_NOT_FOUND) {
            r->by_reference = true;
            break;
        }
        MD_TRY(status);
        md_bd_variant *v = op->stage[s].variant[plan->pick.variant];
        v->family->geometry(&plan->geometry, &op->stage[s].target, &v->config, shape);
        r->model_us += md_tn_predict_us(&op->stage[s].target, v->family, &v->config, shape->size);
    }
    for (int32_t s = 0; r->by_reference && s < op->n_stages; s++)
        r->stage[s] = (md_ds_stage_plan){
            .pick = {.variant = -1, .source = MD_DS_REFERENCE, .hint = -1, .runner_up = -1, .distance = -1.0}};
    return MD_OK;
}

md_status md_ds_record_make(md_ds_record **out, md_ds_op *op, const md_kn_shape *shape, const md_ds_as *as, const md_kn_call *call,
                            bool is_captured)
{
    md_ds_record *r = calloc(1, sizeof *r + (size_t)op->n_stages * sizeof *r->stage);
    if (!r)
        return md_fail_memory();
    memcpy(r->size, shape->size, sizeof r->size);
    r->as = *as;
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        r->is_strided |= !(shape->contiguous >> t & 1);
    md_status s = choose_stages(r, op, shape, call, is_captured);
    if (s == MD_OK && !r->by_reference)
        s = lay_out(r, op);
    if (s != MD_OK) {
        free(r);
        return s;
    }
    *out = r;
    return MD_OK;
}

void md_ds_record_free(void *record)
{
    md_ds_record *r = record;
    free(r->key);
    free(r);
}

uint64_t md_ds_record_ns(const md_ds_record *record)
{
    uint64_t calls = atomic_load_explicit(&record->calls, memory_order_relaxed);
    uint64_t n = atomic_load_explicit(&record->n_timed, memory_order_relaxed), ns = atomic_load_explicit(&record->time_ns, memory_order_relaxed);
    if (n == 0)
        return (uint64_t)(record->model_us * 1e3 * (double)calls);
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
    if (record->is_loose)
        forget(op, record);
    else
        atomic_fetch_sub_explicit(&record->users, 1, memory_order_release);
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
                   atomic_load_explicit(&r->users, memory_order_acquire) == 0))
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
    forget(op, old);
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

/* Chosen outside the lock, so that other shapes go on; of two threads that chose one shape at once, the first to return wins. What a captured
 * stream made do with serves that call only, where another call would measure or build. */
md_status md_ds_record_add(md_ds_record **out, md_ds_op *op, const md_ds_key *key, const md_kn_shape *shape, const md_ds_as *as,
                           const md_kn_call *call, bool is_captured)
{
    md_ds_record *r = NULL;
    MD_TRY(md_ds_record_make(&r, op, shape, as, call, is_captured));
    bool is_makeshift = is_captured && op->policy.select == MD_SELECT_MEASURE;
    if (!is_captured)
        md_ds_trace_choice(op, r);
    if (is_captured)
        atomic_fetch_add_explicit(&op->count.captured_misses, 1, memory_order_relaxed);
    pthread_mutex_lock(&op->lock_of_records);
    md_ds_record *other = md_table_find(op->records, key->word, (size_t)key->n * sizeof *key->word);
    if (!other)
        r->is_loose = is_makeshift || !remember(op, r, key);
    *out = take(other ? other : r);
    pthread_mutex_unlock(&op->lock_of_records);
    if (other)
        md_ds_record_free(r);
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
    md_ds_slots_flush(atomic_load_explicit(&op->slots, memory_order_acquire));
    pthread_mutex_lock(&op->lock_of_records);
    md_table_each(op->records, visit_one, &v);
    pthread_mutex_unlock(&op->lock_of_records);
}
