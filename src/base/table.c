/* A hash table from byte keys to pointers, on uthash. */
#include "base/table.h"

#include "base/hash.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* Without the first two definitions uthash calls exit() if memory is short. Its own hash function (Jenkins) reads bytes
 * one by one; xxHash is faster. */
#define HASH_NONFATAL_OOM 1
#define HASH_BKT_CAPACITY_THRESH 5U /* not 10: each further entry of a bucket is a line that the caches lack */
#define uthash_nonfatal_oom(element) ((element)->is_lost = true)
#define HASH_FUNCTION(key, n, hash) ((hash) = (unsigned)md_hash64((key), (n)))

#include <stdbool.h>
#include <uthash.h>

typedef struct entry {
    UT_hash_handle hh;
    void *value;
    bool is_lost;
    unsigned char key[];
} entry;

struct md_table {
    entry *first;
};

md_table *md_table_create(void)
{
    return calloc(1, sizeof(md_table));
}

static entry *find(const md_table *table, const void *key, size_t n_bytes)
{
    entry *e = NULL;
    HASH_FIND(hh, table->first, key, n_bytes, e);
    return e;
}

void md_table_destroy(md_table **handle, void (*drop)(void *value))
{
    md_table *table = handle ? *handle : NULL;
    if (!table)
        return;
    entry *e, *next;
    HASH_ITER(hh, table->first, e, next)
    {
        HASH_DEL(table->first, e);
        if (drop)
            drop(e->value);
        free(e);
    }
    free(table);
    *handle = NULL;
}

void *md_table_find(const md_table *table, const void *key, size_t n_bytes)
{
    entry *e = find(table, key, n_bytes);
    return e ? e->value : NULL;
}

md_status md_table_put(md_table *table, const void *key, size_t n_bytes, void *value, void **old)
{
    entry *e = find(table, key, n_bytes);
    if (old)
        *old = e ? e->value : NULL;
    if (e) {
        e->value = value;
        return MD_OK;
    }
    e = n_bytes < PTRDIFF_MAX - sizeof *e ? calloc(1, sizeof *e + n_bytes) : NULL;
    if (!e)
        return md_fail_memory();
    e->value = value;
    memcpy(e->key, key, n_bytes);
    HASH_ADD_KEYPTR(hh, table->first, e->key, n_bytes, e);
    if (e->is_lost) {
        free(e);
        return md_fail_memory();
    }
    return MD_OK;
}

void *md_table_remove(md_table *table, const void *key, size_t n_bytes)
{
    entry *e = find(table, key, n_bytes);
    if (!e)
        return NULL;
    void *value = e->value;
    HASH_DEL(table->first, e);
    free(e);
    return value;
}

size_t md_table_count(const md_table *table)
{
    return HASH_COUNT(table->first);
}

void md_table_each(const md_table *table, void (*visit)(void *user, const void *key, size_t n_bytes, void *value),
                   void *user)
{
    for (entry *e = table->first; e; e = e->hh.next)
        visit(user, e->key, e->hh.keylen, e->value);
}
