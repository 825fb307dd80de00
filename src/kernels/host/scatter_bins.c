/* Sums that are scattered, by bins of their own: first each block adds its share of the points to bins, f64 of reals
 * and i64 of integers, then these are added to the target, block after block, and rounded once. Where the target is
 * small an element has four bins, for lanes that follow each other, so that its updates do not wait for each other. The
 * target is contiguous. md_config.h: MD_PHASE (1 or 2), MD_FEW (the most elements that have four bins; 0: none has),
 * MD_TARGET (the target's pointer in md_params), MD_BIN (f, d or i: the target's compute type), MD_UP, MD_DOWN and
 * MD_ROUND (its load, its store, what that takes of a sum). md_expr.h: md_params, md_elements(p), and of phase 1
 * md_points(p), md_lanes(p), md_sweep(p, point, end, lane, lane_end), which calls md_bin_<how>. */
#include "md_config.h"
#include "prelude.h"

/* clang-format off */
#define MD_SUM_f double
#define MD_SUM_d double
#define MD_SUM_i int64_t
#define MD_LANES_f md_f
#define MD_LANES_d md_d
#define MD_LANES_i md_i
#define MD_ONE_LANE_f float
#define MD_ONE_LANE_d double
#define MD_ONE_LANE_i int64_t
#define MD_NAMED_(a, b) a##b
#define MD_NAMED(a, b) MD_NAMED_(a, b)
typedef MD_NAMED(MD_SUM_, MD_BIN) md_sum;
typedef MD_NAMED(MD_LANES_, MD_BIN) md_lanes_of_bin;
typedef MD_NAMED(MD_ONE_LANE_, MD_BIN) md_one_lane;
/* clang-format on */

/* Bytes in front of the bins. They hold the distance from one bin of an element to its next, 0 if it has one bin. */
#define MD_HEAD_BYTES 64
MD_INLINE int64_t md_bin_stride(const void *bins) { return *(const int64_t *)((const char *)bins - MD_HEAD_BYTES); }
MD_INLINE int64_t md_bin_copies(int64_t elements) { return elements <= MD_FEW ? 4 : 1; }

MD_INLINE void md_bin_s(void *bins, int64_t o, md_one_lane v) { ((md_sum *)bins)[o] += v; }

MD_INLINE void md_bin_unit(void *bins, int64_t o, md_lanes_of_bin v, int n)
{
    for (int l = 0; l < n; l++)
        ((md_sum *)bins)[o + l] += v[l];
}

MD_INLINE void md_bin_strided(void *bins, int64_t o, int64_t s, md_lanes_of_bin v, int n)
{
    for (int l = 0; l < n; l++)
        ((md_sum *)bins)[o + l * s] += v[l];
}

MD_INLINE void md_bin_scatter(void *bins, md_i o, md_lanes_of_bin v, int n, md_b m)
{
    const int64_t stride = md_bin_stride(bins);
    if (n == MD_VL && md_all_b(m)) {
        MD_FOR (l, MD_VL)
            ((md_sum *)bins)[o[l] + l % 4 * stride] += v[l];
        return;
    }
    for (int l = 0; l < n; l++)
        if (m[l])
            ((md_sum *)bins)[o[l] + l % 4 * stride] += v[l];
}

#include "md_expr.h"

/* The workspace: the number of blocks of phase 1, then of each its head and its bins. */
MD_INLINE md_sum *md_bins(const md_params *p, int64_t block)
{
    const int64_t n = md_elements(p), bytes = MD_HEAD_BYTES + md_bin_copies(n) * n * (int64_t)sizeof(md_sum);
    return (md_sum *)((char *)p->work0 + 2 * MD_HEAD_BYTES + block * bytes);
}

#if MD_PHASE == 1
MD_EXPORT void md_kernel(const md_params *params, int64_t first, int64_t last, void *scratch)
{
    const int64_t points = md_points(params), lanes = md_lanes(params), blocks = params->blocks;
    const int64_t n = md_elements(params), copies = md_bin_copies(n);
    (void)scratch;
    for (int64_t block = first; block < last; block++) {
        md_params own = *params;
        md_sum *bins = md_bins(params, block);
        *(int64_t *)((char *)bins - MD_HEAD_BYTES) = copies > 1 ? n : 0;
        __builtin_memset(bins, 0, (unsigned long)(n * copies) * sizeof *bins);
        own.MD_TARGET = bins;
        if (block == 0)
            *(int64_t *)params->work0 = blocks;
        const int64_t all = points > 1 ? points : lanes;
        const int64_t from = md_share(all, block, blocks), to = md_share(all, block + 1, blocks);
        if (from < to && points > 1)
            md_sweep(&own, from, to, 0, lanes);
        else if (from < to)
            md_sweep(&own, 0, 1, from, to);
    }
}
#else
MD_EXPORT void md_kernel(const md_params *p, int64_t first, int64_t last, void *scratch)
{
    const int64_t blocks = *(const int64_t *)p->work0, n = md_elements(p), copies = md_bin_copies(n);
    const int64_t end = md_share(n, last, p->blocks);
    (void)scratch;
    for (int64_t e = md_share(n, first, p->blocks); e < end; e++) {
        md_sum sum = 0;
        for (int64_t b = 0; b < blocks; b++) {
            const md_sum *bin = md_bins(p, b) + e;
            sum += bin[0];
            for (int64_t c = 1; c < copies; c++)
                sum += bin[c * n];
        }
        if (sum != 0)
            MD_DOWN(p->MD_TARGET, e, MD_ROUND((md_sum)MD_UP(p->MD_TARGET, e) + sum));
    }
}
#endif
