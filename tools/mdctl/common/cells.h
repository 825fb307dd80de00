/* Recorded times, gathered by op and shape. */
#ifndef MDCTL_CELLS_H
#define MDCTL_CELLS_H

#include "common/results.h"

/* All contenders of one op at one shape. */
typedef struct cell {
    char op[64], dtype[24], shape[128];
    int64_t size[2]; /* the first two of a shape of two or three sizes; else 0 */
    char picked[128], best[128]; /* variants of this library */
    char peer[32]; /* the fastest of others */
    char limit[16], reason[128]; /* of the pick: which roof, and what costs most beyond it; "" where no line says it */
    double roof_us;
    double picked_us, lo, hi; /* of the pick; lo and hi: of the middle 80% of its times */
    double best_us, peer_us, copy_us, bytes; /* 0: not timed */
} cell;

typedef struct cells {
    int n;
    cell *of;
} cells;

/** The cells of all times; free `of`. */
cells cells_of(const results *in);
bool cells_same_op(const cell *a, const cell *b);
/** True for the first cell of an op and type. */
bool cells_is_first(const cells *all, int i);
/** The cell of the same op, type and shape that has a pick, or NULL. */
const cell *cells_find(const cells *all, const cell *like);

#endif
