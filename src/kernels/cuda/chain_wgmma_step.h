/* The other warpgroups: scores, their powers, and sums of values, block by block. A part of chain_wgmma.cu. */
#ifndef MD_CUDA_CHAIN_WGMMA_STEP_H
#define MD_CUDA_CHAIN_WGMMA_STEP_H

/* A tile as one warpgroup sees it. */
typedef struct md_mine {
    int group, batch, row, item, begin, end, last_key, split; /* row: of the warpgroup */
    int clean_begin, clean_end; /* blocks of which all rows have all keys */
    md_named_rows named;
    unsigned q; /* of a descriptor */
    int slot;
    float scale; /* of scores, times log2(e) */
} md_mine;

/* Issues the scores of a block; q and k are low words of descriptors. */
MD_INLINE void md_multiply_keys(md_block_scores &s, unsigned q, unsigned k)
{
    MD_FOR (i, MD_DEPTH / 16)
        md_scores(s, md_matrix_at(q, i / 4 * (ROWS * 128) + i % 4 * 32),
                  md_matrix_at(k, i / 4 * (MD_BN * 128) + i % 4 * 32), i > 0);
}

/* Issues the product of powers and values. */
MD_INLINE void md_multiply_values(md_sums &o, const md_block_powers &w, unsigned v)
{
    MD_FOR (half, MD_HALVES)
        MD_FOR (i, MD_BN / 16)
            md_values(o, w[half] + i * 4, md_matrix_at(v, i * 2048));
}

MD_INLINE void md_release(unsigned bar)
{
    if ((threadIdx.x & 31) == 0)
        md_bar_arrive(bar);
}

/* Nothing reads the tile's queries any more. */
MD_INLINE void md_leave_queries(const md_places &s, const md_mine &m)
{
    __syncwarp();
    if ((threadIdx.x & 31) == 0)
        md_bar_arrive(s.empty_q + m.slot * 8);
}

/* Warpgroups take turns in issuing products. */
enum { MEET = 2, TURN_THREADS = 256 };
MD_INLINE void md_wait_turn(int group) { md_meet(MEET + group, TURN_THREADS); }
MD_INLINE void md_pass_turn(int group)
{
    md_meet_arrive(MEET + (group + 1 == MD_GROUPS ? 0 : group + 1), TURN_THREADS);
}

/* The thread's rows are 8 apart. */
MD_INLINE int md_row_of(const md_mine &m, int half)
{
    return m.row + (threadIdx.x / 32 & 3) * 16 + (threadIdx.x & 31) / 4 + half * 8;
}

/* Reads a note. */
MD_INLINE void md_take(md_mine &m, md_rows &r, const md_places &s, int slot)
{
    const unsigned note = s.note + slot * NOTE_BYTES;
    m.batch = md_load_word(note + BATCH * 4);
    m.row = md_load_word(note + ROW * 4) + m.group * 64;
    m.item = md_load_word(note + ITEM * 4);
    m.begin = md_load_word(note + BEGIN * 4);
    m.end = md_load_word(note + END * 4);
    m.last_key = md_load_word(note + LAST_KEY * 4);
    m.split = md_load_word(note + SPLIT * 4);
    m.clean_begin = max(md_load_word(note + (CLEAN + 2 * m.group) * 4), m.begin);
    m.clean_end = max(md_load_word(note + (CLEAN + 2 * m.group + 1) * 4), m.begin);
    m.slot = slot;
    m.q = md_matrix_low(s.q + slot * SLOT_BYTES + m.group * 64 * 128, 8192);
    MD_FOR (h, 2) {
        const int row = md_row_of(m, h);
        const unsigned bounds = note + 64 + (row - m.row + m.group * 64) * 8;
        r.first[h] = md_load_word(bounds);
        r.last[h] = md_load_word(bounds + 4);
    }
    md_start_rows(r);
}

/* The scores of one block while the values of the one before it are multiplied. */
template <bool masked>
MD_INLINE void md_step(md_sums &o, md_block_scores &s, md_block_powers &w, md_rows &r, md_blocks_ring &ring,
                       const md_places &at, const md_mine &m, const md_params &p, int block)
{
    md_blocks_ring ahead = ring;
    ahead.next();
    md_bar_wait(at.full_k + ahead.at * 8, ahead.phase);
    md_wait_turn(m.group);
    md_wgmma_fence();
    md_multiply_keys(s, m.q, md_matrix_low(at.k, 8192) + ahead.at * (K_BYTES / 16));
    md_wgmma_commit();
    md_bar_wait(at.full_v + ring.at * 8, ring.phase);
    md_wgmma_fence();
    md_multiply_values(o, w, md_matrix_low(at.v, MD_BN * 128) + ring.at * (V_BYTES / 16));
    md_wgmma_commit();
    md_pass_turn(m.group);
    md_wgmma_wait<1>();
    md_release(at.empty_k + ahead.at * 8);
    md_softmax<masked>(s, r, p, m.named, block, m.scale);
    md_wgmma_wait<0>();
    md_release(at.empty_v + ring.at * 8);
    md_pack_powers(w, s);
    md_rescale(o, r);
    ring = ahead;
}

#if MD_CHAIN_RAGGED
/* Values behind the last key of a tile may be NaN, and 0 times NaN is NaN: they become 0. */
MD_INLINE void md_clear_values(const md_mine &m, const md_places &at, const md_blocks_ring &ring)
{
    const int rest = m.last_key - (m.end - 1) * MD_BN;
    if (rest >= MD_BN || rest <= 0)
        return;
    md_bar_wait(at.full_v + ring.at * 8, ring.phase);
    for (int i = rest * CHUNKS_V * 8 + (threadIdx.x & 127); i < MD_BN * CHUNKS_V * 8; i += 128) {
        const unsigned to =
            at.v + ring.at * V_BYTES + i / 8 % CHUNKS_V * (MD_BN * 128) + i / 8 / CHUNKS_V * 128 + i % 8 * 16;
        asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(0) : "memory");
    }
    md_proxy_fence();
    md_meet(MEET + MD_GROUPS + m.group, 128);
}
#endif

/* Reads the next note and issues the scores of its tile's last block. `ring`: that block's. False if there is no tile:
 * then the scores mean nothing, but ptxas wants the product on all ways. */
MD_INLINE bool md_begin(md_block_scores &s, md_mine &m, md_rows &r, const md_blocks_ring &ring, const md_places &at,
                        const md_ring<MD_SLOTS> &slot)
{
    md_bar_wait(at.full_q + slot.at * 8, slot.phase);
    const bool is_tile = md_load_word(at.note + slot.at * NOTE_BYTES + IS_TILE * 4);
    if (is_tile) {
        md_take(m, r, at, slot.at);
        md_bar_wait(at.full_k + ring.at * 8, ring.phase);
    }
    md_wgmma_fence();
    md_multiply_keys(s, m.q, md_matrix_low(at.k, 8192) + ring.at * (K_BYTES / 16));
    md_wgmma_commit();
    return is_tile;
}

#if MD_NAMES_ROWS
/* What the formula wants to know of the thread's rows. */
MD_INLINE void md_take_rows(md_mine &m, const md_params &p, const md_work &work)
{
    const md_chain_batch b = md_chain_batch_of(&p, m.batch);
    MD_FOR (h, 2)
        m.named[h] = md_chain_row_of(&p, &b, min(md_row_of(m, h), work.rows - 1));
}
#endif

/* The sums of a tile over all its blocks of keys, from the last to the first. The scores of the last block have been
 * issued; afterwards the product with the first block's values is. */
MD_INLINE void md_attend(md_sums &o, md_block_scores &s, md_rows &r, md_blocks_ring &ring, const md_places &at,
                         const md_mine &m, const md_params &p)
{
    md_block_powers w;
    int block = m.end - 1;
#if MD_CHAIN_RAGGED
    md_clear_values(m, at, ring);
#endif
    md_wgmma_wait<0>();
    md_release(at.empty_k + ring.at * 8);
    md_softmax<true>(s, r, p, m.named, block--, m.scale);
    md_pack_powers(w, s);
    MD_ROLLED for (; block >= m.clean_end; block--) md_step<true>(o, s, w, r, ring, at, m, p, block);
    MD_ROLLED for (; block >= m.clean_begin; block--) md_step<false>(o, s, w, r, ring, at, m, p, block);
    MD_ROLLED for (; MD_FIRST && block >= m.begin; block--) md_step<true>(o, s, w, r, ring, at, m, p, block);
    md_leave_queries(at, m);
    md_bar_wait(at.full_v + ring.at * 8, ring.phase);
    md_wgmma_fence();
    md_multiply_values(o, w, md_matrix_low(at.v, MD_BN * 128) + ring.at * (V_BYTES / 16));
    md_wgmma_commit();
}

#endif
