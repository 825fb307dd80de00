/* Attention for few rows of queries: keys and values are read once, at the speed of memory. The keys of a batch are
 * split among blocks, and among the warps of a block. A warp copies 16 keys and values at a time into a ring of its own
 * and multiplies them from the left: scores^T = K Q^T, results^T += V^T powers^T, so that the 16 lines of an
 * instruction are keys or elements, and its 8 columns are rows of queries. Parts are combined in the order of the
 * blocks: through the shared memory of a cluster, or by the block that arrives last.
 *
 * md_config.h:
 *   MD_DEPTH, MD_WIDTH          elements of a key; of a value
 *   MD_ROW_TILES                8 rows each
 *   MD_WARPS, MD_STAGES         warps of a block; stages of a warp's ring
 *   MD_CLUSTERED                1: the blocks of a split are a cluster; 0: the last one combines, by the workspace
 *   MD_LENGTH                   keys of a split; 0: keys are divided evenly
 *   MD_MAIL                     offset in shared memory of what blocks of a cluster send each other
 *   MD_MMA_TYPE                 of queries, keys, values and powers: bf16, f16
 *   MD_HALVES                   2: weights that the formula does not round, as the sum of two such elements
 *   md_chain_pack(a, b)         two powers as a word of 16-bit elements
 *   md_chain_short_two(a, b)    makes two powers what such elements have
 *   md_chain_round_two(a, b)    makes two powers what the formula rounds them to
 *   md_chain_counter(p), md_chain_parts(p)   counters of the stream; the workspace
 * md_expr.h: src/codegen/chain/chain.h. Grid: splits along x; tiles of rows of all
 * batches along y and z. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "chain.h"
#include "mma.h"

enum {
    KEYS = 16,
    ROWS = 8 * MD_ROW_TILES,
    THREADS = 32 * MD_WARPS,
    CHUNKS_K = (MD_DEPTH + 63) / 64, /* of 128 bytes a key */
    CHUNKS_V = (MD_WIDTH + 63) / 64,
    K_BYTES = CHUNKS_K * KEYS * 128,
    STAGE_BYTES = K_BYTES + CHUNKS_V * KEYS * 128,
    STEPS = MD_DEPTH / 16,
    LINES = MD_WIDTH / 16,
    PARTS = MD_WARPS,
    KEYS_UNIT = KEYS * MD_WARPS /* a warp's keys depend on nothing but their places */
};
#include "chain_meet.h"

/* What a warp has so far. A lane has rows 2*(lane%4) and the next one of each tile; sums of elements lane/4 and 8
 * further, of each 16. */
typedef struct md_part {
    float sums[MD_ROW_TILES][LINES][4];
    float top[MD_ROW_TILES][2], sum[MD_ROW_TILES][2];
} md_part;

/* A warp's ring of keys and values. */
typedef struct md_stages {
    unsigned to;
    int at;
} md_stages;

MD_INLINE md_lines md_find_stage(const md_params &p, const md_work &w, int key)
{
    return md_find_lines<KEYS>(&p, &w.batch, key, w.end);
}

MD_INLINE void md_copy_stage(const md_params &p, const md_work &w, const md_stages &ring, const md_lines &at, int stage,
                             int key)
{
    const unsigned to = ring.to + stage * STAGE_BYTES;
    md_copy_some_keys<KEYS, KEYS>(to, 0, &p, w.even, at, key, w.end);
    md_copy_some_values<KEYS, KEYS>(to + K_BYTES, 0, &p, w.even, at, key, w.end);
}

typedef struct md_queries {
    unsigned word[MD_ROW_TILES][STEPS][2];
} md_queries;

/* The right operand: lane has row lane/4, elements 2*(lane%4), one further, and both 8 further. */
MD_INLINE void md_load_queries(md_queries &q, const md_params &p, const md_work &w)
{
    const int lane = threadIdx.x & 31;
    MD_FOR (t, MD_ROW_TILES) {
        const int row = w.row + t * 8 + lane / 4;
        const md_chain_row r = md_chain_row_of(&p, &w.batch, min(row, w.rows - 1));
        const uint16_t *from = (const uint16_t *)md_chain_q_data(&p) + md_chain_q(&p, &r) + lane % 4 * 2;
        MD_FOR (i, STEPS)
            MD_FOR (j, 2)
                q.word[t][i][j] = row < w.rows ? *(const uint32_t *)(from + i * 16 + j * 8) : 0;
    }
}

/* Bounds of the keys of a lane's rows. */
typedef struct md_bounds {
    int first[MD_ROW_TILES][2], last[MD_ROW_TILES][2];
    md_chain_row row[MD_ROW_TILES][2];
} md_bounds;

MD_INLINE void md_find_bounds(md_bounds &b, const md_params &p, const md_work &w)
{
    MD_FOR (t, MD_ROW_TILES)
        MD_FOR (j, 2) {
            const int row = min(w.row + t * 8 + (int)(threadIdx.x & 3) * 2 + j, w.rows - 1);
            b.row[t][j] = md_chain_row_of(&p, &w.batch, row);
            b.first[t][j] = 0;
            b.last[t][j] = w.end;
            if (MD_CHAIN_BOUNDED) {
                const md_chain_keys_of span = md_chain_span(&p, &w.batch, row, row + 1);
                b.first[t][j] = (int)span.begin;
                b.last[t][j] = min((int)span.end, w.end);
            }
        }
}

typedef float md_scores_of[MD_ROW_TILES][4];

MD_INLINE void md_multiply_keys(md_scores_of &s, const md_queries &q, unsigned keys)
{
    const int lane = threadIdx.x & 31;
    md_scores_of odd;
    MD_FOR (t, MD_ROW_TILES)
        MD_FOR (i, 4)
            s[t][i] = odd[t][i] = 0;
    MD_FOR (i, STEPS) {
        unsigned k[4];
        const int c = 2 * i + lane / 16;
        md_ldmatrix(k, md_piece_at<KEYS>(keys, lane & 15, c));
        MD_FOR (t, MD_ROW_TILES)
            md_mma(i % 2 ? odd[t] : s[t], k, q.word[t][i][0], q.word[t][i][1]);
    }
    MD_FOR (t, MD_ROW_TILES)
        MD_FOR (i, 4)
            s[t][i] += odd[t][i];
}

/* Applies the formula's function of scores, and the mask. */
MD_INLINE void md_finish_scores(md_scores_of &s, const md_params &p, const md_work &w, const md_bounds &b, int key)
{
    const bool is_open = key >= w.open_begin && key + KEYS <= min(w.open_end, w.end);
    MD_FOR (t, MD_ROW_TILES)
        MD_FOR (i, 4) {
            const int at = key + (threadIdx.x & 31) / 4 + i / 2 * 8, j = i % 2;
            if (!MD_FOLDS && (is_open || MD_CHAIN_BOUNDED))
                s[t][i] = md_chain_open(&p, &b.row[t][j], at, s[t][i]);
            else if (!MD_FOLDS)
                s[t][i] = at < w.end ? md_chain_score(&p, &b.row[t][j], at, s[t][i]) : 0;
            if (!is_open)
                s[t][i] = at >= b.first[t][j] && at < b.last[t][j] ? s[t][i] : -MD_INF_F;
        }
}

/* Raises the maxima of rows whose scores are above theirs by more than 8 (powers of 2), and rescales their sums. */
MD_INLINE void md_raise(md_part &a, const md_scores_of &s, float scale)
{
    float top[MD_ROW_TILES][2];
    bool is_above = false;
    MD_FOR (t, MD_ROW_TILES)
        MD_FOR (j, 2) {
            top[t][j] = fmaxf(s[t][j], s[t][j + 2]);
            is_above |= top[t][j] > a.top[t][j] && !((top[t][j] - a.top[t][j]) * scale <= 8.f);
        }
    if (!__any_sync(MD_ALL_LANES, is_above))
        return;
    MD_FOR (t, MD_ROW_TILES)
        MD_FOR (j, 2) {
            float x = top[t][j];
            MD_FOR (k, 3)
                x = fmaxf(x, __shfl_xor_sync(MD_ALL_LANES, x, 4 << k));
            if (!(x > a.top[t][j] && !((x - a.top[t][j]) * scale <= 8.f)))
                x = a.top[t][j];
            const float factor = md_power((a.top[t][j] - md_chain_base(x)) * scale);
            a.top[t][j] = x;
            a.sum[t][j] *= factor;
            MD_FOR (i, LINES) {
                a.sums[t][i][j] *= factor;
                a.sums[t][i][j + 2] *= factor;
            }
        }
}

MD_INLINE void md_multiply_values(md_part &a, const unsigned (&w)[MD_HALVES][MD_ROW_TILES][2], unsigned values)
{
    const int lane = threadIdx.x & 31, key = (lane & 7) + lane / 16 * 8;
    MD_FOR (i, LINES) {
        unsigned v[4];
        const int c = 2 * i + (lane >> 3 & 1);
        md_ldmatrix_across(v, md_piece_at<KEYS>(values, key, c));
        MD_FOR (half, MD_HALVES)
            MD_FOR (t, MD_ROW_TILES)
                md_mma(a.sums[t][i], v, w[half][t][0], w[half][t][1]);
    }
}

MD_INLINE void md_add_keys(md_part &a, const md_params &p, const md_work &w, const md_queries &q, const md_bounds &b,
                           unsigned stage, int key)
{
    md_scores_of s;
    unsigned powers[MD_HALVES][MD_ROW_TILES][2];
    md_multiply_keys(s, q, stage);
    md_finish_scores(s, p, w, b, key);
    md_raise(a, s, w.scale);
    MD_FOR (t, MD_ROW_TILES) {
        MD_FOR (i, 4) {
            const float top = a.top[t][i % 2], own = md_chain_scale_of(top, w.scale);
            s[t][i] = md_power(__fmaf_rn(s[t][i], own, -(md_chain_base(top) * own)));
        }
        MD_FOR (i, 4) {
            if (MD_CHAIN_TERM == 1 && i % 2 == 0)
                md_chain_round_two(s[t][i], s[t][i + 1]);
            a.sum[t][i % 2] += s[t][i];
        }
        MD_FOR (j, 2) {
            const float x = s[t][2 * j], y = s[t][2 * j + 1];
            powers[0][t][j] = md_transpose(md_chain_pack(x, y));
            if (MD_HALVES == 2)
                powers[MD_HALVES - 1][t][j] = md_transpose(md_pack_rest(x, y));
        }
    }
    md_multiply_values(a, powers, stage + K_BYTES);
}

/* Fills the ring. Look-ups of all stages are under way before the first one is needed. */
MD_INLINE void md_begin_walk(const md_params &p, const md_work &w, const md_stages &ring, int first, int step)
{
    enum { LOOKS_UP = !(MD_HAS_EVEN_KEYS(KEYS) && MD_HAS_EVEN_VALUES(KEYS)), AT_ONCE = LOOKS_UP ? MD_STAGES : 1 };
    md_lines at[AT_ONCE];
    if (LOOKS_UP)
        MD_FOR (i, AT_ONCE)
            at[i] = md_find_stage(p, w, first + i * step);
    MD_ROLLED for (int i = 0; i < MD_STAGES; i += AT_ONCE) MD_FOR (j, AT_ONCE)
    {
        if (first + (i + j) * step < w.end)
            md_copy_stage(p, w, ring, at[j], i + j, first + (i + j) * step);
        md_copy_commit();
    }
}

/* The keys of one warp: every MD_WARPS-th 16 of the block. */
MD_INLINE void md_walk(md_part &a, const md_params &p, const md_work &w, md_stages &ring)
{
    const int step = KEYS * MD_WARPS, first = w.begin + (int)(threadIdx.x / 32) * KEYS;
    md_queries q;
    md_bounds b;
    md_begin_walk(p, w, ring, first, step);
    md_load_queries(q, p, w);
    md_find_bounds(b, p, w);
    MD_ROLLED for (int key = first; key < w.end; key += step)
    {
        const int ahead = key + MD_STAGES * step;
        const md_lines at = md_find_stage(p, w, ahead); /* looked up while the data come */
        md_copy_wait<MD_STAGES - 1>();
        MD_TEST_PAUSE(key);
        __syncwarp();
        md_add_keys(a, p, w, q, b, ring.to + ring.at * STAGE_BYTES, key);
        MD_TEST_PAUSE(key + 1);
        __syncwarp();
        if (ahead < w.end)
            md_copy_stage(p, w, ring, at, ring.at, ahead);
        md_copy_commit();
        if (++ring.at == MD_STAGES)
            ring.at = 0;
    }
    md_copy_wait<0>();
}

/* Writes a warp's part where the block combines them. */
MD_INLINE void md_leave(float *to, md_part &a)
{
    const int lane = threadIdx.x & 31;
    MD_FOR (t, MD_ROW_TILES)
        MD_FOR (j, 2) {
            const int row = t * 8 + lane % 4 * 2 + j;
            MD_FOR (k, 3)
                a.sum[t][j] += __shfl_xor_sync(MD_ALL_LANES, a.sum[t][j], 4 << k);
            if (lane < 4) {
                to[OF_TOPS + row] = a.top[t][j];
                to[OF_SUMS + row] = a.sum[t][j];
            }
            MD_FOR (i, LINES)
                MD_FOR (h, 2)
                    to[row * PITCH + i * 16 + h * 8 + lane / 4] = a.sums[t][i][j + 2 * h];
        }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) md_kernel(const __grid_constant__ md_params p)
{
    extern __shared__ __align__(1024) unsigned char md_memory[];
    MD_IF_EMPTY_RETURN_BEFORE_WAITING;
    md_stages ring = {md_shared_address(md_memory) + threadIdx.x / 32 * (MD_STAGES * STAGE_BYTES), 0};
    float *parts = (float *)md_memory;
    const md_work w = md_begin(p, (float *)(md_memory + MD_MAIL));
    if (!w.exists)
        return;
    md_part a;
    MD_FOR (t, MD_ROW_TILES)
        MD_FOR (j, 2) {
            a.top[t][j] = -MD_INF_F;
            a.sum[t][j] = 0;
            MD_FOR (i, LINES)
                a.sums[t][i][j] = a.sums[t][i][j + 2] = 0;
        }
    md_walk(a, p, w, ring);
    __syncthreads();
    md_leave(parts + threadIdx.x / 32 * PART, a);
    md_meet(p, w, parts, (float *)(md_memory + MD_MAIL));
}
