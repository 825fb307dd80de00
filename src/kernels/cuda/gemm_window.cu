/* Products of 16-bit operands on tensor cores by mma.sync, from sm_80 on, one of which is a window of a tensor, as in a
 * convolution. Each block makes a tile of one product of the batch (mma_tile.h). The window is gathered: places and
 * terms of its guard are sums of a part of the rows, which a thread keeps, and one of K. Where runs lie along K, eight
 * elements are an asynchronous copy; where they lie along the rows, they go through registers.
 *
 * md_config.h: as mma_tile.h, and MD_SPLIT, MD_RASTER, MD_WINDOW (the operand), MD_WINDOW_TERMS. md_expr.h:
 * src/codegen/product/product.h, and of the window (src/codegen/product/window.c)
 *   md_window_rows(p, batch, row, part), md_window_depth(p, k, part)   the parts of a place and of the guard's terms,
 *                           which hold where no sum is negative
 *   md_window_is_narrow(p)  false: the window is read value by value
 *   md_window_run(p)        how many steps of K the last of its indices has
 *   md_window_has_runs(p)   these lie side by side, and are all there or not
 *   md_window_has_pieces(p) and eight of them from a multiple of eight on are a run of memory */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "gemm_epilogue.h"
#include "mma_tile.h"

enum {
    SIZE = MD_WINDOW == 0 ? MD_BM : MD_BN,
    ALONG = MD_WINDOW == 0 ? MD_ALONG_0 : MD_ALONG_1,
    AT = MD_WINDOW == 0 ? 0 : A_BYTES,
    OTHER = 1 - MD_WINDOW,
    OTHER_SIZE = MD_WINDOW == 0 ? MD_BN : MD_BM,
    OTHER_ALONG = MD_WINDOW == 0 ? MD_ALONG_1 : MD_ALONG_0,
    OTHER_AT = MD_WINDOW == 0 ? A_BYTES : 0
};
enum { KEPT = ALONG == 2 ? 8 : md_pieces<SIZE>::N }; /* rows whose parts a thread keeps */

MD_INLINE bool md_window_holds(const md_window_part &row, const md_window_part &depth)
{
    bool holds = true;
    MD_FOR (i, MD_WINDOW_TERMS)
        holds &= row.term[i] + depth.term[i] >= 0;
    return holds;
}

MD_INLINE const uint16_t *md_window_at(const md_params *p, const md_window_part &row, const md_window_part &depth)
{
    return (const uint16_t *)md_operand_address(p, MD_WINDOW, row.at + depth.at);
}

/* A thread's pieces of the window. */
struct md_window_feed {
    typedef md_layout<ALONG, SIZE> layout;
    enum { N = md_pieces<SIZE>::N, APART = THREADS / layout::LINE }; /* lines from one piece of a thread to its next */
    md_window_part part[KEPT];
    unsigned there; /* bit i: that row exists */
    int line, piece; /* in the tile */
    bool is_run; /* the rows lie side by side */

    __device__ __forceinline__ void begin(const md_params *p, const md_source &s)
    {
        line = threadIdx.x / layout::LINE, piece = threadIdx.x % layout::LINE;
        there = 0;
        is_run = true;
        MD_FOR (i, KEPT) {
            const int64_t row = s.row + (ALONG == 2 ? piece * 8 + i : line + i * APART);
            if (row < s.rows) {
                md_window_rows(p, s.batch, row, &part[i]);
                there |= 1u << i;
            } else {
                part[i] = part[0];
            }
            is_run &= part[i].at == part[0].at + i;
        }
    }

    /* Eight rows of one step of K. */
    __device__ __forceinline__ uint4 across(const md_params *p, unsigned k) const
    {
        uint32_t w[4];
        md_window_part depth;
        md_window_depth(p, k, &depth);
        unsigned holds = 0;
        MD_FOR (i, 8)
            holds |= (unsigned)md_window_holds(part[ALONG == 2 ? i : 0], depth) << i;
        holds &= there;
        if (holds == 255 && is_run)
            return md_eight(md_window_at(p, part[0], depth), 8);
        MD_FOR (i, 4) {
            const uint32_t low = holds >> 2 * i & 1 ? *md_window_at(p, part[ALONG == 2 ? 2 * i : 0], depth) : 0,
                           high =
                               holds >> (2 * i + 1) & 1 ? *md_window_at(p, part[ALONG == 2 ? 2 * i + 1 : 0], depth) : 0;
            w[i] = low | high << 16;
        }
        return make_uint4(w[0], w[1], w[2], w[3]);
    }

    /* Eight steps of K of each row, one by one. What a step adds is found where the last index of K begins anew. */
    __device__ __forceinline__ void along(md_pieces<SIZE> &pieces, const md_params *p, int64_t k, int64_t end) const
    {
        const int n = (int)md_least(end - k, 8), run = md_window_has_runs(p) ? md_window_run(p) : 1;
        uint32_t w[N][4];
        md_window_part depth;
        int left = 0; /* of the run */
        MD_FOR (i, N)
            MD_FOR (j, 4)
                w[i][j] = 0;
        MD_FOR (j, 8) {
            if (left == 0) {
                const unsigned at = (unsigned)(j < n ? k + j : 0);
                md_window_depth(p, at, &depth);
                left = run - (int)(j == 0 ? at % (unsigned)run : 0);
            } else {
                depth.at++;
            }
            left--;
            MD_FOR (i, N) {
                const md_window_part &row = part[ALONG == 2 ? 0 : i];
                const bool is_there = j < n && (there >> i & 1) && md_window_holds(row, depth);
                w[i][j / 2] |= (is_there ? (uint32_t)*md_window_at(p, row, depth) : 0) << j % 2 * 16;
            }
        }
        MD_FOR (i, N)
            pieces.v[i] = make_uint4(w[i][0], w[i][1], w[i][2], w[i][3]);
    }

    /* Eight steps of K of each row, to shared memory. */
    __device__ __forceinline__ void copy(uint32_t to, const md_params *p, int64_t k, int64_t end) const
    {
        md_window_part depth;
        md_window_depth(p, (unsigned)(k < end ? k : 0), &depth);
        MD_FOR (i, N) {
            const md_window_part &row = part[ALONG == 2 ? 0 : i];
            const bool is_there = k < end && (there >> i & 1) && md_window_holds(row, depth);
            const uint16_t *from =
                is_there ? md_window_at(p, row, depth) : (const uint16_t *)md_operand_address(p, MD_WINDOW, 0);
            const uint32_t at = to + layout::byte(line + i * APART, piece);
            if ((uint64_t)from % 16 == 0 || !is_there) {
                const uint64_t aligned = (uint64_t)from / 16 * 16;
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(aligned),
                             "r"(is_there ? 16 : 0)
                             : "memory");
            } else {
                const uint4 v = md_eight(from, 8);
                asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v.x), "r"(v.y), "r"(v.z),
                             "r"(v.w)
                             : "memory");
            }
        }
    }

    /* Starts loading the tile of the block of K at k0: by asynchronous copies, or into registers. */
    __device__ __forceinline__ void fetch(md_pieces<SIZE> &pieces, uint32_t to, const md_params *p, const md_source &s,
                                          int64_t k0) const
    {
        if (ALONG != 2 && s.how <= BY_ROW) {
            copy(to, p, k0 + piece * 8, s.end);
            return;
        }
        if (ALONG != 2 && s.how == BY_ELEMENT) {
            along(pieces, p, k0 + piece * 8, s.end);
            return;
        }
        MD_FOR (i, N) {
            const int64_t row = s.row + (ALONG == 2 ? piece * 8 : line + i * APART),
                          k = k0 + (ALONG == 2 ? line + i * APART : piece * 8);
            const int64_t left = row >= s.rows || k >= s.end ? 0 : ALONG == 2 ? s.rows - row : s.end - k;
            if (ALONG != 2 || s.how == BY_VALUE)
                pieces.v[i] = md_eight_values<MD_WINDOW, ALONG>(p, s.batch, row, k, (int)md_least(left, 8));
            else
                pieces.v[i] = left > 0 ? across(p, (unsigned)k) : make_uint4(0, 0, 0, 0);
        }
    }
};

/* The window as a source: BY_COPY by asynchronous copies, BY_ELEMENT through registers, BY_VALUE where 32 bits do not
 * hold its places. */
MD_INLINE md_source md_window_source(const md_params *p, int64_t batch, int64_t row, int64_t rows)
{
    md_source s;
    s.batch = batch, s.row = row, s.rows = rows;
    s.view.base = s.view.row = s.view.step = 0;
    s.how = !md_window_is_narrow(p) ? BY_VALUE : ALONG != 2 && md_window_has_pieces(p) ? BY_COPY : BY_ELEMENT;
    return s;
}

/* All blocks of K from `from` to `to`; MD_STAGES - 1 of them are in flight. */
MD_INLINE void md_window_run(const md_params *p, md_part &acc, uint8_t *memory, const md_source &window,
                             const md_source &other, int64_t from, int64_t to, int row, int column)
{
    const uint32_t shared = md_shared_address(memory);
    const int blocks = (int)((to - from + BK - 1) / BK);
    md_pieces<SIZE> window_pieces;
    md_pieces<OTHER_SIZE> other_pieces;
    md_window_feed feed;
    md_feed<OTHER, OTHER_ALONG, OTHER_SIZE> of_other;
    feed.begin(p, window);
    if (other.how <= BY_ROW)
        of_other.begin(p, other, from);
    int now = 0, next = 0;
    MD_ROLLED for (int i = 1 - MD_STAGES; i < blocks; i++)
    {
        MD_TEST_PAUSE(i);
        if (i >= 0) {
            asm volatile("cp.async.wait_group %0;" ::"n"(MD_STAGES - 2) : "memory");
            __syncthreads();
        }
        const int ahead = i + MD_STAGES - 1;
        const int64_t k = from + (int64_t)ahead * BK;
        if (ahead < blocks) {
            MD_TEST_POISON_TOGETHER(shared + next * STAGE, STAGE);
            feed.fetch(window_pieces, shared + next * STAGE + AT, p, window, k);
            md_fetch(other_pieces, of_other, shared + next * STAGE + OTHER_AT, p, other, k, ahead);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (i >= 0) {
            md_multiply(acc, shared + now * STAGE, row, column);
            now = now + 1 == MD_STAGES ? 0 : now + 1;
        }
        MD_TEST_PAUSE(i + 1);
        if (ahead < blocks) {
            md_keep<ALONG>(memory + next * STAGE + AT, window_pieces, window);
            md_keep<OTHER_ALONG>(memory + next * STAGE + OTHER_AT, other_pieces, other);
        }
        next = next + 1 == MD_STAGES ? 0 : next + 1;
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) md_kernel(const __grid_constant__ md_params p)
{
    extern __shared__ __align__(128) unsigned char md_memory[];
    MD_IF_EMPTY_RETURN;
    const md_place at = md_place_of(&p, blockIdx.x, MD_BM, MD_BN, MD_RASTER);
    const int64_t depth = md_points_depth(&p), blocks = (depth + BK - 1) / BK;
    const int64_t from = blocks * at.slice / MD_SPLIT * BK,
                  to = md_least(blocks * (at.slice + 1) / MD_SPLIT * BK, depth);
    const int warp = threadIdx.x / 32, row = warp / MD_WARPS_N * WM, column = warp % MD_WARPS_N * WN;
    const int64_t window_row = MD_WINDOW == 0 ? at.row : at.column, other_row = MD_WINDOW == 0 ? at.column : at.row;
    const int64_t rows = md_points_rows(&p), columns = md_points_columns(&p);
    md_source window = md_window_source(&p, at.batch, window_row, MD_WINDOW == 0 ? rows : columns);
    md_source other = md_source_make<OTHER, OTHER_ALONG>(&p, at.batch, other_row, MD_WINDOW == 0 ? columns : rows);
    window.end = other.end = to;
    md_part acc;
    MD_FOR (i, WM / 16)
        MD_FOR (j, WN / 8)
            MD_FOR (h, 4)
                acc[0][i][j][h] = 0;
    md_window_run(&p, acc, md_memory, window, other, from, to, row, column);
    md_part_store((float *)md_memory, acc, row, column);
    __syncthreads();
    const float *sums = (const float *)md_memory;
    md_store_tile(&p, sums, sums, PITCH, at, MD_BM, MD_BN, threadIdx.x, THREADS);
}
