/* The time of rows of single elements (md_fa_cuda_row_is_single). */
#include "family/cost.h"
#include "family/cuda/cuda.h"
#include "family/cuda/row/row.h"
#include "family/cuda/row/row_single_fit.h"

#include <math.h>

static const double FEW_BLOCKS[] = {4, 12, 12}; /* on an SM: the busiest counts */

/* Lines of memory that the lanes of a warp touch at once: groups of few lanes lie in as many rows. */
double md_fa_cuda_row_lines(const md_fa_target *target, int32_t lanes)
{
    const double bytes = 16.0 / md_fa_cuda_width(target->program, target->stage);
    return fmax(32.0 / lanes, 1) * (1 + fmin(lanes, 32) * bytes / 128);
}

/* Elements of a thread in the code that takes rows of which it holds `held` (row_group.h has the same numbers). */
double md_fa_cuda_row_own(double vectors, double held)
{
    const double unsure = vectors > 16 ? 4 : 2, least = vectors > 4 * unsure ? vectors - 4 * unsure : unsure,
                 own = vectors - floor((vectors - held) / unsure) * unsure;
    return own > least ? own : vectors;
}

/* Which constants: of groups of some warps (0), inside a warp (1), of one thread (2). */
static int32_t group_of(const md_fa_cuda_row_fixed *f)
{
    return f->lanes == 1 ? 2 : f->lanes <= 32;
}

/* Shuffles of a thread, each with an operation. Parts of several rows meet together, then all lanes get all results
 * that later passes need. */
static double steps_of(const md_st_row *row, const md_fa_cuda_row_fixed *f)
{
    const double levels = row->n_levels, at_once = f->at_once;
    if (f->lanes == 1)
        return 0;
    if (f->lanes > 32)
        return levels * 9;
    const double shared = at_once > 1 ? at_once * (levels - 1 + row->has_elements) : 0;
    return levels * (at_once - 1 + log2(f->lanes / at_once)) + shared;
}

/* Issue slots of a thread. */
static double slots_of(const md_fa_target *target, const md_fa_cuda_row_fixed *f, double held)
{
    md_fa_host_work work;
    const md_st_row *row = &md_fa_stage(target)->row;
    const int32_t k = group_of(f);
    const double levels = row->n_levels, stores = row->has_elements, weights = f->epilogue_loads, at_once = f->at_once,
                 idle = md_fa_cuda_row_own(f->vectors, held) - held,
                 is_short = md_fa_cuda_width(target->program, target->stage) > 4;
    md_fa_host_count(&work, md_fa_stage(target), target->program);
    const double element = ELEMENT_SLOTS[k] * (1 + 0.3 * levels + 0.7 * stores) +
                           SHORT_SLOTS * is_short * (1 + stores) + WEIGHT_SLOTS[k] * weights / at_once +
                           EXP_SLOTS[k] * work.transcendental +
                           LINE_SLOTS[k] * md_fa_cuda_row_lines(target, f->lanes) * (1 + stores);
    return PLACE_SLOTS[k] * (1 + FURTHER_SLOTS * (at_once - 1)) + STEP_SLOTS[k] * steps_of(row, f) +
           at_once * (held * element + IDLE_SLOTS[k] * idle * (1 + weights / at_once + stores));
}

void md_fa_cuda_row_single_features(md_fa_features *out, const md_fa_target *target, const md_fa_cuda_row_fixed *f,
                                    const int64_t *size)
{
    md_fa_cuda_row_work room;
    const int32_t k = group_of(f);
    const md_fa_cuda_row_work *w = md_fa_cuda_row_work_of(&room, target, size);
    const double held = fmin(f->vectors, ceil((double)w->n / f->lanes)), levels = md_fa_stage(target)->row.n_levels;
    const double sms = MD_MAX(target->facts->threads, 1),
                 blocks = (double)md_fa_cuda_row_blocks(target, f->align, f->lanes, w->rows, f->rows),
                 of_sm = blocks / sms, waves = fmax(ceil(of_sm / f->resident), 1);
    /* where each SM has as many blocks, they are not full */
    const double full = ceil((double)w->rows / blocks) / f->rows * of_sm;
    const double issue = (of_sm < FEW_BLOCKS[k] ? fmax(full, ceil(full * f->rows) / f->rows) : full) * f->threads / 32 *
                         slots_of(target, f, held) / CLOCK[k];
    const double waiting = BLOCK[k] + (LEVEL[k] * levels * (1 + EACH_WARP[k] * f->lanes / 32) +
                                       ELEMENT[k] * held * (1 + 0.5 * f->epilogue_loads)) *
                                          (1 + FURTHER_ROW * (f->at_once - 1));
    const double us = START[k] + FIRST_BLOCKS[k] * fmin(of_sm, f->resident) + waves * waiting +
                      md_fa_norm(issue, MEMORY[k] * w->bytes / target->facts->memory_gbps * 1e-3, NORM[k]);
    *out = (md_fa_features){
        .ops_rate = 1, .parallel = 1, .launches = 1, .serial_us = fmax(us - MD_FA_CUDA_LAUNCH_US, 0.01)};
}
