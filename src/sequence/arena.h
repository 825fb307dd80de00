/* Where pieces of memory with lives lie in one arena: first fit, the largest first. */
#ifndef MD_SEQUENCE_ARENA_H
#define MD_SEQUENCE_ARENA_H

#include <md/md.h>

typedef struct md_sq_piece {
    int32_t first, last; /* steps of its life, inclusive */
    size_t n_bytes; /* a multiple of the alignment */
    size_t offset; /* out */
} md_sq_piece;

/** Places pieces [n_placed, n) so that no two of [0, n) that live at the same time overlap; [0, n_placed) stay. *end:
 * bytes of the arena. OUT_OF_MEMORY beyond 63 bits. */
md_status md_sq_place(size_t *end, md_sq_piece *piece, int32_t n_placed, int32_t n);

#endif
