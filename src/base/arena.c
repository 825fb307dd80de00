/* An arena: memory from blocks that are freed together. */
#include "base/arena.h"

#include "base/plain.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 16, BLOCK_BYTES = 8 * 1024 };

/* Blocks form a list; only the first has free space. A large request gets its own block, as second of the list. */
typedef struct block {
    struct block *next;
    size_t used, size;
    _Alignas(ALIGNMENT) unsigned char bytes[];
} block;

struct md_arena {
    block *first;
};

md_arena *md_arena_create(void)
{
    return calloc(1, sizeof(md_arena));
}

void md_arena_destroy(md_arena **arena)
{
    if (!arena || !*arena)
        return;
    for (block *b = (*arena)->first; b;) {
        block *next = b->next;
        free(b);
        b = next;
    }
    free(*arena);
    *arena = NULL;
}

static block *add_block(md_arena *arena, size_t size)
{
    if (size > PTRDIFF_MAX - sizeof(block)) /* larger than any object may be */
        return NULL;
    block *b = calloc(1, sizeof *b + size);
    if (!b)
        return NULL;
    b->size = size;
    if (arena->first && size > BLOCK_BYTES) {
        b->next = arena->first->next;
        arena->first->next = b;
    } else {
        b->next = arena->first;
        arena->first = b;
    }
    return b;
}

void *md_arena_alloc(md_arena *arena, size_t n_bytes)
{
    if (n_bytes > PTRDIFF_MAX)
        return NULL;
    size_t n = n_bytes ? (n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
    block *b = arena->first;
    if (!b || b->size - b->used < n) {
        b = add_block(arena, n > BLOCK_BYTES ? n : BLOCK_BYTES);
        if (!b)
            return NULL;
    }
    void *p = b->bytes + b->used;
    b->used += n;
    return p;
}

char *md_arena_text(md_arena *arena, const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = md_arena_alloc(arena, n);
    return copy ? memcpy(copy, text, n) : NULL;
}

char *md_arena_printf(md_arena *arena, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = md_vsnprintf(NULL, 0, format, args);
    char *text = n < 0 ? NULL : md_arena_alloc(arena, (size_t)n + 1);
    if (text)
        md_vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}
