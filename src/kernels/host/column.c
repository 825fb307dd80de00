/* Rows that lie across memory: lanes run over the last outer index, and a block is a few vectors of it times the whole axis. No lane ever meets
 * another. Each level is a pass over the tile, which is meant to stay in a cache. */
#include "md_config.h"
#include "prelude.h"
#include "row.h"
#include "md_expr.h"

#ifndef MD_TILE
#define MD_TILE 2 /* vectors of a block: 1, 2 or 4 */
#endif

/* One pass over MD_TILE whole vectors, or over one of md_n lanes. */
#define MD_LANE_PASSES(l)                                                                                              \
    MD_INLINE void md_tile_pass##l(MD_OUTER_DECL const md_params *p, md_row *row, int64_t at, int64_t n)               \
    {                                                                                                                  \
        md_acc##l a0, a1, a2, a3;                                                                                      \
        md_clear##l(&a0, 0);                                                                                           \
        md_clear##l(&a1, 0);                                                                                           \
        md_clear##l(&a2, 0);                                                                                           \
        md_clear##l(&a3, 0);                                                                                           \
        for (int64_t j = 0; j < n; j++) {                                                                              \
            md_add##l(MD_X_AT(at, MD_VL) p, &row[0], &a0, 0, j);                                                       \
            if (MD_TILE > 1)                                                                                           \
                md_add##l(MD_X_AT(at + MD_VL, MD_VL) p, &row[1], &a1, 0, j);                                           \
            if (MD_TILE > 2) {                                                                                         \
                md_add##l(MD_X_AT(at + 2 * MD_VL, MD_VL) p, &row[2], &a2, 0, j);                                       \
                md_add##l(MD_X_AT(at + 3 * MD_VL, MD_VL) p, &row[3], &a3, 0, j);                                       \
            }                                                                                                          \
        }                                                                                                              \
        md_finish##l(MD_X_AT(at, MD_VL) p, &row[0], &a0);                                                              \
        if (MD_TILE > 1)                                                                                               \
            md_finish##l(MD_X_AT(at + MD_VL, MD_VL) p, &row[1], &a1);                                                  \
        if (MD_TILE > 2) {                                                                                             \
            md_finish##l(MD_X_AT(at + 2 * MD_VL, MD_VL) p, &row[2], &a2);                                              \
            md_finish##l(MD_X_AT(at + 3 * MD_VL, MD_VL) p, &row[3], &a3);                                              \
        }                                                                                                              \
    }                                                                                                                  \
    MD_INLINE void md_lane_pass##l(MD_OUTER_DECL const md_params *p, md_row *row, int64_t at, int md_n, int64_t n)     \
    {                                                                                                                  \
        md_acc##l acc;                                                                                                 \
        md_clear##l(&acc, 0);                                                                                          \
        for (int64_t j = 0; j < n; j++)                                                                                \
            md_add##l(MD_X_AT(at, md_n) p, row, &acc, 0, j);                                                           \
        md_finish##l(MD_X_AT(at, md_n) p, row, &acc);                                                                  \
    }
MD_LEVELS(MD_LANE_PASSES)

#define MD_RUN_TILE(l) md_tile_pass##l(MD_OUTER p, row, at, n);
#define MD_RUN_LANES(l) md_lane_pass##l(MD_OUTER p, &row, at, md_n, n);

MD_INLINE void md_whole_tile(MD_OUTER_DECL const md_params *p, int64_t at)
{
    const int64_t n = MD_COUNT(p);
    md_row row[MD_TILE];
    for (int t = 0; t < MD_TILE; t++)
        md_start(MD_X_AT(at + t * MD_VL, MD_VL) p, &row[t]);
    MD_LEVELS(MD_RUN_TILE)
    for (int t = 0; t < MD_TILE; t++)
        md_derive(MD_X_AT(at + t * MD_VL, MD_VL) p, &row[t]);
    for (int64_t j = 0; MD_HAS_ELEMENTS && j < n; j++)
        for (int t = 0; t < MD_TILE; t++)
            md_out(MD_X_AT(at + t * MD_VL, MD_VL) p, &row[t], 0, j);
    for (int t = 0; t < MD_TILE; t++)
        md_row_store(MD_X_AT(at + t * MD_VL, MD_VL) p, &row[t]);
}

MD_OUTLINE void md_some_lanes(MD_OUTER_DECL const md_params *p, int64_t at, int md_n)
{
    const int64_t n = MD_COUNT(p);
    md_row row;
    md_start(MD_X_AT(at, md_n) p, &row);
    MD_LEVELS(MD_RUN_LANES)
    md_derive(MD_X_AT(at, md_n) p, &row);
    for (int64_t j = 0; MD_HAS_ELEMENTS && j < n; j++)
        md_out(MD_X_AT(at, md_n) p, &row, 0, j);
    md_row_store(MD_X_AT(at, md_n) p, &row);
}

MD_INLINE void md_one_tile(MD_OUTER_DECL const md_params *p, int64_t at, char *scratch)
{
    int64_t rest = MD_LANES(p) - at;
    (void)scratch;
    if (rest >= MD_TILE * MD_VL) {
        md_whole_tile(MD_OUTER p, at);
        return;
    }
    for (; rest > 0; at += MD_VL, rest -= MD_VL)
        md_some_lanes(MD_OUTER p, at, rest < MD_VL ? (int)rest : MD_VL);
}

MD_EXPORT void md_kernel(const md_params *params, int64_t first, int64_t last, void *scratch)
{
    const md_params p = *params; /* a copy: no store through a tensor can change it */
    md_each_tile(&p, first, last, MD_TILE * MD_VL, scratch);
    if (MD_STREAM)
        md_stream_end();
}
