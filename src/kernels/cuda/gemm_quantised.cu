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
 *   MD_HAS_SCALE_0, MD_HAS_SCALE_1, MD_HAS_ZERO
 * md_expr.h: src/codegen/product/product.h, and md_scale_<o>, md_zero_<o> (src/codegen/product/quantised.c). */
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
    HAS_MARKS = MD_HAS_SCALE_0 || MD_HAS_SCALE_1 || MD_HAS_ZERO,
    A_BYTES = MD_BM * md_lines<MD_KIND_0>::BYTES,
    B_BYTES = MD_BN * md_lines<MD_KIND_1>::BYTES,
    MARKS_AT = A_BYTES + MD_PRODUCTS * B_BYTES, /* scales of A, scales of B, zeros of B; each by run */
    SCALES_B_AT = MARKS_AT + MD_HAS_SCALE_0 * RUNS * MD_BM * 4,
    ZEROS_B_AT = SCALES_B_AT + MD_HAS_SCALE_1 * MD_PRODUCTS * RUNS * MD_BN * 4,
    STAGE = ZEROS_B_AT + MD_HAS_ZERO * MD_PRODUCTS * RUNS * MD_BN * 4,
    PITCH = MD_BN + 4,
    PLANE = MD_PRODUCTS * MD_BM * PITCH /* of a warp's part of the steps, at the end */
};

/* ---- Scales and zeros */
template <int lines> struct md_marks {
    enum { N = (lines * RUNS + THREADS - 1) / THREADS };
    float v[N];
};

/* The run that mark i of a thread belongs to, and its line in the tile. */
template <int lines> struct md_mark_at {
    int run, line;
    bool is_there;
    __device__ __forceinline__ md_mark_at(int i)
    {
        const int c = threadIdx.x + i * THREADS;
        run = c / lines, line = c % lines;
        is_there = c < lines * RUNS;
    }
};

typedef float md_mark_of(const md_params *p, int64_t batch, int64_t row, int64_t k);

template <int lines, md_mark_of of>
MD_INLINE void md_marks_fetch(md_marks<lines> &marks, const md_params *p, const md_source &s, int64_t k)
{
    MD_FOR (i, md_marks<lines>::N) {
        const md_mark_at<lines> at(i);
        const int64_t row = s.row + at.line, from = k + at.run * MD_RUN;
        marks.v[i] = at.is_there && row < s.rows && from < s.end ? of(p, s.batch, row, from) : 0;
    }
}

template <int lines> MD_INLINE void md_marks_keep(uint8_t *to, const md_marks<lines> &marks)
{
    MD_FOR (i, md_marks<lines>::N)
        if (md_mark_at<lines>(i).is_there)
            ((float *)to)[threadIdx.x + i * THREADS] = marks.v[i];
}

/* All operands of a product. */
typedef struct md_sources {
    md_source a, b, b2;
} md_sources;

typedef struct md_stage {
    md_marks<MD_BM> a;
    md_marks<MD_BN> scale[MD_PRODUCTS], zero[MD_PRODUCTS];
} md_stage;

MD_INLINE void md_stage_fetch(md_stage &t, const md_params *p, const md_sources &s, int64_t k)
{
#if MD_HAS_SCALE_0
    md_marks_fetch<MD_BM, md_scale_0>(t.a, p, s.a, k);
#endif
#if MD_HAS_SCALE_1
    md_marks_fetch<MD_BN, md_scale_1>(t.scale[0], p, s.b, k);
#if MD_PRODUCTS == 2
    md_marks_fetch<MD_BN, md_scale_2>(t.scale[1], p, s.b2, k);
#endif
#endif
#if MD_HAS_ZERO
    md_marks_fetch<MD_BN, md_zero_1>(t.zero[0], p, s.b, k);
#if MD_PRODUCTS == 2
    md_marks_fetch<MD_BN, md_zero_2>(t.zero[1], p, s.b2, k);
#endif
#endif
}

MD_INLINE void md_stage_keep(uint8_t *to, const md_stage &t)
{
    if (MD_HAS_SCALE_0)
        md_marks_keep(to + MARKS_AT, t.a);
    MD_FOR (q, MD_PRODUCTS) {
        if (MD_HAS_SCALE_1)
            md_marks_keep(to + SCALES_B_AT + q * RUNS * MD_BN * 4, t.scale[q]);
        if (MD_HAS_ZERO)
            md_marks_keep(to + ZEROS_B_AT + q * RUNS * MD_BN * 4, t.zero[q]);
    }
}

MD_INLINE void md_tiles_fetch(uint32_t to, const md_params *p, const md_sources &s, int64_t k)
{
    md_tile_fetch<0, MD_KIND_0, MD_BM, THREADS>(to, p, s.a, k);
    md_tile_fetch<1, MD_KIND_1, MD_BN, THREADS>(to + A_BYTES, p, s.b, k);
    if (MD_PRODUCTS == 2)
        md_tile_fetch<2, MD_KIND_1, MD_BN, THREADS>(to + A_BYTES + B_BYTES, p, s.b2, k);
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

/* A step of 32 of K: rows of A as fragments, column after column of B. */
MD_INLINE void md_step(md_part &part, const md_fragment (&a)[WM / 16][2], uint32_t tile, int column, int step)
{
    const int lane = threadIdx.x & 31;
    MD_FOR (j, WN / 8) {
        md_fragment b;
        md_fragment_load<MD_KIND_1>(b, tile, column + j * 8 + lane / 4, step);
        MD_FOR (i, WM / 16)
            md_mma_step(part[i][j], a[i], b);
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
            scale_a[i][h] =
                MD_HAS_SCALE_0 ? ((const float *)(stage + MARKS_AT))[run * MD_BM + row + i * 16 + h * 8 + lane / 4] : 1;
    MD_FOR (j, WN / 8) {
        const int at = (q * RUNS + run) * MD_BN + column + j * 8 + lane % 4 * 2;
        const float2 none = {1, 1}, scale = MD_HAS_SCALE_1 ? *(const float2 *)(stage + SCALES_B_AT + at * 4) : none,
                     zero = MD_HAS_ZERO ? *(const float2 *)(stage + ZEROS_B_AT + at * 4) : none;
        MD_FOR (i, WM / 16)
            MD_FOR (h, 4) {
                float v = (float)part[i][j][h];
                if (MD_HAS_ZERO)
                    v = __fmaf_rn(-(h & 1 ? zero.y : zero.x), (float)ones[i][h], v);
                if (MD_HAS_SCALE_0)
                    v = __fmul_rn(v, scale_a[i][h / 2]);
                acc[i][j][h] = (md_kept)__fmaf_rn(v, h & 1 ? scale.y : scale.x, (float)acc[i][j][h]);
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
        MD_FOR (i, WM / 16)
            MD_FOR (h, 2)
                md_fragment_load<MD_KIND_0>(a[i][h], stage, row + i * 16 + h * 8 + lane / 4, first + s);
        if (MD_HAS_ZERO && q == 0)
            MD_FOR (i, WM / 16)
                md_mma_step(ones[i], a[i], md_fragment_of_ones());
        md_step(part, a, stage + A_BYTES + q * B_BYTES, column, first + s);
    }
}

/* The steps of a stage that are this warp's, from `first` on. */
MD_INLINE void md_multiply(md_whole_part &acc, const uint8_t *memory, uint32_t stage, int row, int column, int first)
{
    MD_FOR (r, STEPS / RUN_STEPS) {
        const int step = first + r * RUN_STEPS;
        md_sum ones[WM / 16][4];
        MD_FOR (i, WM / 16)
            MD_FOR (h, 4)
                ones[i][h] = 0;
        MD_FOR (q, MD_PRODUCTS) {
#if MD_HAS_SCALE_0 || MD_HAS_SCALE_1 || MD_HAS_ZERO
            md_part part;
            md_clear(part);
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
    md_stage marks;
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
            md_tiles_fetch(shared + next * STAGE, p, s, k);
            md_stage_fetch(marks, p, s, k);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (i >= 0) {
            md_multiply(acc, memory + now * STAGE, shared + now * STAGE, row, column, first);
            now = now + 1 == MD_STAGES ? 0 : now + 1;
        }
        MD_TEST_PAUSE(i + 1);
        if (ahead < blocks)
            md_stage_keep(memory + next * STAGE, marks);
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
