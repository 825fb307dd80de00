/* Attention on Hopper's tensor cores: softmax(Q K^T) V without scores in memory. A block takes tiles of rows, from a
 * counter, longest first. One thread copies keys and values into a ring by TMA, three warps copy queries; each of the
 * other warpgroups computes 64 rows of a tile: scores of a block of keys, their powers, and the product of these with
 * the values. While the tensor cores multiply for one warpgroup, the others compute powers, and so does each of them
 * beside its own product with values. Powers stay in registers.
 *
 * md_config.h:
 *   MD_DEPTH, MD_WIDTH          elements of a key; of a value
 *   MD_BN                       keys of a block
 *   MD_GROUPS                   computing warpgroups
 *   MD_STAGES, MD_SLOTS         blocks of keys and of values in the ring; tiles of queries
 *   MD_SPLIT                    parts that the keys of a tile are divided into; the last one to end combines them
 *   MD_FIRST                    0: all rows have keys from the first on
 *   MD_LOW, MD_HIGH             registers of copying and computing threads
 *   md_chain_pack(a, b)         two powers as a word of 16-bit elements
 *   md_chain_round_two(a, b)    makes two powers what such elements have
 *   md_chain_counter(p), md_chain_parts(p)   counters of the stream; the workspace
 *   md_scores(s, q, k, keep)    the instruction for a block's scores
 *   md_values(o, p, v)          the instruction that adds a product with values
 *   md_copy_keys, md_copy_values(to, p, b, element, key, bar)  copy a box of a block
 * md_expr.h: src/codegen/chain/chain.h; md_params begins with md_tensor_map of K and V. */
#include "md_config.h"
#define MD_REPORTING MD_INLINE
#include "prelude.h"
#include "tma.h"
#include "md_expr.h"
#include "chain.h"
#include "chain_work.h"
#include "chain_rows.h"
#include "wgmma.h"

enum {
    THREADS = 128 * (MD_GROUPS + 1),
    ROWS = 64 * MD_GROUPS,
    CHUNKS_K = (MD_DEPTH + 63) / 64, /* of 128 bytes a row */
    CHUNKS_V = (MD_WIDTH + 63) / 64,
    SLOT_BYTES = CHUNKS_K * ROWS * 128,
    K_BYTES = CHUNKS_K * MD_BN * 128,
    V_BYTES = CHUNKS_V * MD_BN * 128,
    NOTE_BYTES = 64 + ROWS * 8,
    PART = 128 * (MD_WIDTH / 2 + 4) /* floats of a warpgroup's part of a split tile */
};

/* Shared memory, by addresses. */
typedef struct md_places {
    unsigned q, k, v, note, full_q, empty_q, full_note, full_k, empty_k, full_v, empty_v, near_end, drawn, work;
} md_places;

MD_INLINE md_places md_places_of(unsigned base)
{
    md_places s;
    s.q = base;
    s.k = s.q + MD_SLOTS * SLOT_BYTES;
    s.v = s.k + MD_STAGES * K_BYTES;
    s.note = s.v + MD_STAGES * V_BYTES;
    s.full_q = s.note + MD_SLOTS * NOTE_BYTES;
    s.empty_q = s.full_q + MD_SLOTS * 8;
    s.full_note = s.empty_q + MD_SLOTS * 8;
    s.full_k = s.full_note + MD_SLOTS * 8;
    s.empty_k = s.full_k + MD_STAGES * 8;
    s.full_v = s.empty_k + MD_STAGES * 8;
    s.empty_v = s.full_v + MD_STAGES * 8;
    s.near_end = s.empty_v + MD_STAGES * 8;
    s.drawn = s.near_end + 8;
    s.work = s.drawn + 16 * (MD_GROUPS + 1);
    return s;
}

#include "chain_wgmma_copy.h"
#include "chain_wgmma_step.h"
#include "chain_wgmma_end.h"

/* Tiles one after the other. With two slots the next tile's first scores are under way while one tile ends. */
MD_INLINE void md_consume(const md_params &p, const md_places &s, const md_work &work)
{
    md_blocks_ring ring;
    md_ring<MD_SLOTS> slot;
    md_mine m, next;
    md_rows r, next_rows;
    md_block_scores scores;
    /* ptxas then knows that it is the same in all lanes, and so are the descriptors of queries */
    m.group = next.group = __shfl_sync(MD_ALL_LANES, (int)threadIdx.x / 128, 0) - 1;
    m.scale = next.scale = md_chain_power_scale(&p);
    if (m.group == MD_GROUPS - 1)
        md_pass_turn(m.group);
    m.q = next.q = md_matrix_low(s.q, 8192);
    bool is_tile = md_begin(scores, next, next_rows, ring, s, slot);
    MD_ROLLED while (is_tile)
    {
        md_sums o;
        m = next;
        r = next_rows;
#if MD_NAMES_ROWS
        md_take_rows(m, p, work);
#endif
        MD_FOR (i, MD_WIDTH / 2)
            o[i] = 0;
        md_attend(o, scores, r, ring, s, m, p);
        const unsigned values = s.empty_v + ring.at * 8;
        ring.next();
        slot.next();
#if MD_SLOTS > 1
        is_tile = md_begin(scores, next, next_rows, ring, s, slot);
        md_wgmma_wait<1>();
#else
        md_wgmma_wait<0>();
#endif
        md_release(values);
        md_close_sums(r);
#if MD_SPLIT > 1
        if (md_meet_parts(o, r, m, p, s))
#endif
            md_finish(o, r, p, md_chain_batch_of(&p, m.batch), md_row_of(m, 0), work.rows, m.scale);
#if MD_SLOTS == 1
        is_tile = md_begin(scores, next, next_rows, ring, s, slot);
#endif
    }
    md_wgmma_wait<0>();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) md_kernel(const __grid_constant__ md_params p)
{
    extern __shared__ unsigned char md_memory[];
    MD_IF_EMPTY_RETURN_BEFORE_WAITING;
    const md_places s = md_places_of((md_shared_address(md_memory) + 1023) & ~1023u);
    const md_work work = md_work_of<ROWS>(p);
    if (threadIdx.x == 0) {
        md_tma_prefetch(&p.map0);
        md_tma_prefetch(&p.map1);
        for (int i = 0; i < MD_SLOTS; i++) {
            md_bar_init(s.full_note + i * 8, 1);
            md_bar_init(s.full_q + i * 8, COPIERS);
            md_bar_init(s.empty_q + i * 8, 4 * MD_GROUPS + 1);
        }
        for (int i = 0; i < MD_STAGES; i++) {
            md_bar_init(s.full_k + i * 8, 1);
            md_bar_init(s.full_v + i * 8, 1);
            md_bar_init(s.empty_k + i * 8, 4 * MD_GROUPS);
            md_bar_init(s.empty_v + i * 8, 4 * MD_GROUPS);
        }
        md_bar_init(s.near_end, 1);
        md_bar_init_fence();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        md_registers_down<MD_LOW>();
        if (threadIdx.x == 0)
            md_produce(p, s);
        else if (threadIdx.x / 32 == 1)
            md_lead(p, s, work);
        else if (threadIdx.x / 32 > 1)
            md_help(p, s, work, threadIdx.x / 32 - 1);
    } else {
        md_registers_up<MD_HIGH>();
        md_wait_for_launches();
        md_check_batches(&p, blockIdx.x * (THREADS - 128) + threadIdx.x - 128, gridDim.x * (THREADS - 128));
        md_consume(p, s, work);
    }
}
