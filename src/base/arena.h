/* An arena: memory that is freed all at once. Not thread-safe. */
#ifndef MD_BASE_ARENA_H
#define MD_BASE_ARENA_H

#include <stddef.h>

typedef struct md_arena md_arena;

/** NULL if memory is short. */
md_arena *md_arena_create(void);
void md_arena_destroy(md_arena **arena);
/** Zeroed, 16-byte aligned; NULL if memory is short (the arena stays usable). */
void *md_arena_alloc(md_arena *arena, size_t n_bytes);
/** Copies a text; NULL if memory is short. */
char *md_arena_text(md_arena *arena, const char *text);
char *md_arena_printf(md_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
