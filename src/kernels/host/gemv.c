/* Products with at most MD_MAX_ROWS rows (few_rows.h). Each block of the launch computes MD_COLUMNS columns of one
 * batch. md_config.h: as few_rows.h. md_expr.h: as gemm.c. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "mac.h"
#include "transpose.h"
#include "lanes.h"
#include "source.h"
#include "split.h"
#include "few_rows.h"

MD_EXPORT void md_kernel(const md_params *p, int64_t first, int64_t last, void *scratch)
{
    int64_t n = md_points_columns(p), runs = (n + MD_COLUMNS - 1) / MD_COLUMNS, depth = md_points_depth(p);
    md_run r = md_run_make(depth, scratch);
    r.rows = (int)md_points_rows(p);
    for (int64_t i = first; i < last; i++) {
        int is_copied = depth <= MD_CHUNK && r.batch == i / runs; /* A is still packed from the block before */
        r.batch = i / runs;
        r.column = i % runs * MD_COLUMNS;
        r.columns = md_least(MD_COLUMNS, n - r.column);
        md_run_columns(p, &r, depth, is_copied);
    }
}
