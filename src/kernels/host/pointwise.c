/* Elementwise stages, gathers and scatters. A block is about MD_BLOCK_POINTS elements of the outer points times the
 * lane axis: whole rows if they are short, else a part of one row. src/family/host/point/sweep.c counts blocks in the
 * same way.
 *
 * md_config.h: MD_TABLE_BITS where elements are looked up (byte_table.h).
 * md_expr.h: md_params, md_points(p), md_lanes(p), md_sweep(p, point, end, lane, lane_end). */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#ifdef MD_TABLE_BITS
#include "byte_table.h"
#else
#define MD_TABLE_BITS 0
#define md_sweep_by_table md_sweep
#endif

MD_EXPORT void md_kernel(const md_params *p, int64_t first, int64_t last, void *scratch)
{
    const int64_t points = md_points(p), lanes = md_lanes(p);
    (void)scratch;
    if (lanes < MD_BLOCK_POINTS) {
        const int64_t rows = MD_BLOCK_POINTS / lanes;
        md_sweep_by_table(p, first * rows, md_min_si(last * rows, points), 0, lanes);
    } else if (MD_TABLE_BITS) { /* one point: its blocks are neighbours, and one table serves them */
        md_sweep_by_table(p, 0, 1, first * MD_BLOCK_POINTS, md_min_si(last * MD_BLOCK_POINTS, lanes));
    } else {
        const int64_t pieces = (lanes + MD_BLOCK_POINTS - 1) / MD_BLOCK_POINTS;
        for (int64_t b = first; b < last; b++) {
            const int64_t point = b / pieces, lane = b % pieces * MD_BLOCK_POINTS;
            md_sweep(p, point, point + 1, lane, md_min_si(lane + MD_BLOCK_POINTS, lanes));
        }
    }
#ifdef MD_STREAMING
    md_stream_end();
#endif
}
