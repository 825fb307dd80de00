/* Pairs of rows and keys, summed in both directions (codegen/chain/pairs.h), on Hopper's tensor cores, with each
 * product of a pair computed once: the gradient of attention as five products. A block has a tile of 128 keys and runs
 * over the rows, 64 at a time. One thread copies these into a ring by TMA, two warps write down what is known of them;
 * each of two warpgroups has 64 keys. It computes both products, weights (the early ones need the first product
 * alone), adds what they give to the sums towards keys, which stay in registers, and multiplies all weights of the
 * block, which both leave in shared memory, with its half of the columns of the sum towards rows. That is added to
 * memory: in any order, or, through shared memory and by a thread of its own, tile by tile. Each product is issued
 * before the arithmetic that it can run beside:
 *
 *     weights of the first product  beside  the second product
 *     those of both                 beside  the early sum
 *     additions to memory           beside  the next block's first product and the late sum
 *
 * Launches before and after (MD_PHASE) clear that memory and store the results.
 *
 * md_config.h:
 *   MD_DEPTH, MD_WIDTH          elements of the lines of the first product; of others
 *   MD_STAGES                   blocks in the ring
 *   MD_SPLIT                    blocks that share the runs of rows of a tile; above 1 their sums towards keys go to
 *                               memory, and the last launch adds them in order
 *   MD_ORDER                    1: tiles add to each row in the order of their keys
 *   MD_LOW, MD_HIGH             registers of copying and computing threads
 *   MD_EARLY, MD_LATE, MD_ROWWARDS    the sums: towards keys, of the first product alone and of both; towards rows
 *   MD_PHASE                    1 clears, 2 computes, 3 stores
 *   md_pairs_pack(a, b), md_pairs_up(half)    two weights as a word of 16-bit elements; such an element
 *   md_multiply(x, a, b, keep)  the instruction for products of keys with rows; md_multiply_first(x, a, b)
 *   md_accumulate(o, w, v)      the instruction that adds a product of weights with values
 *   md_multiply_across(x, a, b, keep)     that for what a block adds to rows; md_multiply_across_first(x, a, b)
 *   md_copy_rows0, md_copy_rows1(to, p, r, element, bar), md_copy_keys0, md_copy_keys1(to, p, b, element, key,
 *                               bar)      copy a box of the operands of both products
 *   md_pairs_late(p, &row, key, early, x2), md_pairs_late_open     the late weight from the early one
 *   MD_NOTE_BYTES, md_note_put(notes, line, row), md_note_get(rows, notes, line)     what is not the same in all rows,
 *                               in shared memory; two lines are read at a time
 * md_expr.h: src/codegen/chain/pairs.h; md_params begins with tensor maps. */
#include "md_config.h"
#include "prelude.h"
#include "tma.h"
#include "pairs_round.h"
#include "md_expr.h"
#include "chain_check.h"
#include "chain_lines.h"
#include "wgmma.h"
#include "pairs_joint_part.h"
#include "pairs_joint_memory.h"

#if MD_PHASE == 2
#include "pairs_joint_copy.h"
#include "pairs_joint_step.h"

extern "C" __global__ void __launch_bounds__(THREADS, 1) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    unsigned char *data = md_shared + ((1024 - (md_shared_address(md_shared) & 1023)) & 1023);
    const unsigned memory = md_shared_address(data);
    if (threadIdx.x == 0) {
        md_init_bars(md_bars_of(memory));
        /* in the order in which blocks begin: what a tile waits for has begun before it */
        md_store_word(memory + NUMBER_AT, MD_ORDER ? atomicAdd(md_turns(p) + md_all_turns(p), 1) : blockIdx.x);
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        md_registers_down<MD_LOW>();
        md_bring_all(p, memory, data);
    } else {
        md_registers_up<MD_HIGH>();
        md_check_batches(&p, blockIdx.x * (THREADS - 128) + threadIdx.x - 128, gridDim.x * (THREADS - 128));
        md_consume(p, md_own_tile(p), memory, data);
    }
}
#elif MD_PHASE == 1
extern "C" __global__ void __launch_bounds__(256) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    md_clear_memory(p);
}
#else
extern "C" __global__ void __launch_bounds__(256) md_kernel(const __grid_constant__ md_params p)
{
    MD_IF_EMPTY_RETURN;
    md_store_memory(p);
}
#endif
