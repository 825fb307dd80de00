/* Products of a few rows, eight by eight, of 16-bit activations with packed weights of 4 or 8 bits, as gemm_widened.cu,
 * with products by warps: weights go from memory to registers, and no warp waits for another one before the end. Where
 * the instruction of a warpgroup would wait at the end of each run of K, a warp goes on with its next tile.
 *
 * A warp has MD_TILES times 16 columns of the result, all rows of its block, and every MD_DEPTHS-th unit of K. It has
 * the words of a unit under way while it multiplies those of the unit before; with MD_AHEAD of 2 and more, those of so
 * many units and their activations, by way of shared memory that is the warp's own. A block makes tile after tile.
 *
 * md_config.h: as gemm_widened.cu, without MD_GROUPS, MD_STAGES and md_wgmma; MD_WIDTH: columns of a tile; MD_TILES: 1,
 * 2 or 4. md_expr.h: as gemm_widened.cu; md_params has `packed` and no tensor map. */
#include "md_config.h"
#include "prelude.h"
#include "tma.h"
#include "md_expr.h"
#include "gemm_epilogue.h"
#include "wgmma.h"
#include "quantised.h"
#include "widened.h"
#define MD_MMA_TYPE MD_MULTIPLY
#include "mma.h"

enum {
    BM = MD_WIDTH,
    WARPS = BM / 16 / MD_TILES, /* that share units */
    THREADS = 32 * WARPS * MD_DEPTHS,
    STEPS = 4 * MD_CHUNKS, /* of 16, of a unit */
    RUN_STEPS = MD_RUN ? MD_RUN / 16 : STEPS,
    RUNS = STEPS / RUN_STEPS, /* of a unit */
    EIGHTS = MD_BN / 8, /* of rows */
    SUMS = MD_BN / 2, /* of a thread in a tile */
    PITCH = BM + 4,
    PLANE = MD_BN * PITCH, /* sums of the warps that share units */
    RING = MD_AHEAD > 1 ? MD_AHEAD : 0, /* units in shared memory */
    WORDS_BYTES = MD_CHUNKS * MD_TILES * WIDE * 512, /* of a unit */
    UNIT_BYTES = WORDS_BYTES + MD_CHUNKS * MD_BN * 128
};

#include "gemm_widened_parts.h"

/* ---- Reading */
/* What a thread has of 64 of K: words of weights, and pairs of activations of its rows. */
typedef struct md_piece {
    uint32_t word[MD_TILES][4 * WIDE], pair[EIGHTS][8];
} md_piece;

typedef struct md_reader {
    const uint4 *weights; /* of the warp's first 16 columns */
    const char *row[EIGHTS]; /* null: there is none */
    int64_t depth;
} md_reader;

MD_INLINE uint4 md_load_once(const uint4 *from)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
}

MD_INLINE void md_read_weights(md_piece &to, const md_reader &from, int chunk)
{
    const uint4 *weights = from.weights + (int64_t)chunk * (CHUNK / 16);
    MD_FOR (t, MD_TILES)
        MD_FOR (i, WIDE) {
            const uint4 v = md_load_once(weights + (t * WIDE + i) * 32);
            to.word[t][4 * i] = v.x, to.word[t][4 * i + 1] = v.y, to.word[t][4 * i + 2] = v.z,
                           to.word[t][4 * i + 3] = v.w;
        }
}

MD_INLINE void md_read_rows(md_piece &to, const md_reader &from, int chunk)
{
    MD_FOR (n, EIGHTS) {
        const char *row = from.row[n] + (int64_t)chunk * 128;
        const int64_t left = from.row[n] ? from.depth - (int64_t)chunk * 64 - threadIdx.x % 4 * 2 : 0;
        if (left >= 64) {
            MD_FOR (j, 8)
                to.pair[n][j] = *(const uint32_t *)(row + j * 16);
        } else {
            MD_FOR (j, 8)
                to.pair[n][j] = j * 8 < left ? *(const uint32_t *)(row + j * 16) : 0;
        }
    }
}

MD_INLINE void md_read(md_piece &to, const md_reader &from, int chunk)
{
    md_read_weights(to, from, chunk);
    md_read_rows(to, from, chunk);
}

/* Words of 16 columns of the result from `column` on, or of the last ones. */
MD_INLINE const uint4 *md_weights_of(const md_params &p, int64_t column)
{
    const int64_t tile = md_least(column / 64, (md_points_columns(&p) - 1) / 64);
    return (const uint4 *)p.packed + tile * md_chunks_of(md_points_depth(&p)) * (CHUNK / 16) +
           column % 64 / 16 * (WIDE * 32);
}

MD_INLINE md_reader md_reader_of(const md_params &p, const md_part &w, int64_t column)
{
    const int lane = threadIdx.x & 31;
    md_view view;
    md_reader r;
    view.base = view.row = view.step = 0;
    (void)md_operand_view(&p, 0, 0, &view);
    r.depth = md_points_depth(&p);
    r.weights = md_weights_of(p, column) + lane;
    MD_FOR (n, EIGHTS) {
        const int64_t row = w.row + n * 8 + lane / 4;
        r.row[n] = row < md_points_rows(&p)
                       ? (const char *)md_operand_address(&p, 0, view.base + row * view.row) + lane % 4 * 4
                       : nullptr;
    }
    return r;
}

/* Asks for the words of a unit in the L2. */
MD_INLINE void md_ask_for_unit(const uint4 *weights, int unit)
{
    enum { LINES = MD_TILES * WIDE * 4 }; /* of 64 of K */
    const char *at = (const char *)weights + (int64_t)unit * (MD_CHUNKS * CHUNK);
    MD_FOR (i, (MD_CHUNKS * LINES + 31) / 32) {
        const int line = (threadIdx.x & 31) + i * 32;
        if (line < MD_CHUNKS * LINES)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(at + line / LINES * CHUNK + line % LINES * 128));
    }
}

/* Asks for scales and zero points of a unit in the L2. */
MD_INLINE void md_ask_for_qparams(const md_qparams_from &f, int unit)
{
    MD_FOR (h, 2) {
#if MD_SCALE_LIES_1
        asm volatile("prefetch.global.L2 [%0];" ::"l"(f.scale[h] + unit * RUNS * f.scale_step));
#endif
#if MD_ZERO_LIES
        asm volatile("prefetch.global.L2 [%0];" ::"l"(f.zero[h] + unit * RUNS * f.zero_step));
#endif
    }
}

/* ---- Multiplying */
typedef struct md_tiles {
    md_sums_of acc[MD_TILES], part[MD_TILES], ones;
} md_tiles;

MD_INLINE void md_end_run(md_tiles &s, const md_qparams_of &q, int run)
{
    float own_scale[2], own_zero[2];
    md_qparams_of_run(own_scale, own_zero, q, run);
    MD_FOR (t, MD_TILES) {
        float scale[2] = {1, 1}, zero[2] = {0, 0};
        MD_FOR (h, 2) { /* neighbours have those of other tiles */
            const int lane = (threadIdx.x & 31 & ~3) | t;
            if (MD_HAS_SCALE)
                scale[h] = __shfl_sync(~0u, own_scale[h], lane);
            if (MD_HAS_ZERO)
                zero[h] = __shfl_sync(~0u, own_zero[h], lane);
        }
        md_add_run(s.acc[t], s.part[t], s.ones, scale, zero);
        md_clear(s.part[t]);
    }
    md_clear(s.ones);
}

MD_INLINE void md_multiply(md_tiles &s, const md_piece &from, int chunk, const md_qparams_of &q)
{
    enum : uint32_t { ONE = MD_IS_BF16_OF(MD_MULTIPLY) ? 0x3f803f80u : 0x3c003c00u };
    const uint32_t one[4] = {ONE, ONE, ONE, ONE};
    MD_FOR (k, 4) {
        const int step = chunk * 4 + k;
        MD_FOR (t, MD_TILES) {
            uint32_t a[4];
            md_widen(a, from.word[t], k);
            MD_FOR (n, EIGHTS)
                md_mma((MD_RUN ? s.part[t] : s.acc[t]) + n * 4, a, from.pair[n][2 * k], from.pair[n][2 * k + 1]);
        }
        MD_FOR (n, EIGHTS)
            if (MD_HAS_ZERO)
                md_mma(s.ones + n * 4, one, from.pair[n][2 * k], from.pair[n][2 * k + 1]);
        if (MD_RUN && (step + 1) % RUN_STEPS == 0)
            md_end_run(s, q, step / RUN_STEPS);
    }
}

/* Where a warp is: in its block and in the tile; what it reads next. */
typedef struct md_warp {
    int turn, column; /* column: its first of the tile */
    int from, count; /* its units of each tile: the first, and how many */
    int runs;
    md_reader reader;
    md_qparams_from params;
} md_warp;

MD_INLINE void md_go_to(md_warp &me, const md_params &p, const md_part &w)
{
    const int lane = threadIdx.x & 31;
    me.reader = md_reader_of(p, w, w.column + me.column);
    me.params = md_qparams_begin(p, w.column + me.column + lane % 4 % MD_TILES * 16 + lane / 4);
}

MD_INLINE md_warp md_warp_of(const md_params &p, const md_part &w)
{
    const int warp = threadIdx.x / 32;
    md_warp me;
    me.turn = warp / WARPS;
    me.column = warp % WARPS * MD_TILES * 16;
    me.from = w.from + me.turn;
    me.count = max((w.to - me.from + MD_DEPTHS - 1) / MD_DEPTHS, 0);
    me.runs = MD_RUN ? (int)((md_points_depth(&p) + RUN_STEPS * 16 - 1) / (RUN_STEPS * 16)) : 1;
    md_go_to(me, p, w);
    return me;
}

/* What was read ahead. */
typedef struct md_ahead {
    md_piece piece[MD_CHUNKS];
    md_qparams_of q;
} md_ahead;

MD_INLINE void md_get_qparams(md_ahead &ahead, const md_warp &me, const md_params &p, int unit)
{
    md_qparams_get(ahead.q, me.params, p, MD_RUN ? unit : 0, me.runs);
}

#include "gemm_widened_stream.h"

/* Sums of a warp's units of a tile. While the last ones are multiplied, the first of the next tile are read, so that
 * memory is busy where tiles end. */
MD_INLINE void md_consume(md_tiles &s, md_ahead &ahead, md_warp &me, const md_params &p, const md_part &next,
                          bool has_next, md_stream &stream)
{
    MD_FOR (t, MD_TILES) {
        md_clear(s.acc[t]);
        md_clear(s.part[t]);
    }
    md_clear(s.ones);
    md_qparams_of q = ahead.q;
    MD_ROLLED for (int i = 1; i <= me.count; i++)
    {
        const bool is_last = i == me.count, reads = !is_last || has_next;
        const int unit = is_last ? me.from : me.from + i * MD_DEPTHS;
        q = ahead.q;
        if (RING)
            md_await_unit();
        if (is_last && has_next)
            md_go_to(me, p, next);
        if (reads && (MD_RUN || is_last))
            md_get_qparams(ahead, me, p, unit);
        MD_FOR (c, MD_CHUNKS) {
            if (RING)
                md_take(ahead.piece[c], stream, c);
            md_multiply(s, ahead.piece[c], c, q);
            if (RING) {
                __syncwarp(); /* all have taken it */
                md_fetch(stream, me, c);
            } else if (reads)
                md_read(ahead.piece[c], me.reader, unit * MD_CHUNKS + c);
        }
        if (RING)
            md_fetched(stream, p, me, next.slice);
    }
    if (!MD_RUN && (MD_HAS_SCALE || MD_HAS_ZERO)) {
        MD_FOR (t, MD_TILES)
            MD_FOR (i, SUMS) {
                s.part[t][i] = s.acc[t][i];
                s.acc[t][i] = 0;
            }
        md_end_run(s, q, 0);
    }
}

/* ---- Results */
MD_INLINE void md_keep_sums(float *c, const md_tiles &s, int column, int turn)
{
    const int lane = threadIdx.x & 31, row = lane % 4 * 2;
    c += turn * PLANE + column + lane / 4;
    MD_FOR (t, MD_TILES)
        MD_FOR (i, SUMS)
            c[(i / 4 * 8 + row + i % 2) * PITCH + t * 16 + (i / 2 & 1) * 8] = s.acc[t][i];
}

extern "C" __global__ void __launch_bounds__(THREADS, MD_BLOCKS) md_kernel(const __grid_constant__ md_params p)
{
    extern __shared__ __align__(16) unsigned char md_memory[];
    MD_IF_EMPTY_RETURN_BEFORE_WAITING;
    asm volatile("griddepcontrol.launch_dependents;"); /* so that it asks for its weights, too, while this one works */
    const unsigned tiles =
                       (unsigned)((md_points_rows(&p) + MD_BN - 1) / MD_BN * ((md_points_columns(&p) + BM - 1) / BM)),
                   together = gridDim.x / MD_SPLIT;
    unsigned tile = blockIdx.x / MD_SPLIT;
    float *sums = (float *)md_memory;
    md_part w = md_part_of(p, MD_SPLIT > 1 ? (int)md_cluster_rank() : 0, tile);
    md_warp me = md_warp_of(p, w);
    md_ahead ahead;
    md_tiles s;
    if (MD_AHEAD == 1 && me.count > 0) {
        md_ask_for_unit(me.reader.weights - (threadIdx.x & 31), me.from);
        md_ask_for_qparams(me.params, MD_RUN ? me.from : 0);
    }
    md_stream stream = {nullptr, nullptr, 0, 0, 0, tile, tiles, together, 0, 0, 0};
    stream.slot = stream.begin =
        md_shared_address(md_memory) + 2 * MD_DEPTHS * PLANE * 4 + threadIdx.x / 32 * (RING * UNIT_BYTES);
    if (RING)
        md_stream_to(stream, p, me, w.slice);
    md_wait_for_launches();
    MD_FOR (u, RING) {
        MD_FOR (c, MD_CHUNKS)
            md_fetch(stream, me, c);
        md_fetched(stream, p, me, w.slice);
    }
    if (!RING && me.count > 0)
        MD_FOR (c, MD_CHUNKS)
            md_read(ahead.piece[c], me.reader, me.from * MD_CHUNKS + c);
    md_get_qparams(ahead, me, p, me.from);
    MD_ROLLED for (; tile < tiles; tile += together)
    {
        const md_part next = md_part_of(p, w.slice, tile + together);
        md_consume(s, ahead, me, p, next, tile + together < tiles, stream);
        md_keep_sums(sums, s, me.column, me.turn);
        md_meet_all();
        md_end_rows(p, w, md_shared_address(sums));
        sums = (float *)md_memory + (sums == (float *)md_memory ? MD_DEPTHS * PLANE : 0); /* others may still read */
        w = next;
    }
    if (MD_SPLIT > 1) /* no block ends while others read its sums */
        asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
