/* A small map from pairs of pointers and a tag to a pointer: formulas are graphs whose nodes are shared, and a walk
 * that forgets what it has seen takes exponential time. */
#ifndef MD_EXPR_MEMO_H
#define MD_EXPR_MEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct md_memo_slot {
    const void *a, *b; /* a is NULL where the slot is free */
    intptr_t tag;
    const void *value;
} md_memo_slot;

enum { MD_MEMO_FEW = 8 };

typedef struct md_memo {
    md_memo_slot *slot;
    size_t n, capacity; /* capacity is 0 or a power of 2 */
    /* the first ones, as long as there is no table: most walks are over few nodes, and many are made for each new
     * shape */
    md_memo_slot few[MD_MEMO_FEW];
} md_memo; /* a zeroed struct is an empty map; but for few[] it need not be zeroed */

void md_memo_finish(md_memo *m);
/** True if the key is there; its value through `value` (may be NULL). */
bool md_memo_find(const md_memo *m, const void *a, const void *b, intptr_t tag, const void **value);
/** Adds or replaces; a must not be NULL. False when memory is short: the map stays as it was. */
bool md_memo_put(md_memo *m, const void *a, const void *b, intptr_t tag, const void *value);

#endif
