/* Reductions along an axis that is not contiguous. Lanes run over the last outer index. A block is a few vectors of
 * that index times the whole axis; no lane needs another lane's values. Each level is a pass over the block, which
 * should stay in a cache. */
#include "md_config.h"
#include "prelude.h"
#define MD_PAIRS 14 /* they are on the stack, MD_TILE vectors each */
#include "row.h"
#include "md_expr.h"

#ifndef MD_TILE
#define MD_TILE 16 /* vectors of a block */
#endif
#define MD_STEP 8 /* elements of the axis at a time: an accumulator stays in a register for that long */
/* Vectors side by side that a step takes: those of a cache line, which is then touched once. Lines of a column whose
 * distance is a power of two push each other out of the cache. Bodies that are long take one (MD_LOAD_BITS 512). */
#define MD_LINE (512 / (MD_LOAD_BITS * MD_VL))
#if MD_LINE < 2 || MD_TILE < 2
#define MD_ACROSS 1
#elif MD_LINE > 8 && MD_TILE >= 8
#define MD_ACROSS 8
#elif MD_LINE > MD_TILE
#define MD_ACROSS MD_TILE
#else
#define MD_ACROSS MD_LINE
#endif
#define MD_RUN_COLUMN (16 * MD_STEP) /* elements of a run, with MD_PAIRWISE (row.h) */
#define MD_FETCH_STEPS 2 /* prefetch distance in steps: rows are far apart, where no hardware prefetches */

/* One level over the axis for `tiles` vectors; the last one has md_n lanes. Steps are calls, so that the long body is
 * in the text only twice. */
#define MD_COLUMN_PASS(l)                                                                                              \
    MD_INLINE void md_step##l(MD_OUTER_DECL const md_params *p, const md_row *row, md_acc##l *acc, int64_t at,         \
                              int across, int n, int64_t from, int64_t to)                                             \
    {                                                                                                                  \
        md_acc##l a[MD_ACROSS];                                                                                        \
        MD_FOR (u, across) {                                                                                           \
            a[u] = acc[u];                                                                                             \
            if (MD_PAIRWISE || MD_HAS_NEAR)                                                                            \
                md_clear##l(&a[u], from);                                                                              \
        }                                                                                                              \
        for (int64_t j = from; j < to; j++) {                                                                          \
            md_prefetch(MD_X_AT(at, n) p, j + MD_FETCH_STEPS * MD_STEP);                                               \
            MD_FOR (u, across)                                                                                         \
                md_add##l(MD_X_AT(at + u * MD_VL, n) p, &row[u], &a[u], 0, j);                                         \
        }                                                                                                              \
        MD_FOR (u, across) {                                                                                           \
            if (MD_PAIRWISE || MD_HAS_NEAR)                                                                            \
                md_join##l(&acc[u], &a[u]);                                                                            \
            else                                                                                                       \
                acc[u] = a[u];                                                                                         \
        }                                                                                                              \
    }                                                                                                                  \
    MD_OUTLINE void md_step_whole##l(MD_OUTER_DECL const md_params *p, const md_row *row, md_acc##l *acc, int64_t at,  \
                                     int64_t from, int64_t to)                                                         \
    {                                                                                                                  \
        md_step##l(MD_OUTER p, row, acc, at, MD_ACROSS, MD_VL, from, to);                                              \
    }                                                                                                                  \
    MD_OUTLINE void md_step_part##l(MD_OUTER_DECL const md_params *p, const md_row *row, md_acc##l *acc, int64_t at,   \
                                    int n, int64_t from, int64_t to)                                                   \
    {                                                                                                                  \
        md_step##l(MD_OUTER p, row, acc, at, 1, n, from, to);                                                          \
    }                                                                                                                  \
    /* The steps [from, end) of the axis, for all tiles. */                                                            \
    MD_INLINE void md_column_run##l(MD_OUTER_DECL const md_params *p, md_row *row, md_acc##l *acc, int64_t at,         \
                                    int tiles, int last, int64_t from, int64_t end)                                    \
    {                                                                                                                  \
        const int whole = tiles - (last != MD_VL);                                                                     \
        for (int t = 0; t < tiles; t++)                                                                                \
            md_clear##l(&acc[t], 0);                                                                                   \
        for (; from < end; from += MD_STEP) {                                                                          \
            const int64_t to = md_min_si(from + MD_STEP, end);                                                         \
            int t = 0;                                                                                                 \
            for (; t + MD_ACROSS <= whole; t += MD_ACROSS)                                                             \
                md_step_whole##l(MD_OUTER p, &row[t], &acc[t], at + t * MD_VL, from, to);                              \
            for (; t < tiles; t++)                                                                                     \
                md_step_part##l(MD_OUTER p, &row[t], &acc[t], at + t * MD_VL, t < whole ? MD_VL : last, from, to);     \
        }                                                                                                              \
    }                                                                                                                  \
    MD_INLINE void md_column_pass##l(MD_OUTER_DECL const md_params *p, md_row *row, int64_t at, int tiles, int last,   \
                                     int64_t first, int64_t n)                                                         \
    {                                                                                                                  \
        md_acc##l acc[MD_TILE], wait[MD_PAIRWISE ? MD_PAIRS : 1][MD_TILE];                                             \
        const int whole = tiles - (last != MD_VL);                                                                     \
        int n_wait = 0;                                                                                                \
        for (int64_t from = first, runs = 1;; from += MD_RUN_COLUMN, runs++) {                                         \
            const int64_t end = md_run_end(from, n, MD_RUN_COLUMN);                                                    \
            md_column_run##l(MD_OUTER p, row, acc, at, tiles, last, from, end);                                        \
            if (!MD_PAIRWISE || (end == n && n_wait == 0))                                                             \
                break;                                                                                                 \
            for (int t = 0; t < tiles; t++)                                                                            \
                wait[n_wait][t] = acc[t];                                                                              \
            n_wait++;                                                                                                  \
            for (int pairs = end < n ? md_pairs(runs, n_wait) : n_wait - 1; pairs > 0; pairs--, n_wait--)              \
                for (int t = 0; t < tiles; t++)                                                                        \
                    md_join##l(&wait[n_wait - 2][t], &wait[n_wait - 1][t]);                                            \
            if (end == n)                                                                                              \
                break;                                                                                                 \
        }                                                                                                              \
        for (int t = 0; t < tiles; t++)                                                                                \
            md_finish##l(MD_X_AT(at + t * MD_VL, t < whole ? MD_VL : last) p, &row[t],                                 \
                         n_wait > 0 ? &wait[0][t] : &acc[t]);                                                          \
    }
MD_LEVELS(MD_COLUMN_PASS)

#define MD_RUN_COLUMNS(l) md_column_pass##l(MD_OUTER p, row, at, tiles, last, from, n);

MD_INLINE void md_one_tile(MD_OUTER_DECL const md_params *p, int64_t at, char *scratch)
{
    int64_t from = 0, n = MD_COUNT(p);
    const int64_t lanes = md_min_si(MD_LANES(p) - at, MD_TILE * MD_VL);
    const int tiles = (int)((lanes + MD_VL - 1) / MD_VL), last = (int)(lanes - (tiles - 1) * MD_VL),
              whole = tiles - (last != MD_VL);
    md_row row[MD_TILE];
    (void)scratch;
    for (int t = 0; t < tiles; t++)
        md_start(MD_X_AT(at + t * MD_VL, t < whole ? MD_VL : last) p, &row[t]);
#if MD_RANGED
    if (n > 0)
        md_range(MD_X_AT(at, MD_VL) p, &row[0], &from, &n);
#endif
    MD_LEVELS(MD_RUN_COLUMNS)
    for (int t = 0; t < tiles; t++)
        md_derive(MD_X_AT(at + t * MD_VL, t < whole ? MD_VL : last) p, &row[t]);
    for (int64_t j = 0; MD_HAS_ELEMENTS && j < n; j++) {
        for (int t = 0; t < whole; t++)
            md_out(MD_X_AT(at + t * MD_VL, MD_VL) p, &row[t], 0, j);
        if (whole < tiles)
            md_out(MD_X_AT(at + whole * MD_VL, last) p, &row[whole], 0, j);
    }
    for (int t = 0; t < tiles; t++)
        md_row_store(MD_X_AT(at + t * MD_VL, t < whole ? MD_VL : last) p, &row[t]);
}

MD_EXPORT void md_kernel(const md_params *params, int64_t first, int64_t last, void *scratch)
{
    const md_params p = *params; /* a copy: no store through a tensor can change it */
    md_each_tile(&p, first, last, MD_TILE * MD_VL, scratch);
    if (MD_NONTEMPORAL)
        md_stream_end();
}
