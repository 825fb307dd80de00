/* Scans of few long rows, cut into tiles: one pass in which blocks look back at the totals in front of them, or three launches. Of few long columns:
 * cut into parts, in two launches. */
#include "base/status.h"
#include "family/cuda_scan.h"

#include <math.h>

enum { THREADS, ITEMS, ROUNDS, LOOKBACK, COLUMN, ALIGNED, STRIDED };
enum { COLUMN_THREADS = 256, ACROSS = 8 /* vectors of columns of a block */, DOWN = COLUMN_THREADS / ACROSS, WAVES = 4 };
/* Tiles whose notes fit into the stream's counters, and where those begin there, in units (cuda/scan_split.cu, md_head in front). */
enum { COUNTED = 65535, COUNTERS = 16, NOTE_BYTES = 16 };

static md_fa_cuda_scan scan_of(const md_fa_config *config)
{
    return (md_fa_cuda_scan){.source = config->value[COLUMN] ? "cuda/scan_persistent.cu" : "cuda/scan_split.cu", .is_column = config->value[COLUMN],
                             .is_aligned = config->value[ALIGNED], .is_strided = config->value[STRIDED], .threads = config->value[THREADS], .items = config->value[ITEMS],
                             .rounds = config->value[ROUNDS]};
}

static int64_t tile_vectors(const md_fa_config *config)
{
    return (int64_t)config->value[THREADS] * config->value[ITEMS] * config->value[ROUNDS];
}

/* Bytes of the block's tile in shared memory. */
static int64_t shared_bytes(const md_fa_target *target, const md_fa_config *config)
{
    const md_st_scan *scan = &target->program->stage[target->stage].scan;
    int64_t value = scan->type == MD_F64 || scan->type == MD_I64 ? 8 : 4;
    return config->value[ROUNDS] > 1 ? tile_vectors(config) * md_fa_cuda_width(target->program, target->stage) * value : 0;
}

static bool is_column_legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_cuda_scan_size s;
    md_fa_cuda_scan_measure(&s, target, size);
    return config->value[THREADS] == COLUMN_THREADS && config->value[ROUNDS] == 1 && !config->value[LOOKBACK] && s.lanes > 0 &&
           config->value[ITEMS] * md_fa_cuda_width(target->program, target->stage) <= 32 && /* values of a thread */
           target->program->stage[target->stage].n_outer > 0 && s.n > 2 * DOWN * config->value[ITEMS];
}

/* Blocks across, for all rows of columns; parts of the axis. */
static void cut_columns(int64_t *across, int64_t *parts, const md_fa_target *target, const md_fa_config *config, const md_fa_cuda_scan_size *s)
{
    int64_t width = md_fa_cuda_width(target->program, target->stage) * ACROSS, run = (int64_t)DOWN * config->value[ITEMS], most = 65535;
    *across = s->lanes > 0 && s->n > 0 ? s->rows / s->lanes * ((s->lanes + width - 1) / width) : 0;
    *parts = MD_MIN(MD_MIN((s->n + run - 1) / run, (WAVES * (int64_t)target->facts->threads + *across - 1) / MD_MAX(*across, 1)), most);
    *parts = MD_MAX(*parts, 1);
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_cuda_scan_size s;
    if (config->value[ALIGNED] && config->value[STRIDED])
        return false;
    if (config->value[COLUMN])
        return is_column_legal(target, config, size);
    if (config->value[ROUNDS] > 1 && (!config->value[LOOKBACK] || shared_bytes(target, config) + 1024 > target->facts->shared_per_block))
        return false;
    md_fa_cuda_scan_measure(&s, target, size);
    return s.n > tile_vectors(config) * md_fa_cuda_width(target->program, target->stage);
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_cuda_scan scan = scan_of(config);
    md_fa_cuda_scan_envelope(out, target, &scan);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_cuda_scan scan = scan_of(config);
    bool looks_back = config->value[LOOKBACK], is_column = config->value[COLUMN];
    md_status status = MD_OK;
    *out = (md_kn_source){.n_launches = looks_back || is_column ? 2 : 3};
    scan.n_extra = looks_back ? 2 : 1;
    scan.extra[0] = (md_kn_param){.kind = MD_KN_WORKSPACE};
    scan.extra[1] = (md_kn_param){.kind = MD_KN_COUNTERS, .b = COUNTERS};
    for (int32_t i = 0; i < out->n_launches && status == MD_OK; i++) {
        scan.phase = is_column ? 1 + 2 * i : i + (looks_back ? 4 : 1);
        status = md_fa_cuda_scan_print(&out->launch[i], target, &scan);
    }
    if (status != MD_OK)
        md_kn_source_finish(out);
    return status;
}

static void set_blocks(md_kn_geometry *out, int64_t blocks, const md_fa_config *config)
{
    *out = (md_kn_geometry){.blocks = blocks, .grain = 1, .grid = {md_fa_cuda_grid(blocks), 1, 1}, .block = {config->value[THREADS], 1, 1}};
}

static void place_columns(md_kn_plan_geometry *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_cuda_scan_size s;
    int64_t across = 0, parts = 0;
    md_fa_cuda_scan_measure(&s, target, size);
    cut_columns(&across, &parts, target, config, &s);
    *out = (md_kn_plan_geometry){.workspace_bytes = parts * s.rows * 8};
    for (int32_t i = 0; i < 2; i++) {
        set_blocks(&out->launch[i], across, config);
        out->launch[i].grid[1] = (int32_t)parts;
        out->launch[i].blocks = across * parts;
    }
}

static void place(md_kn_plan_geometry *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_cuda_scan_size s;
    if (config->value[COLUMN]) {
        place_columns(out, target, config, size);
        return;
    }
    md_fa_cuda_scan_measure(&s, target, size);
    int64_t tiles = s.rows * md_fa_cuda_scan_tiles(s.n, md_fa_cuda_width(target->program, target->stage), tile_vectors(config));
    *out = (md_kn_plan_geometry){0};
    if (config->value[LOOKBACK]) {
        int64_t threads = config->value[THREADS], in_workspace = tiles > COUNTED ? tiles + 1 : 0;
        set_blocks(&out->launch[0], (in_workspace + threads - 1) / threads, config);
        set_blocks(&out->launch[1], tiles, config);
        out->launch[1].scratch_bytes = shared_bytes(target, config);
        out->workspace_bytes = in_workspace * NOTE_BYTES;
    } else {
        set_blocks(&out->launch[0], tiles, config);
        set_blocks(&out->launch[1], tiles > 0 ? s.rows : 0, config);
        set_blocks(&out->launch[2], tiles, config);
        out->workspace_bytes = tiles * 8;
    }
}

static void geometry(md_kn_plan_geometry *out, const md_fa_target *target, const md_fa_config *config, const md_kn_shape *shape)
{
    place(out, target, config, shape->size);
}

/* The axis is read twice, the second time in part from L2; a block goes over its tiles one after the other. */
static void features_of_columns(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_cuda_scan_size s;
    int64_t across = 0, parts = 0, width = md_fa_cuda_width(target->program, target->stage), run = (int64_t)DOWN * config->value[ITEMS];
    md_fa_cuda_scan_measure(&s, target, size);
    cut_columns(&across, &parts, target, config, &s);
    double points = (double)s.rows * (double)s.n, items = config->value[ITEMS], tiles = ceil(ceil((double)s.n / (double)run) / (double)parts);
    md_fa_cuda_load load = {.blocks = (double)(across * parts), .threads = COLUMN_THREADS, .bytes = 16.0 * items,
                            .registers = 32 + (int32_t)(width * config->value[ITEMS] * 5 / 4)};
    *out = (md_fa_features){.ops_rate = 1, .parallel = target->facts->threads, .launches = 2};
    out->memory_bytes = 2 * s.bytes - s.stored + (config->value[STRIDED] ? 2 * s.bytes : 0);
    out->memory_rate = md_fa_cuda_rate(target->facts, &load) * (items >= 8 ? 0.85 : items >= 4 ? 0.7 : 0.55);
    out->ops = points * (s.ops + 6) * 1.5;
    out->transcendental = 2 * points * s.transcendental;
    out->serial_us = 1.5 + 0.1 * (double)parts + 0.5 * tiles;
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_kn_plan_geometry plan;
    md_fa_cuda_scan_size s;
    bool looks_back = config->value[LOOKBACK];
    if (config->value[COLUMN]) {
        features_of_columns(out, target, config, size);
        return;
    }
    md_fa_cuda_scan_measure(&s, target, size);
    place(&plan, target, config, size);
    double points = (double)s.rows * (double)s.n, width = md_fa_cuda_width(target->program, target->stage);
    const md_kn_geometry *last = &plan.launch[looks_back ? 1 : 2];
    md_fa_cuda_load load = {.blocks = (double)last->blocks, .threads = config->value[THREADS], .bytes = 16.0 * config->value[ITEMS],
                            .shared_bytes = shared_bytes(target, config),
                            .registers = 36 + (int32_t)width * config->value[ITEMS] * 5 / 4};
    *out = (md_fa_features){.ops_rate = 1, .parallel = target->facts->threads};
    out->launches = looks_back ? 1 + (plan.launch[0].blocks > 0) : 3;
    out->memory_bytes = s.bytes + (looks_back ? 0 : s.bytes - s.stored) + points * (config->value[STRIDED] ? 24 : 0) + points * 8 * s.scattered;
    out->memory_rate = md_fa_cuda_rate(target->facts, &load) * (looks_back ? 0.95 : 1) * (config->value[ALIGNED] ? 1 : 0.9);
    out->ops = points * (s.ops + 6) * (looks_back ? 1 : 1.5);
    out->transcendental = points * s.transcendental * (looks_back ? 1 : 2);
    /* A tile is on chip for about 10 us, whatever its size, of which loads and stores are the smaller part: what counts is how much of the input
     * is there at a time. */
    int64_t value = width * (target->program->stage[target->stage].scan.type == MD_F64 || target->program->stage[target->stage].scan.type == MD_I64 ? 8 : 4);
    double resident = md_fa_cuda_resident(target->facts, &load) * (double)target->facts->threads;
    double held = fmin(resident, load.blocks) * (double)(tile_vectors(config) * value);
    if (looks_back)
        out->memory_rate = fmin(out->memory_rate, held / 9.0e6 * 0.55 / (0.45 + held / 9.0e6 * 0.55));
    else
        out->memory_rate *= 0.9;
    if (config->value[THREADS] > 256) /* barriers of many warps */
        out->memory_rate *= 0.85;
    out->serial_us = looks_back ? 3.0 : 2.0;
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
            {"lookback", 1, 2, {1, 0}},
            {"column", 0, 2, {0, 1}},
            {"aligned", 0, 2, {1, 0}},
            {"strided", 0, 2, {0, 1}},
        },
    .applies = md_fa_cuda_scan_applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
};
