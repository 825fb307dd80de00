/* Tuning in pieces: a piece is one family of one stage at one point, so any process on such a device may take it. */
#ifndef MD_DISPATCH_POOL_PIECES_H
#define MD_DISPATCH_POOL_PIECES_H

#include "dispatch/pool/fill.h"

typedef struct md_ds_piece {
    int32_t stage;
    bool is_ragged;
    char *point; /* in the language of hints, "(b=8,n=64)"; "" without dynamic dims. Owned */
    const char *family;
    int32_t builds; /* configs at most; 0: all */
    double ms; /* that it is predicted to take */
} md_ds_piece;

typedef struct md_ds_pieces {
    char *formula; /* in canonical form, with dtypes and static sizes. Owned */
    int32_t n;
    md_ds_piece *piece; /* owned */
} md_ds_pieces;

/** Lists the pieces of a formula, in order of stage, point and family. The list and the predicted times follow from
 * formula, options and kind of device alone, not from how fast this machine is or what was tuned before: machines that
 * share the work cut it alike. Finish it, also after a failure. */
md_status md_ds_pieces_list(md_ds_pieces *out, const md_ds_tune_request *request, const char *formula);
void md_ds_pieces_finish(md_ds_pieces *pieces);
/** Tunes one piece, whose point is the only hint of the request, and appends the line of wisdom that is then known of
 * it. NOT_FOUND where the formula has no such stage or family. */
md_status md_ds_piece_tune(md_strbuf *out, const md_ds_tune_request *request, const char *formula,
                           const md_ds_piece *piece);

#endif
