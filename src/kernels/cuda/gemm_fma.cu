/* Products of f32 with f32 fma. Tiles of both operands are in shared memory with K outermost, two of each: one is
 * filled, through registers, while the other is multiplied. A thread has as many sums as registers hold, since it reads
 * MD_TM + MD_TN values from shared memory for MD_TM * MD_TN multiplications. It reads those of the next step before it
 * multiplies those of this one.
 *
 * md_config.h: MD_VL 4, MD_BM, MD_BN (the tile), MD_BK, MD_TM, MD_TN (sums of a thread, down and across; multiples of
 * 4), MD_BLOCKS (of an SM), MD_SPLIT, MD_RASTER, MD_STREAM_K (0, or as gemm_stream_k.h says), MD_COPY_WIDTH (floats of
 * a load: 4 if lines begin at multiples of 16 bytes, else 1), MD_ALONG_0, MD_ALONG_1 (1: the operand is contiguous
 * along K, 2: along its rows). md_expr.h: src/codegen/product/product.h; one product. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "gemm_epilogue.h"
#if MD_STREAM_K
#include "gemm_stream_k.h"
#endif

enum {
    DOWN = MD_BM / MD_TM, /* threads */
    ACROSS = MD_BN / MD_TN,
    THREADS = DOWN * ACROSS,
    LANES_ACROSS = 8, /* of a warp */
    LANES_DOWN = 4,
    C_PITCH = MD_BN + 4
};

/* Layout of an operand's tile in shared memory, and the part that a thread loads and reads. Steps are 16 bytes further
 * apart than they are long, so that operands along K are spread over the banks. */
template <int along, int size> struct md_layout {
    enum {
        ALONG = along,
        PITCH = size + 4,
        FLOATS = MD_BK * PITCH,
        PIECES = size * MD_BK / MD_COPY_WIDTH / THREADS, /* of a thread */
        LINE = (along == 1 ? MD_BK : size) / MD_COPY_WIDTH /* pieces of a line */
    };
    static __device__ __forceinline__ int row(int c) { return along == 1 ? c / LINE : c % LINE * MD_COPY_WIDTH; }
    static __device__ __forceinline__ int k(int c) { return along == 1 ? c % LINE * MD_COPY_WIDTH : c / LINE; }
};
typedef md_layout<MD_ALONG_0, MD_BM> md_tile_a;
typedef md_layout<MD_ALONG_1, MD_BN> md_tile_b;
typedef float md_sums_of[MD_TM][MD_TN];
enum { STAGE = md_tile_a::FLOATS + md_tile_b::FLOATS };

/* A thread's i-th row: vectors of four. */
template <int size, int t> MD_INLINE int md_own(int thread, int i)
{
    return thread * 4 + i / 4 * (size / t * 4) + i % 4;
}

/* The addresses from which a thread loads an operand's tiles. */
typedef struct md_source {
    const char *at; /* where its first piece of the next tile lies */
    int last; /* last row at which a piece may begin, relative to that one */
} md_source;

/* Strides are read from the parameters where they are needed, since registers are for sums. */
template <int which> MD_INLINE md_view md_view_of(const md_params &p, int64_t batch)
{
    md_view view;
    view.base = view.row = view.step = 0;
    md_operand_view(&p, which, batch, &view);
    return view;
}

template <int which, class L>
MD_INLINE md_source md_source_make(const md_params &p, int64_t batch, int64_t row, int64_t rows, int64_t k)
{
    const md_view view = md_view_of<which>(p, batch);
    const int first = L::row(threadIdx.x), d = L::k(threadIdx.x);
    md_source s;
    s.at = (const char *)md_operand_address(&p, which, view.base + (row + first) * view.row + (k + d) * view.step);
    s.last = (int)md_least(rows - (L::ALONG == 1 ? 1 : MD_COPY_WIDTH) - row - first, MD_BM + MD_BN);
    return s;
}

template <class L> struct md_pieces {
    float v[L::PIECES][MD_COPY_WIDTH];
};

/* Loads the next tile, of which `left` steps of K exist; is_whole: all of them; is_inside: all of its rows exist.
 * Beyond the last row the last rows are read again: their results are not stored. */
template <int which, class L>
MD_INLINE void md_fetch(md_pieces<L> &to, const md_params &p, md_source &s, int left, bool is_whole, bool is_inside)
{
    const md_view view = md_view_of<which>(p, 0);
    const int d = L::k(threadIdx.x);
    MD_FOR (i, L::PIECES) {
        /* rows are counted from the first piece's */
        const int row = is_inside ? L::row(i * THREADS) : min(L::row(i * THREADS), s.last), k = L::k(i * THREADS);
        const float *from = (const float *)(s.at + (row * view.row + k * view.step) * 4);
        if (is_whole && MD_COPY_WIDTH == 4) {
            const float4 a = *(const float4 *)from;
            to.v[i][0] = a.x, to.v[i][1 % MD_COPY_WIDTH] = a.y, to.v[i][2 % MD_COPY_WIDTH] = a.z,
            to.v[i][3 % MD_COPY_WIDTH] = a.w;
        } else {
            MD_FOR (j, MD_COPY_WIDTH)
                to.v[i][j] = is_whole || d + k + (L::ALONG == 1 ? j : 0) < left ? from[j] : 0;
        }
    }
    s.at += MD_BK * view.step * 4;
}

/* Both operands' pieces. */
typedef struct md_next {
    md_pieces<md_tile_a> a;
    md_pieces<md_tile_b> b;
} md_next;

MD_INLINE void md_fetch_both(md_next &to, const md_params &p, md_source &a, md_source &b, int left, bool is_whole,
                             bool is_inside)
{
    md_fetch<0>(to.a, p, a, left, is_whole, is_inside);
    md_fetch<1>(to.b, p, b, left, is_whole, is_inside);
}

/* Loads the pieces of the next tile, if there is one. */
MD_INLINE void md_fetch_next(md_next &to, const md_params &p, md_source &a, md_source &b, int left, bool is_inside)
{
    if (left >= MD_BK && is_inside)
        md_fetch_both(to, p, a, b, left, true, true);
    else if (left >= MD_BK)
        md_fetch_both(to, p, a, b, left, true, false);
    else if (left > 0)
        md_fetch_both(to, p, a, b, left, false, false);
}

/* Stores the pieces into a stage; `to` is the place of the thread's first one. */
template <class L> MD_INLINE void md_keep(float *to, const md_pieces<L> &from)
{
    MD_FOR (i, L::PIECES) {
        float *at = to + L::k(i * THREADS) * L::PITCH + L::row(i * THREADS);
        if (L::ALONG == 2 && MD_COPY_WIDTH == 4)
            *(float4 *)at = make_float4(from.v[i][0], from.v[i][1 % MD_COPY_WIDTH], from.v[i][2 % MD_COPY_WIDTH],
                                        from.v[i][3 % MD_COPY_WIDTH]);
        else
            MD_FOR (j, MD_COPY_WIDTH)
                at[L::ALONG == 1 ? j * L::PITCH : j] = from.v[i][j];
    }
}

template <int size, int t> MD_INLINE void md_take_line(float (&v)[t], const float *from)
{
    MD_FOR_STEP (i, t, 4) {
        const float4 a = *(const float4 *)(from + md_own<size, t>(0, i));
        v[i] = a.x, v[i + 1] = a.y, v[i + 2] = a.z, v[i + 3] = a.w;
    }
}

/* The values that a thread multiplies at one step of K. */
typedef struct md_operands {
    float x[MD_TM], y[MD_TN];
} md_operands;

MD_INLINE void md_take_step(md_operands &o, const float *a, const float *b)
{
    md_take_line<MD_BM, MD_TM>(o.x, a);
    md_take_line<MD_BN, MD_TN>(o.y, b);
}

/* In alternating direction, so that each multiplication shares one value with the one before. */
MD_INLINE void md_multiply(md_sums_of &acc, const md_operands &o)
{
    MD_FOR (i, MD_TM)
        MD_FOR (n, MD_TN) {
            const int j = i % 2 ? MD_TN - 1 - n : n;
            acc[i][j] = __fmaf_rn(o.x[i], o.y[j], acc[i][j]);
        }
}

/* The block's number, hidden from the compiler: its place is computed twice instead of kept in registers. */
MD_INLINE unsigned md_block_again(void)
{
    unsigned block;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    return block;
}

/* Sums row by row into shared memory. */
MD_INLINE void md_lay_out(float *memory, const md_sums_of &acc, int down, int across)
{
    MD_FOR (i, MD_TM)
        MD_FOR (j, MD_TN)
            memory[md_own<MD_BM, MD_TM>(down, i) * C_PITCH + md_own<MD_BN, MD_TN>(across, j)] = acc[i][j];
}

/* Computes a tile's sums over `left` steps of K from `from` on, and stores them in shared memory row by row. */
MD_INLINE void md_sum_tile(const md_params &p, float *memory, const md_place &place, int64_t from, int left)
{
    /* Neighbouring lanes read the same of B, and lanes two apart the same of A: so one access to shared memory serves
     * 16 lanes. */
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int down = warp / (ACROSS / LANES_ACROSS) * LANES_DOWN + (lane / 16 * 2 + lane % 2);
    const int across = warp % (ACROSS / LANES_ACROSS) * LANES_ACROSS + lane / 2 % 8;
    md_source a = md_source_make<0, md_tile_a>(p, place.batch, place.row, md_points_rows(&p), from);
    md_source b = md_source_make<1, md_tile_b>(p, place.batch, place.column, md_points_columns(&p), from);
    const bool is_inside = place.row + MD_BM <= md_points_rows(&p) && place.column + MD_BN <= md_points_columns(&p);
    md_sums_of acc;
    MD_FOR (i, MD_TM)
        MD_FOR (j, MD_TN)
            acc[i][j] = 0;
    float *const keep_a = memory + md_tile_a::k(threadIdx.x) * md_tile_a::PITCH + md_tile_a::row(threadIdx.x);
    float *const keep_b =
        memory + md_tile_a::FLOATS + md_tile_b::k(threadIdx.x) * md_tile_b::PITCH + md_tile_b::row(threadIdx.x);
    const float *const take_a = memory + md_own<MD_BM, MD_TM>(down, 0);
    const float *const take_b = memory + md_tile_a::FLOATS + md_own<MD_BN, MD_TN>(across, 0);
    md_next next;
    md_operands o[2];
    md_fetch_both(next, p, a, b, left, false, false);
    md_keep(keep_a, next.a);
    md_keep(keep_b, next.b);
    __syncthreads();
    md_take_step(o[0], take_a, take_b);
    int stage = 0;
    MD_ROLLED for (; left > 0; left -= MD_BK)
    {
        const int other = STAGE - stage;
        md_fetch_next(next, p, a, b, left - MD_BK, is_inside);
        MD_FOR (k, MD_BK) {
            if (k == MD_BK - 1) {
                md_keep(keep_a + other, next.a);
                md_keep(keep_b + other, next.b);
                __syncthreads();
                md_take_step(o[(k + 1) % 2], take_a + other, take_b + other);
            } else {
                md_take_step(o[(k + 1) % 2], take_a + stage + (k + 1) * md_tile_a::PITCH,
                             take_b + stage + (k + 1) * md_tile_b::PITCH);
            }
            md_multiply(acc, o[k % 2]);
        }
        stage = other;
    }
    __syncthreads();
    md_lay_out(memory, acc, down, across);
    __syncthreads();
}

#if MD_STREAM_K
/* A part of a tile, in the layout of shared memory. */
MD_INLINE void md_store_part(float *to, const float *memory)
{
    MD_ROLLED for (int i = threadIdx.x; i < MD_BM * MD_BN / 4; i += THREADS) * (float4 *)(to + i * 4) =
        *(const float4 *)(memory + i / (MD_BN / 4) * C_PITCH + i % (MD_BN / 4) * 4);
}

extern "C" __global__ void __launch_bounds__(THREADS, MD_BLOCKS) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    extern __shared__ __align__(16) unsigned char md_memory[];
    float *memory = (float *)md_memory;
    const md_stream s = md_stream_of(&p);
    const int64_t end = md_stream_start(s, (int64_t)blockIdx.x + 1);
    MD_ROLLED for (int64_t unit = md_stream_start(s, blockIdx.x); unit < end;)
    {
        const int64_t tile = unit / s.units, first = unit - tile * s.units,
                      last = md_least(s.units, first + end - unit);
        const int64_t from = first * MD_STREAM_UNIT, to = md_least(last * MD_STREAM_UNIT, md_points_depth(&p));
        md_sum_tile(p, memory, md_place_of(&p, tile, MD_BM, MD_BN, MD_RASTER), from, (int)(to - from));
        if (first == 0 && last == s.units)
            md_store_tile(&p, memory, memory, C_PITCH, md_place_of(&p, tile, MD_BM, MD_BN, MD_RASTER), MD_BM, MD_BN,
                          threadIdx.x, THREADS);
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
        const md_place at = md_place_of(&p, blockIdx.x, MD_BM, MD_BN, MD_RASTER);
        const int64_t depth = md_points_depth(&p), blocks = (depth + MD_BK - 1) / MD_BK,
                      from = blocks * at.slice / MD_SPLIT * MD_BK;
        md_sum_tile(p, memory, at, from, (int)(md_least(blocks * (at.slice + 1) / MD_SPLIT * MD_BK, depth) - from));
    }
    md_store_tile(&p, memory, memory, C_PITCH, md_place_of(&p, md_block_again(), MD_BM, MD_BN, MD_RASTER), MD_BM, MD_BN,
                  threadIdx.x, THREADS);
}
#endif
