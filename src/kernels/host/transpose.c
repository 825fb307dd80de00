/* Elementwise stages that transpose a tensor: blocks of MD_SIDE lanes by MD_SIDE lines, in tiles of MD_VL x MD_VL. A
 * line is a position of the tensor's last index. Tiles are read along the lines' index and written along the lanes.
 *
 * md_expr.h: md_params, md_lanes(p), md_transposed_size(p), md_tile(p, point, lane, n_lanes, line, n_lines). */
#include "md_config.h"
#include "prelude.h"
#include "transpose.h"

#define md_transpose_tile_f(tile) md_transpose(tile)
#define MD_TRANSPOSE_TILE(vec, scalar, s)                                                                              \
    MD_INLINE void md_transpose_tile_##s(vec tile[MD_VL])                                                              \
    {                                                                                                                  \
        scalar t[MD_VL][MD_VL];                                                                                        \
        for (int i = 0; i < MD_VL; i++)                                                                                \
            for (int j = 0; j < MD_VL; j++)                                                                            \
                t[j][i] = tile[i][j];                                                                                  \
        for (int i = 0; i < MD_VL; i++)                                                                                \
            __builtin_memcpy(&tile[i], t[i], sizeof tile[i]);                                                          \
    }
MD_TRANSPOSE_TILE(md_d, double, d)
MD_TRANSPOSE_TILE(md_i, md_one_i, i)
MD_TRANSPOSE_TILE(md_b, int32_t, b)

#include "md_expr.h"

static void md_move_block(const md_params *p, int64_t point, int64_t lane, int64_t lane_end, int64_t line,
                          int64_t line_end)
{
    for (int64_t l = lane; l < lane_end; l += MD_VL)
        for (int64_t t = line; t < line_end; t += MD_VL) {
            const int n_lanes = (int)md_min_si(MD_VL, lane_end - l), n_lines = (int)md_min_si(MD_VL, line_end - t);
            if (n_lanes == MD_VL && n_lines == MD_VL)
                md_tile(p, point, l, MD_VL, t, MD_VL);
            else
                md_tile(p, point, l, n_lanes, t, n_lines);
        }
}

MD_EXPORT void md_kernel(const md_params *p, int64_t first, int64_t last, void *scratch)
{
    const int64_t lanes = md_lanes(p), lines = md_transposed_size(p);
    const int64_t across = (lanes + MD_SIDE - 1) / MD_SIDE, down = (lines + MD_SIDE - 1) / MD_SIDE;
    (void)scratch;
    for (int64_t b = first; b < last; b++) {
        const int64_t lane = b % across * MD_SIDE, line = b / across % down * MD_SIDE;
        md_move_block(p, b / across / down, lane, md_min_si(lane + MD_SIDE, lanes), line,
                      md_min_si(line + MD_SIDE, lines));
    }
#ifdef MD_STREAMING
    md_stream_end();
#endif
}
