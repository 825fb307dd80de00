/* The cost of matrix products on the CUDA cores (without tensor cores). The constants were fitted on an H200 and an
 * H100. */
#include "family/cuda/product/fma_cost.h"

#include "family/cost.h"
#include "family/cuda/product/fma_fit.h"

#include <math.h>

enum { MANY_SUMS = 64 };

/* The time of `steps` steps of K with so many blocks on an SM: the p-norm of issuing the instructions of the busiest
 * quarter, and of a block waiting for itself. */
static double blocks_us(double blocks, const md_fa_cuda_fma *c, double products, double steps)
{
    return md_fa_norm(ceil(blocks * c->threads / 128.0) * c->sums * products * c->issued, c->alone, NORM) * steps /
           CLOCK;
}

/* Stream-K: tiles that belong to several blocks are stored in parts. Where a tile has few units, some runs end at its
 * end, and of tiles of one unit none is shared. */
static double runs_us(const md_fa_product *sized, const md_fa_cuda_fma *c, double tiles, double sms)
{
    const double of_tile = ceil((double)sized->depth / MD_FA_CUDA_RUN_UNIT), units = tiles * of_tile,
                 blocks = fmin(units, (double)c->runs), shared = (of_tile - 1) / of_tile;
    const double parts = fmod(tiles, blocks) == 0 ? 0 : (blocks + fmin(blocks, tiles)) * shared,
                 bytes = parts * c->rows * c->columns * 8;
    return blocks_us(ceil(blocks / sms), c, sized->p.n_products, ceil(units / blocks) * MD_FA_CUDA_RUN_UNIT) +
           bytes / GBPS * 1e-3 + (parts > 0 ? PART * blocks / tiles : 0);
}

static double tiles_us(const md_fa_product *sized, const md_fa_cuda_fma *c, double blocks, double sms)
{
    const double most = ceil(blocks / sms), rounds = floor(most / c->at_once), rest = most - rounds * c->at_once;
    const double steps =
        fmax(ceil((double)sized->depth / c->depth / c->split) * c->depth, c->split > 1 ? c->least_steps : 0);
    return rounds * blocks_us(c->at_once, c, sized->p.n_products, steps) +
           (rest > 0 ? blocks_us(rest, c, sized->p.n_products, steps) : 0);
}

double md_fa_cuda_fma_us(const md_fa_target *target, const md_fa_product *sized, const md_fa_cuda_fma *c)
{
    const double sms = target->facts->threads > 1 ? target->facts->threads : 1,
                 memory = sized->bytes / target->facts->memory_gbps * 1e-3;
    const double tiles =
        (double)sized->batch * ceil((double)sized->rows / c->rows) * ceil((double)sized->columns / c->columns);
    const double stored =
        ceil(tiles / sms) * c->rows * c->columns * sized->p.n_products * (c->sums >= MANY_SUMS ? STORE_LARGE : STORE);
    if (c->runs > 0)
        return START + SUM_RUNS + fmax(runs_us(sized, c, tiles, sms) + stored, memory);
    const double slices = c->split > 1 ? c->sum + SUM_SLICE * c->split +
                                             (double)sized->batch * (double)sized->rows * (double)sized->columns *
                                                 sized->p.n_products * 8 * c->split / SUM_GBPS * 1e-3
                                       : 0;
    return START + fmax(tiles_us(sized, c, tiles * c->split, sms) + (c->split > 1 ? 0 : stored), memory) + slices;
}
