/* Where pieces of memory with lives lie in one arena: first fit, the largest first. */
#ifndef MD_DISPATCH_SELECT_PLACE_H
#define MD_DISPATCH_SELECT_PLACE_H

#include <md/md.h>

typedef struct md_ds_piece {
    int32_t first, last; /* steps of its life, inclusive */
    size_t n_bytes; /* a multiple of the alignment */
    size_t offset; /* out */
} md_ds_piece;

/** Places pieces [n_placed, n) so that no two of [0, n) that live at the same time overlap; [0, n_placed) stay. *end:
 * bytes of the arena; SIZE_MAX if they exceed 63 bits. OUT_OF_MEMORY if the host's memory is short. */
md_status md_ds_place_pieces(size_t *end, md_ds_piece *piece, int32_t n_placed, int32_t n);

#endif
