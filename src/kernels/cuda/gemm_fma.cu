/* Products of f32 in f32, as strict as fma is, from operands of f32: asynchronous copies that run ahead of the sums bring both
 * tiles to shared memory as they lie, and 16-byte loads take four steps of K, or four rows, from there. A thread has most sums that registers hold, since
 * shared memory is asked for MD_TM + MD_TN values where MD_TM * MD_TN are multiplied; it keeps A's values, replaces them in place while the last of B's are
 * multiplied, and asks for the next of B's while it multiplies.
 *
 * md_config.h: MD_VL 4, MD_BM, MD_BN (the tile), MD_BK, MD_TM, MD_TN (sums of a thread, down and across; multiples of 4), MD_STAGES, MD_BLOCKS (of an SM), MD_SPLIT,
 * MD_BAND, MD_STREAM (0, or as gemm_stream.h says), MD_PIECE (floats of a copy: 4 where lines begin at multiples of 16 bytes, 1), MD_ALONG_0, MD_ALONG_1 (1: the operand lies along K, 2: along its
 * rows). md_expr.h: src/codegen/product.h; one product. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "gemm_slab.h"
#if MD_STREAM
#include "gemm_stream.h"
#endif

enum {
    DOWN = MD_BM / MD_TM, /* threads */
    ACROSS = MD_BN / MD_TN,
    THREADS = DOWN * ACROSS,
    LANES_ACROSS = 8, /* of a warp */
    LANES_DOWN = 4,
    C_PITCH = MD_BN + 4
};

/* How an operand's tile lies in shared memory, and what of it a thread copies and reads. Lines along K are longer by 16 bytes, so that eight of them begin
 * in different banks. */
template <int along, int size, int t> struct md_layout {
    enum {
        ALONG = along,
        PITCH = along == 1 ? MD_BK + 4 : size,
        FLOATS = along == 1 ? size * PITCH : MD_BK * PITCH,
        PIECES = size * MD_BK / MD_PIECE / THREADS, /* of a thread */
        LINE = (along == 1 ? MD_BK : size) / MD_PIECE /* pieces of a line */
    };
    static __device__ __forceinline__ int row(int c) { return along == 1 ? c / LINE : c % LINE * MD_PIECE; }
    static __device__ __forceinline__ int k(int c) { return along == 1 ? c % LINE * MD_PIECE : c / LINE; }
    static __device__ __forceinline__ int at(int row, int k) { return along == 1 ? row * PITCH + k : k * PITCH + row; }
    /* A thread's i-th row: neighbours have neighbouring lines, or vectors of four. */
    static __device__ __forceinline__ int own(int thread, int i) { return along == 1 ? thread + i * (size / t) : thread * 4 + i / 4 * (size / t * 4) + i % 4; }
};
typedef md_layout<MD_ALONG_0, MD_BM, MD_TM> md_tile_a;
typedef md_layout<MD_ALONG_1, MD_BN, MD_TN> md_tile_b;
typedef float md_sums_of[MD_TM][MD_TN];
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
    s.rows = (int)md_least(rows - row - first, 1024);
    return s;
}

/* A piece, of which the first `bytes` are read and the others become 0. */
MD_INLINE void md_copy(unsigned to, const char *from, int bytes)
{
    if (MD_PIECE == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

MD_INLINE void md_copy_all(unsigned to, const char *from)
{
    if (MD_PIECE == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

/* The next tile, of which `left` steps of K are there; is_whole: all of it. */
template <int which, class L> MD_INLINE void md_fetch(const md_params &p, unsigned to, md_source &s, int left, bool is_whole)
{
    const md_view view = md_view_of<which>(p, 0);
    const int d = L::k(threadIdx.x);
    to += L::at(L::row(threadIdx.x), d) * 4;
    MD_FOR (i, L::PIECES) {
        const int row = L::row(i * THREADS), k = L::k(i * THREADS); /* from the first piece */
        const char *from = s.at + (row * view.row + k * view.step) * 4;
        if (is_whole) {
            md_copy_all(to + L::at(row, k) * 4, from);
        } else {
            const int n = L::ALONG == 1 ? (row < s.rows ? left - d - k : 0) : (d + k < left ? s.rows - row : 0);
            md_copy(to + L::at(row, k) * 4, from, min(max(n, 0), MD_PIECE) * 4);
        }
    }
    s.at += MD_BK * view.step * 4;
}

/* Tiles of both operands into a stage. */
MD_INLINE void md_fetch_both(const md_params &p, unsigned to, md_source &a, md_source &b, int left, bool is_inside)
{
    if (left >= MD_BK && is_inside) {
        md_fetch<0, md_tile_a>(p, to, a, left, true);
        md_fetch<1, md_tile_b>(p, to + md_tile_a::FLOATS * 4, b, left, true);
    } else if (left > 0) {
        md_fetch<0, md_tile_a>(p, to, a, left, false);
        md_fetch<1, md_tile_b>(p, to + md_tile_a::FLOATS * 4, b, left, false);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

MD_INLINE void md_four(float (&v)[4], const float *from)
{
    const float4 a = *(const float4 *)from;
    v[0] = a.x, v[1] = a.y, v[2] = a.z, v[3] = a.w;
}

/* What a thread has of A: four steps of K at each of its rows. */
typedef float md_held[MD_TM][4];

/* Rows i to i + 3 of them, from where the thread's first row has the first step. */
MD_INLINE void md_hold(md_held &x, const float *a, int i)
{
    float v[4][4];
    MD_FOR (j, 4)
        md_four(v[j], a + (MD_ALONG_0 == 1 ? md_tile_a::at(md_tile_a::own(0, i + j), 0) : md_tile_a::at(md_tile_a::own(0, i), j)));
    MD_FOR (j, 4)
        MD_FOR (d, 4)
            x[i + j][d] = MD_ALONG_0 == 1 ? v[j][d] : v[d][j];
}

/* A group of B's values: four steps of K at column `group`, or four columns at step group / (MD_TN / 4). There are MD_TN of them for four steps. */
MD_INLINE void md_take_group(float (&y)[4], const float *b, int group)
{
    enum { FOURS = MD_TN / 4 };
    md_four(y, b + (MD_ALONG_1 == 1 ? md_tile_b::at(md_tile_b::own(0, group), 0) : md_tile_b::at(md_tile_b::own(0, group % FOURS * 4), group / FOURS)));
}

/* Rows i to i + rows - 1. */
template <int rows> MD_INLINE void md_multiply_group(md_sums_of &acc, const md_held &x, const float (&y)[4], int group, int i)
{
    enum { FOURS = MD_TN / 4 };
    MD_FOR (j, 4)
        MD_FOR (r, rows) {
            const int column = MD_ALONG_1 == 1 ? group : group % FOURS * 4 + j, d = MD_ALONG_1 == 1 ? j : group / FOURS;
            acc[i + r][column] = __fmaf_rn(x[i + r][d], y[j], acc[i + r][column]);
        }
}

/* What a thread multiplies next. */
typedef struct md_operands {
    md_held x;
    float y[2][4];
} md_operands;

/* Four steps of K; those that follow begin at next_a, next_b. */
MD_INLINE void md_multiply(md_sums_of &acc, md_operands &o, const float *b, const float *next_a, const float *next_b)
{
    MD_FOR (g, MD_TN - 1) {
        md_take_group(o.y[(g + 1) % 2], b, g + 1);
        md_multiply_group<MD_TM>(acc, o.x, o.y[g % 2], g, 0);
    }
    md_take_group(o.y[MD_TN % 2], next_b, 0);
    MD_FOR_STEP (i, MD_TM, 4) {
        md_multiply_group<4>(acc, o.x, o.y[(MD_TN - 1) % 2], MD_TN - 1, i);
        md_hold(o.x, next_a, i);
    }
}

/* The block's number, as if nobody knew it: its place is worked out twice and not kept. */
MD_INLINE unsigned md_block_again(void)
{
    unsigned block;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    return block;
}

/* Until the next tile is there, and everybody is done with the one before. */
MD_INLINE void md_wait_for_tile(void)
{
    asm volatile("cp.async.wait_group %0;" ::"n"(MD_STAGES - 2) : "memory");
    __syncthreads();
}

/* A tile's sums over `left` steps of K from `from` on, laid out in shared memory row by row. */
MD_INLINE void md_sum_tile(const md_params &p, float *memory, const md_place &place, int64_t from, int left)
{
    const unsigned address = (unsigned)__cvta_generic_to_shared(memory);
    /* Neighbouring lanes ask for the same of B, and lanes two apart for the same of A: so shared memory serves 16 lanes at once. */
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int down = warp / (ACROSS / LANES_ACROSS) * LANES_DOWN + (lane / 16 * 2 + lane % 2), across = warp % (ACROSS / LANES_ACROSS) * LANES_ACROSS + lane / 2 % 8;
    md_source a = md_source_make<0, md_tile_a>(p, place.batch, place.row, md_points_rows(&p), from);
    md_source b = md_source_make<1, md_tile_b>(p, place.batch, place.column, md_points_columns(&p), from);
    const bool is_inside = place.row + MD_BM <= md_points_rows(&p) && place.column + MD_BN <= md_points_columns(&p); /* no line of the tiles is outside of the tensors */
    md_sums_of acc;
    MD_FOR (i, MD_TM)
        MD_FOR (j, MD_TN)
            acc[i][j] = 0;
    MD_FOR (i, MD_STAGES - 1)
        md_fetch_both(p, address + i * STAGE * 4, a, b, left - i * MD_BK, is_inside);
    md_operands o;
    md_wait_for_tile();
    const float *const first_a = memory + md_tile_a::at(md_tile_a::own(down, 0), 0), *const first_b = memory + md_tile_a::FLOATS + md_tile_b::at(md_tile_b::own(across, 0), 0);
    const float *at_a = first_a, *at_b = first_b;
    md_take_group(o.y[0], at_b, 0);
    MD_FOR_STEP (i, MD_TM, 4)
        md_hold(o.x, at_a, i);
    int stage = 0;
    MD_ROLLED for (; left > 0; left -= MD_BK) {
        md_fetch_both(p, address + (stage == 0 ? MD_STAGES - 1 : stage - 1) * STAGE * 4, a, b, left - (MD_STAGES - 1) * MD_BK, is_inside);
        stage = stage + 1 == MD_STAGES ? 0 : stage + 1;
        MD_ROLLED for (int k = MD_BK - 4; k >= 0; k -= 4) {
            const float *next_a = at_a + md_tile_a::at(0, 4), *next_b = at_b + md_tile_b::at(0, 4);
            if (k == 0) {
                md_wait_for_tile();
                next_a = first_a + stage * STAGE, next_b = first_b + stage * STAGE;
            }
            md_multiply(acc, o, at_b, next_a, next_b);
            at_a = next_a, at_b = next_b;
        }
    }
    __syncthreads();
    MD_FOR (i, MD_TM)
        MD_FOR (j, MD_TN)
            memory[md_tile_a::own(down, i) * C_PITCH + md_tile_b::own(across, j)] = acc[i][j];
    __syncthreads();
}

#if MD_STREAM
/* A part of a tile, as it lies in shared memory. */
MD_INLINE void md_store_part(float *to, const float *memory)
{
    MD_ROLLED for (int i = threadIdx.x; i < MD_BM * MD_BN / 4; i += THREADS)
        *(float4 *)(to + i * 4) = *(const float4 *)(memory + i / (MD_BN / 4) * C_PITCH + i % (MD_BN / 4) * 4);
}

extern "C" __global__ void __launch_bounds__(THREADS, MD_BLOCKS) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    extern __shared__ __align__(16) unsigned char md_memory[];
    float *memory = (float *)md_memory;
    const md_stream s = md_stream_of(&p);
    const int64_t end = md_stream_start(s, (int64_t)blockIdx.x + 1);
    MD_ROLLED for (int64_t unit = md_stream_start(s, blockIdx.x); unit < end;) {
        const int64_t tile = unit / s.units, first = unit - tile * s.units, last = md_least(s.units, first + end - unit);
        const int64_t from = first * MD_STREAM_UNIT, to = md_least(last * MD_STREAM_UNIT, md_points_depth(&p));
        md_sum_tile(p, memory, md_place_of(&p, tile, MD_BM, MD_BN, MD_BAND), from, (int)(to - from));
        if (first == 0 && last == s.units)
            md_slab(&p, memory, memory, C_PITCH, md_place_of(&p, tile, MD_BM, MD_BN, MD_BAND), MD_BM, MD_BN, threadIdx.x, THREADS);
        else
            md_store_part(md_stream_part(&p, s, blockIdx.x, tile), memory);
        unit += last - first;
        __syncthreads();
    }
}
#else
extern "C" __global__ void __launch_bounds__(THREADS, MD_BLOCKS) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    extern __shared__ __align__(16) unsigned char md_memory[];
    float *memory = (float *)md_memory;
    {
        const md_place at = md_place_of(&p, blockIdx.x, MD_BM, MD_BN, MD_BAND);
        const int64_t depth = md_points_depth(&p), blocks = (depth + MD_BK - 1) / MD_BK, from = blocks * at.slice / MD_SPLIT * MD_BK;
        md_sum_tile(p, memory, at, from, (int)(md_least(blocks * (at.slice + 1) / MD_SPLIT * MD_BK, depth) - from));
    }
    md_slab(&p, memory, memory, C_PITCH, md_place_of(&p, md_block_again(), MD_BM, MD_BN, MD_BAND), MD_BM, MD_BN, threadIdx.x, THREADS);
}
#endif
