/* Gathers and scatters on GPUs: envelope, geometry and cost. */
#include "family/cuda/point/gather_scatter.h"

#include "base/status.h"
#include "codegen/codegen.h"
#include "family/cost.h"
#include "family/cuda/point/gather_scatter_fit.h"
#include "family/cuda/point/point.h"

#include <math.h>

/* The number of points of the outer indices, and the length of the lanes' axis. */
static void count_rows_and_lanes(int64_t *rows, int64_t *lanes, const md_fa_target *target, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    *rows = md_st_points(target->program, st->n_outer, st->outer, size);
    *lanes = st->axis >= 0 ? md_st_size(target->program, st->axis, size) : 1;
}

void md_fa_cuda_gather_scatter_envelope(md_kn_envelope *out, const md_fa_target *target, const void *known)
{
    const md_fa_cuda_gather_scatter *spec = known;
    *out = (md_kn_envelope){0};
    if (!spec->is_strided)
        out->unit = md_cg_unit_tensors(target->program, target->stage, md_fa_stage(target)->axis);
    if (spec->is_aligned)
        out->aligned = out->unit;
}

bool md_fa_cuda_gather_scatter_legal(const md_fa_target *target, const md_fa_cuda_gather_scatter *spec,
                                     const int64_t *size)
{
    int64_t rows = 0, lanes = 0, width = md_fa_cuda_width(target->program, target->stage);
    count_rows_and_lanes(&rows, &lanes, target, size);
    if (spec->is_aligned && (spec->is_strided || md_fa_stage(target)->axis < 0))
        return false;
    if (spec->rows * spec->items > 8)
        return false;
    /* A row must fill its group at least by half, and must not take dozens of steps if more lanes could share it. */
    int64_t vectors = (lanes + width - 1) / width, group = (int64_t)spec->lanes * spec->items;
    return group < 2 * vectors || (spec->lanes == 8 && spec->items == 2) || (spec->lanes == 4 && spec->items == 1);
}

/* The number of items: rows, or pieces of long rows. They are cut as in cuda/gather.cu. */
static int64_t items_of(const md_fa_target *target, const md_fa_cuda_gather_scatter *spec, const int64_t *size)
{
    int64_t rows = 0, lanes = 0,
            piece = (int64_t)spec->lanes * spec->items * md_fa_cuda_width(target->program, target->stage);
    count_rows_and_lanes(&rows, &lanes, target, size);
    return rows * ((lanes + piece - 1) / piece);
}

/* The number of blocks that own a part each: enough to keep the GPU busy, few enough that reading all indices in each
 * costs little. */
static int64_t owners_of(const md_fa_target *target, const int64_t *size)
{
    int64_t rows = 0, lanes = 0;
    count_rows_and_lanes(&rows, &lanes, target, size);
    return rows * lanes > 0 ? MD_MAX(target->facts->threads, 1) * 4 : 0;
}

void md_fa_cuda_gather_scatter_geometry(md_kn_geometries *out, const md_fa_target *target,
                                        const md_fa_cuda_gather_scatter *spec, const int64_t *size)
{
    int64_t per_block = (int64_t)spec->rows * (MD_FA_GATHER_SCATTER_THREADS / spec->lanes),
            items = items_of(target, spec, size);
    int64_t blocks = spec->is_owned ? owners_of(target, size) : (items + per_block - 1) / per_block;
    *out = (md_kn_geometries){0};
    out->launch[0] = md_fa_cuda_launch(blocks, MD_FA_GATHER_SCATTER_THREADS);
}

/* Bytes that move: a tensor that is accessed through indices is touched as often as there are points, whatever its
 * size. */
static double touched_bytes(const md_fa_target *target, double points)
{
    const md_st_stage *st = md_fa_stage(target);
    double item = 0;
    for (int32_t i = 0; i < st->n_tensors; i++)
        item += target->program->formula->tensor[st->tensor[i]].rank > 1 || st->n_outer == 0
                    ? (double)md_dtype_size(target->program->formula->tensor[st->tensor[i]].dtype)
                    : 0;
    return points * item;
}

/* What is lost where places are computed and not looked up: elements are read one by one. */
static double moved_loss(const md_fa_target *target, double loads, int64_t lanes, int64_t width)
{
    if (md_fa_cuda_moved_reads(target) == 0)
        return 1;
    const double loss = width > 4 ? MOVED_NARROW : lanes % width != 0 ? MOVED_RAGGED : MOVED_WHOLE;
    return loss * fmax(MOVED_LOADS * loads, 1);
}

void md_fa_cuda_gather_scatter_features(md_fa_features *out, const md_fa_target *target, const void *known,
                                        const int64_t *size)
{
    const md_fa_cuda_gather_scatter *spec = known;
    const md_st_stage *st = md_fa_stage(target);
    int64_t rows = 0, lanes = 0, width = md_fa_cuda_width(target->program, target->stage);
    double flops = 0, bytes = 0;
    md_fa_host_work work;
    md_kn_geometries plan;
    count_rows_and_lanes(&rows, &lanes, target, size);
    md_fa_host_count(&work, st, target->program);
    md_fa_work(&flops, &bytes, target, size);
    md_fa_cuda_gather_scatter_geometry(&plan, target, spec, size);
    double points = (double)rows * (double)lanes;
    md_fa_cuda_load load = {.blocks = (double)plan.launch[0].blocks,
                            .threads = MD_FA_GATHER_SCATTER_THREADS,
                            .bytes = 16.0 * spec->rows * spec->items,
                            .registers = 36 + (int32_t)width * spec->rows * spec->items * 5 / 4};
    *out = (md_fa_features){.ops_rate = 1, .launches = 1, .parallel = target->facts->threads};
    out->memory_bytes = fmax(fmin(touched_bytes(target, points), 4 * bytes), md_fa_stored_bytes(target, size));
    /* Lanes beyond the row's end have nothing to load. */
    double vectors = ceil((double)lanes / (double)width), group = (double)spec->lanes * spec->items;
    double filled = vectors / (ceil(vectors / group) * group);
    load.bytes *= filled;
    out->memory_rate = md_fa_cuda_rate(target->facts, &load) * (spec->is_aligned ? 1 : UNALIGNED_RATE);
    out->memory_bytes += points * (spec->is_strided ? STRIDED_BYTES : 0);
    double steps = (double)rows * ceil(vectors / group) * spec->lanes;
    out->ops = steps * ITEM_OPS + (double)rows * vectors * VECTOR_OPS +
               points * (work.operations + SCATTERED_OPS * work.scattered);
    out->memory_rate *= (spec->lanes == 4 ? FEW_LANES : 1) * (spec->items == 4 ? MANY_ITEMS : 1) *
                        (1 - VECTOR_PART * fmax(spec->rows * spec->items - 4, 0));
    out->memory_rate /= moved_loss(target, work.loads, lanes, width);
    out->transcendental = points * work.transcendental;
    out->serial_us = LATENCY_US;
    if (st->has_duplicates && !spec->is_owned)
        out->ops += points * ATOMIC_OPS;
    if (spec->is_owned) {
        out->memory_rate = fmin(out->memory_rate, OWNED_RATE);
        out->cache_bytes += (double)rows * 8 * (double)plan.launch[0].blocks;
        out->serial_us = OWNED_US + (double)rows * OWNED_ROW_US;
    }
}
