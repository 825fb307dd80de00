/* Rows of any length. If results of chunks can be merged, one pass over memory computes all reductions, chunk by chunk
 * in the nearest cache. Else each level is a pass over memory. The stores read memory again. */
#include "md_config.h"
#include "prelude.h"
#include "row.h"
#include "md_expr.h"

#ifndef MD_CHUNK
#define MD_CHUNK 1024
#endif

#ifndef MD_DISTANCE
#define MD_DISTANCE MD_CHUNK
#endif
MD_LEVELS(MD_PASS)
#define MD_PREFETCH_WRITES 0
MD_WRITE

#if MD_ONLINE
#define MD_RUN_CHUNK(l) md_pass##l(MD_X p, &part, keep, from, to);

#define MD_GROUP 8 /* chunks merged one after the other; groups are merged pairwise (row.h) */

/* Lets the results of a group wait, then merges the last two that wait `pairs` times. */
MD_OUTLINE int md_merge_group(md_row *wait, int n, int pairs, const md_row *group)
{
    wait[n++] = *group;
    for (; pairs > 0; pairs--, n--)
        md_merge(&wait[n - 2], &wait[n - 1]);
    return n;
}

/* Elements [from, to) chunk by chunk. */
MD_INLINE void md_reduce_group(MD_X_DECL const md_params *p, md_row *row, md_row part, char *keep, int64_t first,
                               int64_t last)
{
    for (int64_t from = first; from < last || from == first; from += MD_CHUNK) {
        const int64_t to = last - from < MD_CHUNK ? last : from + MD_CHUNK;
        part.count = to - from;
        MD_LEVELS(MD_RUN_CHUNK)
        if (from == first)
            *row = part;
        else
            md_merge(row, &part);
    }
}

MD_INLINE void md_reduce(MD_X_DECL const md_params *p, md_row *row, char *keep, int64_t start, int64_t n)
{
    const md_row part = *row;
    md_row wait[MD_PAIRS];
    int n_wait = 0;
    for (int64_t from = start, groups = 1;; from += MD_GROUP * MD_CHUNK, groups++) {
        const int is_last = n - from <= MD_GROUP * MD_CHUNK;
        md_reduce_group(MD_X p, row, part, keep, from, is_last ? n : from + MD_GROUP * MD_CHUNK);
        if (is_last)
            break;
        const md_row group = *row;
        n_wait = md_merge_group(wait, n_wait, md_pairs(groups, n_wait + 1), &group);
    }
    if (n_wait > 0) {
        const md_row group = *row;
        (void)md_merge_group(wait, n_wait, n_wait, &group);
        *row = wait[0];
    }
    md_settle(row);
}
#else
#define MD_RUN_LEVEL(l) md_pass##l(MD_X p, row, keep, from, n);

MD_INLINE void md_reduce(MD_X_DECL const md_params *p, md_row *row, char *keep, int64_t from,
                         int64_t n){MD_LEVELS(MD_RUN_LEVEL)}
#endif

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
    md_reduce(MD_X p, &row, keep, from, n);
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
