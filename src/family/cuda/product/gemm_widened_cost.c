/* The time of gemm_widened. */
#include "family/cuda/product/gemm_widened_cost.h"

#include "base/dtype.h"
#include "family/cuda/cuda.h"
#include "family/cuda/product/gemm.h"
#include "family/cuda/product/gemm_widened_fit.h"

#include <math.h>

int64_t md_fa_widened_chunks(const md_fa_widened *s, int64_t depth)
{
    const int64_t unit = (int64_t)MD_FA_WIDENED_DEPTH * s->chunks;
    return (depth + unit - 1) / unit * s->chunks;
}

double md_fa_widened_blocks(const md_fa_widened *s, const md_fa_product *sized)
{
    return ceil((double)sized->rows / s->rows) * ceil((double)sized->columns / s->width) * s->split;
}

static double widening(const md_fa_widened *s)
{
    return md_dtype_bits(s->weights) == 4 ? WIDEN_HALVES : s->type == MD_BF16 ? WIDEN_BYTES : WIDEN_TO_F16;
}

/* Instructions of a warp for 16 of K, its share of runs included. */
static double instructions(const md_fa_widened *s)
{
    const double runs = s->run > 0 ? 16.0 / s->run : 0;
    return widening(s) + STEP + runs * (RUN + RUN_SUMS * (1 + s->has_zero) * s->rows / 8);
}

int64_t md_fa_widened_at_once(const md_fa_widened *s, const md_dev_facts *facts)
{
    return s->split > 1 ? (int64_t)md_fa_cuda_clusters(facts, s->split, s->blocks) * s->split
                        : (int64_t)MD_MAX(facts->threads, 1) * s->blocks;
}

/* Rounds in which all clusters run. */
static double rounds_of(const md_fa_widened *s, const md_dev_facts *facts, double blocks)
{
    return ceil(blocks / (double)md_fa_widened_at_once(s, facts));
}

/* Clocks of a us. */
static double clock_of(const md_dev_facts *facts)
{
    return facts->gflops / (MD_MAX(facts->threads, 1) * FLOPS_A_CLOCK) * 1e3;
}

/* Few rows by warps: what all issue, the bytes, the units that a warp waits for one after the other, and the lines of
 * activations, of which an SM reads one a clock: two of each row for 16 of K, or one for 64 on the way to shared
 * memory. */
static double direct_us(const md_fa_widened *s, const md_dev_facts *facts, const md_fa_product *sized)
{
    const double sms = MD_MAX(facts->threads, 1), blocks = md_fa_widened_blocks(s, sized), eighths = s->rows / 8,
                 turns = rounds_of(s, facts, blocks), warps = fmin(ceil(blocks / sms), s->blocks) * s->threads / 32,
                 steps = MD_FA_WIDENED_DEPTH / 16 * s->chunks, /* of a unit */
        units = turns * ceil((double)md_fa_widened_chunks(s, sized->depth) / s->chunks / s->split / s->depths),
                 runs = s->run > 0 ? steps * 16 / s->run : 0, clock = clock_of(facts);
    const bool is_copied = s->ahead > 1;
    const double instructions = steps * (s->tiles * (widening(s) + FEW_STEP) + eighths * FEW_PAIR) +
                                runs * s->tiles * eighths * FEW_RUN * (1 + s->has_zero) +
                                (is_copied ? FEW_UNIT_COPIED : FEW_UNIT),
                 issued = FEW_ISSUED * pow(fmin(warps / 4 / FEW_ENOUGH, 1), FEW_FEWER), /* by a scheduler in a clock */
        lines = fmin((double)sized->rows, s->rows) * steps * (is_copied ? 0.25 : 2);
    const double us[] = {units * warps * instructions / 4 / (issued * clock),
                         sized->bytes / (md_fa_cuda_bytes_per_us(facts) * FEW_MEMORY),
                         units * (is_copied ? FEW_WAIT_COPIED : FEW_WAIT), units * warps * lines / (FEW_LINES * clock)};
    const double end = FEW_SUM * s->depths + FEW_MEET * (s->split - 1),
                 start = is_copied ? FEW_START_COPIED : FEW_START + (s->ahead ? 0 : FEW_UNASKED);
    return cbrt(pow(us[0], 3) + pow(us[1], 3) + pow(us[2], 3) + pow(us[3], 3)) + turns * end + start;
}

/* Weights that come through shared memory. */
static double shared_us(const md_fa_widened *s, const md_dev_facts *facts, const md_fa_product *sized)
{
    const double sms = MD_MAX(facts->threads, 1), blocks = md_fa_widened_blocks(s, sized), clock = clock_of(facts),
                 rounds = rounds_of(s, facts, blocks), together = fmin(ceil(blocks / sms), s->blocks),
                 warps = together * s->groups * s->depths, /* of a scheduler, a quarter of an SM */
        steps = 4.0 * (double)md_fa_widened_chunks(s, sized->depth) / s->split / s->depths;
    const double issue = rounds * warps * steps * instructions(s) /
                         (ISSUED * pow(fmin(warps / ENOUGH_WARPS, 1), FEWER_WARPS) * clock),
                 multiply = rounds * warps * steps * (1 + s->has_zero) * s->rows / 8 * MULTIPLY / clock,
                 rows_bytes = blocks * s->rows * (double)sized->depth / s->split * 2, /* from the L2 */
        memory = sized->bytes / (md_fa_cuda_bytes_per_us(facts) * MEMORY) + rows_bytes / L2_RATE;
    return cbrt(pow(issue, 3) + pow(multiply, 3) + pow(memory, 3)) + START + rounds * MEET * (s->split - 1) +
           (rounds - 1) * ROUND + (double)s->rows * s->depths * SUMS;
}

double md_fa_widened_us(const md_fa_widened *s, const md_dev_facts *facts, const md_fa_product *sized)
{
    return s->tiles ? direct_us(s, facts, sized) : shared_us(s, facts, sized);
}
