/* Attention for one to four rows of queries that share keys, without tensor cores: keys and values come into
 * registers, 16 bytes a lane, and are multiplied where they are. The lanes of a group have a key together, 8 elements
 * each; a warp has one group or more, each with MD_KEYS keys at a time. While keys are multiplied, values are under
 * way, and the next keys while values are. Each lane makes powers of some of the group's scores. The groups of a block,
 * and the blocks that share the keys of a batch, are combined in order.
 *
 * md_config.h:
 *   MD_DEPTH, MD_WIDTH          elements of a key; of a value
 *   MD_ROWS                     rows of a block: 1, 2, 4
 *   MD_KEYS                     keys of a group at a time
 *   MD_TEAM                    lanes of a group: a power of 2
 *   MD_WARPS, MD_RESIDENT       warps of a block; blocks that an SM shall hold at least
 *   MD_CLUSTERED                1: the blocks of a split are a cluster; 0: the last one combines, by the workspace
 *   MD_LENGTH                   keys of a split; 0: keys are divided evenly
 *   MD_MAIL                     offset in shared memory of what blocks of a cluster send each other
 *   md_chain_up(word)           a 16-bit element as f32
 *   MD_STEADY_KEYS, _VALUES     1: they are evenly spaced, from the first on
 *   MD_ROUNDS                   1: the formula rounds weights; md_chain_round_two does it
 *   md_chain_counter(p), md_chain_parts(p)   counters of the stream; the workspace
 * md_expr.h: src/codegen/chain/chain.h. Grid: splits along x; tiles of rows of all
 * batches along y and z. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"
#include "chain.h"

enum {
    ROWS = MD_ROWS,
    THREADS = 32 * MD_WARPS,
    GROUPS = 32 / MD_TEAM,
    PARTS = MD_WARPS * GROUPS,
    KEYS_UNIT = PARTS * MD_KEYS,
    SCORES = ROWS * MD_KEYS, /* of a group at a time: those of a row follow each other */
    OWN = SCORES > MD_TEAM ? SCORES / MD_TEAM : 1, /* scores that a lane has of one row */
    SAME = SCORES < MD_TEAM ? MD_TEAM / SCORES : 1, /* lanes with the same score */
    ROW_LANES = MD_TEAM / ROWS /* lanes that have scores of one row */
};
#include "chain_meet.h"

/* What a lane has so far: sums of its columns for all rows; the state of its own row. */
typedef struct md_part {
    float o[ROWS][8];
    float top, sum;
} md_part;

/* The row whose scores a lane has. */
typedef struct md_own {
    md_chain_row at;
    int row, first, last; /* row: its number in the tile; first, last: bounds of its keys */
} md_own;

typedef struct md_queries {
    float x[ROWS][8];
} md_queries;

MD_INLINE uint4 md_load_piece(const void *from, bool exists)
{
    uint4 v = make_uint4(0, 0, 0, 0);
    if (exists)
        asm volatile("ld.global.nc.L1::no_allocate.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                     : "l"(__cvta_generic_to_global(from)));
    return v;
}

MD_INLINE void md_unpack(float (&x)[8], uint4 v)
{
    const unsigned word[4] = {v.x, v.y, v.z, v.w};
    MD_FOR (i, 4) {
        x[2 * i] = md_chain_up((uint16_t)(word[i] & 0xffffu));
        x[2 * i + 1] = md_chain_up((uint16_t)(word[i] >> 16));
    }
}

MD_INLINE int md_group_lane() { return threadIdx.x & (MD_TEAM - 1); }
/* The group's place among those of the block. */
MD_INLINE int md_group() { return threadIdx.x / MD_TEAM; }

/* Starts loading the group's keys (name: k) or values (v) from `key` on. */
#define MD_LOAD_PIECES(pieces, name, steady, elements, p, w, key)                                                      \
    MD_FOR (u, MD_KEYS) {                                                                                              \
        const int at = (key) + u;                                                                                      \
        const bool is_key = at < (w).end && ((elements) == MD_TEAM * 8 || md_group_lane() < (elements) / 8);           \
        const long long from = !is_key || steady ? 0 : md_chain_##name(&(p), &(w).batch, at);                          \
        const uint16_t *data =                                                                                         \
            steady ? (w).even.name + at * (w).even.name##_stride : md_chain_##name##_data(&(p)) + from;                \
        (pieces)[u] = md_load_piece(data + md_group_lane() * 8, is_key && from >= 0);                                  \
    }
#define MD_LOAD_KEYS(pieces, p, w, key) MD_LOAD_PIECES(pieces, k, MD_STEADY_KEYS, MD_DEPTH, p, w, key)
#define MD_LOAD_VALUES(pieces, p, w, key) MD_LOAD_PIECES(pieces, v, MD_STEADY_VALUES, MD_WIDTH, p, w, key)

/* The scores of the group's keys: each lane gets its own. In each step a lane keeps one half of the scores and gives
 * the other one to the lane that keeps it; sums are those of the same pairs of lanes whatever MD_ROWS is. */
MD_INLINE void md_multiply_keys(float (&own)[OWN], const md_queries &q, const uint4 (&k)[MD_KEYS])
{
    float s[SCORES];
    MD_FOR (u, MD_KEYS) {
        float x[8];
        md_unpack(x, k[u]);
        MD_FOR (r, ROWS) {
            float a = 0, b = 0;
            MD_FOR (i, 4) {
                a = __fmaf_rn(q.x[r][i], x[i], a);
                b = __fmaf_rn(q.x[r][i + 4], x[i + 4], b);
            }
            s[r * MD_KEYS + u] = a + b;
        }
    }
    const int lane = md_group_lane();
    int n = SCORES;
    MD_FOR (step, 5) {
        const int far = MD_TEAM >> (step + 1);
        if (far > 0 && n > 1) {
            const bool is_upper = lane & far;
            n /= 2;
            MD_FOR (i, SCORES / 2)
                if (i < n) {
                    const float low = s[i], high = s[i + n];
                    s[i] = (is_upper ? high : low) + __shfl_xor_sync(MD_ALL_LANES, is_upper ? low : high, far);
                }
        } else if (far > 0) {
            s[0] += __shfl_xor_sync(MD_ALL_LANES, s[0], far);
        }
    }
    MD_FOR (i, OWN)
        own[i] = s[i];
}

/* The first key of the lane's own scores, from the group's first one. */
MD_INLINE int md_own_key() { return md_group_lane() % ROW_LANES / SAME * OWN; }

/* Applies the formula's function of scores, and the mask. */
MD_INLINE void md_finish_scores(float (&s)[OWN], const md_params &p, const md_work &w, const md_own &own, int key)
{
    const bool is_open = key >= w.open_begin && key + MD_KEYS <= min(w.open_end, w.end);
    MD_FOR (i, OWN) {
        const int at = key + md_own_key() + i;
#if !MD_FOLDS
        if (is_open || MD_CHAIN_BOUNDED)
            s[i] = md_chain_open(&p, &own.at, at, s[i]);
        else
            s[i] = at < w.end ? md_chain_score(&p, &own.at, at, s[i]) : 0;
#endif
        if (!is_open)
            s[i] = at >= own.first && at < min(own.last, w.end) ? s[i] : -MD_INF_F;
    }
}

/* Raises the maxima of rows whose scores are above theirs by more than 8 (powers of 2), and rescales their sums. */
MD_INLINE void md_raise(md_part &a, const float (&s)[OWN], float scale)
{
    float top = s[0];
    MD_FOR (i, OWN)
        top = fmaxf(top, s[i]);
    const bool is_above = top > a.top && !((top - a.top) * scale <= 8.f);
    if (!__any_sync(MD_ALL_LANES, is_above))
        return;
    MD_FOR (k, 5)
        if (SAME << k < ROW_LANES)
            top = fmaxf(top, __shfl_xor_sync(MD_ALL_LANES, top, SAME << k));
    if (!(top > a.top && !((top - a.top) * scale <= 8.f)))
        top = a.top;
    const float factor = md_power((a.top - md_chain_base(top)) * scale);
    a.top = top;
    a.sum *= factor;
    MD_FOR (r, ROWS) {
        const float f = __shfl_sync(MD_ALL_LANES, factor, r * ROW_LANES, MD_TEAM);
        MD_FOR (i, 8)
            a.o[r][i] *= f;
    }
}

MD_INLINE void md_take_powers(md_part &a, float (&s)[OWN], float scale)
{
    const float own = md_chain_scale_of(a.top, scale), base = md_chain_base(a.top) * own;
    float e[OWN + 1];
    MD_FOR (i, OWN)
        s[i] = e[i] = md_power(__fmaf_rn(s[i], own, -base));
    MD_FOR (i, OWN) {
        if (MD_ROUNDS && i % 2 == 0)
            md_chain_round_two(s[i], i + 1 < OWN ? s[i + 1] : e[OWN]);
        a.sum += MD_CHAIN_TERM == 1 ? s[i] : e[i];
    }
}

MD_INLINE void md_multiply_values(md_part &a, const float (&e)[OWN], const uint4 (&v)[MD_KEYS])
{
    MD_FOR (u, MD_KEYS) {
        float x[8];
        md_unpack(x, v[u]);
        MD_FOR (r, ROWS) {
            const int score = r * MD_KEYS + u;
            const float f = __shfl_sync(MD_ALL_LANES, e[score % OWN], score / OWN * SAME, MD_TEAM);
            MD_FOR (i, 8)
                a.o[r][i] = __fmaf_rn(f, x[i], a.o[r][i]);
        }
    }
}

MD_INLINE void md_load_queries(md_queries &q, const md_params &p, const md_work &w)
{
    const int lane = md_group_lane();
    MD_FOR (r, ROWS) {
        const md_chain_row at = md_chain_row_of(&p, &w.batch, min(w.row + r, w.rows - 1));
        const long long from = md_chain_q(&p, &at);
        md_unpack(q.x[r], md_load_piece(md_chain_q_data(&p) + from + lane * 8,
                                        from >= 0 && (MD_DEPTH == MD_TEAM * 8 || lane < MD_DEPTH / 8)));
    }
}

MD_INLINE md_own md_own_row(const md_params &p, const md_work &w)
{
    md_own own;
    own.row = md_group_lane() / ROW_LANES;
    const int row = min(w.row + own.row, w.rows - 1);
    own.at = md_chain_row_of(&p, &w.batch, row);
    own.first = 0;
    own.last = w.end;
    if (MD_CHAIN_BOUNDED) {
        const md_chain_keys_of span = md_chain_span(&p, &w.batch, row, row + 1);
        own.first = (int)span.begin;
        own.last = (int)span.end;
    }
    return own;
}

/* The keys of a group: MD_KEYS of every KEYS_UNIT of the block. */
MD_INLINE void md_walk(md_part &a, const md_params &p, const md_work &w)
{
    int key = w.begin + md_group() * MD_KEYS;
    uint4 k[MD_KEYS], v[MD_KEYS];
    md_queries q;
    MD_LOAD_KEYS(k, p, w, key)
    md_load_queries(q, p, w);
    MD_LOAD_VALUES(v, p, w, key)
    const md_own own = md_own_row(p, w);
    /* all groups of a warp together, for what they exchange */
    MD_ROLLED for (int first = w.begin; first < w.end; first += KEYS_UNIT, key += KEYS_UNIT)
    {
        float s[OWN];
        md_multiply_keys(s, q, k);
        MD_LOAD_KEYS(k, p, w, key + KEYS_UNIT)
        md_finish_scores(s, p, w, own, key);
        md_raise(a, s, w.scale);
        md_take_powers(a, s, w.scale);
        md_multiply_values(a, s, v);
        MD_LOAD_VALUES(v, p, w, key + KEYS_UNIT)
    }
}

/* Writes a group's part where the block combines them. */
MD_INLINE void md_leave(float *to, md_part &a)
{
    const int lane = md_group_lane();
    MD_FOR (k, 5)
        if (SAME << k < ROW_LANES)
            a.sum += __shfl_xor_sync(MD_ALL_LANES, a.sum, SAME << k);
    if (lane % ROW_LANES == 0) {
        to[OF_TOPS + lane / ROW_LANES] = a.top;
        to[OF_SUMS + lane / ROW_LANES] = a.sum;
    }
    if (MD_WIDTH == MD_TEAM * 8 || lane < MD_WIDTH / 8)
        MD_FOR (r, ROWS)
            MD_FOR (i, 2)
                *(float4 *)(to + r * PITCH + lane * 8 + i * 4) =
                    make_float4(a.o[r][i * 4], a.o[r][i * 4 + 1], a.o[r][i * 4 + 2], a.o[r][i * 4 + 3]);
}

extern "C" __global__ void __launch_bounds__(THREADS, MD_RESIDENT) md_kernel(const __grid_constant__ md_params p)
{
    extern __shared__ __align__(128) unsigned char md_memory[];
    MD_IF_EMPTY_RETURN_BEFORE_WAITING;
    float *parts = (float *)md_memory;
    const md_work w = md_begin(p, (float *)(md_memory + MD_MAIL));
    if (!w.exists)
        return;
    md_part a;
    a.top = -MD_INF_F;
    a.sum = 0;
    MD_FOR (r, ROWS)
        MD_FOR (i, 8)
            a.o[r][i] = 0;
    md_walk(a, p, w);
    md_leave(parts + md_group() * PART, a);
    md_meet(p, w, parts, (float *)(md_memory + MD_MAIL));
}
