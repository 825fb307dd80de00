/* A block of rows in pairs_joint.cu: products, weights and sums of a warpgroup. */
#ifndef MD_CUDA_PAIRS_JOINT_STEP_H
#define MD_CUDA_PAIRS_JOINT_STEP_H

typedef float md_products[BLOCK / 2];
typedef unsigned md_weights[BLOCK / 4];
typedef float md_row_sums[ROW_COLUMNS / 2];

/* A thread's share of a tile. */
typedef struct md_mine {
    float early[EARLY_WIDTH / 2], late[LATE_WIDTH / 2];
    int own, keys; /* the thread's first key; keys from there on do not exist */
    md_chain_row same; /* what all rows have in common */
} md_mine;

/* A block as a thread sees it. */
typedef struct md_step {
    const unsigned char *notes;
    int rows; /* that exist */
} md_step;

MD_INLINE int md_group() { return threadIdx.x / 128 - 1; }
/* The first of the thread's two keys in the tile. */
MD_INLINE int md_own_line() { return md_group() * 64 + (threadIdx.x / 32 & 3) * 16 + (threadIdx.x & 31) / 4; }

/* Issues the product of the warpgroup's keys with a block of rows. */
template <int length> MD_INLINE void md_issue_product(md_products &x, unsigned own, unsigned rows)
{
    const unsigned a = md_matrix_low(own + md_group() * 64 * 128, 8192), b = md_matrix_low(rows, 8192);
    MD_FOR (i, length / 16) {
        const unsigned long long left = md_matrix_at(a, i / 4 * (OWN * 128) + i % 4 * 32),
                                 right = md_matrix_at(b, i / 4 * (BLOCK * 128) + i % 4 * 32);
        if (i == 0)
            md_multiply_first(x, left, right);
        else
            md_multiply(x, left, right, 1);
    }
    md_wgmma_commit();
}

/* Issues the product of weights with a block's values. */
template <int n> MD_INLINE void md_issue_sum(float (&o)[n], const md_weights &w, unsigned values)
{
    const unsigned v = md_matrix_low(values, BLOCK * 128);
    MD_FOR (i, BLOCK / 16)
        md_accumulate(o, w + i * 4, md_matrix_at(v, i * 2048));
    md_wgmma_commit();
}

/* Issues the product of all weights of the block, across, with the warpgroup's columns of the values of keys. */
MD_INLINE void md_issue_rows(md_row_sums &o, unsigned memory, unsigned weights)
{
    const int column = md_group() * ROW_COLUMNS;
    const unsigned a = md_matrix_low(weights, 8192), b = md_matrix_low(memory + (ROW_VALUE == KEYS0 ? 0 : KEYS1_AT) +
                                                                           column / 64 * (OWN * 128) + column % 64 * 2,
                                                                       OWN * 128);
    MD_FOR (i, OWN / 16)
        if (i == 0)
            md_multiply_across_first(o, md_matrix_at(a, 0), md_matrix_at(b, 0));
        else
            md_multiply_across(o, md_matrix_at(a, i * 2048), md_matrix_at(b, i * 2048), 1);
    md_wgmma_commit();
}

/* A weight of the pair of a row and the thread's key of `half`: the late one if `is_late`, where `before` is the early
 * one. `open`: all lines exist, and no bound leaves any out. */
template <bool is_late, bool open>
MD_INLINE float md_weight_of(const md_mine &m, const md_params &p, const md_step &t, const md_chain_row &r, int row,
                             int half, float before, float x)
{
    const int own = m.own + half * 8, key = open ? own : min(own, m.keys - 1);
    float v;
    if (is_late)
        v = open ? md_pairs_late_open(&p, &r, key, before, x) : md_pairs_late(&p, &r, key, before, x);
    else
        v = open ? md_pairs_open(MD_EARLY, &p, &r, key, x, 0.f) : md_pairs_weight(MD_EARLY, &p, &r, key, x, 0.f);
    return open || (row < t.rows && own < m.keys) ? v : 0.f;
}

/* The weights of a block, packed as left operands; the late ones from the early ones. */
template <bool is_late, bool open>
MD_INLINE void md_weigh(md_weights &w, const md_weights &early, const md_products &x, const md_mine &m,
                        const md_params &p, const md_step &t)
{
    MD_FOR (k, BLOCK / 8) {
        const int row = k * 8 + (threadIdx.x & 3) * 2;
        md_chain_row r[2] = {m.same, m.same};
        md_note_get(r, t.notes, row);
        MD_FOR (half, 2) {
            const int at = k * 2 + half;
            float v[2];
            MD_FOR (e, 2) {
                const float before = is_late ? md_pairs_up((uint16_t)(early[at] >> 16 * e)) : 0.f;
                v[e] = md_weight_of<is_late, open>(m, p, t, r[e], row + e, half, before, x[at * 2 + e]);
            }
            w[at] = md_pairs_pack(v[0], v[1]);
        }
    }
}

/* Leaves weights in shared memory: four blocks of 8 keys and 8 rows of each warp at a time. */
MD_INLINE void md_leave_weights(unsigned weights, const md_weights &w)
{
    const int lane = threadIdx.x & 31;
    const int key = md_group() * 64 + (threadIdx.x / 32 & 3) * 16 + (lane / 8 & 1) * 8 + lane % 8;
    MD_FOR (i, BLOCK / 16) {
        const int piece = i * 2 + lane / 16;
        md_stmatrix(weights + key * 128 + ((piece ^ (key & 7)) << 4), w[i * 4], w[i * 4 + 1], w[i * 4 + 2],
                    w[i * 4 + 3]);
    }
}

/* Nothing of a stage is read any more. */
MD_INLINE void md_release(unsigned bar)
{
    __syncwarp();
    if ((threadIdx.x & 31) == 0)
        md_bar_arrive(bar);
}

MD_INLINE unsigned md_stage_of(unsigned memory, const md_blocks_ring &ring)
{
    return memory + STAGES_AT + ring.at * STAGE_BYTES;
}

/* Stores one of the thread's keys of a sum. */
template <int n>
MD_INLINE void md_store_key(int s, const float (&o)[n], const md_params &p, const md_chain_batch &b, int key, int half)
{
    const md_chain_row row = {0};
    MD_FOR (i, n / 4) {
        const md_f pair = {{o[i * 4 + half * 2], o[i * 4 + half * 2 + 1]}};
        md_pairs_store(s, &p, &b, &row, key, i * 8 + (threadIdx.x & 3) * 2, pair, md_full());
    }
}

MD_INLINE void md_store_sums(const md_mine &m, const md_params &p, const md_tile &tile)
{
#if MD_SPLIT > 1
    float *to = md_memory(p) + md_row_floats(p) +
                ((((long long)tile.batch * md_tiles(p) + tile.tile) * MD_SPLIT + tile.part) * GROUPS + md_group()) *
                    (64 * (EARLY_WIDTH + LATE_WIDTH));
    md_store_lines(to, m.early);
    md_store_lines(to + 64 * EARLY_WIDTH, m.late);
#else
    const md_chain_batch b = md_chain_batch_of(&p, tile.batch);
    MD_FOR (half, 2)
        if (m.own + half * 8 < m.keys) {
            md_store_key(MD_EARLY, m.early, p, b, m.own + half * 8, half);
            md_store_key(MD_LATE, m.late, p, b, m.own + half * 8, half);
        }
#endif
}

#if MD_ORDER
/* Leaves what the block adds to rows in shared memory, from where a thread sends it. */
MD_INLINE void md_leave_sums(const md_row_sums &o, const md_bars &bars, unsigned memory, unsigned phase)
{
    const unsigned to = memory + SUMS_AT + md_group() * (BLOCK * ROW_COLUMNS * 4) + (threadIdx.x & 127) * 16;
    md_bar_wait(bars.sent, phase ^ 1);
    MD_FOR (i, ROW_COLUMNS / 8)
        md_store_four(to + i * 2048, o[i * 4], o[i * 4 + 1], o[i * 4 + 2], o[i * 4 + 3]);
    md_proxy_fence();
    md_release(bars.sums);
}
#endif

/* Begins the next block: its first product, and its number. */
MD_INLINE md_block md_begin_block(md_products &x, unsigned memory, const md_bars &bars, const md_blocks_ring &ring)
{
    md_bar_wait(bars.full + ring.at * 8, ring.phase);
    const md_block block = md_load_word(bars.word + ring.at * 8);
    md_wgmma_fence();
    md_issue_product<LENGTH0>(x, memory, md_stage_of(memory, ring));
    return block;
}

/* A block whose first product is there, up to the product for rows. `weights`: room for its weights. */
MD_INLINE void md_step_through(md_mine &m, md_row_sums &rows, md_weights &late, const md_products &x,
                               const md_params &p, const md_step &t, unsigned memory, unsigned stage, unsigned weights,
                               bool is_open)
{
    md_products x2;
    md_weights early;
    md_wgmma_fence();
    md_issue_product<LENGTH1>(x2, memory + KEYS1_AT, stage + ROWS1_AT);
    if (is_open)
        md_weigh<false, true>(early, early, x, m, p, t);
    else
        md_weigh<false, false>(early, early, x, m, p, t);
    md_wgmma_fence();
    md_issue_sum(m.early, early, stage + (EARLY_VALUE == ROWS0 ? 0 : ROWS1_AT));
    md_wgmma_wait<1>();
    if (is_open)
        md_weigh<true, true>(late, early, x2, m, p, t);
    else
        md_weigh<true, false>(late, early, x2, m, p, t);
    md_leave_weights(weights, late);
    md_proxy_fence();
    md_meet(1, 128 * GROUPS);
    md_wgmma_wait<0>();
    md_wgmma_fence();
    md_issue_rows(rows, memory, weights);
}

/* The sums of the warpgroup's keys over all blocks of rows. */
MD_INLINE void md_consume(const md_params &p, const md_tile &tile, unsigned memory, const unsigned char *data)
{
    const md_bars bars = md_bars_of(memory);
    const md_chain_batch b = md_chain_batch_of(&p, tile.batch);
    float *const blocks = md_memory(p) + (long long)tile.batch * md_row_blocks_of(p).all * (BLOCK * ROW_WIDTH) +
                          md_group() * (BLOCK * ROW_COLUMNS);
    md_mine m;
    md_products x;
    md_blocks_ring ring;
    unsigned weights = 0, phase = 0; /* weights: which half of their room */
    m.own = tile.tile * OWN + md_own_line();
    m.keys = (int)md_chain_keys(&p);
    m.same = md_chain_row_of(&p, &b, 0);
    md_bar_wait(bars.own, 0);
    md_block block = md_begin_block(x, memory, bars, ring);
    md_wgmma_wait<0>();
    MD_FOR (i, EARLY_WIDTH / 2)
        m.early[i] = 0;
    MD_FOR (i, LATE_WIDTH / 2)
        m.late[i] = 0;
    MD_ROLLED while (block >= 0)
    {
        const md_step t = {data + NOTES_AT + ring.at * NOTES_BYTES, md_load_word(bars.word + ring.at * 8 + 4)};
        [[maybe_unused]] float *const to = blocks + (long long)md_number_of(block) * (BLOCK * ROW_WIDTH);
        const unsigned stage = md_stage_of(memory, ring), empty = bars.empty + ring.at * 8;
        md_row_sums rows;
        md_weights late;
        md_step_through(m, rows, late, x, p, t, memory, stage, memory + WEIGHTS_AT + weights, md_is_open(block));
        ring.next();
        block = md_begin_block(x, memory, bars, ring);
        md_issue_sum(m.late, late, stage + (LATE_VALUE == ROWS0 ? 0 : ROWS1_AT));
        md_wgmma_wait<2>();
#if MD_ORDER
        md_leave_sums(rows, bars, memory, phase);
        phase ^= 1;
#else
        md_add_lines(to, rows);
#endif
        md_wgmma_wait<0>();
        md_release(empty);
        weights ^= WEIGHTS_BYTES;
    }
    md_store_sums(m, p, tile);
}

#endif
