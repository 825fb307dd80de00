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
 *   MD_MMA_TYPE                 of queries, keys, values and powers: bf16, f16
 *   md_chain_pack(a, b)         two powers as a word of 16-bit elements
 *   md_chain_rounded(a)         a power as such an element has it
 *   md_chain_counter(p), md_chain_parts(p)   counters of the stream; the workspace
 * md_expr.h: src/codegen/chain/chain.h. Grid: splits of each tile of rows of each batch. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "chain.h"
#include "mma.h"
#if MD_CLUSTERED
#include "cluster.h"
#endif

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
    PITCH = MD_WIDTH + 4, /* of a row of sums */
    PART = ROWS * PITCH + 2 * ROWS, /* floats of a part: sums, maxima, sums of powers */
    OF_TOPS = ROWS * PITCH,
    OF_SUMS = OF_TOPS + ROWS,
    FOURS = MD_WIDTH / 4, /* columns of a row in fours */
    MEMORY_PARTS = 16, /* parts that are loaded at once */
    CLUSTER_PARTS = 8
};

/* What a warp has so far. A lane has rows 2*(lane%4) and the next one of each tile; sums of elements lane/4 and 8
 * further, of each 16. */
typedef struct md_part {
    float sums[MD_ROW_TILES][LINES][4];
    float top[MD_ROW_TILES][2], sum[MD_ROW_TILES][2];
} md_part;

/* The block's work. */
typedef struct md_work {
    md_chain_batch batch;
    int split, splits, item; /* item: its tile of rows among all */
    int row, rows; /* the first row, all rows of the batch */
    int begin, end; /* keys of this block; begin is a multiple of KEYS */
    int open_begin, open_end;
    float scale;
} md_work;

MD_INLINE md_work md_work_of(const md_params &p)
{
    md_work w;
    w.rows = (int)md_chain_rows(&p);
    const unsigned tiles = (w.rows + ROWS - 1) / ROWS;
    w.splits = gridDim.x / (tiles * (unsigned)md_chain_batches(&p));
    w.item = blockIdx.x / (unsigned)w.splits;
    w.split = blockIdx.x - w.item * w.splits;
    const unsigned batch = w.item / tiles;
    w.batch = md_chain_batch_of(&p, batch);
    w.row = (w.item - batch * tiles) * ROWS;
    w.scale = md_chain_power_scale(&p);
    const md_chain_keys_of span = md_chain_span(&p, &w.batch, w.row, min(w.row + ROWS, w.rows));
    /* a warp's keys depend on nothing but their places */
    const int first = (int)span.begin / (KEYS * MD_WARPS) * MD_WARPS, all = ((int)span.end + KEYS - 1) / KEYS - first,
              each = (all + w.splits - 1) / w.splits;
    const int from = MD_LENGTH ? w.split * (MD_LENGTH / KEYS) : first + w.split * each,
              to = MD_LENGTH ? from + MD_LENGTH / KEYS : min(from + each, first + all);
    w.begin = max(from, first) * KEYS;
    w.end = (int)min((long long)to * KEYS, (long long)span.end);
    w.open_begin = (int)span.open_begin;
    w.open_end = (int)span.open_end;
    return w;
}

/* Copies a line of 8 elements each of 16 keys or values. `at`: offset of the lane's key (lane % 16), -1 for none. */
template <int elements, class T> MD_INLINE void md_copy_keys16(unsigned to, const T *data, long long at)
{
    const int lane = threadIdx.x & 31;
    MD_FOR (i, (elements / 8 * KEYS + 31) / 32) {
        const int piece = i * 32 + lane, key = piece / (elements / 8), c = piece % (elements / 8);
        const long long from = __shfl_sync(MD_ALL_LANES, at, key & 15);
        if (elements / 8 * KEYS % 32 == 0 || key < KEYS)
            md_copy_or_clear(to + c / 8 * (KEYS * 128) + key * 128 + ((c % 8 ^ (key & 7)) << 4),
                             data + (from < 0 ? 0 : from + c * 8), from < 0 ? 0 : 16);
    }
}

MD_INLINE void md_copy_stage(const md_params &p, const md_work &w, unsigned to, int key)
{
    const int own = key + (threadIdx.x & 15);
    const bool exists = own < w.end;
    md_copy_keys16<MD_DEPTH>(to, md_chain_k_data(&p), exists ? md_chain_k(&p, &w.batch, own) : -1);
    md_copy_keys16<MD_WIDTH>(to + K_BYTES, md_chain_v_data(&p), exists ? md_chain_v(&p, &w.batch, own) : -1);
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
        md_ldmatrix(k, keys + c / 8 * (KEYS * 128) + (lane & 15) * 128 + ((c % 8 ^ (lane & 7)) << 4));
        MD_FOR (t, MD_ROW_TILES)
            md_mma(i % 2 ? odd[t] : s[t], k, q.word[t][i]);
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

MD_INLINE void md_multiply_values(md_part &a, const unsigned (&w)[MD_ROW_TILES][2], unsigned values)
{
    const int lane = threadIdx.x & 31, key = (lane & 7) + lane / 16 * 8;
    MD_FOR (i, LINES) {
        unsigned v[4];
        const int c = 2 * i + (lane >> 3 & 1);
        md_ldmatrix_across(v, values + c / 8 * (KEYS * 128) + key * 128 + ((c % 8 ^ (key & 7)) << 4));
        MD_FOR (t, MD_ROW_TILES)
            md_mma(a.sums[t][i], v, w[t]);
    }
}

MD_INLINE void md_add_keys(md_part &a, const md_params &p, const md_work &w, const md_queries &q, const md_bounds &b,
                           unsigned stage, int key)
{
    md_scores_of s;
    unsigned powers[MD_ROW_TILES][2];
    md_multiply_keys(s, q, stage);
    md_finish_scores(s, p, w, b, key);
    md_raise(a, s, w.scale);
    MD_FOR (t, MD_ROW_TILES) {
        MD_FOR (i, 4) {
            const float base = md_chain_base(a.top[t][i % 2]) * w.scale;
            s[t][i] = md_power(__fmaf_rn(s[t][i], w.scale, -base));
            if (MD_CHAIN_TERM == 1)
                s[t][i] = md_chain_rounded(s[t][i]);
            a.sum[t][i % 2] += s[t][i];
        }
        MD_FOR (j, 2)
            powers[t][j] = md_transpose(md_chain_pack(s[t][2 * j], s[t][2 * j + 1]));
    }
    md_multiply_values(a, powers, stage + K_BYTES);
}

/* The keys of one warp: every MD_WARPS-th 16 of the block. */
MD_INLINE void md_walk(md_part &a, const md_params &p, const md_work &w, unsigned ring)
{
    const int step = KEYS * MD_WARPS, first = w.begin + (int)(threadIdx.x / 32) * KEYS;
    md_queries q;
    md_bounds b;
    MD_FOR (i, MD_STAGES) {
        if (first + i * step < w.end)
            md_copy_stage(p, w, ring + i * STAGE_BYTES, first + i * step);
        md_copy_commit();
    }
    md_load_queries(q, p, w);
    md_find_bounds(b, p, w);
    int stage = 0;
    MD_ROLLED for (int key = first; key < w.end; key += step)
    {
        md_copy_wait<MD_STAGES - 1>();
        __syncwarp();
        md_add_keys(a, p, w, q, b, ring + stage * STAGE_BYTES, key);
        __syncwarp();
        if (key + MD_STAGES * step < w.end)
            md_copy_stage(p, w, ring + stage * STAGE_BYTES, key + MD_STAGES * step);
        md_copy_commit();
        stage = stage + 1 == MD_STAGES ? 0 : stage + 1;
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

/* Where the parts are that are combined: in this block, in the blocks of the cluster, or in memory. */
struct md_in_block {
    const float *part;
    __device__ __forceinline__ float at(int i, int where) const { return part[i * PART + where]; }
    __device__ __forceinline__ float4 four(int i, int where) const
    {
        return *(const float4 *)(part + i * PART + where);
    }
};
#if MD_CLUSTERED
struct md_in_cluster {
    unsigned part;
    __device__ __forceinline__ float at(int i, int where) const
    {
        float v;
        asm volatile("ld.shared::cluster.f32 %0, [%1];"
                     : "=f"(v)
                     : "r"(md_cluster_map(part + where * 4, i))
                     : "memory");
        return v;
    }
    __device__ __forceinline__ float4 four(int i, int where) const
    {
        float4 v;
        asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                     : "r"(md_cluster_map(part + where * 4, i))
                     : "memory");
        return v;
    }
};
#endif
struct md_in_memory {
    const float *part;
    __device__ __forceinline__ float at(int i, int where) const { return __ldcg(part + (long long)i * PART + where); }
    __device__ __forceinline__ float4 four(int i, int where) const
    {
        return __ldcg((const float4 *)(part + (long long)i * PART + where));
    }
};

/* A row's state over all parts, and its sums of four columns. */
typedef struct md_whole_row {
    float top, sum, x[4];
} md_whole_row;

/* Combines n parts in their order, `most` at a time, whose loads are all under way at once. */
template <int most, class S> MD_INLINE md_whole_row md_combine(const S &s, int n, int row, int column, float scale)
{
    md_whole_row r = {-MD_INF_F, 0, {0, 0, 0, 0}};
    MD_ROLLED for (int first = 0; first < n; first += most)
    {
        float top[most], sum[most];
        float4 x[most];
        MD_FOR (i, most) {
            const int at = min(first + i, n - 1);
            top[i] = s.at(at, OF_TOPS + row);
            sum[i] = s.at(at, OF_SUMS + row);
            x[i] = s.four(at, row * PITCH + column);
        }
        float best = r.top;
        MD_FOR (i, most)
            best = fmaxf(best, top[i]);
        const float base = md_chain_base(best), before = md_power((r.top - base) * scale);
        r.top = best;
        r.sum *= before;
        MD_FOR (j, 4)
            r.x[j] *= before;
        MD_FOR (i, most) {
            const float factor = first + i < n ? md_power((top[i] - base) * scale) : 0.f;
            const float own[4] = {x[i].x, x[i].y, x[i].z, x[i].w};
            if (first + i < n) {
                r.sum = __fmaf_rn(sum[i], factor, r.sum);
                MD_FOR (j, 4)
                    r.x[j] = __fmaf_rn(own[j], factor, r.x[j]);
            }
        }
    }
    return r;
}

/* Ends a row and stores four of its columns. */
MD_INLINE void md_store_four(const md_params &p, const md_work &w, const md_whole_row &r, int row, int column)
{
    const md_chain_row at = md_chain_row_of(&p, &w.batch, w.row + row);
    md_chain_state state;
    state.maximum = r.top * (w.scale * 0.693147180559945f);
    state.sum[0] = r.sum;
    const float factor = md_chain_close(&p, &at, &state);
    if (MD_CHAIN_ROW_STORES && column == 0)
        md_chain_store_row(&p, &at, &state);
    *(uint2 *)md_chain_result_at(&p, &at, column) =
        make_uint2(md_chain_result(&p, &at, &state, column, r.x[0] * factor, r.x[1] * factor),
                   md_chain_result(&p, &at, &state, column + 2, r.x[2] * factor, r.x[3] * factor));
}

/* Four columns of each row: those of thread `first`, and every `step`-th after it. */
template <int most, class S>
MD_INLINE void md_store_all(const md_params &p, const md_work &w, const S &s, int n, int first, int step)
{
    const int all = min(ROWS, w.rows - w.row) * FOURS;
    MD_ROLLED for (int i = first; i < all; i += step)
    {
        const int row = i / FOURS, column = i % FOURS * 4;
        md_store_four(p, w, md_combine<most>(s, n, row, column, w.scale), row, column);
    }
}

/* The parts of the block's warps become one, in the place of the first. */
MD_INLINE void md_combine_warps(float *to, const md_work &w)
{
    enum { EACH = (ROWS * FOURS + THREADS - 1) / THREADS };
    const int all = min(ROWS, w.rows - w.row) * FOURS;
    const md_in_block s = {to};
    md_whole_row r[EACH];
    MD_FOR (i, EACH)
        if (i * THREADS + threadIdx.x < all) {
            const int at = i * THREADS + threadIdx.x;
            r[i] = md_combine<MD_WARPS>(s, MD_WARPS, at / FOURS, at % FOURS * 4, w.scale);
        }
    __syncthreads();
    MD_FOR (i, EACH)
        if (i * THREADS + threadIdx.x < all) {
            const int at = i * THREADS + threadIdx.x, row = at / FOURS, column = at % FOURS * 4;
            *(float4 *)(to + row * PITCH + column) = make_float4(r[i].x[0], r[i].x[1], r[i].x[2], r[i].x[3]);
            if (column == 0) {
                to[OF_TOPS + row] = r[i].top;
                to[OF_SUMS + row] = r[i].sum;
            }
        }
}

#if !MD_CLUSTERED
/* Leaves the block's part in the workspace; the last block of the split combines all. */
MD_INLINE void md_meet_in_memory(const md_params &p, const md_work &w, const float *part)
{
    const int fours = min(ROWS, w.rows - w.row) * (PITCH / 4);
    float *parts = md_chain_parts(&p) + (long long)w.item * w.splits * PART, *mine = parts + (long long)w.split * PART;
    unsigned *ticket = md_chain_counter(&p) + 16 + w.item;
    __shared__ unsigned drawn;
    for (int i = threadIdx.x; i < fours; i += THREADS)
        __stcg((float4 *)mine + i, *((const float4 *)part + i));
    if (threadIdx.x < 2 * ROWS)
        __stcg(mine + OF_TOPS + threadIdx.x, part[OF_TOPS + threadIdx.x]);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        drawn = atomicAdd(ticket, 1u);
    __syncthreads();
    if (drawn != (unsigned)w.splits - 1)
        return;
    __threadfence();
    if (threadIdx.x == 0)
        *(volatile unsigned *)ticket = 0;
    const md_in_memory s = {parts};
    md_store_all<MEMORY_PARTS>(p, w, s, w.splits, threadIdx.x, THREADS);
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, 1) md_kernel(const __grid_constant__ md_params p)
{
    extern __shared__ __align__(1024) unsigned char md_memory[];
    MD_IF_EMPTY_RETURN;
    const unsigned ring = md_shared_address(md_memory) + threadIdx.x / 32 * (MD_STAGES * STAGE_BYTES);
    float *parts = (float *)md_memory;
    const md_work w = md_work_of(p);
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
    __syncthreads();
    if (w.splits == 1) {
        const md_in_block s = {parts};
        md_store_all<MD_WARPS>(p, w, s, MD_WARPS, threadIdx.x, THREADS);
        return;
    }
    md_combine_warps(parts, w);
#if MD_CLUSTERED
    md_cluster_sync();
    const md_in_cluster s = {md_shared_address(parts)};
    md_store_all<CLUSTER_PARTS>(p, w, s, w.splits, w.split * THREADS + (int)threadIdx.x, w.splits * THREADS);
    md_cluster_sync();
#else
    __syncthreads();
    md_meet_in_memory(p, w, parts);
#endif
}
