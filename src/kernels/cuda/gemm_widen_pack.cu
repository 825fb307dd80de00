/* Packs weights of 4 and 8 bits for gemm_widened.cu: for 64 columns of the result and 64 of K, the bytes that each
 * thread of a warpgroup widens, in the order in which it does, 16 bytes of each thread side by side. A thread of this
 * kernel makes such a piece. Weights beyond the last column or the end of K are zeros.
 *
 * md_config.h: MD_KIND_1 (an MD_OF_ of quantised.h), MD_CHUNKS (K is padded to so many times 64), and what quantised.h
 * wants. md_expr.h: src/codegen/product/product.h */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "gemm_epilogue.h"
#include "quantised.h"
#include "widened.h"

/* Where the weights come from. */
typedef struct md_weights {
    md_view view;
    bool is_view;
    int64_t columns, depth;
} md_weights;

MD_INLINE uint32_t md_weight(const md_params *p, const md_weights &w, int64_t column, int64_t k)
{
    if (column >= w.columns || k >= w.depth)
        return 0;
    const md_acc v = w.is_view ? md_operand_get(p, 1, w.view.base + column * w.view.row + k * w.view.step)
                               : md_operand_at(p, 1, 0, column, k);
    return md_bits_of<MD_KIND_1>(v);
}

/* A thread's register r of a step of 16: columns g and g + 8 of its warp's 16, two steps of K of the first eight or of
 * the last. */
MD_INLINE int64_t md_column_of(int64_t first, int lane, int r) { return first + lane / 4 + (r & 1) * 8; }
MD_INLINE int64_t md_step_of(int64_t first, int lane, int r) { return first + lane % 4 * 2 + (r >> 1) * 8; }

/* Eight halves of bytes: of register r the first at bit 4 r, the second at bit 16 + 4 r. Signed ones are 8 too
 * large. */
MD_INLINE uint32_t md_word_of_halves(const md_params *p, const md_weights &w, int64_t column, int64_t k, int lane)
{
    uint32_t word = MD_KIND_1 == MD_OF_I4 ? 0x88888888u : 0;
    MD_FOR (r, 4)
        MD_FOR (i, 2)
            word ^= md_weight(p, w, md_column_of(column, lane, r), md_step_of(k, lane, r) + i) << (4 * r + 16 * i);
    return word;
}

/* Two registers' bytes. */
MD_INLINE uint32_t md_word_of_bytes(const md_params *p, const md_weights &w, int64_t column, int64_t k, int lane,
                                    int pair)
{
    uint32_t word = 0;
    MD_FOR (i, 4) {
        const int r = pair * 2 + i / 2, at = IS_SPREAD ? i / 2 + i % 2 * 2 : i;
        word |= md_weight(p, w, md_column_of(column, lane, r), md_step_of(k, lane, r) + i % 2) << 8 * at;
    }
    return word;
}

extern "C" __global__ void __launch_bounds__(256) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    md_weights w;
    w.view.base = w.view.row = w.view.step = 0;
    w.is_view = md_operand_view(&p, 1, 0, &w.view);
    w.columns = md_points_columns(&p), w.depth = md_points_depth(&p);
    const int64_t chunks = md_chunks_of(w.depth), all = (w.columns + 63) / 64 * chunks * (128 * WIDE);
    MD_ROLLED for (int64_t i = blockIdx.x * 256 + threadIdx.x; i < all; i += gridDim.x * 256)
    {
        const int lane = (int)(i % 32), half = (int)(i / 32 % WIDE), warp = (int)(i / (32 * WIDE) % 4);
        const int64_t chunk = i / (128 * WIDE) % chunks, tile = i / (128 * WIDE) / chunks;
        const int64_t column = tile * 64 + warp * 16, k = chunk * 64;
        uint32_t word[4];
        MD_FOR (s, 4)
            word[s] = WIDE == 1 ? md_word_of_halves(&p, w, column, k + s * 16, lane)
                                : md_word_of_bytes(&p, w, column, k + (half * 2 + s / 2) * 16, lane, s % 2);
        ((uint4 *)p.packed)[i] = make_uint4(word[0], word[1], word[2], word[3]);
    }
}
