/* Rows that stay on chip: level after level over the whole row, then the stores. Memory is read once, into a cache.
 * Values that a later pass needs and that are expensive to compute are kept as well. Results are exact two-pass ones.
 */
#include "md_config.h"
#include "prelude.h"
#include "row.h"
#include "md_expr.h"

#define MD_DISTANCE MD_COUNT(p) /* the next row, where rows are contiguous */
MD_LEVELS(MD_PASS)
#define MD_PREFETCH_WRITES (MD_PREFETCH && MD_N_LEVELS == 1) /* no second level has done so */
MD_WRITE

#define MD_RUN(l) md_pass##l(MD_X p, &row, keep, from, n);

MD_INLINE void md_one_row(MD_X_DECL const md_params *p, int64_t at, char *keep)
{
    (void)at;
    int64_t from = 0, n = MD_COUNT(p);
    md_row row;
    md_start(MD_X p, &row);
#if MD_RANGED
    if (n > 0)
        md_range(MD_X p, &row, &from, &n);
#endif
    MD_LEVELS(MD_RUN)
    md_derive(MD_X p, &row);
    if (MD_HAS_ELEMENTS)
        md_write(MD_X p, &row, keep, n);
    md_row_store(MD_X p, &row);
}

MD_EXPORT void md_kernel(const md_params *params, int64_t first, int64_t last, void *scratch)
{
    const md_params p = *params; /* a copy: no store through a tensor can change it */
    md_each_row(&p, first, last, scratch);
    if (MD_NONTEMPORAL)
        md_stream_end();
}
