/* The plan entries of an op: an index by hash, these in chunks that are made when needed, counters by thread. */
#include "dispatch/cache/plan_cache.h"

#include "base/task/fork.h"

#include <stdlib.h>

/* Plan entries are written under the lock. Words are released and acquired one by one, so that no reader sees a new
 * word with an old sequence number. */
enum { WAYS = 8, CHUNK = MD_DS_CHUNK, MOST_ENTRIES = 16384, LINE = 64 };

typedef struct owner { /* only writers read it */
    md_ds_shape_entry *entry; /* held; NULL: empty */
    const md_ds_plan *plan; /* the plan that the shape entry had when this entry was written */
    int32_t place; /* where it is in the index */
} owner;

typedef struct chunk {
    _Atomic(md_ds_tally *) count[MD_DS_SHARDS]; /* by thread; made at its first call of one of these plan entries */
    owner owner[CHUNK];
    _Atomic uint64_t word[];
} chunk;
_Static_assert(sizeof(chunk) % LINE == 0, "plan entries begin at lines");

struct md_ds_plan_cache {
    pthread_mutex_t lock; /* taken by whoever writes an entry */
    md_ds_plan_cache *older;
    int32_t stride; /* words of a plan entry */
    int32_t n_places; /* a power of two */
    int32_t n_entries, n_used;
    uint32_t next_victim; /* plan entries and places are taken in turn when none is free */
    _Atomic uint64_t *index; /* upper half of the hash; number of the plan entry plus 1 in the lower half, 0: free */
    _Atomic(chunk *) chunk[MOST_ENTRIES / CHUNK];
};

md_ds_plan_cache *md_ds_plan_cache_create(int64_t max_entries, const md_ds_packed_launch *encoded,
                                          md_ds_plan_cache *older)
{
    md_ds_plan_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    cache->stride = (encoded->n + 7) / 8 * 8; /* whole cache lines; later plans may be a little longer */
    cache->n_entries = (int32_t)(max_entries < MOST_ENTRIES ? max_entries : MOST_ENTRIES);
    cache->n_places = WAYS;
    while (cache->n_places < 2 * cache->n_entries) /* at most half full, so that few keys find all WAYS places taken */
        cache->n_places *= 2;
    cache->index = md_ds_alloc_lines((size_t)cache->n_places * sizeof *cache->index,
                                     LINE); /* the WAYS places of a hash are one cache line */
    md_mutex_init(&cache->lock);
    if (cache->index) {
        cache->older = older;
        return cache;
    }
    md_ds_plan_cache_destroy(cache);
    return NULL;
}

static void free_chunk(chunk *c)
{
    for (int32_t k = 0; c && k < MD_DS_SHARDS; k++)
        free(atomic_load_explicit(&c->count[k], memory_order_relaxed));
    free(c);
}

void md_ds_plan_cache_destroy(md_ds_plan_cache *plan_cache)
{
    while (plan_cache) {
        md_ds_plan_cache *older = plan_cache->older;
        for (int32_t i = 0; i < MOST_ENTRIES / CHUNK; i++)
            free_chunk(atomic_load_explicit(&plan_cache->chunk[i], memory_order_relaxed));
        md_mutex_finish(&plan_cache->lock);
        free((void *)plan_cache->index);
        free(plan_cache);
        plan_cache = older;
    }
}

void md_ds_plan_cache_disown(md_ds_plan_cache *plan_cache)
{
    plan_cache->older = NULL;
    md_ds_plan_cache_destroy(plan_cache);
}

bool md_ds_plan_cache_hold(const md_ds_plan_cache *plan_cache, const md_ds_packed_launch *encoded)
{
    return encoded->n <= plan_cache->stride;
}

static chunk *chunk_of(md_ds_plan_cache *cache, int32_t number)
{
    return atomic_load_explicit(&cache->chunk[number / CHUNK], memory_order_acquire);
}

static _Atomic uint64_t *words_of(md_ds_plan_cache *cache, int32_t number)
{
    return &chunk_of(cache, number)->word[(size_t)(number % CHUNK) * (size_t)cache->stride];
}

static owner *owner_of(md_ds_plan_cache *cache, int32_t number)
{
    return &chunk_of(cache, number)->owner[number % CHUNK];
}

/* ---- Readers */

/* NULL where memory is short. */
__attribute__((hot)) static md_ds_counter *counter_of(chunk *c, int32_t thread, int32_t number)
{
    _Atomic(md_ds_tally *) *at = &c->count[thread < MD_DS_SHARDS ? thread : MD_DS_SHARDS - 1];
    md_ds_tally *known = atomic_load_explicit(at, memory_order_acquire);
    if (!known) {
        md_ds_tally *made = md_ds_alloc_lines(sizeof *made, sizeof *made);
        if (atomic_compare_exchange_strong_explicit(at, &known, made, memory_order_acq_rel, memory_order_acquire))
            known = made;
        else
            free(made);
    }
    return known ? &known->n[number % CHUNK] : NULL;
}

/* At most one of the places of a hash holds its upper half. */
__attribute__((hot)) const _Atomic uint64_t *md_ds_plan_cache_find(md_ds_counter **counter, md_ds_plan_cache *cache,
                                                                   uint64_t hash, int32_t thread)
{
    const uint32_t first = (uint32_t)hash & (uint32_t)(cache->n_places - 1);
    for (uint32_t k = 0; k < WAYS; k++) {
        const uint64_t index_entry = atomic_load_explicit(&cache->index[first ^ k], memory_order_acquire);
        if (index_entry >> 32 != hash >> 32 || !(uint32_t)index_entry)
            continue;
        const int32_t number = (int32_t)(uint32_t)index_entry - 1;
        const _Atomic uint64_t *plan_entry = words_of(cache, number);
        __builtin_prefetch((const void *)plan_entry);
        __builtin_prefetch((const void *)(plan_entry + LINE / sizeof *plan_entry));
        *counter = counter_of(chunk_of(cache, number), thread, number);
        __builtin_prefetch((const void *)*counter, 1);
        return *counter ? plan_entry : NULL;
    }
    return NULL;
}

/* ---- Writers; the lock is held */

/* A call that ends after its plan entry was emptied is counted by the op only. */
static void flush_entry(md_ds_plan_cache *cache, md_ds_op *op, int32_t number)
{
    md_ds_shape_entry *entry = owner_of(cache, number)->entry;
    uint64_t sum = 0, ns = 0, n_timed = 0;
    for (int32_t k = 0; k < MD_DS_SHARDS; k++) {
        md_ds_tally *tally = atomic_load_explicit(&chunk_of(cache, number)->count[k], memory_order_acquire);
        if (!tally)
            continue;
        const int32_t i = number % CHUNK;
        uint64_t n = atomic_load_explicit(&tally->n[i], memory_order_relaxed);
        sum += n - atomic_exchange_explicit(&tally->rest[i].n_flushed, n, memory_order_relaxed);
        if (atomic_load_explicit(&tally->rest[i].n_timed, memory_order_relaxed) == 0)
            continue;
        n_timed += atomic_exchange_explicit(&tally->rest[i].n_timed, 0, memory_order_relaxed);
        ns += atomic_exchange_explicit(&tally->rest[i].ns, 0, memory_order_relaxed);
    }
    if (sum == 0)
        return;
    atomic_fetch_add_explicit(entry ? &entry->calls : &op->count.forgotten_calls, sum, memory_order_relaxed);
    atomic_fetch_add_explicit(entry ? &entry->n_timed : &op->count.forgotten_timed, n_timed, memory_order_relaxed);
    atomic_fetch_add_explicit(entry ? &entry->time_ns : &op->count.forgotten_ns, ns, memory_order_relaxed);
    if (entry)
        atomic_store_explicit(&entry->is_hot, true, memory_order_relaxed);
}

static void write_entry(_Atomic uint64_t *plan_entry, const md_ds_packed_launch *encoded)
{
    const uint64_t sequence = atomic_load_explicit(&plan_entry[MD_DS_SEQUENCE], memory_order_relaxed);
    atomic_store_explicit(&plan_entry[MD_DS_SEQUENCE], sequence + 1, memory_order_relaxed);
    for (int32_t k = MD_DS_DESCRIPTOR + 1; k < encoded->n; k++)
        atomic_store_explicit(&plan_entry[k], encoded->word[k], memory_order_release);
    atomic_store_explicit(&plan_entry[MD_DS_DESCRIPTOR], encoded->word[MD_DS_DESCRIPTOR], memory_order_release);
    atomic_store_explicit(&plan_entry[MD_DS_SEQUENCE], sequence + 2, memory_order_release);
}

static void clear_entry(md_ds_plan_cache *cache, md_ds_op *op, int32_t number)
{
    static const md_ds_packed_launch nothing = {.n = MD_DS_DESCRIPTOR + 1};
    owner *o = owner_of(cache, number);
    if (!o->entry)
        return;
    atomic_store_explicit(&cache->index[o->place], 0, memory_order_release);
    write_entry(words_of(cache, number), &nothing);
    /* last, so that a thread that sees the new generation finds the plan entry empty */
    atomic_fetch_add_explicit(&op->generation, 1, memory_order_release);
    flush_entry(cache, op, number);
    md_ds_shape_entry_release(o->entry);
    o->entry = NULL;
}

static bool has_chunk(md_ds_plan_cache *cache, int32_t number)
{
    _Atomic(chunk *) *at = &cache->chunk[number / CHUNK];
    if (atomic_load_explicit(at, memory_order_relaxed))
        return true;
    /* A reader may read past the end of a plan entry that is being written, before it discards what it read. */
    const size_t n_words = CHUNK * (size_t)cache->stride + MD_DS_PACKED_WORDS;
    const size_t n_bytes = sizeof(chunk) + n_words * sizeof(uint64_t);
    chunk *c = md_ds_alloc_lines(n_bytes, LINE);
    atomic_store_explicit(at, c, memory_order_release);
    return c != NULL;
}

/* An empty plan entry: that of the place, or a new one, or the next victim. -1 if memory is short. */
static int32_t take_entry(md_ds_plan_cache *cache, md_ds_op *op, int32_t place)
{
    uint64_t index_entry = atomic_load_explicit(&cache->index[place], memory_order_relaxed);
    int32_t number = (int32_t)(uint32_t)index_entry - 1;
    if (number < 0)
        number = cache->n_used < cache->n_entries ? cache->n_used
                                                  : (int32_t)(cache->next_victim++ % (uint32_t)cache->n_entries);
    if (!has_chunk(cache, number))
        return -1;
    cache->n_used += number == cache->n_used;
    clear_entry(cache, op, number);
    return number;
}

static int32_t choose_place(md_ds_plan_cache *cache, uint64_t hash)
{
    const int32_t first = (int32_t)(hash & (uint64_t)(cache->n_places - 1));
    int32_t empty = -1;
    for (int32_t k = 0; k < WAYS; k++) {
        const int32_t i = first ^ k; /* the place of first choice is looked at first */
        uint64_t index_entry = atomic_load_explicit(&cache->index[i], memory_order_relaxed);
        if ((uint32_t)index_entry && index_entry >> 32 == hash >> 32)
            return i; /* another thread has published a plan of this shape */
        if (!(uint32_t)index_entry && empty < 0)
            empty = i;
    }
    return empty >= 0 ? empty : first ^ (int32_t)(cache->next_victim++ % WAYS);
}

void md_ds_plan_cache_publish(md_ds_plan_cache *plan_cache, md_ds_op *op, uint64_t hash,
                              const md_ds_packed_launch *encoded, md_ds_shape_entry *entry, const md_ds_plan *plan)
{
    pthread_mutex_lock(&plan_cache->lock);
    /* An entry gets its new plan before md_ds_plan_cache_renew takes the lock, so no stale plan is published after
     * it. */
    bool is_new = md_ds_plan_of(entry) == plan;
    int32_t place = is_new ? choose_place(plan_cache, hash) : -1,
            number = is_new ? take_entry(plan_cache, op, place) : -1;
    if (number >= 0) {
        write_entry(words_of(plan_cache, number), encoded);
        md_ds_shape_entry_hold(entry);
        *owner_of(plan_cache, number) = (owner){entry, plan, place};
        atomic_store_explicit(&plan_cache->index[place], hash >> 32 << 32 | (uint64_t)(uint32_t)(number + 1),
                              memory_order_release);
    }
    pthread_mutex_unlock(&plan_cache->lock);
}

void md_ds_plan_cache_flush(md_ds_plan_cache *plan_cache, md_ds_op *op)
{
    for (md_ds_plan_cache *cache = plan_cache; cache; cache = cache->older) {
        pthread_mutex_lock(&cache->lock);
        for (int32_t i = 0; i < cache->n_used; i++)
            flush_entry(cache, op, i);
        pthread_mutex_unlock(&cache->lock);
    }
}

uint64_t md_ds_calls_of(const md_ds_op *op)
{
    uint64_t sum = atomic_load_explicit(&op->count.calls, memory_order_relaxed);
    for (md_ds_plan_cache *cache = atomic_load_explicit(&op->plan_cache, memory_order_acquire); cache;
         cache = cache->older)
        for (int32_t i = 0; i < MOST_ENTRIES / CHUNK; i++) {
            chunk *c = atomic_load_explicit(&cache->chunk[i], memory_order_acquire);
            for (int32_t k = 0; c && k < MD_DS_SHARDS; k++) {
                const md_ds_tally *t = atomic_load_explicit(&c->count[k], memory_order_acquire);
                for (int32_t n = 0; t && n < CHUNK; n++)
                    sum += atomic_load_explicit(&t->n[n], memory_order_relaxed);
            }
        }
    return sum;
}

void md_ds_plan_cache_renew(md_ds_plan_cache *plan_cache, md_ds_op *op)
{
    for (md_ds_plan_cache *cache = plan_cache; cache; cache = cache->older) {
        pthread_mutex_lock(&cache->lock);
        for (int32_t i = 0; i < cache->n_used; i++)
            if (owner_of(cache, i)->entry && md_ds_plan_of(owner_of(cache, i)->entry) != owner_of(cache, i)->plan)
                clear_entry(cache, op, i);
        pthread_mutex_unlock(&cache->lock);
    }
}

bool md_ds_plan_cache_drop(md_ds_plan_cache *plan_cache, md_ds_op *op)
{
    bool had_some = false;
    for (md_ds_plan_cache *cache = plan_cache; cache; cache = cache->older) {
        pthread_mutex_lock(&cache->lock);
        for (int32_t i = 0; i < cache->n_used; i++) {
            had_some |= owner_of(cache, i)->entry != NULL;
            clear_entry(cache, op, i);
        }
        pthread_mutex_unlock(&cache->lock);
    }
    return had_some;
}
