/* Few rows whose keys are split: among parts of a block, and among blocks. What a block is to do, and how the parts are
 * combined in their order: through the shared memory of a cluster, or by the block that arrives last. A part of
 * chain_split.cu and chain_dot.cu.
 *
 * Defined before: KEYS_UNIT (keys that a block's parts take together), ROWS, THREADS, PARTS of a block. */
#ifndef MD_CUDA_CHAIN_MEET_H
#define MD_CUDA_CHAIN_MEET_H

#if MD_CLUSTERED
#include "tma.h"
#endif

#include "races.h"

enum {
    PITCH = MD_WIDTH + 4, /* of a row of sums */
    PART = (ROWS * PITCH + 2 * ROWS + 3) / 4 * 4, /* floats of a part: sums, maxima, sums of powers; whole fours */
    OF_TOPS = ROWS * PITCH,
    OF_SUMS = OF_TOPS + ROWS,
    FOURS = MD_WIDTH / 4, /* columns of a row in fours */
    UNITS = ROWS * FOURS,
    MAILS = UNITS + 16, /* places for fours that other blocks of the cluster send */
    MEMORY_PARTS = 16, /* parts that are loaded at once */
    CLUSTER_PARTS = 8
};

/* The block's work. */
typedef struct md_work {
    md_chain_batch batch;
    int split, splits, item; /* item: its tile of rows among all */
    int row, rows; /* the first row, all rows of the batch */
    int begin, end; /* keys of this block; begin is a multiple of KEYS_UNIT */
    int open_begin, open_end;
    md_even even;
    float scale;
    bool exists; /* the grid may have a few items too many */
} md_work;

/* What follows from parameters alone. The grid: splits, and items along two axes. */
MD_INLINE md_work md_work_of(const md_params &p)
{
    md_work w;
    w.rows = (int)md_chain_rows(&p);
    w.splits = gridDim.x;
    w.split = blockIdx.x;
    w.item = blockIdx.y + gridDim.y * blockIdx.z;
    const unsigned tiles = (w.rows + ROWS - 1) / ROWS, batch = tiles == 1 ? w.item : w.item / tiles;
    w.batch = md_chain_batch_of(&p, batch);
    w.row = (w.item - batch * tiles) * ROWS;
    w.scale = md_chain_power_scale(&p);
    w.exists = batch < (unsigned)md_chain_batches(&p);
    return w;
}

/* The keys of the block. Which of its parts a key belongs to depends on nothing but the key. */
MD_INLINE void md_take_keys(md_work &w, const md_params &p)
{
    const md_chain_keys_of span = md_chain_span(&p, &w.batch, w.row, min(w.row + ROWS, w.rows));
    const int first = (int)span.begin / KEYS_UNIT, all = ((int)span.end + KEYS_UNIT - 1) / KEYS_UNIT - first,
              each = MD_LENGTH ? 0 : (unsigned)max(all + w.splits - 1, 0) / (unsigned)w.splits;
    const int from = MD_LENGTH ? w.split * (MD_LENGTH / KEYS_UNIT) : first + w.split * each,
              to = MD_LENGTH ? from + MD_LENGTH / KEYS_UNIT : min(from + each, first + all);
    w.begin = max(from, first) * KEYS_UNIT;
    w.end = (int)min((long long)to * KEYS_UNIT, (long long)span.end);
    w.open_begin = (int)span.open_begin;
    w.open_end = (int)span.open_end;
}

/* Four columns of a row in each part: in this block, in memory, or as other blocks sent them. */
struct md_block_unit {
    const float *part;
    int row, column;
    __device__ __forceinline__ float top(int i) const { return part[i * PART + OF_TOPS + row]; }
    __device__ __forceinline__ float sum(int i) const { return part[i * PART + OF_SUMS + row]; }
    __device__ __forceinline__ float4 four(int i) const
    {
        return *(const float4 *)(part + i * PART + row * PITCH + column);
    }
};
struct md_memory_unit {
    const float *part;
    int row, column;
    __device__ __forceinline__ float top(int i) const { return __ldcg(part + (long long)i * PART + OF_TOPS + row); }
    __device__ __forceinline__ float sum(int i) const { return __ldcg(part + (long long)i * PART + OF_SUMS + row); }
    __device__ __forceinline__ float4 four(int i) const
    {
        return __ldcg((const float4 *)(part + (long long)i * PART + row * PITCH + column));
    }
};
struct md_mail_unit {
    const float *mail; /* MAILS fours, then MAILS pairs of a maximum and a sum */
    int own, apart;
    __device__ __forceinline__ float top(int i) const { return mail[MAILS * 4 + (i * apart + own) * 2]; }
    __device__ __forceinline__ float sum(int i) const { return mail[MAILS * 4 + (i * apart + own) * 2 + 1]; }
    __device__ __forceinline__ float4 four(int i) const { return ((const float4 *)mail)[i * apart + own]; }
};

/* A row's state over all parts, and its sums of four columns. */
typedef struct md_whole_row {
    float top, sum, x[4];
} md_whole_row;

/* Combines n parts in their order, `most` at a time, whose loads are all under way at once. */
template <int most, class S> MD_INLINE md_whole_row md_combine(const S &s, int n, float scale)
{
    md_whole_row r = {-MD_INF_F, 0, {0, 0, 0, 0}};
    MD_ROLLED for (int first = 0; first < n; first += most)
    {
        float top[most], sum[most];
        float4 x[most];
        MD_FOR (i, most) {
            const int at = min(first + i, n - 1);
            top[i] = s.top(at);
            sum[i] = s.sum(at);
            x[i] = s.four(at);
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
#if MD_CHAIN_RESULT
    *(uint2 *)md_chain_result_at(&p, &at, column) =
        make_uint2(md_chain_result(&p, &at, &state, column, r.x[0] * factor, r.x[1] * factor),
                   md_chain_result(&p, &at, &state, column + 2, r.x[2] * factor, r.x[3] * factor));
#else
    MD_FOR (i, 2) {
        const md_f pair = {{r.x[2 * i] * factor, r.x[2 * i + 1] * factor}};
        md_chain_store(&p, &at, &state, column + 2 * i, pair, md_full());
    }
#endif
}

/* Fours of the rows that exist. */
MD_INLINE int md_units(const md_work &w) { return min(ROWS, w.rows - w.row) * FOURS; }

MD_INLINE md_whole_row md_unit_of_block(const md_work &w, const float *parts, int unit)
{
    const md_block_unit s = {parts, unit / FOURS, unit % FOURS * 4};
    return md_combine<(PARTS < 8 ? PARTS : 8)>(s, PARTS, w.scale);
}

#if MD_CLUSTERED
/* Sends each four of the block to the one block of the cluster that ends it. */
MD_INLINE void md_meet_in_cluster(const md_params &p, const md_work &w, const float *parts, float *mail)
{
    const int all = md_units(w), each = (all + w.splits - 1) / w.splits;
    const unsigned at = md_shared_address(mail);
    const unsigned bar = at + MAILS * 24;
    const int own = max(min(each, all - w.split * each), 0);
    if (threadIdx.x == 0)
        md_bar_expect(bar, own * w.splits * 24);
    md_cluster_hear(); /* all blocks have begun, and their barriers are there */
    MD_ROLLED for (int unit = threadIdx.x; unit < all; unit += THREADS)
    {
        const md_whole_row r = md_unit_of_block(w, parts, unit);
        const int to = unit / each, place = w.split * each + unit - to * each;
        md_send4(at + place * 16, bar, to, r.x[0], r.x[1], r.x[2], r.x[3]);
        md_send2(at + MAILS * 16 + place * 8, bar, to, r.top, r.sum);
    }
    if (own == 0)
        return;
    md_bar_wait_cluster(bar, 0);
    MD_ROLLED for (int i = threadIdx.x; i < own; i += THREADS)
    {
        const md_mail_unit s = {mail, i, each};
        const int unit = w.split * each + i;
        md_store_four(p, w, md_combine<CLUSTER_PARTS>(s, w.splits, w.scale), unit / FOURS, unit % FOURS * 4);
    }
}
#else
/* What the block's threads wrote before they met is seen by whoever draws a later ticket; and by those it meets. */
MD_INLINE unsigned md_draw_ticket(unsigned *ticket)
{
    unsigned drawn;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
                 : "=r"(drawn)
                 : "l"(__cvta_generic_to_global(ticket))
                 : "memory");
    return drawn;
}

/* Leaves the block's part in the workspace; the last block of the split combines all. */
MD_INLINE void md_meet_in_memory(const md_params &p, const md_work &w, const float *own)
{
    const int all = md_units(w);
    float *parts = md_chain_parts(&p) + (long long)w.item * w.splits * PART, *mine = parts + (long long)w.split * PART;
    unsigned *ticket = md_chain_counter(&p) + 16 + w.item;
    __shared__ unsigned drawn;
    MD_ROLLED for (int unit = threadIdx.x; unit < all; unit += THREADS)
    {
        const md_whole_row r = md_unit_of_block(w, own, unit);
        const int row = unit / FOURS, column = unit % FOURS * 4;
        __stcg((float4 *)(mine + row * PITCH + column), make_float4(r.x[0], r.x[1], r.x[2], r.x[3]));
        if (column == 0) {
            __stcg(mine + OF_TOPS + row, r.top);
            __stcg(mine + OF_SUMS + row, r.sum);
        }
    }
    MD_TEST_PAUSE(5);
    __syncthreads();
    if (threadIdx.x == 0)
        drawn = md_draw_ticket(ticket);
    __syncthreads();
    MD_TEST_PAUSE(6);
    if (drawn != (unsigned)w.splits - 1)
        return;
    if (threadIdx.x == 0)
        *(volatile unsigned *)ticket = 0;
    MD_ROLLED for (int unit = threadIdx.x; unit < all; unit += THREADS)
    {
        const md_memory_unit s = {parts, unit / FOURS, unit % FOURS * 4};
        md_store_four(p, w, md_combine<MEMORY_PARTS>(s, w.splits, w.scale), s.row, s.column);
    }
}
#endif

/* Ends the block's rows. `parts`: those of the block, which all threads have written; mail: MAILS * 24 + 8 bytes that
 * nothing else uses (clusters only). */
MD_INLINE void md_meet(const md_params &p, const md_work &w, const float *parts, float *mail)
{
    MD_TEST_PAUSE(0);
    if (w.split == 0)
        md_check_rows(&p, &w.batch, w.row, min(w.row + ROWS, w.rows), threadIdx.x, THREADS);
    __syncthreads();
#if MD_CLUSTERED
    md_meet_in_cluster(p, w, parts, mail);
#else
    if (w.splits > 1) {
        md_meet_in_memory(p, w, parts);
        return;
    }
    MD_ROLLED for (int unit = threadIdx.x; unit < md_units(w); unit += THREADS)
        md_store_four(p, w, md_unit_of_block(w, parts, unit), unit / FOURS, unit % FOURS * 4);
#endif
}

/* Begins the block, and waits for earlier launches: as late as it can. */
MD_INLINE md_work md_begin(const md_params &p, const float *mail)
{
#if MD_CLUSTERED
    if (threadIdx.x == 0) {
        md_bar_init(md_shared_address(mail) + MAILS * 24, 1);
        md_bar_init_fence();
    }
    md_cluster_tell();
#endif
    md_work w = md_work_of(p);
    if (MD_CHAIN_RAGGED)
        md_wait_for_launches();
    md_take_keys(w, p);
    if (!MD_CHAIN_RAGGED) {
        if (MD_STEADY_KEYS && MD_STEADY_VALUES) {
            w.even = md_even_of(&p, &w.batch);
            asm volatile("" : "+l"(w.even.k), "+l"(w.even.v), "+r"(w.begin), "+r"(w.end)); /* not after the wait */
        }
        md_wait_for_launches();
    }
    if (MD_CHAIN_RAGGED || !MD_STEADY_KEYS || !MD_STEADY_VALUES)
        w.even = md_even_of(&p, &w.batch);
    return w;
}

#endif
