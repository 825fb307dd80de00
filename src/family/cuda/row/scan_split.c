/* Family scan_split: scans of few long rows, cut into tiles. Either one pass in which a block looks back at the totals
 * of earlier tiles, or one pass of blocks that run side by side (cuda/scan_ring.cu), or three launches. Few long
 * columns are cut into parts, in two launches. */
#include "base/status.h"
#include "codegen/codegen.h"
#include "family/cuda/row/scan_split_fit.h"
#include "family/emit.h"
#include "family/cuda/row/scan.h"

#include <math.h>

enum { THREADS, ITEMS, ROUNDS, LOOKBACK, COLUMN, ALIGNED, STRIDED };
enum { THREE_LAUNCHES, LOOKS_BACK, SIDE_BY_SIDE }; /* values of LOOKBACK */
/* ACROSS: a block's vectors of columns. */
enum { COLUMN_THREADS = 256, ACROSS = 8, DOWN = COLUMN_THREADS / ACROSS, WAVES = 4 };
/* COUNTED: tiles whose states fit the stream's counters. COUNTERS: where they begin there, in units
 * (cuda/scan_split.cu, md_head). */
enum { COUNTED = 65535, COUNTERS = 16, STATE_BYTES = 16 };
enum { OTHER_SHARED = 2048 }; /* shared memory of a block besides its ring */
static bool is_ring(const md_fa_config *config)
{
    return config->value[LOOKBACK] == SIDE_BY_SIDE;
}

/* For rings the field is the number of stages. */
static int32_t rounds_of(const md_fa_config *config)
{
    return is_ring(config) ? 1 : config->value[ROUNDS];
}

/* True for columns that are scanned in one pass. */
static bool is_tiled(const md_fa_config *config)
{
    return config->value[COLUMN] && config->value[LOOKBACK] == LOOKS_BACK;
}

static md_fa_cuda_scan scan_of(const md_fa_config *config)
{
    return (md_fa_cuda_scan){.source = is_tiled(config)        ? "cuda/scan_columns.cu"
                                       : config->value[COLUMN] ? "cuda/scan_persistent.cu"
                                                               : "cuda/scan_split.cu",
                             .is_column = config->value[COLUMN],
                             .is_aligned = config->value[ALIGNED],
                             .is_strided = config->value[STRIDED],
                             .threads = config->value[THREADS],
                             .items = config->value[ITEMS],
                             .rounds = rounds_of(config)};
}

static int64_t tile_vectors(const md_fa_config *config)
{
    return (int64_t)config->value[THREADS] * config->value[ITEMS] * rounds_of(config);
}

typedef struct loads {
    const md_fa_target *target;
    int64_t bytes; /* of an element */
    bool are_plain; /* along the axis and nowhere else, of neighbours, whatever the values */
} loads;

static bool note_load(void *user, const md_fx_node *node)
{
    loads *l = user;
    const md_st_program *program = l->target->program;
    int32_t axis = program->stage[l->target->stage].axis;
    l->are_plain &= node->kind == MD_FX_LOAD || node->kind == MD_FX_OP || node->kind == MD_FX_CONST ||
                    node->kind == MD_FX_INDEX || node->kind == MD_FX_CAST;
    l->are_plain &= node->kind != MD_FX_OP || node->op != MD_FX_WHERE;
    if (node->kind != MD_FX_LOAD)
        return true;
    const md_fx_node *last = node->n_args > 0 ? node->arg[node->n_args - 1] : NULL;
    l->bytes += (int64_t)md_dtype_size(program->formula->tensor[node->id].dtype);
    l->are_plain &= last && last->kind == MD_FX_INDEX && last->id == axis &&
                    (md_cg_unit_tensors(program, l->target->stage, axis) >> node->id & 1);
    for (int32_t i = 0; i + 1 < node->n_args; i++)
        l->are_plain &= !md_fx_uses_index(node->arg[i], axis);
    return true;
}

/* Bytes of a stage of a ring; 0 if the loads of the operand cannot be copied unchanged. */
static int64_t stage_bytes(const md_fa_target *target, const md_fa_config *config)
{
    loads l = {.target = target, .are_plain = true};
    (void)md_fx_visit(md_fa_stage(target)->scan.body, note_load, &l);
    return l.are_plain && l.bytes > 0
               ? tile_vectors(config) * md_fa_cuda_width(target->program, target->stage) * l.bytes
               : 0;
}

/* Shared memory of a block for its tile or ring. */
static int64_t shared_bytes(const md_fa_target *target, const md_fa_config *config)
{
    if (is_ring(config))
        return config->value[ROUNDS] * stage_bytes(target, config);
    return rounds_of(config) > 1
               ? tile_vectors(config) * md_fa_cuda_width(target->program, target->stage) * md_fa_cuda_scan_value(target)
               : 0;
}

static bool is_ring_legal(const md_fa_target *target, const md_fa_config *config)
{
    return target->facts->capability >= 90 && config->value[ALIGNED] && config->value[ROUNDS] > 1 &&
           config->value[THREADS] > 128 && stage_bytes(target, config) > 0 &&
           shared_bytes(target, config) + OTHER_SHARED <= target->facts->shared_per_block &&
           /* bytes that a thread holds in registers */
           config->value[ITEMS] * md_fa_cuda_width(target->program, target->stage) * md_fa_cuda_scan_value(target) <=
               128;
}

static md_fa_cuda_column_tile column_tile_of(const md_fa_config *config)
{
    return (md_fa_cuda_column_tile){config->value[THREADS], config->value[ITEMS], rounds_of(config),
                                    config->value[ALIGNED] != 0};
}

static bool is_column_legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_cuda_scan_size s;
    const md_fa_cuda_column_tile tile = column_tile_of(config);
    md_fa_cuda_scan_measure(&s, target, size);
    if (is_ring(config) || s.lanes == 0 || md_fa_stage(target)->n_outer == 0 || s.n <= 2 * DOWN * config->value[ITEMS])
        return false;
    return is_tiled(config) ? md_fa_cuda_column_tile_fits(target, &tile)
                            : config->value[THREADS] == COLUMN_THREADS && config->value[ROUNDS] == 1 &&
                                  md_fa_cuda_columns_fit(target, config->value[ITEMS]);
}

/* *across: blocks side by side, for all rows of columns. *parts: parts of the axis. */
static void cut_columns(int64_t *across, int64_t *parts, const md_fa_target *target, const md_fa_config *config,
                        const md_fa_cuda_scan_size *s)
{
    int64_t width = md_fa_cuda_width(target->program, target->stage) * ACROSS,
            run = (int64_t)DOWN * config->value[ITEMS], most = 65535;
    *across = s->lanes > 0 && s->n > 0 ? s->rows / s->lanes * ((s->lanes + width - 1) / width) : 0;
    *parts = MD_MIN(
        MD_MIN((s->n + run - 1) / run, (WAVES * (int64_t)target->facts->threads + *across - 1) / MD_MAX(*across, 1)),
        most);
    *parts = MD_MAX(*parts, 1);
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_cuda_scan_size s;
    if (config->value[ALIGNED] && config->value[STRIDED])
        return false;
    if (config->value[COLUMN])
        return is_column_legal(target, config, size);
    if (md_fa_cuda_is_recurrence(target) && config->value[LOOKBACK]) /* the state of a tile must be one word */
        return false;
    if (!md_fa_cuda_scan_row_fits(target, config->value[ITEMS]))
        return false;
    if (is_ring(config) && !is_ring_legal(target, config))
        return false;
    if (rounds_of(config) > 1 &&
        (!config->value[LOOKBACK] || shared_bytes(target, config) + 1024 > target->facts->shared_per_block))
        return false;
    md_fa_cuda_scan_measure(&s, target, size);
    return s.n > tile_vectors(config) * md_fa_cuda_width(target->program, target->stage);
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_cuda_scan scan = scan_of(config);
    md_fa_cuda_scan_envelope(out, target, &scan);
    if (is_ring(config))
        out->aligned16 = out->unit;
}

static md_status emit_launch(md_kn_launch_source *out, const md_fa_target *target, const md_fa_config *config,
                             int32_t number)
{
    const bool looks_back = config->value[LOOKBACK], is_column = config->value[COLUMN];
    md_fa_cuda_scan scan = scan_of(config);
    scan.n_extra = looks_back ? 2 : 1;
    scan.extra[0] = (md_kn_param){.kind = MD_KN_WORKSPACE};
    scan.extra[1] = (md_kn_param){.kind = MD_KN_COUNTERS, .b = COUNTERS};
    scan.phase = is_column && !looks_back ? 2 * number - 1 : number + (looks_back ? 3 : 0);
    const md_fa_cuda_column_tile tile = column_tile_of(config);
    if (number == 2 && is_tiled(config))
        scan.pieces = md_fa_cuda_column_pieces(target, &tile);
    if (number == 2 && is_ring(config)) {
        scan.source = "cuda/scan_ring.cu";
        scan.ring = config->value[ROUNDS];
        scan.stage_bytes = stage_bytes(target, config);
    }
    return md_fa_cuda_scan_print(out, target, &scan);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    return md_fa_emit_launches(out, target, config, config->value[LOOKBACK] || config->value[COLUMN] ? 2 : 3,
                               emit_launch);
}

static void place_columns(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                          const int64_t *size)
{
    md_fa_cuda_scan_size s;
    int64_t across = 0, parts = 0;
    md_fa_cuda_scan_measure(&s, target, size);
    cut_columns(&across, &parts, target, config, &s);
    *out = (md_kn_geometries){.workspace_bytes = parts * s.rows * md_fa_cuda_scan_total(target)};
    for (int32_t i = 0; i < 2; i++) {
        out->launch[i] = md_fa_cuda_launch(across, config->value[THREADS]);
        out->launch[i].grid[1] = (int32_t)parts;
        out->launch[i].blocks = across * parts;
    }
}

/* At most one block on each SM, and no more than needed for the same number of rounds. */
static int64_t ring_blocks(const md_fa_target *target, int64_t tiles)
{
    int64_t most = MD_MAX(target->facts->threads, 1), rounds = MD_MAX((tiles + most - 1) / most, 1);
    return (tiles + rounds - 1) / rounds;
}

static void place_blocks(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                         const int64_t *size)
{
    md_fa_cuda_scan_size s;
    const md_fa_cuda_column_tile column_tile = column_tile_of(config);
    if (config->value[COLUMN]) {
        if (is_tiled(config))
            md_fa_cuda_place_column_tiles(out, target, &column_tile, size);
        else
            place_columns(out, target, config, size);
        return;
    }
    md_fa_cuda_scan_measure(&s, target, size);
    int64_t width = md_fa_cuda_width(target->program, target->stage), tile = tile_vectors(config) * width;
    int64_t tiles = s.rows * (is_ring(config) ? (s.n + tile - 1) / tile
                                              : md_fa_cuda_scan_tiles(s.n, (int32_t)width, tile_vectors(config)));
    *out = (md_kn_geometries){0};
    if (config->value[LOOKBACK]) {
        int64_t threads = config->value[THREADS], in_workspace = tiles > COUNTED ? tiles + 1 : 0;
        out->launch[0] = md_fa_cuda_launch((in_workspace + threads - 1) / threads, config->value[THREADS]);
        out->launch[1] =
            md_fa_cuda_launch(is_ring(config) ? ring_blocks(target, tiles) : tiles, config->value[THREADS]);
        out->launch[1].is_cooperative = is_ring(config);
        out->launch[1].scratch_bytes = shared_bytes(target, config);
        out->workspace_bytes = in_workspace * STATE_BYTES;
    } else {
        out->launch[0] = md_fa_cuda_launch(tiles, config->value[THREADS]);
        out->launch[1] = md_fa_cuda_launch(tiles > 0 ? s.rows : 0, config->value[THREADS]);
        out->launch[2] = md_fa_cuda_launch(tiles, config->value[THREADS]);
        out->workspace_bytes = tiles * md_fa_cuda_scan_total(target);
    }
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    place_blocks(out, target, config, shape->size);
}

/* The axis is read twice, the second time partly from L2. A block goes over its tiles one by one. */
static void features_of_columns(md_fa_features *out, const md_fa_target *target, const md_fa_config *config,
                                const int64_t *size)
{
    md_fa_cuda_scan_size s;
    int64_t across = 0, parts = 0, width = md_fa_cuda_width(target->program, target->stage),
            run = (int64_t)DOWN * config->value[ITEMS];
    md_fa_cuda_scan_measure(&s, target, size);
    cut_columns(&across, &parts, target, config, &s);
    double points = (double)s.rows * (double)s.n, items = config->value[ITEMS],
           tiles = ceil(ceil((double)s.n / (double)run) / (double)parts);
    md_fa_cuda_load load = {.blocks = (double)(across * parts),
                            .threads = COLUMN_THREADS,
                            .bytes = 16.0 * items,
                            .registers = 32 + (int32_t)(width * config->value[ITEMS] * 5 / 4)};
    *out = (md_fa_features){.ops_rate = 1, .parallel = target->facts->threads, .launches = 2};
    out->memory_bytes = 2 * s.bytes - s.stored;
    out->memory_rate = md_fa_cuda_rate(target->facts, &load) * (items >= 8 ? 0.85 : items >= 4 ? 0.7 : 0.55);
    out->ops = points * (s.ops + 6) * 1.5;
    out->transcendental = 2 * points * s.transcendental;
    out->serial_us = 1.5 + 0.1 * (double)parts + 0.5 * tiles;
}

/* A fixed time for start and end, and that of each round: the time in which memory delivers a block's tile, or in which
 * the threads process it. */
static void features_of_ring(md_fa_features *out, const md_fa_target *target, const md_fa_config *config,
                             const int64_t *size)
{
    md_kn_geometries plan;
    md_fa_cuda_scan_size s;
    md_fa_cuda_scan_measure(&s, target, size);
    place_blocks(&plan, target, config, size);
    double points = (double)s.rows * (double)s.n, blocks = fmax((double)plan.launch[1].blocks, 1),
           sms = MD_MAX(target->facts->threads, 1);
    double tile = (double)(tile_vectors(config) * md_fa_cuda_width(target->program, target->stage)),
           rounds = ceil(points / tile / blocks);
    double rate = md_fa_cuda_bytes_per_us(target->facts), memory = s.bytes / rate / RING_RATE;
    double in_flight = fmin((double)shared_bytes(target, config) / RING_BYTES, 1),
           round_us = ROUND_US + MORE_THREADS_US * (config->value[THREADS] / 512.0 - 1);
    double us = fmax(memory / in_flight, rounds * (round_us + tile / 4096 * QUARTER_US));
    *out = (md_fa_features){.ops_rate = 1,
                            .parallel = fmin(blocks, sms),
                            .launches = 1 + (plan.launch[0].blocks > 0),
                            .serial_us = RING_US};
    out->memory_bytes = s.bytes;
    out->memory_rate = fmax(s.bytes / rate / us, 1e-9);
    out->ops = points * (s.ops + 6) * 1.5;
    out->transcendental = 2 * points * s.transcendental;
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_kn_geometries plan;
    md_fa_cuda_scan_size s;
    const md_fa_cuda_column_tile column_tile = column_tile_of(config);
    bool looks_back = config->value[LOOKBACK];
    if (config->value[COLUMN]) {
        if (is_tiled(config))
            md_fa_cuda_column_tile_features(out, target, &column_tile, size);
        else
            features_of_columns(out, target, config, size);
        out->memory_bytes += config->value[STRIDED] ? 2 * out->memory_bytes : 0;
        return;
    }
    if (is_ring(config)) {
        features_of_ring(out, target, config, size);
        return;
    }
    md_fa_cuda_scan_measure(&s, target, size);
    place_blocks(&plan, target, config, size);
    double points = (double)s.rows * (double)s.n, width = md_fa_cuda_width(target->program, target->stage);
    const md_kn_geometry *last = &plan.launch[looks_back ? 1 : 2];
    md_fa_cuda_load load = {.blocks = (double)last->blocks,
                            .threads = config->value[THREADS],
                            .bytes = 16.0 * config->value[ITEMS],
                            .shared_bytes = shared_bytes(target, config),
                            .registers = 36 + (int32_t)width * config->value[ITEMS] * 5 / 4};
    *out = (md_fa_features){.ops_rate = 1, .parallel = target->facts->threads};
    out->launches = looks_back ? 1 + (plan.launch[0].blocks > 0) : 3;
    out->memory_bytes = s.bytes + (looks_back ? 0 : s.bytes - s.stored) + points * (config->value[STRIDED] ? 24 : 0) +
                        points * 8 * s.scattered;
    out->memory_rate =
        md_fa_cuda_rate(target->facts, &load) * (looks_back ? 0.95 : 1) * (config->value[ALIGNED] ? 1 : 0.9);
    out->ops = points * (s.ops + 6) * (looks_back ? 1 : 1.5);
    out->transcendental = points * s.transcendental * (looks_back ? 1 : 2);
    /* A tile stays on chip for about 10 us whatever its size; loads and stores are the smaller part of that. What
     * counts is how much of the input is on chip at a time. */
    int64_t value = width * md_fa_cuda_scan_value(target);
    double resident = md_fa_cuda_resident(target->facts, &load) * (double)target->facts->threads;
    double held = fmin(resident, load.blocks) * (double)(tile_vectors(config) * value);
    if (looks_back)
        out->memory_rate = fmin(out->memory_rate, held / 9.0e6 * 0.55 / (0.45 + held / 9.0e6 * 0.55));
    else
        out->memory_rate *= 0.9;
    if (config->value[THREADS] > 256) /* barriers of many warps are slow */
        out->memory_rate *= 0.85;
    out->serial_us = looks_back ? 3.0 : 2.0;
}

/* How far a block looks back depends on timing, and so does the order of additions. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    if (is_tiled(config)) /* all is added in one order */
        return (md_fa_class){.group = "scan_column_tiles",
                             .field = {"threads", "items", "rounds"},
                             .is_repeatable = true,
                             .is_invariant = true};
    if (config->value[LOOKBACK])
        return (md_fa_class){.is_repeatable = md_fa_stage(target)->scan.type == MD_I64};
    const bool is_placed = !config->value[ALIGNED] && !config->value[STRIDED];
    return (md_fa_class){.group = is_placed ? "scan_tiles_placed" : "scan_tiles",
                         .field = {"threads", "items"},
                         .is_repeatable = true,
                         .is_invariant = !is_placed};
}

const md_fa_family md_fa_cuda_scan_split = {
    .name = "scan_split",
    .device = MD_DEV_CUDA,
    .n_fields = 7,
    .field =
        {
            {"threads", 256, 3, {256, 512, 128}},
            {"items", 4, 4, {4, 2, 6, 8}},
            {"rounds", 1, 6, {1, 2, 3, 4, 6, 8}},
            {"lookback", LOOKS_BACK, 3, {LOOKS_BACK, THREE_LAUNCHES, SIDE_BY_SIDE}},
            {"column", 0, 2, {0, 1}},
            {"aligned", 0, 2, {1, 0}},
            {"strided", 0, 2, {0, 1}},
        },
    .applies = md_fa_scan_applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = numeric,
};
