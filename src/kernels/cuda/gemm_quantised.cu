/* Products of operands of 4, 8 and 16 bits on tensor cores by mma.sync, from sm_80 on: any layout, size and alignment.
 * Operands go to shared memory as memory holds them, by asynchronous copies of 16 bytes, or one by one where they are
 * no runs of aligned memory. A warp widens what it has loaded, in registers: integers of 4 bits to 8 where all operands
 * are integers, which are summed in 32 bits; else to the 16 bits of MD_MULTIPLY, which hold all values of 8. Runs of K
 * have a scale or a zero point: the sum of a run is made alone, less the zero times the sum of the other operand, and
 * its scaled value is added.
 *
 * A thread takes eight steps of K that lie side by side, whichever steps the instruction calls so: a sum does not
 * depend on its order as long as both operands have the same one.
 *
 * md_config.h:
 *   MD_BM, MD_BN, MD_BK        the tile, MD_BN of each product; steps of K in a stage
 *   MD_WARPS_M, MD_WARPS_N, MD_WARPS_K   warps along rows and columns; warps that share the steps of a stage
 *   MD_STAGES, MD_SPLIT, MD_RASTER, MD_PRODUCTS
 *   MD_KIND_0, MD_KIND_1       what memory holds, an MD_OF_ below
 *   MD_MULTIPLY                s32, bf16 or f16: in what is multiplied; MD_IS_INTEGER: 1 for s32
 *   MD_SIGN_0, MD_SIGN_1       s8 or u8
 *   MD_RUN                     steps of K that have one scale, at most MD_BK; 32 where there is none
 *   MD_HAS_SCALE_0, MD_HAS_SCALE_1, MD_HAS_ZERO   of A, of B
 *   MD_SCALE_LIES_0, MD_SCALE_LIES_1, MD_ZERO_LIES   qparams of a line's runs may lie side by side in memory
 *   MD_SCALE_KIND_0, MD_SCALE_KIND_1, MD_ZERO_KIND   as what they are in shared memory; f32 if they do not
 * md_expr.h: src/codegen/product/product.h, and md_scale_<o>, md_zero_<o> and where they lie
 * (src/codegen/product/quantised.c). */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "gemm_epilogue.h"
#include "quantised.h"

enum {
    THREADS = 32 * MD_WARPS_M * MD_WARPS_N * MD_WARPS_K,
    WM = MD_BM / MD_WARPS_M, /* of a warp */
    WN = MD_BN / MD_WARPS_N,
    STEPS = MD_BK / 32 / MD_WARPS_K, /* of 32 of K, of a warp in a stage */
    RUN_STEPS = MD_RUN / 32 < STEPS ? MD_RUN / 32 : STEPS,
    RUNS = MD_BK / MD_RUN, /* of a stage */
    HAS_QPARAMS = MD_HAS_SCALE_0 || MD_HAS_SCALE_1 || MD_HAS_ZERO,
    A_BYTES = MD_BM * md_lines<MD_KIND_0>::BYTES,
    B_BYTES = MD_BN * md_lines<MD_KIND_1>::BYTES,
    QPARAMS_AT = A_BYTES + MD_PRODUCTS * B_BYTES, /* scales of A, scales of B, zeros of B; each by run */
    SCALES_B = RUNS * MD_BN * md_qparam<MD_SCALE_KIND_1>::BYTES, /* of a product */
    ZEROS_B = RUNS * MD_BN * md_qparam<MD_ZERO_KIND>::BYTES,
    SCALES_B_AT = QPARAMS_AT + MD_HAS_SCALE_0 * RUNS * MD_BM * md_qparam<MD_SCALE_KIND_0>::BYTES,
    ZEROS_B_AT = SCALES_B_AT + MD_HAS_SCALE_1 * MD_PRODUCTS * SCALES_B,
    STAGE = (ZEROS_B_AT + MD_HAS_ZERO * MD_PRODUCTS * ZEROS_B + 15) / 16 * 16,
    PITCH = MD_BN + 4,
    PLANE = MD_PRODUCTS * MD_BM * PITCH /* of a warp's part of the steps, at the end */
};

#include "quantised_params.h"

/* All operands of a product. */
typedef struct md_sources {
    md_source a, b, b2;
} md_sources;

typedef struct md_stage {
    md_feed<0, MD_KIND_0, MD_BM, THREADS> of_a;
    md_feed<1, MD_KIND_1, MD_BN, THREADS> of_b;
    md_feed<2, MD_KIND_1, MD_BN, THREADS> of_b2;
    md_qparams<MD_BM> a;
    md_qparams<MD_BN> scale[MD_PRODUCTS], zero[MD_PRODUCTS];
#if MD_SCALE_LIES_0
    md_qparams_feed<MD_BM, MD_SCALE_KIND_0, md_scale_at_0, md_scale_0> scale0;
#endif
#if MD_SCALE_LIES_1
    md_qparams_feed<MD_BN, MD_SCALE_KIND_1, md_scale_at_1, md_scale_1> scale1;
#endif
#if MD_SCALE_LIES_1 && MD_PRODUCTS == 2
    md_qparams_feed<MD_BN, MD_SCALE_KIND_1, md_scale_at_2, md_scale_2> scale2;
#endif
#if MD_ZERO_LIES
    md_qparams_feed<MD_BN, MD_ZERO_KIND, md_zero_at_1, md_zero_1> zero1;
#endif
#if MD_ZERO_LIES && MD_PRODUCTS == 2
    md_qparams_feed<MD_BN, MD_ZERO_KIND, md_zero_at_2, md_zero_2> zero2;
#endif
} md_stage;

/* From the steps at k on. */
MD_INLINE void md_stage_begin(md_stage &t, const md_params *p, const md_sources &s, int64_t k)
{
    t.of_a.begin(p, s.a, k);
    t.of_b.begin(p, s.b, k);
    if (MD_PRODUCTS == 2)
        t.of_b2.begin(p, s.b2, k);
#if MD_SCALE_LIES_0
    t.scale0.begin(p, s.a, k, md_scale_is_unit_0(p));
#endif
#if MD_SCALE_LIES_1
    t.scale1.begin(p, s.b, k, md_scale_is_unit_1(p));
#endif
#if MD_SCALE_LIES_1 && MD_PRODUCTS == 2
    t.scale2.begin(p, s.b2, k, md_scale_is_unit_2(p));
#endif
#if MD_ZERO_LIES
    t.zero1.begin(p, s.b, k, md_zero_is_unit_1(p));
#endif
#if MD_ZERO_LIES && MD_PRODUCTS == 2
    t.zero2.begin(p, s.b2, k, md_zero_is_unit_2(p));
#endif
}

MD_INLINE void md_tiles_fetch(md_stage &t, uint32_t to, const md_params *p, const md_sources &s, int64_t k)
{
    t.of_a.fetch(to, p, s.a, k);
    t.of_b.fetch(to + A_BYTES, p, s.b, k);
    if (MD_PRODUCTS == 2)
        t.of_b2.fetch(to + A_BYTES + B_BYTES, p, s.b2, k);
}

/* `to`: the stage. */
MD_INLINE void md_stage_fetch(md_stage &t, uint32_t to, const md_params *p, const md_sources &s, int64_t k)
{
    md_tiles_fetch(t, to, p, s, k);
#if MD_SCALE_LIES_0
    t.scale0.fetch(to + QPARAMS_AT, p, s.a, k);
#elif MD_HAS_SCALE_0
    md_qparams_fetch<MD_BM, md_scale_0>(t.a, p, s.a, k);
#endif
#if MD_SCALE_LIES_1
    t.scale1.fetch(to + SCALES_B_AT, p, s.b, k);
#elif MD_HAS_SCALE_1
    md_qparams_fetch<MD_BN, md_scale_1>(t.scale[0], p, s.b, k);
#endif
#if MD_ZERO_LIES
    t.zero1.fetch(to + ZEROS_B_AT, p, s.b, k);
#elif MD_HAS_ZERO
    md_qparams_fetch<MD_BN, md_zero_1>(t.zero[0], p, s.b, k);
#endif
#if MD_PRODUCTS == 2
#if MD_SCALE_LIES_1
    t.scale2.fetch(to + SCALES_B_AT + SCALES_B, p, s.b2, k);
#elif MD_HAS_SCALE_1
    md_qparams_fetch<MD_BN, md_scale_2>(t.scale[1], p, s.b2, k);
#endif
#if MD_ZERO_LIES
    t.zero2.fetch(to + ZEROS_B_AT + ZEROS_B, p, s.b2, k);
#elif MD_HAS_ZERO
    md_qparams_fetch<MD_BN, md_zero_2>(t.zero[1], p, s.b2, k);
#endif
#endif
}

MD_INLINE void md_stage_keep(uint8_t *to, const md_stage &t)
{
    if (MD_HAS_SCALE_0 && !MD_SCALE_LIES_0)
        md_qparams_keep(to + QPARAMS_AT, t.a);
    MD_FOR (q, MD_PRODUCTS) {
        if (MD_HAS_SCALE_1 && !MD_SCALE_LIES_1)
            md_qparams_keep(to + SCALES_B_AT + q * SCALES_B, t.scale[q]);
        if (MD_HAS_ZERO && !MD_ZERO_LIES)
            md_qparams_keep(to + ZEROS_B_AT + q * ZEROS_B, t.zero[q]);
    }
}

/* ---- Sums */
typedef md_sum md_part[WM / 16][WN / 8][4];
#if MD_HAS_SCALE_0 || MD_HAS_SCALE_1 || MD_HAS_ZERO
typedef float md_kept; /* sums of runs are scaled and added up */
#else
typedef md_sum md_kept;
#endif
typedef md_kept md_whole_part[MD_PRODUCTS][WM / 16][WN / 8][4];

template <class T> MD_INLINE void md_clear(T (&part)[WM / 16][WN / 8][4])
{
    MD_FOR (i, WM / 16)
        MD_FOR (j, WN / 8)
            MD_FOR (h, 4)
                part[i][j][h] = 0;
}

/* A step of 32 of K: rows of A as fragments, column after column of B, from the thread's first one on. */
template <bool is_first> MD_INLINE void md_step(md_part &part, const md_fragment (&a)[WM / 16][2], uint32_t from)
{
    MD_FOR (j, WN / 8) {
        md_fragment b;
        md_fragment_load<MD_KIND_1>(b, from + j * 8 * md_lines<MD_KIND_1>::BYTES);
        MD_FOR (i, WM / 16)
            md_mma_step<is_first>(part[i][j], a[i], b);
    }
}

/* The scaled sums of a run are added. `ones`: sums of A. */
MD_INLINE void md_add_run(md_kept (&acc)[WM / 16][WN / 8][4], const md_part &part, const md_sum (&ones)[WM / 16][4],
                          const uint8_t *stage, int q, int run, int row, int column)
{
    const int lane = threadIdx.x & 31;
    float scale_a[WM / 16][2];
    MD_FOR (i, WM / 16)
        MD_FOR (h, 2)
            scale_a[i][h] = MD_HAS_SCALE_0 ? md_qparam<MD_SCALE_KIND_0>::get(
                                                 stage + QPARAMS_AT, (row + i * 16 + h * 8 + lane / 4) * RUNS + run)
                                           : 1;
    MD_FOR (j, WN / 8) {
        float scale[2] = {1, 1}, zero[2] = {0, 0};
        MD_FOR (h, 2) {
            const int at = (column + j * 8 + lane % 4 * 2 + h) * RUNS + run;
            if (MD_HAS_SCALE_1)
                scale[h] = md_qparam<MD_SCALE_KIND_1>::get(stage + SCALES_B_AT + q * SCALES_B, at);
            if (MD_HAS_ZERO)
                zero[h] = md_qparam<MD_ZERO_KIND>::get(stage + ZEROS_B_AT + q * ZEROS_B, at);
        }
        MD_FOR (i, WM / 16)
            MD_FOR (h, 4) {
                float v = (float)part[i][j][h];
                if (MD_HAS_ZERO)
                    v = __fmaf_rn(-zero[h & 1], (float)ones[i][h], v);
                if (MD_HAS_SCALE_0)
                    v = __fmul_rn(v, scale_a[i][h / 2]);
                acc[i][j][h] = (md_kept)__fmaf_rn(v, scale[h & 1], (float)acc[i][j][h]);
            }
    }
}

/* The steps of a run that are this warp's, from `first` on, times operand B of product q. */
MD_INLINE void md_steps(md_part &part, md_sum (&ones)[WM / 16][4], uint32_t stage, int q, int row, int column,
                        int first)
{
    const int lane = threadIdx.x & 31;
    MD_FOR (s, RUN_STEPS) {
        md_fragment a[WM / 16][2];
        const uint32_t of_a = md_fragment_at<MD_KIND_0>(stage, row + lane / 4, first + s),
                       of_b = md_fragment_at<MD_KIND_1>(stage + A_BYTES + q * B_BYTES, column + lane / 4, first + s);
        MD_FOR (i, WM / 16)
            MD_FOR (h, 2)
                md_fragment_load<MD_KIND_0>(a[i][h], of_a + (i * 16 + h * 8) * md_lines<MD_KIND_0>::BYTES);
        if (MD_HAS_ZERO && q == 0)
            MD_FOR (i, WM / 16)
                md_mma_step<false>(ones[i], a[i], md_fragment_of_ones());
        if (HAS_QPARAMS && s == 0)
            md_step<HAS_QPARAMS>(part, a, of_b);
        else
            md_step<false>(part, a, of_b);
    }
}

/* The steps of a stage that are this warp's, from `first` on. */
MD_INLINE void md_multiply(md_whole_part &acc, const uint8_t *memory, uint32_t stage, int row, int column, int first)
{
    MD_ROLLED for (int r = 0; r < STEPS / RUN_STEPS; r++)
    {
        const int step = first + r * RUN_STEPS;
        md_sum ones[WM / 16][4];
        MD_FOR (i, WM / 16)
            MD_FOR (h, 4)
                ones[i][h] = 0;
        MD_FOR (q, MD_PRODUCTS) {
#if MD_HAS_SCALE_0 || MD_HAS_SCALE_1 || MD_HAS_ZERO
            md_part part;
            md_steps(part, ones, stage, q, row, column, step);
            md_add_run(acc[q], part, ones, memory, q, step * 32 / MD_RUN, row, column);
#else
            md_steps(acc[q], ones, stage, q, row, column, step);
#endif
        }
    }
}

/* All stages of K from `from` to `to`. */
MD_INLINE void md_run(const md_params *p, md_whole_part &acc, uint8_t *memory, const md_sources &s, int64_t from,
                      int64_t to, int row, int column, int first)
{
    const uint32_t shared = md_shared_address(memory);
    const int blocks = (int)((to - from + MD_BK - 1) / MD_BK);
    md_stage feed;
    md_stage_begin(feed, p, s, from);
    int now = 0, next = 0;
    MD_ROLLED for (int i = 1 - MD_STAGES; i < blocks; i++)
    {
        MD_TEST_PAUSE(i);
        if (i >= 0) {
            asm volatile("cp.async.wait_group %0;" ::"n"(MD_STAGES - 2) : "memory");
            __syncthreads();
        }
        const int ahead = i + MD_STAGES - 1;
        if (ahead < blocks) {
            const int64_t k = from + (int64_t)ahead * MD_BK;
            MD_TEST_POISON_TOGETHER(shared + next * STAGE, STAGE);
            md_stage_fetch(feed, shared + next * STAGE, p, s, k);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (i >= 0) {
            md_multiply(acc, memory + now * STAGE, shared + now * STAGE, row, column, first);
            now = now + 1 == MD_STAGES ? 0 : now + 1;
        }
        MD_TEST_PAUSE(i + 1);
        if (ahead < blocks)
            md_stage_keep(memory + next * STAGE, feed);
        next = next + 1 == MD_STAGES ? 0 : next + 1;
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
}

/* ---- Results */
MD_INLINE void md_part_store(md_kept *c, const md_whole_part &acc, int row, int column)
{
    const int lane = threadIdx.x & 31;
    MD_FOR (q, MD_PRODUCTS)
        MD_FOR (i, WM / 16)
            MD_FOR (j, WN / 8)
                MD_FOR (h, 4)
                    c[q * (MD_BM * PITCH) + (row + i * 16 + h / 2 * 8 + lane / 4) * PITCH + column + j * 8 +
                      lane % 4 * 2 + h % 2] = acc[q][i][j][h];
}

/* MD_VL sums, those of all warps that share the steps added in order. */
MD_INLINE md_v md_whole_sums(const md_kept *c)
{
    md_v v;
    MD_FOR (l, MD_VL) {
        md_kept sum = c[l];
        MD_FOR (w, MD_WARPS_K - 1)
            sum += c[(w + 1) * PLANE + l];
        v.v[l] = (md_acc)sum;
    }
    return v;
}

MD_INLINE void md_results(const md_params *p, const md_kept *c, const md_place &at)
{
    const int64_t rows = md_points_rows(p), columns = md_points_columns(p), plane = rows * columns;
    enum { ACROSS = MD_BN / MD_VL, SECOND = (MD_PRODUCTS - 1) * MD_BM * PITCH };
    MD_ROLLED for (int i = threadIdx.x; i < MD_BM * ACROSS; i += THREADS)
    {
        const int r = i / ACROSS, in = i % ACROSS * MD_VL;
        const int64_t row = at.row + r, column = at.column + in;
        if (row >= rows || column >= columns)
            continue;
        const int n = (int)md_least(MD_VL, columns - column);
        const md_v first = md_whole_sums(c + r * PITCH + in), second = md_whole_sums(c + SECOND + r * PITCH + in);
        if (MD_SPLIT == 1) {
            md_finish(p, at.batch, row, column, first, second, n);
            continue;
        }
        md_acc *to = (md_acc *)p->work0 + (at.slice * md_points_batch(p) + at.batch) * MD_PRODUCTS * plane +
                     row * columns + column;
        MD_FOR (l, MD_VL)
            if (l < n) {
                to[l] = first.v[l];
                if (MD_PRODUCTS == 2)
                    to[plane + l] = second.v[l];
            }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MD_BLOCKS) md_kernel(const __grid_constant__ md_params p)
{
    extern __shared__ __align__(128) unsigned char md_memory[];
    MD_IF_EMPTY_RETURN;
    const md_place at = md_place_of(&p, blockIdx.x, MD_BM, MD_BN, MD_RASTER);
    const int64_t depth = md_points_depth(&p), blocks = (depth + MD_BK - 1) / MD_BK;
    const int64_t from = blocks * at.slice / MD_SPLIT * MD_BK,
                  to = md_least(blocks * (at.slice + 1) / MD_SPLIT * MD_BK, depth);
    const int warp = threadIdx.x / 32, part = warp / (MD_WARPS_M * MD_WARPS_N), of = warp % (MD_WARPS_M * MD_WARPS_N),
              row = of / MD_WARPS_N * WM, column = of % MD_WARPS_N * WN;
    const int64_t rows = md_points_rows(&p), columns = md_points_columns(&p);
    md_sources s;
    s.a = md_source_make<0, MD_KIND_0>(&p, at.batch, at.row, rows, to);
    s.b = md_source_make<1, MD_KIND_1>(&p, at.batch, at.column, columns, to);
    s.b2 = s.b;
    if (MD_PRODUCTS == 2)
        s.b2 = md_source_make<2, MD_KIND_1>(&p, at.batch, at.column, columns, to);
    md_whole_part acc;
    MD_FOR (q, MD_PRODUCTS)
        md_clear(acc[q]);
    md_run(&p, acc, md_memory, s, from, to, row, column, part * STEPS);
    md_part_store((md_kept *)md_memory + part * PLANE, acc, row, column);
    __syncthreads();
    md_results(&p, (const md_kept *)md_memory, at);
}
