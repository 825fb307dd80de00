/* First fit in order of size. With n pieces it takes n * n steps, once for each tuple of sizes. */
#include "dispatch/select/plan.h"

#include "base/status.h"

#include <stdbool.h>
#include <stdlib.h>

typedef struct ordered {
    md_ds_piece *piece;
    int32_t number;
} ordered;

static int larger_first(const void *a, const void *b)
{
    const ordered *x = a, *y = b;
    if (x->piece->n_bytes != y->piece->n_bytes)
        return x->piece->n_bytes < y->piece->n_bytes ? 1 : -1;
    return (x->number > y->number) - (x->number < y->number);
}

static bool live_together(const md_ds_piece *a, const md_ds_piece *b)
{
    return a->first <= b->last && b->first <= a->last && a->n_bytes && b->n_bytes;
}

/* The placed pieces are sorted by offset. */
static void insert(md_ds_piece **placed, int32_t *n, md_ds_piece *piece)
{
    int32_t at = (*n)++;
    for (; at > 0 && placed[at - 1]->offset > piece->offset; at--)
        placed[at] = placed[at - 1];
    placed[at] = piece;
}

static void find_place(md_ds_piece *piece, md_ds_piece *const *placed, int32_t n)
{
    size_t at = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!live_together(piece, placed[i]))
            continue;
        if (placed[i]->offset >= at && placed[i]->offset - at >= piece->n_bytes)
            break;
        const size_t after = placed[i]->offset + placed[i]->n_bytes;
        at = after > at ? after : at;
    }
    piece->offset = at;
}

md_status md_ds_place_pieces(size_t *end, md_ds_piece *piece, int32_t n_placed, int32_t n)
{
    ordered *order = malloc(((size_t)n + 1) * sizeof *order);
    md_ds_piece **placed = malloc(((size_t)n + 1) * sizeof *placed);
    int32_t n_done = 0;
    bool fits = true;
    *end = 0;
    for (int32_t i = 0; order && placed && i < n; i++) {
        order[i] = (ordered){&piece[i], i};
        if (i < n_placed)
            insert(placed, &n_done, &piece[i]);
    }
    if (order && placed && n > n_placed)
        qsort(order + n_placed, (size_t)(n - n_placed), sizeof *order, larger_first);
    for (int32_t i = n_placed; order && placed && i < n; i++) {
        find_place(order[i].piece, placed, n_done);
        insert(placed, &n_done, order[i].piece);
    }
    const bool has_memory = order && placed;
    for (int32_t i = 0; has_memory && i < n; i++) {
        fits &= piece[i].n_bytes <= INT64_MAX && piece[i].offset <= INT64_MAX - piece[i].n_bytes;
        *end = MD_MAX(*end, piece[i].offset + piece[i].n_bytes);
    }
    free(order);
    free(placed);
    if (!has_memory)
        return md_fail_memory();
    *end = fits ? *end : SIZE_MAX;
    return MD_OK;
}
