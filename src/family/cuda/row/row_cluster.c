/* Family row_cluster: long rows that begin at any address, for Hopper and later. A cluster of blocks has a row, each
 * block the same columns of all rows, so that weights are brought on chip once. Bulk copies bring the next rows while
 * one is reduced and stored. It serves stages that read one tensor along the row, besides it only what all rows share,
 * and need the row more than once. */
#include "family/cuda/row/row_cluster_fit.h"
#include "family/emit.h"
#include "family/cuda/cuda.h"
#include "family/cuda/row/row.h"

#include "base/status.h"
#include "codegen/row/reduce.h"
#include "family/cost.h"

#include <math.h>

extern const md_fa_family md_fa_cuda_row_cluster; /* defined at the end of this file */

enum { LANES, VECTORS, BLOCKS, CLUSTER };
enum { LONG_ROW = 20480 }; /* bytes; other families serve shorter rows */
enum { PIECE = 16, MOST_CHUNKS = 64, MOST_WORDS = 4, BARRIERS = 2, FEEDER = 32, BOUNDARY = 1024 };
enum { RING_ROWS = 4, LINES = RING_ROWS + 1, ENDS = 4 }; /* rows in the ring; ends of rows that are kept; of one row */

static md_fa_cuda_row row_of(const md_fa_config *config)
{
    return (md_fa_cuda_row){.source = "cuda/row_cluster.cu",
                            .lanes = config->value[LANES],
                            .vectors = config->value[VECTORS],
                            .rows = 1,
                            .align = MD_FA_CUDA_ANY};
}

static int32_t width_of(const md_fa_target *target)
{
    return md_fa_cuda_width(target->program, target->stage);
}

/* 8-byte words of what a warp sends of a level. */
static int32_t part_words(const md_fa_target *target)
{
    const md_st_row *row = &md_fa_stage(target)->row;
    int32_t most = 1;
    for (int32_t l = 0; l < row->n_levels; l++) {
        int32_t words = 0;
        for (int32_t i = 0; i < row->n_reductions; i++)
            if (row->reduction[i].level == l)
                words += md_cg_is_arg(row->reduction[i].op) || md_dtype_size(row->reduction[i].type) > 4 ? 2 : 1;
        most = MD_MAX(most, words);
    }
    return most;
}

static bool applies(const md_fa_target *target)
{
    if (target->facts->capability < 90 || !md_fa_row_applies(target))
        return false;
    const md_st_row *row = &md_fa_stage(target)->row;
    return (row->has_elements || row->n_levels > 1) && md_fa_cuda_row_has_one_load(target) &&
           part_words(target) <= MOST_WORDS;
}

/* ---- What lies in shared memory */

/* What all rows share along the axis, which only the stores use: how many such loads; bytes of all of them for a
 * vector of the row. None if some other shared load exists, or one that is no whole pieces. */
typedef struct weights {
    int32_t n, bytes;
    int32_t elem_bytes; /* of a vector of all that a row loads */
    bool are_kept; /* all shared loads are such weights, and they stay in shared memory */
} weights;

static weights weights_of(const md_fa_target *target)
{
    const md_cg_row_options options = md_fa_cuda_row_options(target, &(md_fa_cuda_row){0});
    const uint32_t stores = UINT32_C(1) << md_fa_stage(target)->row.n_levels;
    weights w = {.are_kept = true};
    int32_t elem_bytes = 0;
    md_cg_on_chip on_chip;
    md_cg_on_chip_make(&on_chip, &options);
    for (int32_t i = 0; i < on_chip.n_loads; i++) {
        const int32_t bytes =
            width_of(target) * (int32_t)md_dtype_size(target->program->formula->tensor[on_chip.load[i].node->id].dtype);
        elem_bytes += bytes;
        if (!on_chip.load[i].is_shared)
            continue;
        w.n++;
        w.bytes += bytes;
        w.are_kept &= on_chip.load[i].passes == stores && bytes % PIECE == 0;
    }
    w = w.are_kept ? w : (weights){0};
    w.elem_bytes = (elem_bytes + PIECE - 1) / PIECE * PIECE;
    return w;
}

/* Bytes of a block for the ring and weights, which begin at a boundary behind what the kernel has beside them. */
static int64_t room_of(const md_fa_target *target, const md_fa_config *config, const weights *w)
{
    const int32_t parts = config->value[CLUSTER] * config->value[LANES] / 32;
    const int64_t own = (2 * MOST_CHUNKS + BARRIERS) * 8 + (int64_t)2 * parts * part_words(target) * 8 +
                        LINES * ENDS * w->elem_bytes,
                  room = MD_MIN(target->facts->shared_per_sm / config->value[BLOCKS] - 1024,
                                target->facts->shared_per_block) -
                         (own + BOUNDARY - 1) / BOUNDARY * BOUNDARY;
    return room / PIECE * PIECE;
}

static int64_t chunk_vectors(const md_fa_config *config)
{
    return (int64_t)config->value[LANES] * config->value[VECTORS];
}

/* How a row is cut: vectors of each block, their chunks, and chunks of the ring. As in the kernel. */
typedef struct cut {
    int64_t vectors, chunks, ring;
} cut;

static int64_t weight_bytes(const weights *w, int64_t vectors)
{
    return vectors * w->bytes;
}

static cut cut_of(const md_fa_target *target, const md_fa_config *config, const weights *w, int64_t n)
{
    const int64_t chunk = chunk_vectors(config), cluster = config->value[CLUSTER];
    cut c = {.vectors = (n / width_of(target) + cluster - 1) / cluster};
    c.chunks = MD_MAX((c.vectors + chunk - 1) / chunk, 1);
    c.ring = MD_MIN((room_of(target, config, w) - weight_bytes(w, c.vectors)) / (chunk * PIECE),
                    MD_MIN(c.chunks * RING_ROWS, MOST_CHUNKS));
    return c;
}

/* Elements of the longest row of which each block has room for its part. */
static int64_t capacity_of(const md_fa_target *target, const md_fa_config *config)
{
    const weights w = weights_of(target);
    const int64_t chunk = chunk_vectors(config), room = room_of(target, config, &w);
    int64_t most = 0;
    for (int64_t chunks = 1; chunks <= MOST_CHUNKS; chunks++) {
        const int64_t left = room - chunks * chunk * PIECE;
        const int64_t vectors = w.bytes == 0 ? (left < 0 ? 0 : chunks * chunk) : MD_MIN(chunks * chunk, left / w.bytes);
        most = MD_MAX(most, vectors);
    }
    return most * config->value[CLUSTER] * width_of(target) + width_of(target) - 1;
}

static int64_t resident_clusters(const md_fa_target *target, const md_fa_config *config)
{
    return md_fa_cuda_clusters(target->facts, config->value[CLUSTER], config->value[BLOCKS]);
}

/* ---- Configs */

/* Registers without which the compiler was seen to spill. */
static int32_t registers_of(const md_fa_target *target, const md_fa_config *config)
{
    const int32_t pieces = weights_of(target).bytes / PIECE, vectors = config->value[VECTORS];
    return 34 + 6 * pieces + vectors * (4 + 4 * pieces) + (vectors > 2 ? 8 : 0);
}

/* Registers that a thread may have: a quarter of an SM has those of every fourth warp. */
static int32_t register_limit(const md_fa_target *target, const md_fa_config *config)
{
    const int32_t registers = target->facts->registers_per_sm > 0 ? target->facts->registers_per_sm : 65536,
                  warps = (config->value[LANES] + FEEDER) / 32 * config->value[BLOCKS];
    return registers / 4 / 32 / ((warps + 3) / 4) / 8 * 8;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const int64_t n = md_st_size(target->program, md_fa_stage(target)->axis, size),
                  rows = md_st_points(target->program, md_fa_stage(target)->n_outer, md_fa_stage(target)->outer, size);
    const int32_t threads = (config->value[LANES] + FEEDER) * config->value[BLOCKS];
    if (n / width_of(target) < chunk_vectors(config) * config->value[CLUSTER] ||
        n / width_of(target) * PIECE < LONG_ROW || md_fa_cuda_row_is_aligned(target, size) || threads > 2048 ||
        rows < resident_clusters(target, config))
        return false;
    const weights w = weights_of(target);
    if (!w.are_kept || registers_of(target, config) > register_limit(target, config))
        return false;
    const cut c = cut_of(target, config, &w, n);
    return c.ring > c.chunks; /* something of the next row */
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    const md_fa_cuda_row row = row_of(config);
    md_fa_cuda_row_envelope(out, target, &row);
    out->row_points_max = capacity_of(target, config);
    out->n_row_dims = 1;
    out->row_dim[0] = target->program->index[md_fa_stage(target)->axis].dim;
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    const md_st_stage *st = md_fa_stage(target);
    const int64_t rows = md_st_points(target->program, st->n_outer, st->outer, shape->size);
    const weights w = weights_of(target);
    *out = (md_kn_geometries){0};
    md_kn_geometry *launch = &out->launch[0];
    launch->blocks = MD_MIN(rows, resident_clusters(target, config)) * config->value[CLUSTER];
    launch->grain = 1;
    launch->grid[0] = rows > INT32_MAX ? -1 : (int32_t)MD_MAX(launch->blocks, config->value[CLUSTER]);
    launch->grid[1] = launch->grid[2] = launch->block[1] = launch->block[2] = 1;
    launch->block[0] = config->value[LANES] + FEEDER;
    launch->cluster = config->value[CLUSTER];
    launch->scratch_bytes = room_of(target, config, &w);
    launch->overlaps = true;
}

/* ---- Text */

static md_status emit_launch(md_kn_launch_source *launch, const md_fa_target *target, const md_fa_config *config,
                             int32_t phase)
{
    const md_fa_cuda_row row = row_of(config);
    const md_cg_row_options options = md_fa_cuda_row_options(target, &row);
    const weights w = weights_of(target);
    md_strbuf defines = {0};
    (void)phase;
    const md_fa_define define[] = {{"VL", width_of(target)},
                                   {"ALIGNED", 0},
                                   {"WIDE", 0},
                                   {"BOUNDARY", 1},
                                   {"GROUP", row.lanes},
                                   {"VECTORS", row.vectors},
                                   {"CLUSTER", config->value[CLUSTER]},
                                   {"ROOM", room_of(target, config, &w)},
                                   {"CHUNKS", MOST_CHUNKS},
                                   {"PART_WORDS", part_words(target)},
                                   {"KEPT", w.n > 0},
                                   {"KEPT_BYTES", w.bytes},
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

/* Instructions of a thread for an element. */
static double element_slots(const md_fa_target *target, const md_fa_config *config)
{
    const md_st_row *program = &md_fa_stage(target)->row;
    const double width = width_of(target), passes = program->n_levels + program->has_elements;
    md_fa_host_work work;
    md_fa_host_count(&work, md_fa_stage(target), target->program);
    return work.operations + passes * CHUNK_SLOTS / (width * config->value[VECTORS]) + (width > 4 ? work.loads : 0) +
           work.transcendental * (md_fa_cuda_row_is_short(target) ? SHORT_EXP_SLOTS : EXP_SLOTS);
}

static double norm_of(double memory, double instructions, double waiting)
{
    return pow(pow(memory, NORM) + pow(instructions, NORM) + pow(waiting, NORM), 1 / NORM);
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    const weights w = weights_of(target);
    const double rows = fmax((double)md_st_points(target->program, st->n_outer, st->outer, size), 1),
                 n = (double)md_st_size(target->program, st->axis, size), sms = MD_MAX(target->facts->threads, 1),
                 rate = md_fa_cuda_bytes_per_us(target->facts);
    const cut c = cut_of(target, config, &w, (int64_t)n);
    const double clusters = fmin(rows, (double)resident_clusters(target, config)), turns = rows / clusters,
                 busy = fmin(clusters * config->value[CLUSTER] / (sms * config->value[BLOCKS]), 1),
                 ahead = (double)(c.ring - c.chunks) / (double)MD_MAX(c.chunks, 1);
    double flops = 0, bytes = 0;
    md_fa_work(&flops, &bytes, target, size);
    const double slots = element_slots(target, config) * rows * n,
                 instructions = slots / (md_fa_cuda_fma_per_us(target->facts) * busy),
                 memory = fmax(bytes, 1) / rate / fmin(clusters * config->value[CLUSTER] / sms * BURST, 1) *
                          (1 + SHORT_RING * fmax(1 - ahead, 0)),
                 row = EXCHANGE_US * st->row.n_levels + STORE_US * st->row.has_elements +
                       instructions / turns / config->value[BLOCKS] * fmax(FULL_LANES / config->value[LANES], 1);
    const double us = norm_of(memory, instructions, ceil(turns) * row) +
                      LONE_TURNS * (memory / turns + row - norm_of(memory / turns, instructions / turns, row));
    *out =
        (md_fa_features){.ops_rate = 1, .ops = 2 * slots, .launches = 1, .parallel = busy * sms, .serial_us = START_US};
    out->memory_bytes = fmin(bytes, us * rate);
    out->memory_rate = fmax(out->memory_bytes / rate / us, 1e-9);
}

/* Which thread has an element depends on the row's address, and on the size of the cluster. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    return (md_fa_class){.is_repeatable = true};
}

const md_fa_family md_fa_cuda_row_cluster = {
    .name = "row_cluster",
    .device = MD_DEV_CUDA,
    .is_persistent = true,
    .is_reduction = true,
    .n_fields = 4,
    .field = {{"lanes", 256, 3, {256, 128, 512}},
              {"vecs", 1, 3, {1, 2, 4}},
              {"blocks", 2, 4, {2, 1, 3, 4}},
              {"cluster", 4, 4, {4, 8, 2, 1}}},
    .applies = applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = numeric,
};
