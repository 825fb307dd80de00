/* Family row_shared: long rows that begin at any address in shared memory, for Hopper and later. Bulk copies bring a
 * row once; a block copies its next row while it stores the one before. It serves stages that read one tensor along the
 * row, besides it only what all rows share, and store along the row. */
#include "family/cuda/row/row_shared_fit.h"
#include "family/emit.h"
#include "family/cuda/cuda.h"
#include "family/cuda/row/row.h"

#include "base/status.h"
#include "family/cost.h"

#include <math.h>

extern const md_fa_family md_fa_cuda_row_shared; /* defined at the end of this file */

enum { LANES, VECTORS, BLOCKS };
enum { PIECE = 16, OTHER_SHARED = 4096 };

static md_fa_cuda_row row_of(const md_fa_config *config)
{
    return (md_fa_cuda_row){.source = "cuda/row_shared.cu",
                            .lanes = config->value[LANES],
                            .vectors = config->value[VECTORS],
                            .rows = 1,
                            .align = MD_FA_CUDA_ANY};
}

static md_cg_on_chip on_chip_of(const md_fa_target *target)
{
    md_cg_row_options options = md_fa_cuda_row_options(target, &(md_fa_cuda_row){0});
    md_cg_on_chip on_chip;
    md_cg_on_chip_make(&on_chip, &options);
    return on_chip;
}

static bool applies(const md_fa_target *target)
{
    if (target->facts->capability < 90 || !md_fa_row_applies(target))
        return false;
    return md_fa_stage(target)->row.has_elements && md_fa_cuda_row_has_one_load(target);
}

/* ---- Shared memory */

/* Bytes of a row that a block has room for, if so many blocks share an SM. */
static int64_t room_of(const md_fa_target *target, int32_t blocks)
{
    return MD_MIN(target->facts->shared_per_sm / blocks - 1024, target->facts->shared_per_block) - OTHER_SHARED;
}

/* The same in elements. */
static int64_t capacity_of(const md_fa_target *target, int32_t blocks)
{
    return room_of(target, blocks) / PIECE * md_fa_cuda_width(target->program, target->stage);
}

static int64_t row_bytes(const md_fa_target *target, int64_t n)
{
    return n / md_fa_cuda_width(target->program, target->stage) * PIECE;
}

/* 16-byte pieces of what all rows share, for a vector of the row. */
static int32_t weight_pieces(const md_fa_target *target)
{
    const md_cg_on_chip on_chip = on_chip_of(target);
    int32_t pieces = 0;
    for (int32_t i = 0; i < on_chip.n_loads; i++)
        if (on_chip.load[i].is_shared)
            pieces += (md_fa_cuda_width(target->program, target->stage) *
                           (int32_t)md_dtype_size(target->program->formula->tensor[on_chip.load[i].node->id].dtype) +
                       PIECE - 1) /
                      PIECE;
    return pieces;
}

/* Registers of a thread, as the compiler was seen to need them. */
static int32_t registers_of(const md_fa_target *target, const md_fa_cuda_row *row)
{
    return 40 + row->vectors * (11 + 5 * weight_pieces(target));
}

static bool has_blocks(const md_fa_target *target, const md_fa_cuda_row *row, int32_t blocks, int64_t n)
{
    const int32_t threads = row->lanes * blocks,
                  registers = target->facts->registers_per_sm > 0 ? target->facts->registers_per_sm : 65536;
    return threads <= 2048 && n <= capacity_of(target, blocks) && registers_of(target, row) * threads <= registers;
}

/* A config asks for so many blocks on an SM, and is legal if they are all that there is room for. */
static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_fa_cuda_row row = row_of(config);
    const md_fa_field *field = &md_fa_cuda_row_shared.field[BLOCKS];
    int64_t n = md_st_size(target->program, md_fa_stage(target)->axis, size);
    if (n < (int64_t)row.lanes * row.vectors * md_fa_cuda_width(target->program, target->stage) ||
        md_fa_cuda_row_is_aligned(target, size))
        return false;
    for (int32_t i = 0; i < field->n; i++)
        if (field->value[i] > config->value[BLOCKS] && has_blocks(target, &row, field->value[i], n))
            return false;
    return has_blocks(target, &row, config->value[BLOCKS], n);
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    const md_fa_cuda_row row = row_of(config);
    md_fa_cuda_row_envelope(out, target, &row);
    out->row_points_max = capacity_of(target, config->value[BLOCKS]);
    out->n_row_dims = 1;
    out->row_dim[0] = target->program->index[md_fa_stage(target)->axis].dim;
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    const md_st_stage *st = md_fa_stage(target);
    const int64_t rows = md_st_points(target->program, st->n_outer, st->outer, shape->size);
    const int64_t resident = (int64_t)MD_MAX(target->facts->threads, 1) * config->value[BLOCKS];
    *out = (md_kn_geometries){0};
    md_kn_geometry *launch = &out->launch[0];
    launch->blocks = MD_MIN(rows, resident);
    launch->grain = 1;
    launch->grid[0] = (int32_t)MD_MAX(launch->blocks, 1);
    launch->grid[1] = launch->grid[2] = launch->block[1] = launch->block[2] = 1;
    launch->block[0] = config->value[LANES];
    launch->scratch_bytes = row_bytes(target, md_st_size(target->program, st->axis, shape->size));
    launch->overlaps = true;
}

/* ---- Text */

static md_status emit_launch(md_kn_launch_source *launch, const md_fa_target *target, const md_fa_config *config,
                             int32_t phase)
{
    const md_fa_cuda_row row = row_of(config);
    const md_cg_row_options options = md_fa_cuda_row_options(target, &row);
    const int64_t chunk = (int64_t)row.lanes * row.vectors * PIECE;
    md_strbuf defines = {0};
    (void)phase;
    const md_fa_define define[] = {{"VL", md_fa_cuda_width(target->program, target->stage)},
                                   {"ALIGNED", 0},
                                   {"WIDE", 0},
                                   {"BOUNDARY", 1},
                                   {"GROUP", row.lanes},
                                   {"VECTORS", row.vectors},
                                   {"CHUNKS", (room_of(target, config->value[BLOCKS]) + chunk - 1) / chunk},
                                   {"MIN_BLOCKS", config->value[BLOCKS]}};
    md_fa_print_defines(&defines, define, MD_COUNT(define));
    if (md_fa_cuda_row_is_short(target))
        md_strbuf_add(&defines, "#define MD_SHORT_RESULTS 1\n");
    return md_fa_emit_row(launch, target, &options, row.source, &defines);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    return md_fa_emit_launches(out, target, config, 1, emit_launch);
}

/* ---- Cost */

static double thread_part(const md_fa_target *target, const md_fa_config *config)
{
    const double width = md_fa_cuda_width(target->program, target->stage),
                 vectors = (double)config->value[LANES] * config->value[VECTORS] * config->value[BLOCKS];
    return (1 + fmax(weight_pieces(target) - 1, 0) * MORE_WEIGHTS) *
           (1 + DOUBLING_PART * fabs(log2(vectors / (BEST_VECTORS * width / 4))));
}

typedef struct fixed {
    double thread_part;
} fixed;

static void fix(md_fa_fixed *out, const md_fa_target *target, const md_fa_config *config)
{
    *(fixed *)(void *)out->bytes = (fixed){thread_part(target, config)};
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    md_fa_fixed room;
    const fixed *f = md_fa_fixed_of(&room, &md_fa_cuda_row_shared, target, config);
    double flops = 0, bytes = 0, sms = MD_MAX(target->facts->threads, 1), rate = md_fa_cuda_bytes_per_us(target->facts);
    double rows = fmax((double)md_st_points(target->program, st->n_outer, st->outer, size), 1),
           n = (double)md_st_size(target->program, st->axis, size);
    md_fa_work(&flops, &bytes, target, size);
    double turns = rows / fmin(rows, sms * config->value[BLOCKS]), busy = fmin(rows / sms, 1);
    double latency =
        LOAD_US + EXCHANGE_US * st->row.n_levels + 2 * (double)row_bytes(target, (int64_t)n) / SM_BYTES_PER_US;
    double memory = fmax(bytes, 1) / rate * MEMORY_PART / busy,
           threads = fmax(bytes, 1) / (THREAD_BYTES_PER_US * sms * busy) * f->thread_part;
    double us = md_fa_norm(memory, threads, NORM) * (0.5 + 0.5 * ceil(turns) / turns);
    us += (ceil(turns) - 1) * TURN_US;
    *out = (md_fa_features){.ops_rate = 1, .ops = flops, .launches = 1, .parallel = busy * sms, .serial_us = latency};
    out->memory_bytes = fmin(bytes, us * rate);
    out->memory_rate = fmax(out->memory_bytes / rate / us, 1e-9);
}

/* A thread adds the same vectors in the same order as in registers. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    return md_fa_cuda_row_class(false, true);
}

const md_fa_family md_fa_cuda_row_shared = {
    .name = "row_shared",
    .device = MD_DEV_CUDA,
    .is_persistent = true,
    .is_reduction = true,
    .n_fields = 3,
    .field = {{"lanes", 512, 3, {512, 256, 1024}}, {"vecs", 2, 3, {2, 1, 4}}, {"blocks", 1, 4, {1, 2, 3, 4}}},
    .applies = applies,
    .legal = legal,
    .envelope = envelope,
    .fix = fix,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = numeric,
};
