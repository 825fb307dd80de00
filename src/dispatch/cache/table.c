/* Finds, adds and evicts the shape entries of an op. */
#include "dispatch/cache/table.h"

#include "base/grow.h"
#include "base/status.h"
#include "dispatch/cache/plan_cache.h"

#include <stdlib.h>
#include <string.h>

/* A place in the ring: a new one while there is room, else that of an entry that only the table holds and that was not
 * used since the hand passed. -1 if all are held or memory is short. */
static int64_t find_place(md_ds_op *op)
{
    if (op->n_entries < op->max_entries) {
        if (!md_grow(&op->ring, (size_t)op->n_entries, sizeof(md_ds_shape_entry *)))
            return -1;
        op->ring[op->n_entries] = NULL;
        return op->n_entries++;
    }
    for (int64_t step = 0; step < 2 * op->n_entries + 1; step++) {
        int64_t at = op->hand;
        md_ds_shape_entry *entry = op->ring[at];
        op->hand = (op->hand + 1) % op->n_entries;
        if (!entry || (!atomic_exchange_explicit(&entry->is_hot, false, memory_order_relaxed) &&
                       atomic_load_explicit(&entry->users, memory_order_acquire) == 1))
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
    md_ds_shape_entry_release(old);
    op->ring[place] = NULL;
    atomic_fetch_add_explicit(&op->count.evictions, 1, memory_order_relaxed);
}

/* False if there is no place or no memory for the entry. */
static bool remember(md_ds_op *op, md_ds_shape_entry *entry, const md_ds_key *key)
{
    size_t key_bytes = (size_t)key->n * sizeof *key->word;
    entry->key = malloc(MD_MAX(key_bytes, 1));
    if (!entry->key)
        return false;
    memcpy(entry->key, key->word, key_bytes);
    entry->key_bytes = key_bytes;
    int64_t place = find_place(op);
    if (place < 0 && md_ds_plan_cache_drop(atomic_load_explicit(&op->plan_cache, memory_order_acquire), op))
        place = find_place(op); /* the entries of the plan cache held all shape entries */
    if (place < 0)
        return false;
    evict(op, place);
    if (md_table_put(op->entries, entry->key, key_bytes, entry, NULL) != MD_OK)
        return false;
    op->ring[place] = entry;
    md_ds_shape_entry_hold(entry);
    return true;
}

static md_ds_shape_entry *take(md_ds_shape_entry *entry)
{
    md_ds_shape_entry_hold(entry);
    atomic_store_explicit(&entry->is_hot, true, memory_order_relaxed);
    return entry;
}

/* The lock of entries is held. */
static md_ds_shape_entry *find(md_ds_op *op, const md_ds_key *key)
{
    return md_table_find(op->entries, key->word, (size_t)key->n * sizeof *key->word);
}

md_ds_shape_entry *md_ds_table_find(md_ds_op *op, const md_ds_key *key)
{
    pthread_mutex_lock(&op->lock_of_entries);
    md_ds_shape_entry *entry = find(op, key);
    if (entry)
        take(entry);
    pthread_mutex_unlock(&op->lock_of_entries);
    atomic_fetch_add_explicit(entry ? &op->count.hits : &op->count.misses, 1, memory_order_relaxed);
    return entry;
}

md_ds_shape_entry *md_ds_table_add(md_ds_op *op, const md_ds_key *key, md_ds_shape_entry *entry,
                                   struct md_ds_waiting **waiting)
{
    pthread_mutex_lock(&op->lock_of_entries);
    md_ds_shape_entry *other = find(op, key);
    if (!other) {
        entry->is_loose = entry->is_loose || !remember(op, entry, key);
        if (*waiting && !entry->is_loose) {
            md_ds_waiting_add(op, *waiting, entry);
            *waiting = NULL;
        }
    }
    md_ds_shape_entry *serves = take(other ? other : entry);
    pthread_mutex_unlock(&op->lock_of_entries);
    if (other)
        md_ds_shape_entry_free(entry);
    return serves;
}

/* The lock of entries is held. Whoever uses the entry goes on with it. */
static void forget(md_ds_op *op, const md_ds_shape_entry *entry)
{
    for (int64_t i = 0; i < op->n_entries; i++)
        if (op->ring[i] == entry)
            evict(op, i);
}

void md_ds_table_replace(md_ds_op *op, const md_ds_key *key, md_ds_shape_entry *entry)
{
    pthread_mutex_lock(&op->lock_of_entries);
    const md_ds_shape_entry *old = find(op, key);
    if (old)
        forget(op, old);
    const bool is_remembered = remember(op, entry, key);
    (void)md_ds_plan_cache_drop(atomic_load_explicit(&op->plan_cache, memory_order_acquire), op);
    pthread_mutex_unlock(&op->lock_of_entries);
    if (!is_remembered)
        md_ds_shape_entry_free(entry);
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

void md_ds_table_each(md_ds_op *op, void (*fn)(void *user, const md_ds_shape_entry *entry), void *user)
{
    visit v = {fn, user};
    md_ds_plan_cache_flush(atomic_load_explicit(&op->plan_cache, memory_order_acquire), op);
    pthread_mutex_lock(&op->lock_of_entries);
    md_table_each(op->entries, visit_one, &v);
    pthread_mutex_unlock(&op->lock_of_entries);
}
