/* Sweeps on the host: envelope, geometry and cost. */
#include "family/host/point/sweep.h"

#include "family/cost.h"
#include "family/host/cycles_fit.h"
#include "family/host/point/places.h"
#include "family/host/point/sweep_fit.h"

#include <math.h>

/* The number of last indices that run as one axis. */
static int32_t merged(const md_fa_target *target, const md_fa_sweep *sweep)
{
    int32_t flat[MD_MAX_RANK * 2];
    uint32_t tensors = 0;
    return sweep->is_cyclic ? md_cg_cyclic(flat, &tensors, target->program, target->stage)
           : sweep->is_flat ? md_cg_flat(flat, &tensors, target->program, target->stage)
                            : 1;
}

bool md_fa_sweep_can_flatten(const md_fa_target *target)
{
    return merged(target, &(md_fa_sweep){.is_flat = true}) > 1;
}

bool md_fa_sweep_can_repeat(const md_fa_target *target, const int64_t *size)
{
    return merged(target, &(md_fa_sweep){.is_cyclic = true}) > 1 &&
           md_st_size(target->program, md_fa_stage(target)->axis, size) <= MD_FA_CYCLE;
}

md_cg_bytes md_fa_sweep_bytes(const md_fa_target *target, const md_fa_sweep *sweep)
{
    return sweep->is_strided || sweep->is_cyclic ? MD_CG_NO_BYTES : md_cg_byte_lanes(target->program, target->stage);
}

int32_t md_fa_sweep_table(int32_t *from, const md_fa_target *target, const md_fa_sweep *sweep, int32_t n_outer)
{
    const bool is_one_axis = n_outer == 0 && !sweep->is_strided && !sweep->is_cyclic && !sweep->is_owned;
    return is_one_axis && md_fa_sweep_bytes(target, sweep) == MD_CG_NO_BYTES
               ? md_cg_tabled(from, target->program, target->stage)
               : 0;
}

int32_t md_fa_sweep_block(const md_fa_sweep *sweep)
{
    return sweep->block_points > 0 ? sweep->block_points : MD_FA_BLOCK_POINTS;
}

/* The number of points of the outer loop, and of lanes of each. */
static void count_points(int64_t *points, int64_t *lanes, const md_fa_target *target, const md_fa_sweep *sweep,
                         const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    int32_t n = merged(target, sweep) - 1;
    *lanes = st->axis >= 0 ? md_st_size(target->program, st->axis, size) : 1;
    *lanes *= md_st_points(target->program, n, st->outer + st->n_outer - n, size);
    if (sweep->n_group > 0)
        *points =
            md_st_points(target->program, st->n_outer - 1, st->outer, size) *
            ((md_st_size(target->program, st->outer[st->n_outer - 1], size) + sweep->n_group - 1) / sweep->n_group);
    else
        *points = md_st_points(target->program, st->n_outer - n, st->outer, size);
}

void md_fa_sweep_envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec)
{
    const md_fa_sweep *sweep = spec;
    int32_t flat[MD_MAX_RANK * 2];
    *out = (md_kn_envelope){0};
    if (sweep->is_cyclic) {
        md_cg_cyclic(flat, &out->contiguous, target->program, target->stage);
        out->hi[target->program->index[md_fa_stage(target)->axis].dim] = MD_FA_CYCLE;
    } else if (sweep->is_flat) {
        md_cg_flat(flat, &out->contiguous, target->program, target->stage);
    }
    if (sweep->is_placed)
        out->hi[target->program->index[md_fa_stage(target)->axis].dim] = MD_FA_PLACED_LANES;
    if (!sweep->is_strided && !sweep->is_cyclic)
        out->unit = md_cg_unit_tensors(target->program, target->stage, md_fa_stage(target)->axis) & ~out->contiguous;
}

/* Blocks are cut as in kernels/host/pointwise.c. */
void md_fa_sweep_geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_sweep *sweep,
                          const int64_t *size)
{
    int64_t points = 0, lanes = 0;
    const int64_t block = md_fa_sweep_block(sweep);
    count_points(&points, &lanes, target, sweep, size);
    *out = (md_kn_geometries){0};
    out->launch[0].grain = 1;
    if (points == 0 || lanes == 0)
        return;
    if (lanes >= block) {
        out->launch[0].blocks = points * ((lanes + block - 1) / block);
    } else {
        int64_t rows = block / lanes;
        out->launch[0].blocks = (points + rows - 1) / rows;
    }
}

/* Adds the cycles of loads whose places are planned: of vectors, and of the plan of each block. Their number. */
static double placed_cycles(double *cycles, const md_fa_target *target, const md_fa_sweep *sweep, int64_t points,
                            double vectors)
{
    md_fa_placed placed;
    if (!sweep->is_placed || !md_fa_placed_find(&placed, target))
        return 0;
    const double blocks = ceil((double)points * vectors * md_cg_width(target->facts) / md_fa_sweep_block(sweep));
    *cycles += placed.n_loads * vectors * ((double)points * PLACED_CYCLES + blocks * PLACING_CYCLES);
    return placed.n_loads;
}

void md_fa_sweep_features(md_fa_features *out, const md_fa_target *target, const void *spec, const int64_t *size)
{
    const md_fa_sweep *sweep = spec;
    int64_t points = 0, lanes = 0;
    double flops = 0, bytes = 0;
    const md_st_stage *st = md_fa_stage(target);
    md_fa_host_work work;
    md_fa_host_count(&work, st, target->program);
    count_points(&points, &lanes, target, sweep, size);
    md_st_work(&flops, &bytes, target->program, target->stage, size);
    int32_t from = 0;
    const bool is_tabled = md_fa_sweep_table(&from, target, sweep, st->n_outer - (merged(target, sweep) - 1)) > 0;
    const int64_t width = md_cg_width(target->facts) * md_cg_lanes_per_32_bits(md_fa_sweep_bytes(target, sweep));
    double vectors = ceil((double)lanes / (double)width), n = (double)points * (double)lanes;
    bool has_tail = lanes % width != 0;
    double accesses = work.loads + work.stores;
    /* Cycles of rows (start and end), of vectors, and of accesses that are no vectors. */
    double cycles = (double)points * (ROW_CYCLES + ACCESS_CYCLES * accesses + (has_tail ? TAIL_CYCLES * accesses : 0));
    cycles += (double)points * vectors * (VECTOR_CYCLES + accesses + (is_tabled ? 0 : work.operations));
    const double n_placed = placed_cycles(&cycles, target, sweep, points, vectors);
    if (sweep->is_strided)
        cycles += n * STRIDED_CYCLES * accesses;
    else
        cycles += n * SCATTERED_CYCLES * (work.scattered - n_placed);
    /* Rows that begin and end inside of a line: it is stored in parts, around the caches and through them. */
    if (sweep->is_streaming && !sweep->is_placed && points > 1 && has_tail)
        cycles += (double)points * work.stores * PART_CYCLES;
    double stored = md_fa_stored_bytes(target, size);
    /* A line is read into the cache before it is written. Nontemporal stores save that, but a result that would have
     * fitted the cache is then read from memory. */
    out->memory_bytes = bytes + (!sweep->is_streaming                  ? READ_PART
                                 : md_fa_host_can_stream(target, size) ? 0
                                                                       : AROUND_PART) *
                                    stored;
    out->cache_bytes = 0;
    out->ops = cycles * md_fa_host_ops_per_cycle(target->facts);
    out->ops_rate = 1;
    out->transcendental = is_tabled ? 0 : n * work.transcendental;
    out->serial_us = sweep->is_streaming ? STREAMING_US : 0;
    md_kn_geometries geometry;
    md_fa_sweep_geometry(&geometry, target, sweep, size);
    out->parallel = md_fa_host_parallel((double)geometry.launch[0].blocks, target->facts);
    out->launches = 1;
}
