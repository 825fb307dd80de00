/* A hash table from byte keys to pointers; the only user of uthash. Not thread-safe. */
#ifndef MD_BASE_TABLE_H
#define MD_BASE_TABLE_H
#include <md/md.h>
typedef struct md_table md_table;
md_table *md_table_create(void); /* NULL if memory is short */
/** Frees the table and calls `drop` (may be NULL) on every value. */
void md_table_destroy(md_table **table, void (*drop)(void *value));
void *md_table_find(const md_table *table, const void *key, size_t n_bytes); /* NULL if absent */
/** Copies the key. An existing key gets the new value, and *old (may be NULL) the old one. OUT_OF_MEMORY. */
md_status md_table_put(md_table *table, const void *key, size_t n_bytes, void *value, void **old);
void *md_table_remove(md_table *table, const void *key, size_t n_bytes);
size_t md_table_count(const md_table *table);
/** Visits in order of insertion. `visit` must not change the table. */
void md_table_each(const md_table *table, void (*visit)(void *user, const void *key, size_t n_bytes, void *value),
                   void *user);
#endif
