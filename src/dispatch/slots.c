#include "dispatch/slots.h"

#include <stdlib.h>
#include <string.h>

/* A slot is written under the lock: its sequence number is odd meanwhile. A reader copies word by word and looks at the number before and
 * after; words are released and acquired one by one, so that a new word is never seen with an old number. */
enum { WAYS = 4, CHUNK = 32, MOST_SLOTS = 16384, LINE = 64 };

typedef struct owner { /* what only writers see */
    md_ds_record *record; /* held; NULL: empty */
    const md_ds_way *way; /* of the record, that the plan was made from */
    int32_t place; /* in the index */
} owner;

/* The words of a slot: its sequence number, the length of the plan (0: empty), the plan. */
enum { SEQUENCE, LENGTH, HEAD };

typedef struct chunk {
    _Atomic(md_ds_counter *) count[MD_DS_SHARDS]; /* CHUNK each, a thread's own; made when it first calls one of these slots */
    owner owner[CHUNK];
    _Atomic uint64_t word[];
} chunk;
_Static_assert(sizeof(chunk) % LINE == 0, "slots begin at lines");

struct md_ds_slots {
    pthread_mutex_t lock; /* of writers */
    md_ds_slots *older;
    int32_t stride; /* words of a slot */
    int32_t n_places; /* a power of two */
    int32_t n_slots, n_used;
    uint32_t turn;
    _Atomic uint64_t *index; /* upper half: of the hash; lower half: number of the slot plus 1, 0: free */
    _Atomic(chunk *) chunk[MOST_SLOTS / CHUNK];
};

/* Words of a slot that a plan takes. */
static int32_t words_for(const md_ds_word *plan, int32_t n_words)
{
    int32_t n = HEAD + (n_words + 1) / 2;
    for (int32_t k = 0; k < n_words; k++)
        n += plan[k] >> 32 != 0;
    return n;
}

md_ds_slots *md_ds_slots_create(int64_t max_records, const md_ds_word *plan, int32_t n_words, md_ds_slots *older)
{
    md_ds_slots *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->stride = (words_for(plan, n_words) + 2 + 7) / 8 * 8; /* whole lines; others may be somewhat longer */
    s->n_slots = (int32_t)(max_records < MOST_SLOTS ? max_records : MOST_SLOTS);
    s->n_places = WAYS;
    while (s->n_places < 2 * s->n_slots) /* half empty: few keys meet more than WAYS others */
        s->n_places *= 2;
    s->index = calloc((size_t)s->n_places, sizeof *s->index);
    pthread_mutex_init(&s->lock, NULL);
    if (s->index) {
        s->older = older;
        return s;
    }
    md_ds_slots_destroy(s);
    return NULL;
}

static void free_chunk(chunk *c)
{
    for (int32_t k = 0; c && k < MD_DS_SHARDS; k++)
        free(atomic_load_explicit(&c->count[k], memory_order_relaxed));
    free(c);
}

void md_ds_slots_destroy(md_ds_slots *slots)
{
    while (slots) {
        md_ds_slots *older = slots->older;
        for (int32_t i = 0; i < MOST_SLOTS / CHUNK; i++)
            free_chunk(atomic_load_explicit(&slots->chunk[i], memory_order_relaxed));
        pthread_mutex_destroy(&slots->lock);
        free((void *)slots->index);
        free(slots);
        slots = older;
    }
}

void md_ds_slots_disown(md_ds_slots *slots)
{
    slots->older = NULL;
    md_ds_slots_destroy(slots);
}

bool md_ds_slots_hold(const md_ds_slots *slots, const md_ds_word *plan, int32_t n_words)
{
    return words_for(plan, n_words) <= slots->stride;
}

static chunk *chunk_of(md_ds_slots *s, int32_t number)
{
    return atomic_load_explicit(&s->chunk[number / CHUNK], memory_order_acquire);
}

static _Atomic uint64_t *words_of(md_ds_slots *s, int32_t number)
{
    return &chunk_of(s, number)->word[(size_t)(number % CHUNK) * (size_t)s->stride];
}

static owner *owner_of(md_ds_slots *s, int32_t number)
{
    return &chunk_of(s, number)->owner[number % CHUNK];
}

/* ---- Readers */

/* Words whose upper half is 0, which are most, are stored as halves: a slot is as few lines of the cache as it can be. Behind the halves stand the upper
 * halves of the others, one word each: its number in the upper part, the half in the lower. */
__attribute__((hot)) static bool copy_slot(md_ds_last *out, const _Atomic uint64_t *slot, const md_ds_warm *warm, const md_ds_warm_call *call)
{
    md_ds_word *plan = out->ready.plan;
    uint64_t before = atomic_load_explicit(&slot[SEQUENCE], memory_order_acquire);
    uint64_t length = atomic_load_explicit(&slot[LENGTH], memory_order_acquire);
    const uint32_t n = (uint32_t)length, n_upper = (uint32_t)(length >> 32);
    const _Atomic uint64_t *half = slot + HEAD, *upper = half + (n + 1) / 2;
    uint64_t differs = 0;
    if (before & 1 || n < (uint32_t)warm->n_key || n > MD_DS_PLAN_WORDS || n_upper > n)
        return false;
    for (uint32_t i = 0; i < n; i += 2, half++) {
        uint64_t two = atomic_load_explicit(half, memory_order_acquire);
        plan[i] = (uint32_t)two;
        plan[i + 1] = two >> 32;
    }
    for (uint32_t i = 0; i < n_upper; i++) {
        uint64_t word = atomic_load_explicit(&upper[i], memory_order_acquire);
        if (word >> 32 < n) /* else it is being written, and all this is thrown away */
            plan[word >> 32] |= word << 32;
    }
    for (int32_t i = 0; i < warm->n_key; i++)
        differs |= plan[i] ^ (uint64_t)call->key[i];
    out->sequence_of = &slot[SEQUENCE];
    out->sequence = before;
    return !differs && atomic_load_explicit(&slot[SEQUENCE], memory_order_relaxed) == before;
}

/* NULL where memory is short. */
__attribute__((hot)) static md_ds_counter *counter_of(chunk *c, const md_ds_thread *thread, int32_t number)
{
    _Atomic(md_ds_counter *) *at = &c->count[thread->number < MD_DS_SHARDS ? thread->number : MD_DS_SHARDS - 1];
    md_ds_counter *known = atomic_load_explicit(at, memory_order_acquire);
    if (!known) {
        md_ds_counter *made = calloc(CHUNK, sizeof *made);
        if (atomic_compare_exchange_strong_explicit(at, &known, made, memory_order_acq_rel, memory_order_acquire))
            known = made;
        else
            free(made);
    }
    return known ? &known[number % CHUNK] : NULL;
}

__attribute__((hot)) static bool find_slot(md_ds_last *out, md_ds_slots *s, const md_ds_thread *thread, const md_ds_warm *warm, const md_ds_warm_call *call)
{
    uint64_t hash = md_ds_warm_hash(warm, call);
    int32_t first = (int32_t)(hash & (uint64_t)(s->n_places - 1)) & ~(WAYS - 1);
    for (int32_t i = first; i < first + WAYS; i++) {
        uint64_t entry = atomic_load_explicit(&s->index[i], memory_order_acquire);
        if (entry >> 32 != hash >> 32 || !(uint32_t)entry)
            continue;
        int32_t number = (int32_t)(uint32_t)entry - 1;
        if (!copy_slot(out, words_of(s, number), warm, call))
            continue;
        out->counter = counter_of(chunk_of(s, number), thread, number);
        return out->counter != NULL;
    }
    return false;
}

/* Most plans are of other shapes: the first tensor's sizes tell them apart cheaply. */
__attribute__((hot)) md_ds_last *md_ds_last_find(md_ds_thread *thread, const md_ds_op *op, const md_arg *args, int32_t n_args)
{
    const uint64_t at = op->serial % MD_DS_LAST_SETS;
    const md_ds_tag *tag = thread->tag[at];
    const md_ds_warm *warm = &op->warm;
    if (n_args != warm->n_args || !args || warm->first < 0)
        return NULL;
    const md_tensor *t = args[warm->first].tensor;
    const int32_t rank = warm->arg[warm->first].rank;
    if (args[warm->first].kind != MD_ARG_TENSOR || !t)
        return NULL;
    const uint64_t first = rank > 0 ? (uint64_t)t->size[0] : 0, last = rank > 0 ? (uint64_t)t->size[rank - 1] : 0;
    for (int32_t way = 0; way < MD_DS_LAST_WAYS; way++, tag++) {
        md_ds_last *l = &thread->last[at][way];
        if (tag->serial != op->serial || tag->first != first || tag->last != last)
            continue;
        if (md_ds_warm_match(l->ready.data, l->ready.scalar, warm, args, l->ready.plan) &&
            atomic_load_explicit(l->sequence_of, memory_order_relaxed) == l->sequence)
            return l;
    }
    return NULL;
}

__attribute__((hot)) md_ds_last *md_ds_slots_find(md_ds_slots *slots, md_ds_thread *thread, const md_ds_op *op, const md_ds_warm_call *call)
{
    const uint32_t way = thread->turn++ % MD_DS_LAST_WAYS;
    const int32_t rank = op->warm.first >= 0 ? op->warm.arg[op->warm.first].rank : 0;
    md_ds_last *l = &thread->last[op->serial % MD_DS_LAST_SETS][way];
    md_ds_tag *tag = &thread->tag[op->serial % MD_DS_LAST_SETS][way];
    tag->serial = 0;
    if (!find_slot(l, slots, thread, &op->warm, call))
        return NULL;
    *tag = (md_ds_tag){op->serial, rank > 0 ? l->ready.plan[0] : 0, rank > 0 ? l->ready.plan[rank - 1] : 0};
    for (int32_t i = 0; i < op->warm.n_tensors; i++)
        l->ready.data[i] = (uint64_t)(uintptr_t)call->data[i];
    for (int32_t i = 0; i < op->warm.n_scalars; i++)
        l->ready.scalar[i] = (uint64_t)call->scalar[i].i;
    return l;
}

static void add(_Atomic uint64_t *n, bool is_own)
{
    if (is_own) /* nobody else adds here */
        atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
}

__attribute__((hot)) bool md_ds_slots_count(const md_ds_last *last, const md_ds_thread *thread, uint32_t every)
{
    md_ds_counter *c = last->counter;
    uint64_t n = atomic_load_explicit(&c->n, memory_order_relaxed);
    bool is_short = (~n & (every - 1)) != 0;
    if (!is_short)
        atomic_fetch_add_explicit(&c->n_flushed, 1, memory_order_relaxed); /* it is counted there */
    add(&c->n, thread->number < MD_DS_SHARDS - 1);
    return is_short;
}

/* ---- Writers; the lock is held */

static void flush_slot(md_ds_slots *s, int32_t number)
{
    md_ds_record *r = owner_of(s, number)->record;
    uint64_t sum = 0;
    for (int32_t k = 0; k < MD_DS_SHARDS; k++) {
        md_ds_counter *c = atomic_load_explicit(&chunk_of(s, number)->count[k], memory_order_acquire);
        if (!c)
            continue;
        c += number % CHUNK;
        uint64_t n = atomic_load_explicit(&c->n, memory_order_relaxed);
        sum += n - atomic_exchange_explicit(&c->n_flushed, n, memory_order_relaxed);
    }
    if (sum == 0 || !r)
        return;
    atomic_fetch_add_explicit(&r->calls, sum, memory_order_relaxed);
    atomic_store_explicit(&r->is_hot, true, memory_order_relaxed);
}

static void write_slot(_Atomic uint64_t *slot, const md_ds_word *plan, int32_t n_words)
{
    uint64_t sequence = atomic_load_explicit(&slot[SEQUENCE], memory_order_relaxed), n_upper = 0;
    _Atomic uint64_t *half = slot + HEAD, *upper = half + (n_words + 1) / 2;
    atomic_store_explicit(&slot[SEQUENCE], sequence + 1, memory_order_relaxed);
    for (int32_t k = 0; k < n_words; k += 2) {
        uint64_t second = k + 1 < n_words ? plan[k + 1] : 0;
        atomic_store_explicit(half++, (uint32_t)plan[k] | second << 32, memory_order_release);
    }
    for (int32_t k = 0; k < n_words; k++)
        if (plan[k] >> 32)
            atomic_store_explicit(&upper[n_upper++], (uint64_t)k << 32 | plan[k] >> 32, memory_order_release);
    atomic_store_explicit(&slot[LENGTH], n_upper << 32 | (uint64_t)n_words, memory_order_release);
    atomic_store_explicit(&slot[SEQUENCE], sequence + 2, memory_order_release);
}

static void clear_slot(md_ds_slots *s, md_ds_op *op, int32_t number)
{
    owner *o = owner_of(s, number);
    if (!o->record)
        return;
    atomic_store_explicit(&s->index[o->place], 0, memory_order_release);
    write_slot(words_of(s, number), NULL, 0);
    flush_slot(s, number);
    md_ds_record_give_back(op, o->record);
    o->record = NULL;
}

static bool has_chunk(md_ds_slots *s, int32_t number)
{
    _Atomic(chunk *) *at = &s->chunk[number / CHUNK];
    if (atomic_load_explicit(at, memory_order_relaxed))
        return true;
    const size_t n_bytes = sizeof(chunk) + CHUNK * (size_t)s->stride * sizeof(uint64_t); /* whole lines */
    chunk *c = aligned_alloc(LINE, n_bytes);
    if (c)
        memset((void *)c, 0, n_bytes);
    atomic_store_explicit(at, c, memory_order_release);
    return c != NULL;
}

/* An empty slot: a new one, or that of the plan in the place, or anyone's in turn. -1 where memory is short. */
static int32_t take_slot(md_ds_slots *s, md_ds_op *op, int32_t place)
{
    uint64_t entry = atomic_load_explicit(&s->index[place], memory_order_relaxed);
    int32_t number = (int32_t)(uint32_t)entry - 1;
    if (number < 0)
        number = s->n_used < s->n_slots ? s->n_used : (int32_t)(s->turn++ % (uint32_t)s->n_slots);
    if (!has_chunk(s, number))
        return -1;
    s->n_used += number == s->n_used;
    clear_slot(s, op, number);
    return number;
}

static int32_t choose_place(md_ds_slots *s, uint64_t hash)
{
    int32_t first = (int32_t)(hash & (uint64_t)(s->n_places - 1)) & ~(WAYS - 1);
    int32_t empty = -1;
    for (int32_t i = first; i < first + WAYS; i++) {
        uint64_t entry = atomic_load_explicit(&s->index[i], memory_order_relaxed);
        if ((uint32_t)entry && entry >> 32 == hash >> 32)
            return i; /* the same shape, published by another thread meanwhile */
        if (!(uint32_t)entry)
            empty = i;
    }
    return empty >= 0 ? empty : first + (int32_t)(s->turn++ % WAYS);
}

void md_ds_slots_publish(md_ds_slots *slots, md_ds_op *op, uint64_t hash, const md_ds_word *plan, int32_t n_words, md_ds_record *record,
                          const md_ds_way *way)
{
    pthread_mutex_lock(&slots->lock);
    bool is_new = md_ds_way_of(record) == way; /* a new way is put before md_ds_slots_renew takes the lock: a stale plan is never left behind */
    int32_t place = is_new ? choose_place(slots, hash) : -1, number = is_new ? take_slot(slots, op, place) : -1;
    if (number >= 0) {
        write_slot(words_of(slots, number), plan, n_words);
        atomic_fetch_add_explicit(&record->users, 1, memory_order_relaxed);
        *owner_of(slots, number) = (owner){record, way, place};
        atomic_store_explicit(&slots->index[place], hash >> 32 << 32 | (uint64_t)(uint32_t)(number + 1), memory_order_release);
    }
    pthread_mutex_unlock(&slots->lock);
}

void md_ds_slots_flush(md_ds_slots *slots)
{
    for (md_ds_slots *s = slots; s; s = s->older) {
        pthread_mutex_lock(&s->lock);
        for (int32_t i = 0; i < s->n_used; i++)
            flush_slot(s, i);
        pthread_mutex_unlock(&s->lock);
    }
}

void md_ds_slots_renew(md_ds_slots *slots, md_ds_op *op)
{
    for (md_ds_slots *s = slots; s; s = s->older) {
        pthread_mutex_lock(&s->lock);
        for (int32_t i = 0; i < s->n_used; i++)
            if (owner_of(s, i)->record && md_ds_way_of(owner_of(s, i)->record) != owner_of(s, i)->way)
                clear_slot(s, op, i);
        pthread_mutex_unlock(&s->lock);
    }
}

bool md_ds_slots_drop(md_ds_slots *slots, md_ds_op *op)
{
    bool had_some = false;
    for (md_ds_slots *s = slots; s; s = s->older) {
        pthread_mutex_lock(&s->lock);
        for (int32_t i = 0; i < s->n_used; i++) {
            had_some |= owner_of(s, i)->record != NULL;
            clear_slot(s, op, i);
        }
        pthread_mutex_unlock(&s->lock);
    }
    return had_some;
}

/* ---- Threads */

/* The thread's place in the context that it called last: what pthread_getspecific would say, at the price of a load. */
typedef struct place_of_thread {
    uint64_t runtime;
    md_ds_thread *thread;
} place_of_thread;
static _Thread_local place_of_thread mine __attribute__((tls_model("initial-exec")));

/* A thread has ended: the next one takes its place. The place itself is the context's. */
void md_ds_thread_leave(void *user)
{
    md_ds_thread *t = user;
    if (mine.thread == t)
        mine = (place_of_thread){0, NULL};
    atomic_store_explicit(&t->is_idle, true, memory_order_release);
}

static md_ds_thread *thread_of(md_ds_runtime *runtime)
{
    md_ds_thread *t = runtime->has_thread_key ? pthread_getspecific(runtime->thread_key) : NULL;
    if (t || !runtime->has_thread_key)
        return t;
    pthread_mutex_lock(&runtime->lock_of_threads);
    for (t = runtime->threads; t && !atomic_load_explicit(&t->is_idle, memory_order_acquire); t = t->next)
        ;
    if (t) {
        atomic_store_explicit(&t->is_idle, false, memory_order_relaxed);
    } else if ((t = calloc(1, sizeof *t)) != NULL) {
        t->number = runtime->threads ? runtime->threads->number + 1 : 0;
        t->next = runtime->threads;
        runtime->threads = t;
    }
    pthread_mutex_unlock(&runtime->lock_of_threads);
    if (t && pthread_setspecific(runtime->thread_key, t) != 0) {
        atomic_store_explicit(&t->is_idle, true, memory_order_release);
        t = NULL;
    }
    return t;
}

__attribute__((hot)) md_ds_thread *md_ds_thread_get(md_ds_runtime *runtime)
{
    if (mine.runtime != runtime->id) {
        md_ds_thread *t = thread_of(runtime);
        if (!t)
            return NULL;
        mine = (place_of_thread){runtime->id, t};
    }
    return mine.thread;
}
