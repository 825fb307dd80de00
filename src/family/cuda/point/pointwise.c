/* Family pointwise: elementwise stages without index tensors. All subscripts are affine. */
#include "family/cuda/cuda.h"
#include "family/cuda/point/point.h"

#include "family/cost.h"
#include "family/cuda/point/pointwise_fit.h"
#include "family/numeric.h"

#include <math.h>

enum { FLAT, STRIDED, TRANSPOSE, UNROLL, THREADS };
/* values of TRANSPOSE: tiles, also for tensors whose rows are unaligned, the same with indices run as one; slabs */
enum { UNALIGNED = 2, MERGED, MERGED_UNALIGNED, SLABS };

static md_fa_cuda_tiling tiling_of(const md_fa_config *config)
{
    const int32_t kind = config->value[TRANSPOSE];
    return (md_fa_cuda_tiling){.is_unaligned = kind == UNALIGNED || kind == MERGED_UNALIGNED,
                               .is_merged = kind >= MERGED};
}

static md_fa_cuda_point point_of(const md_fa_config *config)
{
    return (md_fa_cuda_point){.source = "cuda/pointwise.cu",
                              .is_flat = config->value[FLAT],
                              .is_strided = config->value[STRIDED],
                              .unroll = config->value[UNROLL],
                              .threads = config->value[THREADS]};
}

static bool applies(const md_fa_target *target)
{
    const md_st_stage *st = md_fa_stage(target);
    return st->kind == MD_ST_POINTWISE && !st->has_gather && !st->has_scatter && !st->has_duplicates;
}

/* Tiles have a fixed size: one variant of each kind. */
static bool is_transpose_legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_transpose transpose;
    bool is_plain = !config->value[FLAT] && !config->value[STRIDED];
    return is_plain && config->value[UNROLL] == 1 && config->value[THREADS] == 256 &&
           md_fa_transpose_find(&transpose, target) &&
           (config->value[TRANSPOSE] < MERGED || config->value[TRANSPOSE] == SLABS ||
            md_fa_transpose_can_merge(&transpose)) &&
           (config->value[TRANSPOSE] < SLABS || md_fa_cuda_slabs_fit(target, size));
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    bool has_axis = md_fa_stage(target)->axis >= 0, strided = config->value[STRIDED];
    if (config->value[TRANSPOSE])
        return is_transpose_legal(target, config, size);
    if (config->value[FLAT] && (strided || !md_fa_cuda_point_can_flatten(target)))
        return false;
    /* a vector of half bytes is 16 elements, which take 32 registers when unpacked: 64 were too few for four of them */
    if (md_fa_has_packed(target) && config->value[UNROLL] == 4 && config->value[THREADS] == 512)
        return false;
    return has_axis || (strided && config->value[UNROLL] == 1); /* the stage is one scalar: one variant is enough */
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_cuda_point point = point_of(config);
    if (config->value[TRANSPOSE] == SLABS)
        md_fa_cuda_slabs_envelope(out, target);
    else if (config->value[TRANSPOSE])
        md_fa_transpose_envelope(out, target, tiling_of(config).is_merged);
    else
        md_fa_cuda_point_envelope(out, target, &point);
}

static void place(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_cuda_point point = point_of(config);
    if (config->value[TRANSPOSE] == SLABS)
        md_fa_cuda_slabs_geometry(out, target, size);
    else if (config->value[TRANSPOSE])
        md_fa_cuda_transpose_geometry(out, target, tiling_of(config), size);
    else
        md_fa_cuda_point_geometry(out, target, &point, size);
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    place(out, target, config, shape->size);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_cuda_point point = point_of(config);
    if (config->value[TRANSPOSE] == SLABS)
        return md_fa_cuda_slabs_emit(out, target);
    return config->value[TRANSPOSE] ? md_fa_cuda_transpose_emit(out, target, tiling_of(config))
                                    : md_fa_cuda_point_emit(out, target, &point);
}

/* Bytes that move in vain, relative to the elements. Without tiles, each lane of a transposed load fetches a sector of
 * its own. */
static double wasted_part(const md_fa_target *target, const md_fa_config *config, const md_fa_host_work *work)
{
    md_fa_transpose transpose;
    bool is_narrow = md_fa_cuda_width(target->program, target->stage) > 4;
    if (!config->value[TRANSPOSE] && md_fa_transpose_find(&transpose, target))
        return (is_narrow ? TRANSPOSED_NARROW : TRANSPOSED) * transpose.n / MD_MAX(work->loads, 1);
    return config->value[STRIDED] ? (is_narrow ? SINGLE_NARROW : SINGLE) : 0;
}

static double short_side(const md_fa_target *target, const md_fa_transpose *transpose, const int64_t *size)
{
    return (double)MD_MIN(md_fa_transpose_points(transpose, target, MD_FA_OF_LANES, size),
                          md_fa_transpose_points(transpose, target, MD_FA_OF_LINES, size));
}

/* The part of the tiles that has elements. */
static double used_part(const md_fa_target *target, const md_fa_transpose *transpose, const int64_t *size)
{
    const double tile = 8.0 * md_fa_cuda_width(target->program, target->stage),
                 lanes = (double)md_fa_transpose_points(transpose, target, MD_FA_OF_LANES, size),
                 lines = (double)md_fa_transpose_points(transpose, target, MD_FA_OF_LINES, size);
    return lanes * lines / (fmax(ceil(lanes / tile) * ceil(lines / tile), 1) * tile * tile);
}

/* The rate of tiles relative to a copy, for contiguous tensors (H200), by whether rows of the output and rows of the
 * transposed tensor are aligned. */
static double tile_rate(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const double *const wide[] = {TILE_ALIGNED, TILE_ANY}, *const narrow[] = {TILE_NARROW_ALIGNED, TILE_NARROW_ANY};
    md_fa_transpose transpose;
    const md_fa_cuda_tiling tiling = tiling_of(config);
    int32_t width = md_fa_cuda_width(target->program, target->stage);
    if (!md_fa_transpose_find(&transpose, target))
        return 1;
    if (config->value[TRANSPOSE] == SLABS)
        return SLAB_RATE / (1 + short_side(target, &transpose, size) / SLAB_SIDE);
    if (!tiling.is_merged)
        transpose.n_before[MD_FA_OF_LANES] = transpose.n_before[MD_FA_OF_LINES] = 0;
    bool is_unaligned = md_fa_transpose_points(&transpose, target, MD_FA_OF_LANES, size) % width != 0,
         are_transposed_unaligned = md_fa_transpose_points(&transpose, target, MD_FA_OF_LINES, size) % width != 0;
    int32_t where = is_unaligned ? 2 : are_transposed_unaligned ? 1 : 0, kind = tiling.is_unaligned;
    const double rate = width > 4 ? narrow[kind][where] : wide[kind][where];
    return rate * (1 - TILE_USED * (1 - used_part(target, &transpose, size)));
}

/* The longer of two, us: moving the bytes, and beginning all blocks, of which those with one vector a thread are over
 * soon. */
static double bytes_us(const md_fa_target *target, double bytes, double blocks, double vectors)
{
    const double rate = RATE * (1 - DOUBLING_PART * log2(vectors)), sms = MD_MAX(target->facts->threads, 1);
    return fmax(bytes / (md_fa_cuda_bytes_per_us(target->facts) * rate), blocks / (BLOCKS * sms));
}

/* What rows lose whose reads are at computed places: vectors that are not whole, elements two apart. */
static double moved_loss(const md_fa_target *target, const md_fa_cuda_point *point, const int64_t *size)
{
    const int32_t moved = md_fa_cuda_moved_reads(target), axis = md_fa_stage(target)->axis;
    if (moved == 0 || point->is_flat || axis < 0)
        return 1;
    const bool is_ragged =
        md_st_size(target->program, axis, size) % md_fa_cuda_width(target->program, target->stage) != 0;
    return is_ragged ? MOVED_RAGGED : moved > 1 ? MOVED_STEPS : 1;
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_cuda_point point = point_of(config);
    const md_st_stage *st = md_fa_stage(target);
    md_fa_host_work work;
    md_kn_geometries g;
    double flops = 0, bytes = 0;
    md_fa_host_count(&work, st, target->program);
    md_fa_work(&flops, &bytes, target, size);
    place(&g, target, config, size);
    double points = (double)md_st_points(target->program, st->n_outer, st->outer, size);
    points *= st->axis >= 0 ? (double)md_st_size(target->program, st->axis, size) : 1;
    const bool is_tiled = config->value[TRANSPOSE] != 0;
    const double vectors = is_tiled ? 4 : point.unroll, blocks = (double)g.launch[0].blocks;
    double rate = is_tiled ? tile_rate(target, config, size) : 1 / moved_loss(target, &point, size);
    if (!is_tiled && !point.is_flat && md_fa_cuda_point_is_busy(target))
        rate *= point.unroll == 1 ? BUSY_ONE : point.threads == 128 ? 1 : BUSY_LARGE;
    out->memory_bytes = bytes * (1 + wasted_part(target, config, &work));
    const double us = bytes_us(target, out->memory_bytes, blocks, vectors) / rate;
    out->memory_rate = out->memory_bytes / fmax(us, 1e-3) / md_fa_cuda_bytes_per_us(target->facts);
    out->serial_us = START + (!is_tiled && !point.is_flat && md_fa_cuda_point_can_flatten(target) ? DIVIDE : 0);
    out->ops = 2 * points * (work.operations + 2 * (work.loads + work.stores));
    out->ops_rate = 0.5;
    out->transcendental = points * work.transcendental;
    out->parallel = MD_MIN(MD_MAX(blocks, 1), (double)MD_MAX(target->facts->threads, 1));
    out->launches = 1;
}

const md_fa_family md_fa_cuda_pointwise = {
    .name = "pointwise",
    .device = MD_DEV_CUDA,
    .takes_packed = true,
    .n_fields = 5,
    .field = {{"flat", 0, 2, {1, 0}},
              {"strided", 1, 2, {0, 1}},
              {"transpose", 0, 6, {1, 0, 2, 3, 4, 5}},
              {"unroll", 1, 3, {1, 2, 4}},
              {"threads", 256, 3, {256, 128, 512}}},
    .applies = applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = md_fa_class_sweep,
};
