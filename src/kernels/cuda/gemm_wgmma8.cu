/* Products of 8-bit operands on Hopper's tensor cores, as gemm_wgmma.cu in everything but the sums. Sums of integers
 * have 32 bits, and stay in registers of floats as they are. The units that multiply 8-bit reals keep some 14 bits of a
 * sum, so that of a stage is made alone and added to the one in f32.
 *
 * md_config.h: as gemm_wgmma.cu, with MD_OPERAND_BYTES 1, both operands along K, no slices and MD_RESULT 0 or 1; and
 *   MD_IS_INTEGER              sums are integers
 *   md_wgmma_first(d, a, b)    for reals: md_wgmma from 0 on
 *   MD_SLICE                   columns whose sums of a stage are made at once, by rows that are loaded into registers
 *                              once a stage: a tile is larger, since its threads hold its sums and those of a slice.
 *                              0: all */
#include "md_config.h"
#include "prelude.h"
#include "tma.h"
#include "md_expr.h"
#include "gemm_epilogue.h"
#include "wgmma.h"
#if MD_SLICE
#define MD_MMA_TYPE bf16
#include "mma.h"
#endif
#include "gemm_wgmma_copy.h"

#if MD_IS_INTEGER
#include "gemm_wgmma_multiply.h"
#elif MD_SLICE
enum { SLICES = MD_BN / MD_SLICE };
typedef float md_slice[MD_SLICE / 2];

/* The warpgroup's rows of a stage, a step of 32 bytes after the other. */
typedef unsigned md_stage_rows[4][4];

MD_INLINE void md_load_rows(md_stage_rows &rows, unsigned down)
{
    const int lane = threadIdx.x & 31, row = threadIdx.x / 32 % 4 * 16 + (lane & 15);
    MD_FOR (k, 4)
        md_ldmatrix(rows[k], down + row * 128 + (((k * 2 + lane / 16) ^ (row & 7)) << 4));
}

/* Makes the sums of a slice. The other warpgroup multiplies while this one waits and adds. */
MD_INLINE void md_multiply_slice(md_slice &part, const md_stage_rows &rows, unsigned across)
{
    md_wgmma_fence();
    MD_FOR (k, 4) {
        const unsigned long long right = md_wgmma_matrix(across + k * 32, 8192);
        if (k == 0)
            md_wgmma_first(part, rows[k], right);
        else
            md_wgmma(part, rows[k], right);
    }
    md_wgmma_commit();
    md_wgmma_wait<0>();
}

/* Computes the sums of one tile, slice by slice of each stage. */
MD_INLINE void md_multiply(md_tile &acc, md_ring &r, int steps, unsigned tiles, unsigned full, unsigned empty)
{
    md_slice part;
    md_stage_rows rows;
    MD_FOR (j, MD_BN / 2)
        acc[0][0][j] = 0;
    MD_ROLLED for (int i = 0; i < steps; i++)
    {
        const unsigned stage = tiles + r.stage * STAGE_BYTES;
        md_bar_wait(full + r.stage * 8, r.phase);
        md_load_rows(rows, stage + (threadIdx.x / 128 - 1) * (WG_ROWS * 128));
        MD_FOR (s, SLICES) {
            md_multiply_slice(part, rows, stage + DOWN_BYTES + s * (MD_SLICE * 128));
            if (s + 1 == SLICES)
                md_release(empty + r.stage * 8);
            MD_FOR (j, MD_SLICE / 2) {
                asm volatile("" : "+f"(part[j])::"memory");
                acc[0][0][s * (MD_SLICE / 2) + j] = __fadd_rn(acc[0][0][s * (MD_SLICE / 2) + j], part[j]);
            }
        }
        md_ring_next(r);
    }
}
#else
/* Issues the products of a stage, whose sums `part` will have. */
MD_INLINE void md_issue(md_tile &part, const md_ring &r, unsigned tiles, unsigned full)
{
    const unsigned stage = tiles + r.stage * STAGE_BYTES;
    const unsigned down = stage + (MD_PINGPONG ? 0 : (threadIdx.x / 128 - 1) * (WG_ROWS * 128)),
                   across = stage + DOWN_BYTES;
    md_bar_wait(full + r.stage * 8, r.phase);
    md_wgmma_fence();
    MD_FOR (k, 4 * MD_DEEP) /* of 32 bytes */
        MD_FOR (q, MD_PRODUCTS) {
            const unsigned in = k / 4 * SLICE_BYTES + k % 4 * 32;
            const unsigned long long right = md_wgmma_matrix(across + q * ACROSS_ONE + in, 8192);
            MD_FOR (m, BLOCKS)
                if (k == 0)
                    md_wgmma_first(part[q][m], md_wgmma_matrix(down + m * 8192 + in, 8192), right);
                else
                    md_wgmma(part[q][m], md_wgmma_matrix(down + m * 8192 + in, 8192), right);
        }
    md_wgmma_commit();
}

/* Adds the sums of a stage, of which there are some only after the wait. */
MD_INLINE void md_add_part(md_tile &acc, md_tile &part)
{
    MD_FOR (q, MD_PRODUCTS)
        MD_FOR (b, BLOCKS)
            MD_FOR (j, MD_BN / 2) {
                asm volatile("" : "+f"(part[q][b][j])::"memory");
                acc[q][b][j] = __fadd_rn(acc[q][b][j], part[q][b][j]);
            }
}

MD_INLINE void md_clear_tile(md_tile &acc)
{
    MD_FOR (q, MD_PRODUCTS)
        MD_FOR (b, BLOCKS)
            MD_FOR (j, MD_BN / 2)
                acc[q][b][j] = 0;
}

/* Computes the sums of one tile, two stages at a time: those of the first are added while the second is multiplied, and
 * those of the second while the other warpgroup multiplies. The compiler would serialise products that are under way
 * from one turn of the loop to the next. */
MD_INLINE void md_multiply(md_tile &acc, md_ring &r, int steps, unsigned tiles, unsigned full, unsigned empty)
{
    md_tile first, second;
    md_clear_tile(acc);
    MD_ROLLED for (int i = 0; i < steps / 2; i++)
    {
        const unsigned before = empty + r.stage * 8;
        md_issue(first, r, tiles, full);
        md_ring_next(r);
        md_issue(second, r, tiles, full);
        md_wgmma_wait<1>();
        md_release(before);
        md_add_part(acc, first);
        md_wgmma_wait<0>();
        md_release(empty + r.stage * 8);
        md_add_part(acc, second);
        md_ring_next(r);
    }
    if (steps & 1) {
        md_issue(first, r, tiles, full);
        md_wgmma_wait<0>();
        md_release(empty + r.stage * 8);
        md_add_part(acc, first);
        md_ring_next(r);
    }
}
#endif

/* A sum in a register or in shared memory. */
MD_INLINE md_acc md_sum_of(float v) { return MD_IS_INTEGER ? (md_acc)__float_as_int(v) : (md_acc)v; }

#if MD_PRODUCTS == 2
#define MD_MAP_OF_RESULT map3
#else
#define MD_MAP_OF_RESULT map2
#endif

#if MD_RESULT
MD_N_DECL MD_INLINE unsigned md_pair(const md_params &p, const float *acc, const float *acc1, int batch, int row,
                                     int column, md_n_t n)
{
    const md_v sums = {{md_sum_of(acc[0]), md_sum_of(acc[1])}}, others = {{md_sum_of(acc1[0]), md_sum_of(acc1[1])}};
    return md_result(&p, batch, row, column, sums, others, n);
}

#include "gemm_wgmma_registers.h"
#else
MD_INLINE md_v md_sums_of(const float *c)
{
    md_v v;
    MD_FOR (l, MD_VL)
        v.v[l] = md_sum_of(c[l]);
    return v;
}

/* Puts a panel of a warp's 16 rows into shared memory as sums, then runs the epilogue. */
MD_INLINE void md_panel(const md_params &p, const float *acc, const float *acc1, const md_tile_at &at, int row,
                        int column, float *sums)
{
    const int lane = threadIdx.x & 31, rows = (int)md_points_rows(&p), columns = (int)md_points_columns(&p);
    __syncwarp();
    MD_FOR (q, MD_PRODUCTS)
        MD_FOR (j, PANEL / 4) {
            const float *from = (q ? acc1 : acc) + j * 2;
            const float2 pair = {from[0], from[1]};
            *(float2 *)(sums + (q * 16 + lane / 4 + j % 2 * 8) * PITCH + j / 2 * 8 + lane % 4 * 2) = pair;
        }
    __syncwarp();
    MD_ROLLED for (int i = lane; i < 16 * PANEL / MD_VL; i += 32)
    {
        const int r = i / (PANEL / MD_VL), c = i % (PANEL / MD_VL) * MD_VL, n = min(columns - column - c, MD_VL);
        const float *from = sums + r * PITCH + c;
        if (row + r < rows && n > 0)
            md_finish(&p, at.batch, row + r, column + c, md_sums_of(from),
                      md_sums_of(from + (MD_PRODUCTS - 1) * 16 * PITCH), n);
    }
}
#endif

#include "gemm_wgmma_results.h"
#include "gemm_wgmma_produce.h"
#include "gemm_wgmma_run.h"
