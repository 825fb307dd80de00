/* Scores, powers and sums of a block of keys as tensor cores spread them: a thread has two rows, 8 apart, and two of
 * each 8 columns. What the kernels with many rows share. A part of chain_wgmma.cu and chain_mma.cu.
 *
 * md_config.h: MD_BN, MD_WIDTH; MD_SPLIT; MD_FIRST (0: all rows have keys from the first on); MD_HALVES (2: weights
 * that the formula does not round, as the sum of two 16-bit elements); md_chain_pack, md_chain_round_two. */
#ifndef MD_CUDA_CHAIN_ROWS_H
#define MD_CUDA_CHAIN_ROWS_H

/* What a thread has of its two rows: bounds of their keys, the largest score, the sum of powers, and by what the sums
 * before the present block must be multiplied. */
typedef struct md_rows {
    int first[2], last[2];
    float top[2], sum[2], factor[2];
} md_rows;

typedef float md_block_scores[MD_BN / 2];
typedef unsigned md_block_powers[MD_HALVES][MD_BN / 4];
typedef float md_sums[MD_WIDTH / 2];

/* 1: the formula's functions of scores and weights want to know the rows. */
#define MD_NAMES_ROWS (!MD_FOLDS || MD_CHAIN_TERM == 2 || MD_CHAIN_WEIGHT == 1)
#if MD_NAMES_ROWS
typedef md_chain_row md_named_rows[2];
#else
struct md_named_rows {
};
#endif

MD_INLINE void md_start_rows(md_rows &r)
{
    MD_FOR (h, 2) {
        r.top[h] = MD_CHAIN_MAXIMUM ? -MD_INF_F : 0.f;
        r.sum[h] = 0;
        r.factor[h] = 1;
    }
}

/* The keys of a row, so far as the formula bounds them. */
MD_INLINE void md_keys_of_row(int &first, int &last, const md_params &p, const md_chain_batch &b, int row)
{
    first = 0;
    last = (int)md_chain_keys(&p);
    if (MD_CHAIN_BOUNDED) {
        const md_chain_keys_of span = md_chain_span(&p, &b, row, row + 1);
        first = (int)span.begin;
        last = (int)span.end;
    }
}

/* Scores of keys that a row does not have become -inf. */
MD_INLINE void md_mask(md_block_scores &s, const md_rows &r, int key)
{
    const int own = key + (threadIdx.x & 3) * 2;
    MD_FOR (i, MD_BN / 2) {
        const int at = i / 4 * 8 + i % 2, half = i / 2 % 2;
        const bool has = at < r.last[half] - own && (!MD_FIRST || at >= r.first[half] - own);
        s[i] = has ? s[i] : MD_CHAIN_MAXIMUM ? -MD_INF_F : 0.f;
    }
}

#if !MD_FOLDS
/* What the formula makes of the scores; keys behind the last one become -inf. */
template <bool masked>
MD_INLINE void md_score_all(md_block_scores &s, const md_params &p, const md_named_rows &named, const md_rows &r,
                            int key)
{
    const int own = key + (threadIdx.x & 3) * 2;
    MD_FOR (i, MD_BN / 2) {
        const int at = own + i / 4 * 8 + i % 2, half = i / 2 % 2;
        if (masked && !MD_CHAIN_BOUNDED)
            s[i] = at < r.last[half] ? md_chain_score(&p, &named[half], at, s[i]) : -MD_INF_F;
        else
            s[i] = md_chain_open(&p, &named[half], at, s[i]);
    }
}
#endif

MD_INLINE void md_find_tops(md_rows &r, const md_block_scores &s, float scale)
{
    MD_FOR (h, 2) {
        float top = r.top[h], other = top;
        MD_FOR (i, MD_BN / 8) {
            top = fmaxf(top, s[i * 4 + h * 2]);
            other = fmaxf(other, s[i * 4 + 1 + h * 2]);
        }
        top = fmaxf(top, other);
        top = fmaxf(top, __shfl_xor_sync(MD_ALL_LANES, top, 1));
        top = fmaxf(top, __shfl_xor_sync(MD_ALL_LANES, top, 2));
        top = (top - r.top[h]) * scale <= 8.f ? r.top[h] : top; /* powers up to 2^8 do no harm */
        r.factor[h] = md_power((r.top[h] - md_chain_base(top)) * scale);
        r.sum[h] *= r.factor[h];
        r.top[h] = top;
    }
}

/* Scores become weights, and are summed. */
MD_INLINE void md_take_powers(md_block_scores &s, md_rows &r, const md_params &p, const md_named_rows &named, int key,
                              float scale)
{
    MD_FOR (h, 2) {
        const float own = md_chain_scale_of(r.top[h], scale), base = md_chain_base(r.top[h]) * own;
        float sum[2] = {0, 0};
        MD_FOR (i, MD_BN / 4) {
            float &x = s[i / 2 * 4 + i % 2 + h * 2];
            if (MD_CHAIN_MAXIMUM)
                x = md_power(__fmaf_rn(x, own, -base));
        }
        MD_FOR (i, MD_BN / 4) {
            float &x = s[i / 2 * 4 + i % 2 + h * 2];
            if (MD_CHAIN_TERM == 1 && i % 2 == 0)
                md_chain_round_two(x, s[i * 2 + 1 + h * 2]);
#if MD_CHAIN_TERM == 2 || MD_CHAIN_WEIGHT == 1
            const int at = key + (threadIdx.x & 3) * 2 + i / 2 * 8 + i % 2;
            const bool has = at >= r.first[h] && at < r.last[h];
            if (MD_CHAIN_TERMS > 0)
                sum[i % 2] += MD_CHAIN_TERM < 2 ? x : has ? md_chain_term(0, &p, &named[h], at, x) : 0.f;
            x = MD_CHAIN_WEIGHT == 0 ? x : has ? md_chain_weight(&p, &named[h], at, x) : 0.f;
            if (MD_CHAIN_WEIGHT == 1 && i % 2 == 1)
                md_chain_round_two(s[i * 2 - 2 + h * 2], x);
#else
            sum[i % 2] += x;
#endif
        }
        r.sum[h] += sum[0] + sum[1];
    }
}

/* Packs the powers of a block as the left operand of the next product. */
MD_INLINE void md_pack_powers(md_block_powers &w, const md_block_scores &s)
{
    MD_FOR (i, MD_BN / 4) {
        const float a = s[i * 2], b = s[i * 2 + 1];
        w[0][i] = md_chain_pack(a, b);
        if (MD_HALVES == 2)
            w[MD_HALVES - 1][i] = md_pack_rest(a, b);
    }
}

MD_INLINE void md_rescale(md_sums &o, const md_rows &r)
{
    if (__any_sync(MD_ALL_LANES, r.factor[0] != 1.f || r.factor[1] != 1.f))
        MD_FOR (i, MD_WIDTH / 2)
            o[i] *= r.factor[i / 2 % 2];
}

/* Turns the scores of a block into powers. */
template <bool masked>
MD_INLINE void md_softmax(md_block_scores &s, md_rows &r, const md_params &p, const md_named_rows &named, int block,
                          float scale)
{
#if !MD_FOLDS
    md_score_all<masked>(s, p, named, r, block * MD_BN);
#endif
    if (masked && (MD_FOLDS || MD_CHAIN_BOUNDED))
        md_mask(s, r, block * MD_BN);
    if (MD_CHAIN_MAXIMUM)
        md_find_tops(r, s, scale);
    md_take_powers(s, r, p, named, block * MD_BN, scale);
}

/* ---- The end of a tile */

MD_INLINE void md_close_sums(md_rows &r)
{
    MD_FOR (h, 2) {
        r.sum[h] += __shfl_xor_sync(MD_ALL_LANES, r.sum[h], 1);
        r.sum[h] += __shfl_xor_sync(MD_ALL_LANES, r.sum[h], 2);
    }
}

/* Four lanes have two columns each of four times 8 columns; afterwards each has 8 columns. */
MD_INLINE void md_gather_columns(unsigned (&x)[4])
{
    const int lane = threadIdx.x & 3;
    MD_FOR (k, 2) {
        const int far = 2 >> k, is_upper = lane & far;
        MD_FOR (i, 2) {
            const int a = k ? 2 * i : i, b = a + far;
            const unsigned got = __shfl_xor_sync(MD_ALL_LANES, is_upper ? x[a] : x[b], far);
            x[a] = is_upper ? got : x[a];
            x[b] = is_upper ? x[b] : got;
        }
    }
    /* x[a] of the lower lane and x[b] of the upper one stayed: lane n has columns 8n in the order of lanes. */
}

#if MD_CHAIN_RESULT
/* Stores a row's results, which are one 16-bit tensor. half: of the thread's rows. */
MD_INLINE void md_store_columns(const md_sums &o, const md_params &p, const md_chain_row &row,
                                const md_chain_state &state, int half, float factor, bool exists)
{
    const int lane = threadIdx.x & 3;
    char *to = (char *)md_chain_result_at(&p, &row, 0);
    MD_FOR (i, (MD_WIDTH / 8 + 3) / 4) {
        unsigned x[4];
        MD_FOR (j, 4)
            if (i * 4 + j < MD_WIDTH / 8) {
                const float *from = o + (i * 4 + j) * 4 + half * 2;
                x[j] = md_chain_result(&p, &row, &state, i * 32 + j * 8 + lane * 2, from[0] * factor, from[1] * factor);
            }
        if (i * 4 + 4 <= MD_WIDTH / 8) {
            md_gather_columns(x);
            if (exists)
                *(uint4 *)(to + i * 64 + lane * 16) = make_uint4(x[0], x[1], x[2], x[3]);
        } else {
            MD_FOR (j, 4)
                if (i * 4 + j < MD_WIDTH / 8 && exists)
                    *(unsigned *)(to + i * 64 + j * 16 + lane * 4) = x[j];
        }
    }
}
#else
/* Stores a row's results, whatever they are. */
MD_INLINE void md_store_columns(const md_sums &o, const md_params &p, const md_chain_row &row,
                                const md_chain_state &state, int half, float factor, bool exists)
{
    MD_FOR (i, MD_WIDTH / 8) {
        const md_f pair = {{o[i * 4 + half * 2] * factor, o[i * 4 + half * 2 + 1] * factor}};
        if (exists)
            md_chain_store(&p, &row, &state, i * 8 + (threadIdx.x & 3) * 2, pair, md_full());
    }
}
#endif

/* Ends the thread's rows, the first of which is `row`, and stores them. `rows`: of the batch. */
MD_INLINE void md_finish(md_sums &o, md_rows &r, const md_params &p, const md_chain_batch &b, int row, int rows,
                         float scale)
{
    MD_FOR (h, 2) {
        const bool exists = row + h * 8 < rows;
        const md_chain_row at = md_chain_row_of(&p, &b, min(row + h * 8, rows - 1));
        md_chain_state state = md_chain_start();
        if (MD_CHAIN_MAXIMUM)
            state.maximum = r.top[h] * (scale * 0.693147180559945f);
        state.sum[0] = r.sum[h];
        const float factor = md_chain_close(&p, &at, &state);
        if (MD_CHAIN_ROW_STORES && (threadIdx.x & 3) == 0 && exists)
            md_chain_store_row(&p, &at, &state);
        md_store_columns(o, p, at, state, h, factor, exists);
    }
}

#if MD_SPLIT > 1
/* A part of a split tile is in the order of its threads: sums four by four, then the states of their rows. */
template <int threads> MD_INLINE void md_leave_part(float *part, const md_sums &o, const md_rows &r, int own)
{
    float4 *to = (float4 *)part + own;
    MD_FOR (i, MD_WIDTH / 8)
        __stcg(to + i * threads, make_float4(o[i * 4], o[i * 4 + 1], o[i * 4 + 2], o[i * 4 + 3]));
    __stcg(to + MD_WIDTH / 8 * threads, make_float4(r.top[0], r.top[1], r.sum[0], r.sum[1]));
}

/* Combines all parts of a tile in their order. `apart`: floats from one part to the next. */
template <int threads>
MD_INLINE void md_take_parts(md_sums &o, md_rows &r, const float *parts, int apart, int own, float scale)
{
    enum { STATES = MD_WIDTH / 8 * threads };
    float top[2] = {MD_CHAIN_MAXIMUM ? -MD_INF_F : 0.f, MD_CHAIN_MAXIMUM ? -MD_INF_F : 0.f};
    MD_FOR (k, MD_SPLIT) {
        const float4 state = __ldcg((const float4 *)(parts + k * apart) + own + STATES);
        top[0] = fmaxf(top[0], state.x);
        top[1] = fmaxf(top[1], state.y);
    }
    MD_FOR (i, MD_WIDTH / 2)
        o[i] = 0;
    r.sum[0] = r.sum[1] = 0;
    MD_ROLLED for (int k = 0; k < MD_SPLIT; k++)
    {
        const float4 *from = (const float4 *)(parts + k * apart) + own, state = __ldcg(from + STATES);
        const float f0 = md_power((state.x - md_chain_base(top[0])) * scale),
                    f1 = md_power((state.y - md_chain_base(top[1])) * scale);
        r.sum[0] = __fmaf_rn(state.z, f0, r.sum[0]);
        r.sum[1] = __fmaf_rn(state.w, f1, r.sum[1]);
        MD_FOR (i, MD_WIDTH / 8) {
            const float4 x = __ldcg(from + i * threads);
            o[i * 4] = __fmaf_rn(x.x, f0, o[i * 4]);
            o[i * 4 + 1] = __fmaf_rn(x.y, f0, o[i * 4 + 1]);
            o[i * 4 + 2] = __fmaf_rn(x.z, f1, o[i * 4 + 2]);
            o[i * 4 + 3] = __fmaf_rn(x.w, f1, o[i * 4 + 3]);
        }
    }
    r.top[0] = top[0];
    r.top[1] = top[1];
}
#endif

#endif
