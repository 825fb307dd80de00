/* A tile of a product of 16-bit operands on tensor cores. Both operands go to shared memory by asynchronous copies
 * of 16 bytes where addresses allow it; else through registers, by words shifted into place where the operand is
 * contiguous, or element by element. Rows of an operand may also lie apart: rows of a group, or of a tensor that is
 * read by a look-up.
 *
 * md_config.h: MD_BM, MD_BN (the tile; MD_BN of each product), MD_WARPS_M, MD_WARPS_N, MD_STAGES, MD_PRODUCTS,
 * MD_OPERAND_TYPE (bf16 or f16), MD_ALONG_<o> (2: operand o lies along its rows in shared memory; else along K). */
#ifndef MD_CUDA_MMA_TILE_H
#define MD_CUDA_MMA_TILE_H

#include "depth_span.h"
#include "rows_apart.h"

#define MD_JOIN_NAMES_(a, b) a##b
#define MD_JOIN_NAMES(a, b) MD_JOIN_NAMES_(a, b)
#define MD_AS_TEXT_(a) #a
#define MD_AS_TEXT(a) MD_AS_TEXT_(a)

#include "races.h"

enum {
    BK = 64,
    THREADS = 32 * MD_WARPS_M * MD_WARPS_N,
    WM = MD_BM / MD_WARPS_M, /* of a warp */
    WN = MD_BN / MD_WARPS_N,
    A_BYTES = MD_BM * BK * 2,
    B_BYTES = MD_BN * BK * 2,
    STAGE = A_BYTES + MD_PRODUCTS * B_BYTES,
    PITCH = MD_BN + 4
};

/* The source of an operand. */
enum { BY_COPY, BY_ROW, BY_WORDS, BY_ELEMENT, BY_VALUE };
typedef struct md_source {
    md_view view;
    int64_t batch, row, rows, end; /* the tile's first row; all rows; K of the slice */
    int how;
} md_source;

template <int which, int along>
MD_INLINE md_source md_source_make(const md_params *p, int64_t batch, int64_t row, int64_t rows)
{
    md_source s;
    s.batch = batch, s.row = row, s.rows = rows;
    s.view.base = s.view.row = s.view.step = 0;
    s.how = md_operand_view(p, which, batch, &s.view) ? BY_ELEMENT : BY_VALUE;
    if (MD_IS_APART(which)) {
        s.how = along != 2 && md_has_row_runs<which>(p, s.how == BY_ELEMENT, s.view) ? BY_ROW : BY_VALUE;
        return s;
    }
    if (s.how == BY_ELEMENT && (along == 2 ? s.view.row : s.view.step) == 1) {
        const bool is_aligned = !MD_CUTS_PIECES(along) && (along == 2 ? s.view.step : s.view.row) % 8 == 0 &&
                                (uint64_t)md_operand_address(p, which, s.view.base) % 16 == 0;
        s.how = is_aligned ? BY_COPY : BY_WORDS;
    }
    return s;
}

MD_INLINE const uint16_t *md_at(const md_params *p, int which, const md_source &s, int64_t row, int64_t k)
{
    return (const uint16_t *)md_operand_address(p, which, s.view.base + row * s.view.row + k * s.view.step);
}

/* n (0 to 8) consecutive elements from any even address; nothing else is read. The slow paths are functions that are
 * not inlined, because they are called at many places. */
MD_OUTLINE uint4 md_eight(const uint16_t *from, int n)
{
    uint32_t w[4];
    if (((uint64_t)from & 2) == 0) {
        MD_FOR (i, 4)
            w[i] = 2 * i + 1 < n ? *(const uint32_t *)(from + 2 * i) : 2 * i < n ? from[2 * i] : 0;
    } else {
        uint32_t last = n > 0 ? (uint32_t)from[0] << 16 : 0;
        MD_FOR (i, 4) {
            const int at = 2 * i + 1;
            const uint32_t next = at + 1 < n && i < 3 ? *(const uint32_t *)(from + at) : at < n ? from[at] : 0;
            w[i] = last >> 16 | next << 16;
            last = next;
        }
    }
    return make_uint4(w[0], w[1], w[2], w[3]);
}

MD_OUTLINE uint4 md_eight_apart(const uint16_t *from, int64_t step, int n)
{
    uint32_t w[4];
    MD_FOR (i, 4) {
        const uint32_t low = 2 * i < n ? from[2 * i * step] : 0, high = 2 * i + 1 < n ? from[(2 * i + 1) * step] : 0;
        w[i] = low | high << 16;
    }
    return make_uint4(w[0], w[1], w[2], w[3]);
}

template <int which, int along>
MD_OUTLINE uint4 md_eight_values(const md_params *p, int64_t batch, int64_t row, int64_t k, int n)
{
    uint64_t low = 0, high = 0;
    MD_ROLLED for (int i = 0; i < n; i++)
    {
        const uint64_t e = MD_JOIN_NAMES(md_down1_, MD_OPERAND_TYPE)(
            md_operand_at(p, which, batch, md_row_at<which>(p, row + (along == 2 ? i : 0)), k + (along == 2 ? 0 : i)));
        low |= i < 4 ? e << (i & 3) * 16 : 0;
        high |= i >= 4 ? e << (i & 3) * 16 : 0;
    }
    return make_uint4((uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32));
}

/* Eight elements from (row, k) on, along K or along the rows. */
template <int which, int along> MD_INLINE uint4 md_piece(const md_params *p, const md_source &s, int64_t row, int64_t k)
{
    const int64_t left = row >= s.rows || k >= s.end ? 0 : along == 2 ? s.rows - row : s.end - k;
    const int n = (int)md_least(left, 8);
    if (s.how == BY_VALUE)
        return md_eight_values<which, along>(p, s.batch, row, k, n);
    const uint16_t *from = md_at(p, which, s, row, k);
    return s.how == BY_WORDS ? md_eight(from, n) : md_eight_apart(from, along == 2 ? s.view.row : s.view.step, n);
}

/* Piece `c` of a tile: its place in the tile, and its offset in shared memory. The 16-byte pieces of neighbouring lines
 * are swapped so that eight lines at one piece are in different banks. */
template <int along, int size> struct md_layout {
    enum { LINE = along == 2 ? size / 8 : BK / 8 }; /* pieces */
    static __device__ __forceinline__ int row(int c) { return along == 2 ? c % LINE * 8 : c / LINE; }
    static __device__ __forceinline__ int k(int c) { return along == 2 ? c / LINE : c % LINE * 8; }
    static __device__ __forceinline__ int byte(int line, int piece)
    {
        return (line * LINE + (piece ^ (line & (LINE < 8 ? LINE - 1 : 7)))) * 16;
    }
};

template <int size> struct md_pieces {
    enum { N = size * BK / 8 / THREADS };
    uint4 v[N];
};

/* A thread's first piece of a tile for asynchronous copies: what is the same for all blocks of K. */
template <int which, int along, int size> struct md_feed {
    typedef md_layout<along, size> layout;
    enum { N = md_pieces<size>::N, APART = THREADS / layout::LINE }; /* lines from one piece of a thread to its next */
    const char *from; /* at the slice's first K */
    int64_t apart; /* bytes from one piece to the next */
    int line, piece, rows; /* in the tile; rows of the operand from the tile's first row on, as far as they matter */
    const uint16_t *row_from[MD_IS_APART(which) ? N : 1]; /* null: the row is read as zeros */
    __device__ __forceinline__ void begin(const md_params *p, const md_source &s, int64_t k0)
    {
        line = threadIdx.x / layout::LINE, piece = threadIdx.x % layout::LINE;
        rows = (int)md_least(s.rows - s.row, size);
        if (MD_IS_APART(which)) {
            MD_FOR (i, N) {
                const int r = line + i * APART;
                const uint16_t *at =
                    r < rows ? (const uint16_t *)md_row_begin<which>(p, s.batch, s.view, s.row + r) : nullptr;
                row_from[MD_IS_APART(which) ? i : 0] = at ? at + k0 + piece * 8 : at;
            }
            return;
        }
        const int64_t row = s.row + (along == 2 ? piece * 8 : line), k = k0 + (along == 2 ? line : piece * 8);
        from = (const char *)md_at(p, which, s, row, k);
        apart = APART * 2 * (along == 2 ? s.view.step : s.view.row);
    }
    /* The same where rows lie apart. A row that is not aligned goes through registers. */
    __device__ __forceinline__ void copy_rows(uint32_t to, const md_params *p, const md_source &s, int64_t block,
                                              int left)
    {
        const int n = max(min(left - piece * 8, 8), 0);
        MD_FOR (i, N) {
            const uint16_t *from = row_from[MD_IS_APART(which) ? i : 0];
            const int some = from ? n : 0;
            const uint16_t *x = some > 0 ? from + block * BK : (const uint16_t *)from_any(p, s);
            const uint32_t at = to + layout::byte(line + i * APART, piece);
            if ((uint64_t)x % 16 == 0 || some == 0) {
                const uint64_t aligned = (uint64_t)x / 16 * 16;
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(aligned), "r"(some * 2)
                             : "memory");
            } else {
                const uint4 v = md_eight(x, some);
                asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v.x), "r"(v.y), "r"(v.z),
                             "r"(v.w)
                             : "memory");
            }
        }
    }
    /* `left`: steps of K from this block on. */
    __device__ __forceinline__ void copy(uint32_t to, const md_params *p, const md_source &s, int64_t block, int left)
    {
        const char *at = from + block * BK * 2 * s.view.step;
        const int fixed = along == 2 ? rows - piece * 8 : left - piece * 8, lines = along == 2 ? left : rows;
        const int bytes = max(min(fixed, 8), 0) * 2;
        MD_FOR (i, N) {
            const int n = line + i * APART < lines ? bytes : 0;
            const char *x = n > 0 ? at + i * apart : from_any(p, s);
            asm volatile(
                "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to + layout::byte(line + i * APART, piece)),
                "l"(x), "r"(n)
                : "memory");
        }
    }
    /* A valid address for a copy of no bytes. */
    static __device__ __forceinline__ const char *from_any(const md_params *p, const md_source &s)
    {
        return (const char *)md_operand_address(p, which, s.view.base);
    }
};

/* Starts loading a tile of the block of K at k: by asynchronous copies, or into registers. */
template <int which, int along, int size>
MD_INLINE void md_fetch(md_pieces<size> &pieces, md_feed<which, along, size> &feed, uint32_t to, const md_params *p,
                        const md_source &s, int64_t k0, int block)
{
    if (MD_IS_APART(which) && s.how == BY_ROW) {
        feed.copy_rows(to, p, s, block, (int)md_least(s.end - k0, BK));
    } else if (s.how == BY_COPY) {
        feed.copy(to, p, s, block, (int)md_least(s.end - k0, BK));
    } else {
        MD_FOR (i, md_pieces<size>::N) {
            const int c = threadIdx.x + i * THREADS;
            pieces.v[i] =
                md_piece<which, along>(p, s, s.row + md_layout<along, size>::row(c), k0 + md_layout<along, size>::k(c));
        }
    }
}

template <int along, int size> MD_INLINE void md_keep(uint8_t *to, const md_pieces<size> &pieces, const md_source &s)
{
    if (s.how <= BY_ROW)
        return;
    MD_FOR (i, md_pieces<size>::N) {
        const int c = threadIdx.x + i * THREADS;
        *(uint4 *)(to + md_layout<along, size>::byte(c / md_layout<along, size>::LINE,
                                                     c % md_layout<along, size>::LINE)) = pieces.v[i];
    }
}

typedef struct md_sources {
    md_source a, b, b2;
} md_sources;

typedef struct md_tiles {
    md_pieces<MD_BM> a;
    md_pieces<MD_BN> b, b2;
    md_feed<0, MD_ALONG_0, MD_BM> of_a;
    md_feed<1, MD_ALONG_1, MD_BN> of_b;
    md_feed<2, MD_ALONG_2, MD_BN> of_b2;
} md_tiles;

MD_INLINE void md_tiles_fetch(md_tiles &t, uint32_t to, const md_params *p, const md_sources &s, int64_t k, int block)
{
    md_fetch(t.a, t.of_a, to, p, s.a, k, block);
    md_fetch(t.b, t.of_b, to + A_BYTES, p, s.b, k, block);
    if (MD_PRODUCTS == 2)
        md_fetch(t.b2, t.of_b2, to + A_BYTES + B_BYTES, p, s.b2, k, block);
}

MD_INLINE void md_tiles_keep(uint8_t *to, const md_tiles &t, const md_sources &s)
{
    md_keep<MD_ALONG_0>(to, t.a, s.a);
    md_keep<MD_ALONG_1>(to + A_BYTES, t.b, s.b);
    if (MD_PRODUCTS == 2)
        md_keep<MD_ALONG_2>(to + A_BYTES + B_BYTES, t.b2, s.b2);
}

/* Four 8x8 blocks for mma: 16 lines of an operand by 16 of K. `first`: the second block is the next 8 lines (A), or
 * the next 8 of K (B). */
template <int along, int size, bool lines_first>
MD_INLINE void md_blocks(uint32_t (&out)[4], uint32_t tile, int row, int k)
{
    const int lane = threadIdx.x & 31, low = lane >> 3 & 1, high = lane >> 4;
    const int r = (lines_first ? low : high) * 8, d = (lines_first ? high : low) * 8;
    if (along == 2) {
        const uint32_t at = tile + md_layout<along, size>::byte(k + d + (lane & 7), (row + r) / 8);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                     : "r"(at));
    } else {
        const uint32_t at = tile + md_layout<along, size>::byte(row + r + (lane & 7), (k + d) / 8);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                     : "r"(at));
    }
}

MD_INLINE void md_mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." MD_AS_TEXT(MD_OPERAND_TYPE) "." MD_AS_TEXT(
                     MD_OPERAND_TYPE) ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

typedef float md_part[MD_PRODUCTS][WM / 16][WN / 8][4];

template <int along>
MD_INLINE void md_multiply_one(float (&acc)[WM / 16][WN / 8][4], const uint32_t (&a)[WM / 16][4], uint32_t tile,
                               int column, int k)
{
    MD_FOR_STEP (j, WN / 8, 2) {
        uint32_t b[4];
        md_blocks<along, MD_BN, false>(b, tile, column + j * 8, k);
        MD_FOR (i, WM / 16) {
            md_mma(acc[i][j], a[i], b[0], b[1]);
            md_mma(acc[i][j + 1], a[i], b[2], b[3]);
        }
    }
}

MD_INLINE void md_multiply(md_part &acc, uint32_t stage, int row, int column)
{
    MD_FOR (k, BK / 16) {
        uint32_t a[WM / 16][4];
        MD_FOR (i, WM / 16)
            md_blocks<MD_ALONG_0, MD_BM, true>(a[i], stage, row + i * 16, k * 16);
        md_multiply_one<MD_ALONG_1>(acc[0], a, stage + A_BYTES, column, k * 16);
        if (MD_PRODUCTS == 2)
            md_multiply_one<MD_ALONG_2>(acc[MD_PRODUCTS - 1], a, stage + A_BYTES + B_BYTES, column, k * 16);
    }
}

MD_INLINE void md_part_store(float *c, const md_part &acc, int row, int column)
{
    const int lane = threadIdx.x & 31;
    MD_FOR (q, MD_PRODUCTS)
        MD_FOR (i, WM / 16)
            MD_FOR (j, WN / 8)
                MD_FOR (h, 2) {
                    const float2 pair = {acc[q][i][j][2 * h], acc[q][i][j][2 * h + 1]};
                    *(float2 *)(c + q * (MD_BM * PITCH) + (row + i * 16 + h * 8 + lane / 4) * PITCH + column + j * 8 +
                                lane % 4 * 2) = pair;
                }
}

/* All blocks of K from `from` to `to`; MD_STAGES - 1 of them are already in flight. */
MD_INLINE void md_run(const md_params *p, md_part &acc, uint8_t *memory, const md_sources &s, int64_t from, int64_t to,
                      int row, int column)
{
    const uint32_t shared = md_shared_address(memory);
    const int blocks = (int)((to - from + BK - 1) / BK);
    md_tiles tiles;
    if (s.a.how <= BY_ROW)
        tiles.of_a.begin(p, s.a, from);
    if (s.b.how <= BY_ROW)
        tiles.of_b.begin(p, s.b, from);
    if (MD_PRODUCTS == 2 && s.b2.how <= BY_ROW)
        tiles.of_b2.begin(p, s.b2, from);
    int now = 0, next = 0;
    MD_ROLLED for (int i = 1 - MD_STAGES; i < blocks; i++)
    {
        MD_TEST_PAUSE(i);
        if (i >= 0) {
            asm volatile("cp.async.wait_group %0;" ::"n"(MD_STAGES - 2) : "memory");
            __syncthreads();
        }
        const bool is_more = i + MD_STAGES - 1 < blocks;
        if (is_more) {
            MD_TEST_POISON_TOGETHER(shared + next * STAGE, STAGE);
            md_tiles_fetch(tiles, shared + next * STAGE, p, s, from + (int64_t)(i + MD_STAGES - 1) * BK,
                           i + MD_STAGES - 1);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (i >= 0) {
            MD_TEST_PAUSE(i + 1);
            md_multiply(acc, shared + now * STAGE, row, column);
            now = now + 1 == MD_STAGES ? 0 : now + 1;
        }
        MD_TEST_PAUSE(i + 2);
        if (is_more)
            md_tiles_keep(memory + next * STAGE, tiles, s);
        next = next + 1 == MD_STAGES ? 0 : next + 1;
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
}

/* The tile at `at`, over the steps [from, to) of K, through the epilogue to the results. */
MD_INLINE void md_make_tile(const md_params *p, uint8_t *memory, const md_place &at, int64_t from, int64_t to)
{
    const int warp = threadIdx.x / 32, row = warp / MD_WARPS_N * WM, column = warp % MD_WARPS_N * WN;
    md_sources s;
    s.a = md_source_make<0, MD_ALONG_0>(p, at.batch, at.row, md_rows_end(p, at));
    s.b = md_source_make<1, MD_ALONG_1>(p, at.batch, at.column, md_points_columns(p));
    s.b2 = s.b;
    if (MD_PRODUCTS == 2)
        s.b2 = md_source_make<2, MD_ALONG_2>(p, at.batch, at.column, md_points_columns(p));
    s.a.end = s.b.end = s.b2.end = to;
    md_part acc;
    MD_FOR (q, MD_PRODUCTS)
        MD_FOR (i, WM / 16)
            MD_FOR (j, WN / 8)
                MD_FOR (h, 4)
                    acc[q][i][j][h] = 0;
    md_run(p, acc, memory, s, from, to, row, column);
    md_part_store((float *)memory, acc, row, column);
    __syncthreads();
    const float *sums = (const float *)memory;
    md_store_tile(p, sums, sums + MD_BM * PITCH, PITCH, at, MD_BM, MD_BN, threadIdx.x, THREADS);
}

#endif
