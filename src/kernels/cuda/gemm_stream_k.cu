/* The launch after a product in equal runs (gemm_stream_k.h). It adds the parts of tiles that several blocks computed,
 * in the order of the blocks, so that results do not depend on timing, and runs the epilogue. Each tile has MD_PARTS
 * blocks here. If there are fewer boundaries between two runs than tiles, each boundary has that many instead, and
 * those of the first boundary in a tile do its work. md_config.h: MD_VL 4, MD_SPLIT 1, MD_PRODUCTS 1, MD_WRAPS,
 * MD_THREADS, MD_PARTS, MD_RASTER and what gemm_stream_k.h says. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "gemm_epilogue.h"
#include "gemm_stream_k.h"

enum { ROWS = MD_BM / MD_PARTS, AT_ONCE = 8 /* parts that are loaded before the first one is used */ };

MD_INLINE md_v md_add_up(const md_params *p, const md_stream &s, int64_t tile, int64_t first, int64_t last, int at)
{
    md_v sum;
    MD_FOR (l, MD_VL)
        sum.v[l] = 0;
    MD_ROLLED for (int64_t block = first; block <= last; block += AT_ONCE)
    {
        float part[AT_ONCE][4];
        MD_FOR (i, AT_ONCE)
            if (block + i <= last)
                md_take(part[i], md_stream_part(p, s, block + i, tile) + at);
        MD_FOR (i, AT_ONCE)
            if (block + i <= last)
                MD_FOR (l, MD_VL)
                    sum.v[l] += part[i][l];
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(MD_THREADS) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    const md_stream s = md_stream_of(&p);
    const int64_t i = blockIdx.x / MD_PARTS;
    const bool by_tiles = s.tiles < s.blocks;
    if (i >= (by_tiles ? s.tiles : s.blocks - 1))
        return;
    const int64_t tile = by_tiles ? i : md_stream_start(s, i + 1) / s.units, begin = tile * s.units;
    const int64_t first = by_tiles ? md_stream_block(s, begin) : i, last = md_stream_block(s, begin + s.units - 1);
    if (first == last || (!by_tiles && (md_stream_start(s, i + 1) == begin || md_stream_start(s, i) > begin)))
        return;
    const md_place at = md_place_of(&p, tile, MD_BM, MD_BN, MD_RASTER);
    const int64_t rows = md_points_rows(&p), columns = md_points_columns(&p);
    const int from = blockIdx.x % MD_PARTS * ROWS;
    for (int v = threadIdx.x; v < ROWS * (MD_BN / MD_VL); v += MD_THREADS) {
        const int r = from + v / (MD_BN / MD_VL), c = v % (MD_BN / MD_VL) * MD_VL;
        if (at.row + r < rows && at.column + c < columns) {
            const md_v sum = md_add_up(&p, s, tile, first, last, r * MD_BN + c);
            md_finish(&p, at.batch, at.row + r, at.column + c, sum, sum, (int)md_least(MD_VL, columns - at.column - c));
        }
    }
}
