/* Scans: running sums, products, maxima and minima. MD_COLUMN and MD_PHASE choose among four methods:
 *   MD_COLUMN         lanes run over the last outer index, one element of the axis after the other
 *   phase 0           a row at a time, in vectors along the axis
 *   phases 1, 2, 3    for few long rows, three launches: totals of pieces; totals before each piece; the pieces */
#include "md_config.h"
#ifndef MD_RECURRENCE
#define MD_RECURRENCE 0
#endif
#include "prelude.h"
#include "row.h"
#include "lane_scan.h"
#include "md_expr.h"
#if MD_RECURRENCE
#include "recur.h"
#endif

#ifndef MD_PHASE
#define MD_PHASE 0
#endif
#ifndef MD_PIECE
#define MD_PIECE 16384 /* elements */
#endif

#if MD_COLUMN

#ifndef MD_TILE
#define MD_TILE 16 /* vectors of a block; it reads and writes whole pieces of rows, which may be far apart */
#endif
#define MD_FETCH_STEPS 8

MD_INLINE void md_one_tile(MD_OUTER_DECL const md_params *p, int64_t at, char *scratch)
{
    const int64_t n = MD_COUNT(p), lanes = md_min_si(MD_LANES(p) - at, MD_TILE * MD_VL);
    const int whole = (int)(lanes / MD_VL), rest = (int)(lanes % MD_VL);
    MD_TOTALS carry[MD_TILE];
    (void)scratch;
    for (int t = 0; t < MD_TILE; t++)
        carry[t] = MD_SPLAT_TOTAL(MD_IDENTITY);
    for (int64_t j = 0; j < n; j++) {
        const int64_t k = MD_REVERSE ? n - 1 - j : j, then = MD_REVERSE ? k - MD_FETCH_STEPS : k + MD_FETCH_STEPS;
        for (int t = 0; t < whole; t++) {
            md_prefetch(MD_X_AT(at + t * MD_VL, MD_VL) p, then);
            md_out(MD_X_AT(at + t * MD_VL, MD_VL) p, k,
                   MD_THEN_ONE(md_body(MD_X_AT(at + t * MD_VL, MD_VL) p, k), &carry[t]));
        }
        if (rest > 0)
            md_out(MD_X_AT(at + whole * MD_VL, rest) p, k,
                   MD_THEN_ONE(md_body(MD_X_AT(at + whole * MD_VL, rest) p, k), &carry[whole]));
    }
}

#else

/* Elements [from, to) of a row. */
MD_INLINE void md_run(MD_X_DECL const md_params *p, int64_t from, int64_t to, MD_TOTAL *carry)
{
#define MD_SCAN_AT(j, n)                                                                                               \
    do {                                                                                                               \
        MD_VALUE v = MD_ONLY_HEAD(md_body(MD_X p, j, n), n);                                                           \
        md_out(MD_X p, j, n, MD_SCAN(v, carry));                                                                       \
    } while (0)
    const int64_t lead = MD_NONTEMPORAL ? md_min_si(to - from, md_lead(MD_X p, from)) : 0;
    const int64_t whole = (to - from - lead) / MD_VL * MD_VL, tail = from + lead + whole;
    if (MD_REVERSE ? tail < to : lead > 0)
        MD_SCAN_AT((MD_REVERSE ? tail : from), (int)(MD_REVERSE ? to - tail : lead));
    for (int64_t k = 0; k < whole; k += MD_VL)
        MD_SCAN_AT((MD_REVERSE ? tail - MD_VL - k : from + lead + k), MD_VL);
    if (MD_REVERSE ? lead > 0 : tail < to)
        MD_SCAN_AT((MD_REVERSE ? from : tail), (int)(MD_REVERSE ? lead : to - tail));
#undef MD_SCAN_AT
}

#if MD_PHASE == 0

MD_INLINE void md_one_row(MD_X_DECL const md_params *p, int64_t row, char *scratch)
{
    MD_TOTAL carry = MD_IDENTITY;
    (void)row, (void)scratch;
    md_run(MD_X p, 0, MD_COUNT(p), &carry);
}

#else

/* A "row" of these launches is a row and a piece of it. The workspace has the totals, those of one row's pieces side by
 * side. */
MD_INLINE int64_t md_pieces(const md_params *p) { return (MD_COUNT(p) + MD_PIECE - 1) / MD_PIECE; }

#if MD_PHASE == 1 && MD_RECURRENCE
MD_INLINE void md_piece(MD_X_DECL const md_params *p, int64_t from, int64_t to, MD_TOTAL *total)
{
    const int64_t whole = (to - from) / MD_VL * MD_VL, tail = from + whole;
    const int rest = (int)(to - tail);
    MD_TOTAL all = MD_IDENTITY;
    if (MD_REVERSE && rest > 0)
        md_recur_add(MD_ONLY_HEAD(md_body(MD_X p, tail, rest), rest), &all);
    for (int64_t k = 0; k < whole; k += MD_VL)
        md_recur_add(md_body(MD_X p, MD_REVERSE ? tail - MD_VL - k : from + k, MD_VL), &all);
    if (!MD_REVERSE && rest > 0)
        md_recur_add(MD_ONLY_HEAD(md_body(MD_X p, tail, rest), rest), &all);
    *total = all;
}
#elif MD_PHASE == 1
MD_INLINE void md_piece(MD_X_DECL const md_params *p, int64_t from, int64_t to, MD_TOTAL *total)
{
    MD_TOTALS sums = MD_SPLAT_TOTAL(MD_IDENTITY);
    int64_t j = from;
    for (; j + MD_VL <= to; j += MD_VL)
        (void)MD_THEN_ONE(md_body(MD_X p, j, MD_VL), &sums);
    if (j < to)
        (void)MD_THEN_ONE(MD_ONLY_HEAD(md_body(MD_X p, j, (int)(to - j)), (int)(to - j)), &sums);
    *total = MD_FOLD(sums);
}
#elif MD_PHASE == 3
MD_INLINE void md_piece(MD_X_DECL const md_params *p, int64_t from, int64_t to, MD_TOTAL *before)
{
    MD_TOTAL carry = *before;
    md_run(MD_X p, from, to, &carry);
}
#endif

#if MD_PHASE == 2
MD_INLINE void md_one_row(MD_X_DECL const md_params *p, int64_t row, char *scratch)
{
    const int64_t pieces = md_pieces(p);
    MD_TOTAL *total = (MD_TOTAL *)p->work0 + row * pieces;
    (void)scratch;
#if MD_RECURRENCE
    MD_WIDE y = MD_NOTHING;
    for (int64_t i = 0; i < pieces; i++) {
        MD_TOTAL *t = &total[MD_REVERSE ? pieces - 1 - i : i];
        const MD_TOTAL own = *t;
        t->b = y;
        y = md_recur_one(own.a, y, own.b);
    }
#else
    MD_TOTALS carry = MD_SPLAT_TOTAL(MD_IDENTITY);
    for (int64_t i = 0; i < pieces; i++) {
        MD_TOTAL *t = &total[MD_REVERSE ? pieces - 1 - i : i];
        *t = MD_THEN_TOTAL(MD_SPLAT_TOTAL(*t), &carry)[0];
    }
#endif
}
#else
MD_INLINE void md_one_row(MD_X_DECL const md_params *p, int64_t row, char *piece)
{
    const int64_t pieces = md_pieces(p), i = *(const int64_t *)piece, from = i * MD_PIECE, n = MD_COUNT(p);
    md_piece(MD_X p, from, n - from < MD_PIECE ? n : from + MD_PIECE, (MD_TOTAL *)p->work0 + row * pieces + i);
}
#endif
#endif
#endif

MD_EXPORT void md_kernel(const md_params *params, int64_t first, int64_t last, void *scratch)
{
    const md_params p = *params; /* a copy: no store through a tensor can change it */
#if MD_COLUMN
    md_each_tile(&p, first, last, MD_TILE * MD_VL, scratch);
#elif MD_PHASE == 1 || MD_PHASE == 3
    (void)scratch;
    const int64_t pieces = md_pieces(&p);
    for (int64_t b = first; b < last; b++) {
        int64_t piece = b % pieces;
        md_each_row(&p, b / pieces, b / pieces + 1, (char *)&piece);
    }
#else
    md_each_row(&p, first, last, scratch);
#endif
    if (MD_NONTEMPORAL)
        md_stream_end();
}
