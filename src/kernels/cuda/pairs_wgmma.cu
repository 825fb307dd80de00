/* Pairs of rows and keys, summed in both directions (codegen/chain/pairs.h), on Hopper's tensor cores: the gradient of
 * attention. A block has a tile of keys or of rows and runs over the other ones, block by block: one warpgroup copies
 * them into a ring; each of two others has 64 of the tile's lines. It computes the products of its lines with those of
 * a block, the weights of all sums in its direction, and what these add to the sums. While it computes weights, the
 * tensor cores multiply for the other one. Nothing is exchanged between blocks, and every element is summed in the
 * order of the other lines.
 *
 * md_config.h:
 *   MD_DEPTH, MD_WIDTH          elements of the lines of the first product; of others
 *   MD_BLOCK                    other lines of a step
 *   MD_STAGES                   steps in the ring
 *   MD_LOW, MD_HIGH             registers of copying and computing threads
 *   md_pairs_pack(a, b)         two weights as a word of 16-bit elements
 *   md_multiply(x, a, b, keep)  the instruction for products of own lines with others
 *   md_accumulate(o, w, v)      the instruction that adds a product of weights with values
 * md_expr.h: src/codegen/chain/pairs.h. Grid: a block for each tile of each direction, and some for none. */
#include "md_config.h"
#include "prelude.h"
#include "tma.h"
#include "pairs_round.h"
#include "md_expr.h"
#include "chain_check.h"
#include "chain_lines.h"
#include "wgmma.h"
/* a block has tiles of all sums in one direction */
MD_INLINE constexpr int md_sums_towards(int keys)
{
    int n = 0;
    for (int s = 0; s < MD_PAIR_SUMS; s++)
        n += md_pairs_towards_keys(s) == keys;
    return n;
}
#define MD_PAIR_KINDS ((md_sums_towards(0) > 0) + (md_sums_towards(1) > 0))
#define md_kind_is_to_keys(k) ((k) == 0 && md_sums_towards(1) > 0)
#include "pairs_part.h"
#include "pairs_wgmma_copy.h"

/* Sum n of a direction: its number; the last one where there are fewer. */
template <int to_keys> MD_INLINE constexpr int md_nth_sum(int n)
{
    int found = -1, at = 0;
    for (int s = 0; s < MD_PAIR_SUMS; s++)
        if (md_pairs_towards_keys(s) == to_keys && (found < 0 || at <= n)) {
            found = s;
            at++;
        }
    return found;
}

template <int to_keys> struct md_sums {
    enum {
        N = md_sums_towards(to_keys),
        FIRST = md_nth_sum<to_keys>(0),
        SECOND = md_nth_sum<to_keys>(1),
        WIDTH0 = md_pairs_length(md_pairs_value(FIRST)),
        WIDTH1 = N > 1 ? md_pairs_length(md_pairs_value(SECOND)) : 16
    };
    float first[WIDTH0 / 2], second[WIDTH1 / 2];
};

typedef float md_products[MD_BLOCK / 2];
enum { PARTS = MD_BLOCK >= 64 ? 4 : 2, PART = MD_BLOCK / PARTS }; /* of a block, whose weights are made at once */
typedef unsigned md_weights[PART / 4];

MD_INLINE int md_group() { return threadIdx.x / 128 - 1; }
/* The first of the thread's two lines in the tile. */
MD_INLINE int md_own_line() { return md_group() * 64 + (threadIdx.x / 32 & 3) * 16 + (threadIdx.x & 31) / 4; }

/* Issues the product of the group's own lines with a block of others. */
template <int length> MD_INLINE void md_issue_product(md_products &x, unsigned own, unsigned others)
{
    const unsigned a = md_matrix_low(own + md_group() * 64 * 128, 8192), b = md_matrix_low(others, 8192);
    MD_FOR (i, length / 16)
        md_multiply(x, md_matrix_at(a, i / 4 * (OWN * 128) + i % 4 * 32),
                    md_matrix_at(b, i / 4 * (MD_BLOCK * 128) + i % 4 * 32), i > 0);
}

/* Issues the product of weights with half a block of values. */
template <int n> MD_INLINE void md_issue_sum(float (&o)[n], const md_weights &w, unsigned values, int part)
{
    const unsigned v = md_matrix_low(values, MD_BLOCK * 128);
    MD_FOR (i, PART / 16)
        md_accumulate(o, w + i * 4, md_matrix_at(v, (part * (PART / 16) + i) * 2048));
}

/* Issues product n of own lines and a block of others. */
template <int to_keys, int n> MD_INLINE void md_issue(md_products &x, unsigned memory, unsigned stage)
{
    typedef md_room<to_keys> R;
    if constexpr (n == 0)
        md_issue_product<R::DEPTH0>(x, memory, stage);
    else if constexpr (MD_PAIR_PRODUCTS > 1)
        md_issue_product<R::DEPTH1>(x, memory + R::OWN1_AT, stage + R::OTHER1_AT);
}

/* A block as a thread sees it. */
typedef struct md_step {
    const md_chain_row *notes; /* of the block's rows, or of the tile's */
    unsigned stage; /* the address of other lines */
    int own, own_end; /* the thread's first own line; own lines from there on do not exist */
    int first, end; /* the block's first line; others from there on do not exist */
} md_step;

/* A weight of sum s. `open`: all lines exist, and no bound leaves any out. */
template <bool open>
MD_INLINE float md_weight_of(int s, const md_params &p, const md_chain_row &row, int key, float x, float x2,
                             bool exists)
{
    const float w = open ? md_pairs_open(s, &p, &row, key, x, x2) : md_pairs_weight(s, &p, &row, key, x, x2);
    return open || exists ? w : 0.f;
}

/* Products of a part of a block become weights, packed as left operands. */
template <int to_keys, bool open>
MD_INLINE void md_weigh(md_weights &w0, md_weights &w1, const md_products &x, const md_products &x2, const md_params &p,
                        const md_step &t, int part)
{
    typedef md_sums<to_keys> S;
    MD_FOR (k, PART / 8)
        MD_FOR (half, 2) {
            const int g = part * (PART / 8) + k, own = t.own + half * 8;
            float v0[2], v1[2];
            MD_FOR (e, 2) {
                const int other = g * 8 + (threadIdx.x & 3) * 2 + e, at = g * 4 + half * 2 + e;
                const bool exists = t.first + other < t.end;
                const md_chain_row &row = to_keys ? t.notes[other] : t.notes[md_own_line() + half * 8];
                const int key =
                    to_keys ? min(own, t.own_end - 1) : (open ? t.first + other : min(t.first + other, t.end - 1));
                v0[e] = md_weight_of<open>(S::FIRST, p, row, key, x[at], x2[at], exists);
                if (S::N > 1)
                    v1[e] = md_weight_of<open>(S::SECOND, p, row, key, x[at], x2[at], exists);
            }
            w0[k * 2 + half] = md_pairs_pack(v0[0], v0[1]);
            if (S::N > 1)
                w1[k * 2 + half] = md_pairs_pack(v1[0], v1[1]);
        }
}

/* Stores one of the thread's lines of a sum. */
template <int n>
MD_INLINE void md_store_line(int s, const float (&o)[n], const md_params &p, const md_chain_batch &b, int line,
                             int half)
{
    md_chain_row row = {0};
    if (!md_pairs_towards_keys(s))
        row = md_chain_row_of(&p, &b, line);
    MD_FOR (i, n / 4) {
        const md_f pair = {{o[i * 4 + half * 2], o[i * 4 + half * 2 + 1]}};
        md_pairs_store(s, &p, &b, &row, line, i * 8 + (threadIdx.x & 3) * 2, pair, md_full());
    }
}

template <int to_keys> MD_INLINE void md_store_sums(const md_sums<to_keys> &o, const md_params &p)
{
    typedef md_sums<to_keys> S;
    const md_pair_tile tile = md_pair_tile_of(md_pair_work_of(p, OWN), md_ask_block());
    const md_chain_batch b = md_chain_batch_of(&p, tile.batch);
    const int end = md_own_end<to_keys>(p);
    MD_FOR (half, 2) {
        const int line = tile.tile * OWN + md_own_line() + half * 8;
        if (line >= end)
            continue;
        md_store_line(S::FIRST, o.first, p, b, line, half);
        if constexpr (S::N > 1)
            md_store_line(S::SECOND, o.second, p, b, line, half);
    }
}

/* A thread's share of a tile. */
template <int to_keys> struct md_mine {
    md_sums<to_keys> o;
    md_products x, x2; /* of the present block */
    md_blocks_ring now;
};

template <int to_keys> MD_INLINE unsigned md_stage_of(const md_mine<to_keys> &m, unsigned memory)
{
    return memory + md_room<to_keys>::STAGES_AT + m.now.at * md_room<to_keys>::STAGE_BYTES;
}

/* Issues the products of the present block. */
template <int to_keys> MD_INLINE void md_issue_both(md_mine<to_keys> &m, unsigned memory)
{
    const unsigned stage = md_stage_of(m, memory);
    md_wgmma_fence();
    md_issue<to_keys, 0>(m.x, memory, stage);
    md_issue<to_keys, 1>(m.x2, memory, stage);
    md_wgmma_commit();
}

/* Adds a block to the sums, part by part: the tensor cores add one while the weights of the next are computed. */
template <int to_keys, bool open> MD_INLINE void md_add_block(md_mine<to_keys> &m, const md_params &p, const md_step &t)
{
    typedef md_sums<to_keys> S;
    typedef md_room<to_keys> R;
    md_weights w0[PARTS], w1[PARTS];
    MD_FOR (part, PARTS) {
        md_weigh<to_keys, open>(w0[part], w1[part], m.x, m.x2, p, t, part);
        md_wgmma_fence();
        md_issue_sum(m.o.first, w0[part], t.stage + R::value_at(md_pairs_value(S::FIRST)), part);
        if constexpr (S::N > 1)
            md_issue_sum(m.o.second, w1[part], t.stage + R::value_at(md_pairs_value(S::SECOND)), part);
        md_wgmma_commit();
    }
    md_wgmma_wait<0>();
}

/* The sums of the group's lines. */
template <int to_keys>
MD_INLINE void md_consume(const md_params &p, const md_pair_tile &tile, unsigned memory, unsigned char *data)
{
    typedef md_room<to_keys> R;
    const md_bars bars = md_bars_of(memory + R::BARS_AT);
    const md_chain_row *const notes = (const md_chain_row *)(data + R::NOTES_AT);
    md_mine<to_keys> m;
    md_step t;
    t.own = tile.tile * OWN + md_own_line();
    t.own_end = md_own_end<to_keys>(p);
    md_bar_wait(bars.own, 0);
    md_bar_wait(bars.full, 0);
    md_other_block block = md_load_word(bars.word);
    md_issue_both(m, memory);
    md_wgmma_wait<0>();
    MD_FOR (i, md_sums<to_keys>::WIDTH0 / 2)
        m.o.first[i] = 0;
    MD_FOR (i, md_sums<to_keys>::WIDTH1 / 2)
        m.o.second[i] = 0;
    MD_ROLLED while (block >= 0)
    {
        const unsigned empty = bars.empty + m.now.at * 8;
        t.first = md_number_of(block) * MD_BLOCK;
        t.end = md_load_word(bars.word + m.now.at * 8 + 4);
        t.notes = notes + (to_keys ? m.now.at * MD_BLOCK : 0);
        t.stage = md_stage_of(m, memory);
        if (md_is_open(block) && t.first + MD_BLOCK <= t.end)
            md_add_block<to_keys, true>(m, p, t);
        else
            md_add_block<to_keys, false>(m, p, t);
        __syncwarp();
        if ((threadIdx.x & 31) == 0)
            md_bar_arrive(empty);
        m.now.next();
        md_bar_wait(bars.full + m.now.at * 8, m.now.phase);
        block = md_load_word(bars.word + m.now.at * 8);
        md_issue_both(m, memory);
        md_wgmma_wait<0>();
    }
    md_store_sums<to_keys>(m.o, p);
}

/* Calls `run` of the tile's direction. */
#define MD_BY_KIND(run, ...)                                                                                           \
    if (md_kind_is_to_keys(0) && (MD_PAIR_KINDS == 1 || tile.kind == 0))                                               \
        run<md_kind_is_to_keys(0)>(__VA_ARGS__);                                                                       \
    else if (!md_kind_is_to_keys(0) || MD_PAIR_KINDS > 1)                                                              \
        run<0>(__VA_ARGS__);

template <int to_keys> MD_INLINE void md_begin(unsigned memory)
{
    if (threadIdx.x == 0)
        md_init_bars(md_bars_of(memory + md_room<to_keys>::BARS_AT));
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    const md_pair_tile tile = md_pair_tile_of(md_pair_work_of(p, OWN), blockIdx.x);
    unsigned char *data = md_shared + ((1024 - (md_shared_address(md_shared) & 1023)) & 1023);
    const unsigned memory = md_shared_address(data);
    if (tile.tile < 0)
        return;
    MD_BY_KIND(md_begin, memory)
    __syncthreads();
    if (threadIdx.x < 128) {
        md_registers_down<MD_LOW>();
        MD_BY_KIND(md_produce, p, tile, memory, data)
    } else {
        md_registers_up<MD_HIGH>();
        md_check_batches(&p, blockIdx.x * (THREADS - 128) + threadIdx.x - 128, gridDim.x * (THREADS - 128));
        MD_BY_KIND(md_consume, p, tile, memory, data)
    }
}
