/* Pairs of rows and keys, summed in both directions (codegen/chain/pairs.h), on tensor cores by mma.sync, from sm_80
 * on: the gradient of attention. A block has a tile of one sum's results: of keys, then it runs over rows; or of rows,
 * then it runs over keys. Of each block of other lines it computes the products that the weights need, and the weights,
 * which stay in registers as the left operand of the product with the values. So products are computed for each sum
 * anew, nothing is exchanged, and every element is summed in the order of the other lines.
 *
 * md_config.h:
 *   MD_DEPTH, MD_WIDTH          elements of the lines of the first product; of others
 *   MD_BLOCK                    other lines of a step
 *   MD_WARPS, MD_ROW_TILES      warps; 16 own lines each of a warp
 *   MD_STAGES                   steps in the ring
 *   MD_MMA_TYPE                 of operands: bf16, f16; md_pairs_pack, md_pairs_short: rounding to it
 * md_expr.h: src/codegen/chain/pairs.h. Grid: a block for each tile of each sum, and some for none. */
#include "md_config.h"
#include "prelude.h"
#include "pairs_round.h"
#include "md_expr.h"
#include "chain_check.h"
#include "chain_lines.h"
#include "mma.h"
#include "mma_lines.h"
#include "races.h"
/* a block has tiles of one sum */
#define MD_PAIR_KINDS MD_PAIR_SUMS
#define md_kind_is_to_keys md_pairs_towards_keys
#include "pairs_part.h"

enum {
    THREADS = 32 * MD_WARPS,
    WARP_LINES = 16 * MD_ROW_TILES,
    OWN = MD_WARPS * WARP_LINES, /* lines of a tile */
    COPIED = MD_BLOCK / MD_WARPS /* other lines that a warp copies */
};

/* Where a sum has its lines in shared memory: own ones, then stages of other ones, then what is known of own rows, or
 * of those of all stages. */
template <int sum> struct md_room {
    typedef md_part<sum> P;
    enum {
        OWN1_AT = P::USES0 ? md_lines_bytes(OWN, P::DEPTH0) : 0,
        STAGES_AT = OWN1_AT + (P::USES1 ? md_lines_bytes(OWN, P::DEPTH1) : 0),
        OTHER1_AT = P::USES0 ? md_lines_bytes(MD_BLOCK, P::DEPTH0) : 0,
        PRODUCTS_END = OTHER1_AT + (P::USES1 ? md_lines_bytes(MD_BLOCK, P::DEPTH1) : 0),
        VALUE_AT = P::COPIES_VALUE                     ? PRODUCTS_END
                   : P::USES0 && P::VALUE == P::OTHER0 ? 0
                                                       : OTHER1_AT,
        STAGE_BYTES = PRODUCTS_END + (P::COPIES_VALUE ? md_lines_bytes(MD_BLOCK, P::WIDTH) : 0),
        NOTES_AT = STAGES_AT + MD_STAGES * STAGE_BYTES
    };
};

typedef float md_products[MD_ROW_TILES][MD_BLOCK / 2];

MD_INLINE int md_first_line() { return threadIdx.x / 32 * WARP_LINES; }

/* A warp copies its own lines of an operand. */
template <int operand>
MD_INLINE void md_copy_own(unsigned to, const md_params &p, const md_chain_batch &b, int first, int end)
{
    MD_FOR (t, MD_ROW_TILES) {
        const int line = md_first_line() + t * 16;
        md_copy_lines<md_pairs_length(operand), 16, OWN>(
            to, line, md_pairs_data(operand, &p), md_line_place<operand>(p, b, first + line + (threadIdx.x & 15), end));
    }
}

template <int operand>
MD_INLINE void md_copy_other(unsigned to, const md_params &p, const md_chain_batch &b, int first, int end, int thread)
{
    const int line = thread / 32 * COPIED;
    md_copy_lines<md_pairs_length(operand), COPIED, MD_BLOCK>(
        to, line, md_pairs_data(operand, &p), md_line_place<operand>(p, b, first + line + thread % COPIED, end),
        thread & 31);
}

/* Each warp copies its lines of a block of others. Those from `end` on become zeros. */
template <int sum>
MD_INLINE void md_copy_block(unsigned to, md_chain_row *notes, const md_params &p, const md_chain_batch &b, int number,
                             int end)
{
    typedef md_part<sum> P;
    typedef md_room<sum> R;
    const int first = number * MD_BLOCK, thread = md_ask_thread();
    MD_TEST_POISON_TOGETHER(to, R::STAGE_BYTES);
    if constexpr (P::USES0)
        md_copy_other<P::OTHER0>(to, p, b, first, end, thread);
    if constexpr (P::USES1)
        md_copy_other<P::OTHER1>(to + R::OTHER1_AT, p, b, first, end, thread);
    if constexpr (P::COPIES_VALUE)
        md_copy_other<P::VALUE>(to + R::VALUE_AT, p, b, first, end, thread);
    if constexpr (P::TO_KEYS)
        if (thread < MD_BLOCK)
            notes[thread] = md_chain_row_of(&p, &b, min(first + thread, end - 1));
}

/* x = own lines times other lines. */
template <int length> MD_INLINE void md_multiply_lines(md_products &x, unsigned own, unsigned others)
{
    MD_FOR (t, MD_ROW_TILES)
        MD_FOR (i, MD_BLOCK / 2)
            x[t][i] = 0;
    MD_FOR (i, length / 16) {
        unsigned a[MD_ROW_TILES][4];
        md_load_step<OWN>(a, own, md_first_line(), i);
        md_multiply_step<MD_BLOCK>(x, a, others, i);
    }
}

/* A product becomes a weight. `open`: all lines exist, and no bound leaves any out. */
template <int sum, bool open>
MD_INLINE void md_weigh_one(float &x, float x2, const md_params &p, const md_chain_row &row, int key, bool exists)
{
    const float w = open ? md_pairs_open(sum, &p, &row, key, x, x2) : md_pairs_weight(sum, &p, &row, key, x, x2);
    x = open || exists ? w : 0.f;
}

/* Keys that do not exist are computed as the last one, and not stored. */
MD_INLINE int md_own_key(const md_params &p, int key) { return min(key, (int)md_chain_keys(&p) - 1); }

/* Other line by other line: what is known of a row is read once. `own`: the first of the thread's own lines. */
template <int sum, bool open>
MD_INLINE void md_weigh(md_products &x, const md_products &x2, const md_params &p, const md_chain_row *notes, int own,
                        int first, int end)
{
    MD_FOR (i, MD_BLOCK / 4) {
        const int other = i / 2 * 8 + i % 2 + (threadIdx.x & 3) * 2, at = i / 2 * 4 + i % 2;
        const bool exists = first + other < end;
        MD_FOR (t, MD_ROW_TILES)
            MD_FOR (half, 2) {
                float &w = x[t][at + half * 2];
                const float w2 = x2[t][at + half * 2];
                const int line = t * 16 + half * 8;
                if constexpr (md_part<sum>::TO_KEYS)
                    md_weigh_one<sum, open>(w, w2, p, notes[other], md_own_key(p, own + line), exists);
                else
                    md_weigh_one<sum, open>(w, w2, p, notes[md_first_line() + (threadIdx.x & 31) / 4 + line],
                                            open ? first + other : min(first + other, end - 1), exists);
            }
    }
}

/* o += weights times values. */
template <int sum>
MD_INLINE void md_multiply_values(float (&o)[MD_ROW_TILES][md_part<sum>::WIDTH / 2], const md_products &w,
                                  unsigned values)
{
    enum { HALVES = md_part<sum>::HALVES };
    MD_FOR (j, MD_BLOCK / 16) {
        unsigned a[HALVES][MD_ROW_TILES][4];
        MD_FOR (t, MD_ROW_TILES)
            MD_FOR (i, 4) {
                const float u = w[t][j * 8 + i * 2], v = w[t][j * 8 + i * 2 + 1];
                a[0][t][i] = md_pairs_pack(u, v);
                if (HALVES == 2)
                    a[HALVES - 1][t][i] = md_pairs_pack(u - md_pairs_short(u), v - md_pairs_short(v));
            }
        MD_FOR (i, md_part<sum>::WIDTH / 16) {
            unsigned v[4];
            md_load_values<MD_BLOCK>(v, values, j, i);
            MD_FOR (t, MD_ROW_TILES)
                MD_FOR (h, HALVES) {
                    md_mma(o[t] + i * 8, a[h][t], v[0], v[1]);
                    md_mma(o[t] + i * 8 + 4, a[h][t], v[2], v[3]);
                }
        }
    }
}

template <int sum, bool open>
MD_INLINE void md_add_block(float (&o)[MD_ROW_TILES][md_part<sum>::WIDTH / 2], const md_params &p,
                            const md_chain_row *notes, unsigned memory, unsigned stage, int own, int first, int end)
{
    typedef md_part<sum> P;
    md_products x, x2;
    if constexpr (P::USES0)
        md_multiply_lines<P::DEPTH0>(x, memory, stage);
    if constexpr (P::USES1)
        md_multiply_lines<P::DEPTH1>(x2, memory + md_room<sum>::OWN1_AT, stage + md_room<sum>::OTHER1_AT);
    md_weigh<sum, open>(x, x2, p, notes, own, first, end);
    md_multiply_values<sum>(o, x, stage + md_room<sum>::VALUE_AT);
}

/* Stores the thread's own lines. */
template <int sum>
MD_INLINE void md_store_lines(const float (&o)[MD_ROW_TILES][md_part<sum>::WIDTH / 2], const md_params &p,
                              const md_chain_batch &b, int first, int end)
{
    MD_FOR (t, MD_ROW_TILES)
        MD_FOR (h, 2) {
            const int line = first + md_first_line() + t * 16 + h * 8 + (threadIdx.x & 31) / 4;
            md_chain_row row = {0};
            if (line >= end)
                continue;
            if (!md_part<sum>::TO_KEYS)
                row = md_chain_row_of(&p, &b, line);
            MD_FOR (i, md_part<sum>::WIDTH / 8) {
                const md_f pair = {{o[t][i * 4 + h * 2], o[t][i * 4 + h * 2 + 1]}};
                md_pairs_store(sum, &p, &b, &row, line, i * 8 + (threadIdx.x & 3) * 2, pair, md_full());
            }
        }
}

/* A warp finds out what it wants to know of its own rows. */
MD_INLINE void md_note_own(md_chain_row *notes, const md_params &p, const md_chain_batch &b, int first, int end)
{
    const int line = md_first_line() + (threadIdx.x & 31);
    if ((threadIdx.x & 31) < WARP_LINES)
        notes[line] = md_chain_row_of(&p, &b, min(first + line, end - 1));
}

template <int sum> MD_INLINE void md_run_tile(const md_params &p, const md_pair_tile &tile)
{
    typedef md_part<sum> P;
    typedef md_room<sum> R;
    const unsigned memory = md_shared_address(md_shared), ring = memory + R::STAGES_AT;
    md_chain_row *notes = (md_chain_row *)(md_shared + R::NOTES_AT);
    const md_chain_batch b = md_chain_batch_of(&p, tile.batch);
    const int first = tile.tile * OWN, lines = (int)(P::TO_KEYS ? md_chain_keys(&p) : md_chain_rows(&p));
    md_walk<P::TO_KEYS> walk;
    float o[MD_ROW_TILES][P::WIDTH / 2];
    md_other_block queue[MD_STAGES];
    md_begin_walk<OWN, MD_BLOCK>(walk, p, b, first);
    if constexpr (P::USES0)
        md_copy_own<P::OWN0>(memory, p, b, first, lines);
    if constexpr (P::USES1)
        md_copy_own<P::OWN1>(memory + R::OWN1_AT, p, b, first, lines);
    MD_FOR (i, MD_STAGES - 1) {
        queue[i] = md_next_block<OWN, MD_BLOCK>(walk, p, b);
        if (queue[i] >= 0)
            md_copy_block<sum>(ring + i * R::STAGE_BYTES, notes + i * MD_BLOCK, p, b, md_number_of(queue[i]),
                               md_others(p, walk));
        md_copy_commit();
    }
    if (!P::TO_KEYS)
        md_note_own(notes, p, b, first, lines);
    const int own = first + md_first_line() + (threadIdx.x & 31) / 4;
    int now = 0;
    MD_FOR (t, MD_ROW_TILES)
        MD_FOR (i, P::WIDTH / 2)
            o[t][i] = 0;
    MD_ROLLED while (queue[0] >= 0)
    {
        const int at = md_number_of(queue[0]) * MD_BLOCK;
        MD_TEST_PAUSE(at);
        md_copy_wait<MD_STAGES - 2>();
        __syncthreads();
        const int next = now == 0 ? MD_STAGES - 1 : now - 1;
        queue[MD_STAGES - 1] = md_next_block<OWN, MD_BLOCK>(walk, p, b);
        if (queue[MD_STAGES - 1] >= 0)
            md_copy_block<sum>(ring + next * R::STAGE_BYTES, notes + next * MD_BLOCK, p, b,
                               md_number_of(queue[MD_STAGES - 1]), md_others(p, walk));
        md_copy_commit();
        MD_TEST_PAUSE(at + 1);
        if (md_is_open(queue[0]) && at + MD_BLOCK <= md_others(p, walk))
            md_add_block<sum, true>(o, p, notes + (P::TO_KEYS ? now * MD_BLOCK : 0), memory,
                                    ring + now * R::STAGE_BYTES, own, at, md_others(p, walk));
        else
            md_add_block<sum, false>(o, p, notes + (P::TO_KEYS ? now * MD_BLOCK : 0), memory,
                                     ring + now * R::STAGE_BYTES, own, at, md_others(p, walk));
        MD_FOR (i, MD_STAGES - 1)
            queue[i] = queue[i + 1];
        now = now + 1 == MD_STAGES ? 0 : now + 1;
    }
    md_copy_wait<0>();
    const md_pair_tile same = md_pair_tile_of(md_pair_work_of(p, OWN), md_ask_block());
    md_store_lines<sum>(o, p, md_chain_batch_of(&p, same.batch), same.tile * OWN,
                        (int)(P::TO_KEYS ? md_chain_keys(&p) : md_chain_rows(&p)));
}

template <int sum> MD_INLINE void md_run_sum(const md_params &p, const md_pair_tile &tile)
{
    if constexpr (sum < MD_PAIR_SUMS) {
        if (tile.kind == sum)
            md_run_tile<sum>(p, tile);
        else
            md_run_sum<sum + 1>(p, tile);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    md_check_batches(&p, blockIdx.x * THREADS + threadIdx.x, gridDim.x * THREADS);
    const md_pair_tile tile = md_pair_tile_of(md_pair_work_of(p, OWN), md_ask_block());
    if (tile.tile >= 0)
        md_run_sum<0>(p, tile);
}
