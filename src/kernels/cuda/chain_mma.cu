/* Attention on tensor cores by mma.sync, from sm_80 on: softmax(Q K^T) V and its relatives without scores in memory. A
 * block has a tile of rows, 16 or 32 for each warp; keys and values go through a ring in shared memory by asynchronous
 * copies of 16 bytes, from wherever the formula says that a key lies. While some warps multiply, others compute powers,
 * which stay in registers.
 *
 * md_config.h:
 *   MD_DEPTH, MD_WIDTH          elements of a key; of a value
 *   MD_BN                       keys of a block
 *   MD_WARPS, MD_ROW_TILES      warps; 16 rows each of a warp
 *   MD_STAGES                   blocks of keys and of values in the ring
 *   MD_SPLIT                    parts that the keys of a tile are divided into; the last one to end combines them
 *   MD_HOLDS                    1: queries stay in registers
 *   MD_MMA_TYPE                 of queries, keys, values: bf16, f16
 *   MD_FIRST, MD_HALVES, md_chain_pack, _round_two, _short_two: chain_rows.h
 *   md_chain_counter(p), md_chain_parts(p)   counters of the stream; the workspace
 * md_expr.h: src/codegen/chain/chain.h. Grid: a block for each part of each tile. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "chain.h"
#include "chain_work.h"
#include "mma.h"
#include "mma_lines.h"
#include "races.h"
#include "chain_rows.h"

enum {
    THREADS = 32 * MD_WARPS,
    WARP_ROWS = 16 * MD_ROW_TILES,
    ROWS = MD_WARPS * WARP_ROWS,
    WARP_KEYS = MD_BN / MD_WARPS, /* that a warp copies */
    CHUNKS_K = (MD_DEPTH + 63) / 64, /* of 128 bytes a row */
    CHUNKS_V = (MD_WIDTH + 63) / 64,
    STEPS = MD_DEPTH / 16,
    Q_BYTES = CHUNKS_K * ROWS * 128,
    K_BYTES = CHUNKS_K * MD_BN * 128,
    STAGE_BYTES = K_BYTES + CHUNKS_V * MD_BN * 128,
    PART = MD_ROW_TILES * THREADS * (MD_WIDTH / 2 + 4) /* floats of a part of a split tile */
};

/* What a warp has of a tile. */
typedef struct md_mine {
    md_rows r[MD_ROW_TILES];
    md_named_rows named[MD_ROW_TILES];
    int clean_begin, clean_end; /* blocks of which all its rows have all keys */
    float scale; /* of scores, times log2(e) */
} md_mine;

typedef float md_scores_of[MD_ROW_TILES][MD_BN / 2];
typedef unsigned md_queries[MD_HOLDS ? STEPS : 1][MD_ROW_TILES][4];

MD_INLINE int md_first_row() { return threadIdx.x / 32 * WARP_ROWS; }
/* The first of the thread's two rows in a row tile; the other one is 8 further. */
MD_INLINE int md_row_of(const md_tile &t, int row_tile)
{
    return t.row + md_first_row() + row_tile * 16 + (threadIdx.x & 31) / 4;
}

/* A warp copies its own queries, 16 at a time. Rows that do not exist become zeros. */
MD_INLINE void md_copy_queries(unsigned to, const md_params &p, const md_chain_batch &b, const md_tile &t, int rows)
{
    MD_FOR (i, MD_ROW_TILES) {
        const int line = md_first_row() + i * 16, row = t.row + line + (threadIdx.x & 15);
        long long at = -1;
        if (row < rows) {
            const md_chain_row r = md_chain_row_of(&p, &b, row);
            at = md_chain_q(&p, &r);
        }
        md_copy_lines<MD_DEPTH, 16, ROWS>(to, line, md_chain_q_data(&p), at);
    }
}

/* Each warp copies its lines of a block of keys and of values. Those from t.end on become zeros. */
MD_INLINE void md_copy_block(unsigned to, const md_params &p, const md_chain_batch &b, const md_even &even,
                             const md_tile &t, int block)
{
    const int line = threadIdx.x / 32 * WARP_KEYS, key = block * MD_BN + line;
    MD_TEST_POISON_TOGETHER(to, STAGE_BYTES);
    const md_lines at = md_find_lines<WARP_KEYS>(&p, &b, key, t.end);
    md_copy_some_keys<WARP_KEYS, MD_BN>(to, line, &p, even, at, key, t.end);
    md_copy_some_values<WARP_KEYS, MD_BN>(to + K_BYTES, line, &p, even, at, key, t.end);
}

MD_INLINE void md_multiply_keys(md_scores_of &s, md_queries &held, unsigned queries, unsigned keys)
{
    MD_FOR (t, MD_ROW_TILES)
        MD_FOR (i, MD_BN / 2)
            s[t][i] = 0;
    MD_FOR (i, STEPS) {
        unsigned(&q)[MD_ROW_TILES][4] = held[MD_HOLDS ? i : 0];
        if (!MD_HOLDS)
            md_load_step<ROWS>(q, queries, md_first_row(), i);
        md_multiply_step<MD_BN>(s, q, keys, i);
    }
}

MD_INLINE void md_multiply_values(md_sums (&o)[MD_ROW_TILES], const md_block_powers (&w)[MD_ROW_TILES], unsigned values)
{
    MD_FOR (j, MD_BN / 16)
        MD_FOR (i, MD_WIDTH / 16) {
            unsigned v[4];
            md_load_values<MD_BN>(v, values, j, i);
            MD_FOR (t, MD_ROW_TILES)
                MD_FOR (half, MD_HALVES) {
                    const unsigned *a = w[t][half] + j * 4;
                    md_mma(o[t] + i * 8, a, v[0], v[1]);
                    md_mma(o[t] + i * 8 + 4, a, v[2], v[3]);
                }
        }
}

template <bool masked>
MD_INLINE void md_add_block(md_sums (&o)[MD_ROW_TILES], md_mine &m, md_queries &held, const md_params &p,
                            unsigned queries, unsigned stage, int block)
{
    md_scores_of s;
    md_block_powers w[MD_ROW_TILES];
    md_multiply_keys(s, held, queries, stage);
    MD_FOR (t, MD_ROW_TILES) {
        md_softmax<masked>(s[t], m.r[t], p, m.named[t], block, m.scale);
        md_pack_powers(w[t], s[t]);
        if (MD_CHAIN_MAXIMUM)
            md_rescale(o[t], m.r[t]);
    }
    md_multiply_values(o, w, stage + K_BYTES);
}

/* What the warp wants to know of a tile's rows. */
MD_INLINE void md_take_rows(md_mine &m, const md_params &p, const md_chain_batch &b, const md_tile &t, int rows)
{
    const int first = t.row + md_first_row();
    m.clean_begin = m.clean_end = 0;
    if (first < rows) {
        const md_chain_keys_of span = md_chain_span_by_warp(&p, &b, first, min(first + WARP_ROWS, rows));
        m.clean_begin = ((int)span.open_begin + MD_BN - 1) / MD_BN;
        m.clean_end = (int)span.open_end / MD_BN;
    }
    MD_FOR (i, MD_ROW_TILES) {
        md_start_rows(m.r[i]);
        MD_FOR (h, 2) {
            const int row = min(md_row_of(t, i) + h * 8, rows - 1);
            md_keys_of_row(m.r[i].first[h], m.r[i].last[h], p, b, row);
#if MD_NAMES_ROWS
            m.named[i][h] = md_chain_row_of(&p, &b, row);
#endif
        }
    }
}

/* The sums of a tile over blocks begin .. end - 1. */
MD_INLINE void md_attend(md_sums (&o)[MD_ROW_TILES], md_mine &m, const md_params &p, const md_chain_batch &b,
                         const md_tile &t, int begin, int end, int rows, unsigned memory)
{
    const unsigned ring = memory + Q_BYTES;
    const md_even even = md_even_of(&p, &b);
    md_queries held;
    md_copy_queries(memory, p, b, t, rows);
    MD_FOR (i, MD_STAGES - 1) {
        if (begin + i < end)
            md_copy_block(ring + i * STAGE_BYTES, p, b, even, t, begin + i);
        md_copy_commit();
    }
    md_take_rows(m, p, b, t, rows);
    int now = 0, next = MD_STAGES - 1;
    MD_ROLLED for (int block = begin; block < end; block++)
    {
        MD_TEST_PAUSE(block);
        md_copy_wait<MD_STAGES - 2>();
        __syncthreads();
        if (MD_HOLDS && block == begin)
            MD_FOR (i, STEPS)
                md_load_step<ROWS>(held[MD_HOLDS ? i : 0], memory, md_first_row(), i);
        if (block + MD_STAGES - 1 < end)
            md_copy_block(ring + next * STAGE_BYTES, p, b, even, t, block + MD_STAGES - 1);
        md_copy_commit();
        MD_TEST_PAUSE(block + 1);
        if (block >= m.clean_begin && block < m.clean_end)
            md_add_block<false>(o, m, held, p, memory, ring + now * STAGE_BYTES, block);
        else
            md_add_block<true>(o, m, held, p, memory, ring + now * STAGE_BYTES, block);
        now = now + 1 == MD_STAGES ? 0 : now + 1;
        next = next + 1 == MD_STAGES ? 0 : next + 1;
    }
    md_copy_wait<0>();
    __syncthreads();
}

#if MD_SPLIT > 1
/* Leaves the block's part of a tile in the workspace. True for the last block of the tile, which then has the sums of
 * all parts, added in their order. */
MD_INLINE bool md_meet_parts(md_sums (&o)[MD_ROW_TILES], md_mine &m, const md_params &p, int item, int split)
{
    float *parts = md_chain_parts(&p) + (long long)item * MD_SPLIT * PART;
    unsigned *ticket = md_chain_counter(&p) + 16 + item;
    __shared__ unsigned drawn;
    MD_FOR (t, MD_ROW_TILES)
        md_leave_part<THREADS>(parts + split * PART + t * (PART / MD_ROW_TILES), o[t], m.r[t], threadIdx.x);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        drawn = atomicAdd(ticket, 1u);
    __syncthreads();
    if (drawn != MD_SPLIT - 1)
        return false;
    __threadfence();
    if (threadIdx.x == 0)
        *(volatile unsigned *)ticket = 0;
    MD_FOR (t, MD_ROW_TILES)
        md_take_parts<THREADS>(o[t], m.r[t], parts + t * (PART / MD_ROW_TILES), PART, threadIdx.x, m.scale);
    return true;
}
#endif

MD_INLINE void md_run_tile(const md_params &p, const md_work &work, int number, unsigned memory)
{
    md_tile t = md_tile_of<ROWS>(work, number / MD_SPLIT);
    const int split = number % MD_SPLIT;
    const md_chain_batch b = md_chain_batch_of(&p, t.batch);
    md_sums o[MD_ROW_TILES];
    md_mine m;
    m.scale = md_chain_power_scale(&p);
    MD_FOR (i, MD_ROW_TILES)
        MD_FOR (j, MD_WIDTH / 2)
            o[i][j] = 0;
    md_tile_keys(t, p, b, t.row, min(t.row + ROWS, work.rows));
    if (split == 0)
        md_check_rows(&p, &b, t.row, min(t.row + ROWS, work.rows), threadIdx.x, THREADS);
    const int each = (t.blocks_end - t.blocks_begin + MD_SPLIT - 1) / MD_SPLIT, begin = t.blocks_begin + split * each;
    md_attend(o, m, p, b, t, begin, min(begin + each, t.blocks_end), work.rows, memory);
    MD_FOR (i, MD_ROW_TILES)
        md_close_sums(m.r[i]);
#if MD_SPLIT > 1
    if (!md_meet_parts(o, m, p, t.batch * work.tiles + t.row / ROWS, split))
        return;
#endif
    MD_FOR (i, MD_ROW_TILES)
        md_finish(o[i], m.r[i], p, b, md_row_of(t, i), work.rows, m.scale);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) md_kernel(const __grid_constant__ md_params p)
{
    extern __shared__ __align__(1024) unsigned char md_memory[];
    MD_IF_EMPTY_RETURN;
    const md_work work = md_work_of<ROWS>(p);
    if (blockIdx.x < work.all)
        md_run_tile(p, work, blockIdx.x, md_shared_address(md_memory));
}
