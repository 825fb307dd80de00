/* Products of f32 in f32, as strict as fma is, from operands of f32: 16-byte copies that run ahead of the sums bring both
 * tiles to shared memory as they lie. 8 x 8 sums a thread, and few enough registers that an SM has blocks to go on with while one of them waits.
 *
 * md_config.h: MD_VL 4, MD_BM, MD_BN (the tile), MD_BK, MD_STAGES, MD_BLOCKS (of an SM), MD_SPLIT, MD_BAND, MD_ALONG_0, MD_ALONG_1 (1: the operand lies
 * along K, 2: along its rows). md_expr.h: src/codegen/product.h; one product, lines that begin at multiples of 16 bytes. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "gemm_slab.h"

enum {
    TM = 8, /* sums of a thread, down and across */
    TN = MD_BN == 256 ? 16 : 8,
    DOWN = MD_BM / TM,
    ACROSS = MD_BN / TN,
    THREADS = DOWN * ACROSS,
    LANES_ACROSS = 8, /* of a warp */
    LANES_DOWN = 4,
    C_PITCH = MD_BN + 4
};

/* How an operand's tile lies in shared memory. Lines along K are longer by 16 bytes, so that eight of them begin in different banks. */
template <int along, int size, int t> struct md_layout {
    enum { SIZE = size, PITCH = along == 1 ? MD_BK + 4 : size, FLOATS = along == 1 ? size * PITCH : MD_BK * PITCH, PIECES = size * MD_BK / 4 / THREADS };
    static __device__ __forceinline__ int row(int c) { return along == 1 ? c / (MD_BK / 4) : c % (size / 4) * 4; }
    static __device__ __forceinline__ int k(int c) { return along == 1 ? c % (MD_BK / 4) * 4 : c / (size / 4); }
    static __device__ __forceinline__ int at(int row, int k) { return along == 1 ? row * PITCH + k : k * PITCH + row; }
    /* A thread's i-th row: neighbours have neighbouring lines, or vectors of four. */
    static __device__ __forceinline__ int own(int thread, int i) { return along == 1 ? thread + i * (size / t) : thread * 4 + i / 4 * (size / t * 4) + i % 4; }
};
typedef md_layout<MD_ALONG_0, MD_BM, TM> md_tile_a;
typedef md_layout<MD_ALONG_1, MD_BN, TN> md_tile_b;
typedef float md_sums_of[TM][TN];
enum { STAGE = md_tile_a::FLOATS + md_tile_b::FLOATS };

/* What a thread copies of an operand's tiles. */
typedef struct md_source {
    const char *at; /* its first piece of the next tile */
    int rows; /* of the operand, from the first piece's on */
} md_source;

/* Strides are asked for where they are needed: registers are for sums. */
template <int which> MD_INLINE md_view md_view_of(const md_params &p, int64_t batch)
{
    md_view view;
    view.base = view.row = view.step = 0;
    md_operand_view(&p, which, batch, &view);
    return view;
}

template <int which, class L> MD_INLINE md_source md_source_make(const md_params &p, int64_t batch, int64_t row, int64_t rows, int64_t k)
{
    const md_view view = md_view_of<which>(p, batch);
    const int first = L::row(threadIdx.x), d = L::k(threadIdx.x);
    md_source s;
    s.at = (const char *)md_operand_address(&p, which, view.base + (row + first) * view.row + (k + d) * view.step);
    s.rows = (int)md_least(rows - row - first, L::SIZE);
    return s;
}

/* 16 bytes, of which the first `bytes` are read and the others become 0. */
MD_INLINE void md_copy(unsigned to, const char *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

MD_INLINE void md_copy_all(unsigned to, const char *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/* The next tile, of which `left` steps of K are there; is_whole: all of it. */
template <int which, int along, class L> MD_INLINE void md_fetch(const md_params &p, unsigned to, md_source &s, int left, bool is_whole)
{
    enum { APART = along == 1 ? THREADS / (MD_BK / 4) : THREADS / (L::SIZE / 4) }; /* lines, from piece to piece */
    const md_view view = md_view_of<which>(p, 0);
    const int d = L::k(threadIdx.x);
    const int64_t apart = APART * (along == 1 ? view.row : view.step) * 4;
    to += L::at(L::row(threadIdx.x), d) * 4;
    MD_FOR (i, L::PIECES) {
        const unsigned at = to + L::at(L::row(i * THREADS), L::k(i * THREADS)) * 4;
        const int n = along == 1 ? (i * APART < s.rows ? left - d : 0) : (i * APART + d < left ? s.rows : 0);
        if (is_whole)
            md_copy_all(at, s.at + i * apart);
        else
            md_copy(at, s.at + i * apart, min(max(n, 0), 4) * 4);
    }
    s.at += MD_BK * view.step * 4;
}

/* Tiles of both operands into a stage. */
MD_INLINE void md_fetch_both(const md_params &p, unsigned to, md_source &a, md_source &b, int left, bool is_inside)
{
    if (left >= MD_BK && is_inside) {
        md_fetch<0, MD_ALONG_0, md_tile_a>(p, to, a, left, true);
        md_fetch<1, MD_ALONG_1, md_tile_b>(p, to + md_tile_a::FLOATS * 4, b, left, true);
    } else if (left > 0) {
        md_fetch<0, MD_ALONG_0, md_tile_a>(p, to, a, left, false);
        md_fetch<1, MD_ALONG_1, md_tile_b>(p, to + md_tile_a::FLOATS * 4, b, left, false);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Row i, K from k on, of a tile whose lines lie along K; K k, the rows from i on. */
template <class L> MD_INLINE float4 md_four(const float *tile, int thread, int i, int k)
{
    return *(const float4 *)(tile + L::at(L::own(thread, i), k));
}

/* Four steps of K at a thread's rows from `first` on. */
template <class L, int along, int first> MD_INLINE void md_take_four(float (&v)[4][4], const float *tile, int thread, int k)
{
    MD_FOR (i, 4) {
        const float4 a = along == 1 ? md_four<L>(tile, thread, first + i, k) : md_four<L>(tile, thread, first, k + i);
        if (along == 1)
            v[0][i] = a.x, v[1][i] = a.y, v[2][i] = a.z, v[3][i] = a.w;
        else
            v[i][0] = a.x, v[i][1] = a.y, v[i][2] = a.z, v[i][3] = a.w;
    }
}

/* Four by four of a thread's sums, from `down` and `across` on. */
template <int down, int across> MD_INLINE void md_multiply_four(md_sums_of &acc, const float (&x)[4][4], const float (&y)[4][4])
{
    MD_FOR (d, 4)
        MD_FOR (j, 4)
            MD_FOR (i, 4)
                acc[down + i][across + j] = __fmaf_rn(x[d][i], y[d][j], acc[down + i][across + j]);
}

/* Columns from `first` on, which are read at both halves of the rows. */
template <int first> MD_INLINE void md_multiply_columns(md_sums_of &acc, const float (&x0)[4][4], const float (&x1)[4][4], const float *b, int across, int k)
{
    if constexpr (first < TN) {
        float y[4][4];
        md_take_four<md_tile_b, MD_ALONG_1, first>(y, b, across, k);
        md_multiply_four<0, first>(acc, x0, y);
        md_multiply_four<4, first>(acc, x1, y);
        md_multiply_columns<first + 4>(acc, x0, x1, b, across, k);
    }
}

MD_INLINE void md_multiply(md_sums_of &acc, const float *a, const float *b, int down, int across)
{
    MD_ROLLED for (int k = 0; k < MD_BK; k += 4) { /* unrolled twice it spills */
        float x0[4][4], x1[4][4];
        md_take_four<md_tile_a, MD_ALONG_0, 0>(x0, a, down, k);
        md_take_four<md_tile_a, MD_ALONG_0, 4>(x1, a, down, k);
        md_multiply_columns<0>(acc, x0, x1, b, across, k);
    }
}

/* The block's number, as if nobody knew it: its place is worked out twice and not kept. */
MD_INLINE unsigned md_block_again(void)
{
    unsigned block;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    return block;
}

extern "C" __global__ void __launch_bounds__(THREADS, MD_BLOCKS) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    extern __shared__ __align__(16) unsigned char md_memory[];
    float *memory = (float *)md_memory;
    const unsigned address = (unsigned)__cvta_generic_to_shared(md_memory);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int down = warp / (ACROSS / LANES_ACROSS) * LANES_DOWN + lane / LANES_ACROSS, across = warp % (ACROSS / LANES_ACROSS) * LANES_ACROSS + lane % LANES_ACROSS;
    md_source a, b;
    int left; /* steps of K that are not multiplied */
    bool is_inside; /* no line of the tiles is outside of the tensors */
    {
        const md_place at = md_place_of(&p, blockIdx.x, MD_BM, MD_BN, MD_BAND);
        const int64_t depth = md_points_depth(&p), blocks = (depth + MD_BK - 1) / MD_BK;
        const int64_t from = blocks * at.slice / MD_SPLIT * MD_BK;
        left = (int)(md_least(blocks * (at.slice + 1) / MD_SPLIT * MD_BK, depth) - from);
        a = md_source_make<0, md_tile_a>(p, at.batch, at.row, md_points_rows(&p), from);
        b = md_source_make<1, md_tile_b>(p, at.batch, at.column, md_points_columns(&p), from);
        is_inside = at.row + MD_BM <= md_points_rows(&p) && at.column + MD_BN <= md_points_columns(&p);
    }
    md_sums_of acc;
    MD_FOR (i, TM)
        MD_FOR (j, TN)
            acc[i][j] = 0;
    MD_FOR (i, MD_STAGES - 1)
        md_fetch_both(p, address + i * STAGE * 4, a, b, left - i * MD_BK, is_inside);
    int stage = 0;
    MD_ROLLED for (; left > 0; left -= MD_BK) {
        asm volatile("cp.async.wait_group %0;" ::"n"(MD_STAGES - 2) : "memory");
        __syncthreads();
        md_fetch_both(p, address + (stage == 0 ? MD_STAGES - 1 : stage - 1) * STAGE * 4, a, b, left - (MD_STAGES - 1) * MD_BK, is_inside);
        md_multiply(acc, memory + stage * STAGE, memory + stage * STAGE + md_tile_a::FLOATS, down, across);
        stage = stage + 1 == MD_STAGES ? 0 : stage + 1;
    }
    __syncthreads();
    MD_FOR (i, TM)
        MD_FOR (j, TN)
            memory[md_tile_a::own(down, i) * C_PITCH + md_tile_b::own(across, j)] = acc[i][j];
    __syncthreads();
    md_slab(&p, memory, memory, C_PITCH, md_place_of(&p, md_block_again(), MD_BM, MD_BN, MD_BAND), MD_BM, MD_BN, threadIdx.x, THREADS);
}
