/* The time of rows of single elements (MD_FA_CUDA_SINGLE). */
#include "family/cost.h"
#include "family/cuda/cuda.h"
#include "family/cuda/row/row.h"
#include "family/cuda/row/row_single_fit.h"

#include <math.h>

enum { FEW_BLOCKS = 4 /* on an SM: the busiest counts */ };

/* Issue slots of a thread. */
static double slots_of(const md_fa_target *target, const md_fa_cuda_row_fixed *f, double held)
{
    md_fa_host_work work;
    const md_st_row *row = &md_fa_stage(target)->row;
    const double levels = row->n_levels, stores = row->has_elements, weights = f->epilogue_loads,
                 steps = levels * (5 + (f->lanes > 32 ? 4 : 0)), idle = f->vectors - held;
    md_fa_host_count(&work, md_fa_stage(target), target->program);
    const double element =
        ELEMENT_SLOTS * (1 + 0.3 * levels + 0.7 * stores) + WEIGHT_SLOTS * weights + EXP_SLOTS * work.transcendental;
    return PLACE_SLOTS + STEP_SLOTS * steps + held * element + IDLE_SLOTS * idle * (1 + weights + stores);
}

void md_fa_cuda_row_single_features(md_fa_features *out, const md_fa_target *target, const md_fa_cuda_row_fixed *f,
                                    const int64_t *size)
{
    md_fa_cuda_row_work room;
    const md_fa_cuda_row_work *w = md_fa_cuda_row_work_of(&room, target, size);
    const double held = fmin(f->vectors, ceil((double)w->n / f->lanes)), levels = md_fa_stage(target)->row.n_levels;
    const double of_sm = ceil((double)w->rows / f->rows) / MD_MAX(target->facts->threads, 1),
                 waves = fmax(ceil(of_sm / f->resident), 1);
    const double issue =
        (of_sm < FEW_BLOCKS ? ceil(of_sm) : of_sm) * f->threads / 32 * slots_of(target, f, held) / CLOCK;
    const double waiting =
        BLOCK + LEVEL * levels * (1 + EACH_WARP * f->lanes / 32) + ELEMENT * held * (1 + 0.5 * f->epilogue_loads);
    const double us = START + FIRST_BLOCKS * fmin(of_sm, f->resident) + waves * waiting + issue +
                      MEMORY * w->bytes / target->facts->memory_gbps * 1e-3;
    *out = (md_fa_features){
        .ops_rate = 1, .parallel = 1, .launches = 1, .serial_us = fmax(us - MD_FA_CUDA_LAUNCH_US, 0.01)};
}
