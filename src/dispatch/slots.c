#include "dispatch/slots.h"

#include <stdlib.h>
#include <string.h>

/* A slot is written under the lock: its sequence number is odd meanwhile. A reader copies word by word and looks at the number before and
 * after; words are released and acquired one by one, so that a new word is never seen with an old number. */
enum { WAYS = 2, SHARDS = 8, MOST_SLOTS = 16384, LONG_WAY_EVERY = 256, LINE = 64 };

typedef struct slot {
    _Atomic uint64_t sequence; /* 0: never written; odd: being written */
    _Atomic uint64_t hash; /* 0: empty */
    _Atomic uint64_t n_words;
    _Atomic uint64_t word[MD_DS_PLAN_WORDS];
} slot;

typedef struct counter { /* a line each: threads do not take turns */
    _Alignas(LINE) _Atomic uint64_t n;
    _Atomic uint64_t n_flushed; /* under the lock */
} counter;

struct md_ds_slots {
    pthread_mutex_t lock; /* of writers */
    int32_t n; /* a power of two */
    uint32_t turn;
    slot *slot;
    counter (*count)[SHARDS];
    md_ds_record **record; /* held by the slot; NULL: empty */
};

/* Memory that is never touched costs nothing: large tables come from the system as they are asked for. */
md_ds_slots *md_ds_slots_create(int64_t max_records)
{
    md_ds_slots *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->n = WAYS;
    while (s->n < MOST_SLOTS && s->n * 2 <= max_records)
        s->n *= 2;
    s->slot = calloc((size_t)s->n, sizeof *s->slot);
    s->count = calloc((size_t)s->n + 1, sizeof *s->count);
    s->record = calloc((size_t)s->n, sizeof(md_ds_record *));
    pthread_mutex_init(&s->lock, NULL);
    if (s->slot && s->count && s->record)
        return s;
    md_ds_slots_destroy(s);
    return NULL;
}

void md_ds_slots_destroy(md_ds_slots *slots)
{
    if (!slots)
        return;
    pthread_mutex_destroy(&slots->lock);
    free(slots->slot);
    free(slots->count);
    free(slots->record);
    free(slots);
}

/* The first line of the counters' memory is not aligned: one is left over. */
static counter *counters_of(md_ds_slots *s, int32_t i)
{
    uintptr_t first = ((uintptr_t)s->count + LINE - 1) & ~(uintptr_t)(LINE - 1);
    return (counter *)first + (size_t)i * SHARDS;
}

static bool has_key(const slot *x, const md_ds_warm *warm, const md_ds_warm_call *call)
{
    for (int32_t i = 0; i < warm->n_key; i++)
        if (atomic_load_explicit(&x->word[i], memory_order_acquire) != (uint64_t)call->key[i])
            return false;
    return true;
}

static bool copy_slot(md_ds_word *out, const slot *x, const md_ds_warm *warm, const md_ds_warm_call *call)
{
    uint64_t before = atomic_load_explicit(&x->sequence, memory_order_acquire);
    if (before & 1 || atomic_load_explicit(&x->hash, memory_order_acquire) != call->hash || !has_key(x, warm, call))
        return false;
    uint64_t n = atomic_load_explicit(&x->n_words, memory_order_acquire);
    if (n > MD_DS_PLAN_WORDS)
        return false;
    for (uint64_t i = (uint64_t)warm->n_key; i < n; i++)
        out[i] = atomic_load_explicit(&x->word[i], memory_order_acquire);
    return atomic_load_explicit(&x->sequence, memory_order_relaxed) == before;
}

int32_t md_ds_slots_find(md_ds_word out[MD_DS_PLAN_WORDS], md_ds_slots *slots, const md_ds_warm *warm, const md_ds_warm_call *call)
{
    int32_t first = (int32_t)(call->hash & (uint64_t)(slots->n - 1)) & ~(WAYS - 1);
    for (int32_t i = first; i < first + WAYS; i++)
        if (copy_slot(out, &slots->slot[i], warm, call))
            return i;
    return -1;
}

bool md_ds_slots_count(md_ds_slots *slots, int32_t i, uint32_t shard)
{
    counter *c = &counters_of(slots, i)[shard % SHARDS];
    uint64_t n = atomic_load_explicit(&c->n, memory_order_relaxed);
    if (n % LONG_WAY_EVERY == LONG_WAY_EVERY - 1) {
        atomic_fetch_add_explicit(&c->n_flushed, 1, memory_order_relaxed); /* it is counted there */
        atomic_fetch_add_explicit(&c->n, 1, memory_order_relaxed);
        return false;
    }
    atomic_fetch_add_explicit(&c->n, 1, memory_order_relaxed);
    return true;
}

/* The lock is held. */
static void flush_slot(md_ds_slots *s, int32_t i)
{
    md_ds_record *r = s->record[i];
    uint64_t sum = 0;
    for (int32_t k = 0; k < SHARDS && r; k++) {
        counter *c = &counters_of(s, i)[k];
        uint64_t n = atomic_load_explicit(&c->n, memory_order_relaxed);
        sum += n - atomic_exchange_explicit(&c->n_flushed, n, memory_order_relaxed);
    }
    if (sum == 0)
        return;
    atomic_fetch_add_explicit(&r->calls, sum, memory_order_relaxed);
    atomic_store_explicit(&r->is_hot, true, memory_order_relaxed);
}

/* The lock is held. */
static void clear_slot(md_ds_slots *s, md_ds_op *op, int32_t i)
{
    slot *x = &s->slot[i];
    if (!s->record[i])
        return;
    uint64_t sequence = atomic_load_explicit(&x->sequence, memory_order_relaxed);
    atomic_store_explicit(&x->sequence, sequence + 1, memory_order_relaxed);
    atomic_store_explicit(&x->hash, 0, memory_order_release);
    atomic_store_explicit(&x->sequence, sequence + 2, memory_order_release);
    flush_slot(s, i);
    md_ds_record_give_back(op, s->record[i]);
    s->record[i] = NULL;
}

/* The lock is held. Of one key there is one slot at most. */
static int32_t choose_slot(md_ds_slots *s, uint64_t hash, const md_ds_record *record)
{
    int32_t first = (int32_t)(hash & (uint64_t)(s->n - 1)) & ~(WAYS - 1);
    int32_t empty = -1;
    for (int32_t i = first; i < first + WAYS; i++) {
        if (s->record[i] == record && atomic_load_explicit(&s->slot[i].hash, memory_order_relaxed) == hash)
            return i;
        if (!s->record[i])
            empty = i;
    }
    return empty >= 0 ? empty : first + (int32_t)(s->turn++ % WAYS);
}

void md_ds_slots_publish(md_ds_slots *slots, md_ds_op *op, uint64_t hash, const md_ds_word *plan, int32_t n_words, md_ds_record *record)
{
    pthread_mutex_lock(&slots->lock);
    int32_t i = choose_slot(slots, hash, record);
    slot *x = &slots->slot[i];
    clear_slot(slots, op, i);
    uint64_t sequence = atomic_load_explicit(&x->sequence, memory_order_relaxed);
    atomic_store_explicit(&x->sequence, sequence + 1, memory_order_relaxed);
    atomic_store_explicit(&x->n_words, (uint64_t)n_words, memory_order_release);
    for (int32_t k = 0; k < n_words; k++)
        atomic_store_explicit(&x->word[k], plan[k], memory_order_release);
    atomic_store_explicit(&x->hash, hash, memory_order_release);
    atomic_fetch_add_explicit(&record->users, 1, memory_order_relaxed);
    slots->record[i] = record;
    atomic_store_explicit(&x->sequence, sequence + 2, memory_order_release);
    pthread_mutex_unlock(&slots->lock);
}

void md_ds_slots_flush(md_ds_slots *slots)
{
    if (!slots)
        return;
    pthread_mutex_lock(&slots->lock);
    for (int32_t i = 0; i < slots->n; i++)
        if (slots->record[i])
            flush_slot(slots, i);
    pthread_mutex_unlock(&slots->lock);
}

bool md_ds_slots_drop(md_ds_slots *slots, md_ds_op *op)
{
    bool had_some = false;
    if (!slots)
        return false;
    pthread_mutex_lock(&slots->lock);
    for (int32_t i = 0; i < slots->n; i++) {
        had_some |= slots->record[i] != NULL;
        clear_slot(slots, op, i);
    }
    pthread_mutex_unlock(&slots->lock);
    return had_some;
}

uint32_t md_ds_shard(md_ds_runtime *runtime)
{
    static _Thread_local uint32_t shard __attribute__((tls_model("initial-exec"))); /* 0: not asked yet */
    if (!shard)
        shard = atomic_fetch_add_explicit(&runtime->n_shards, 1, memory_order_relaxed) + 1;
    return shard;
}
