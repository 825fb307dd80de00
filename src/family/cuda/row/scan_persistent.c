/* Family scan_persistent: scans of many rows. A row belongs to a few lanes, a warp or a block, which go over it tile by
 * tile; or lanes run across columns. */
#include "base/status.h"
#include "family/emit.h"
#include "family/cuda/row/scan.h"

#include <math.h>

extern const md_fa_family md_fa_cuda_scan_persistent; /* defined at the end of this file */

enum { GROUP, ITEMS, COLUMN, ALIGNED, STRIDED };
/* THREADS: of a block of columns, and of a block whose rows have a warp or less. ACROSS: vectors of columns in a
 * block. */
enum { THREADS = 256, ACROSS = 8 };

static bool is_column(const md_fa_config *config)
{
    return config->value[COLUMN] != 0;
}

static md_fa_cuda_scan scan_of(const md_fa_config *config)
{
    md_fa_cuda_scan s = {.source = "cuda/scan_persistent.cu",
                         .is_column = is_column(config),
                         .is_aligned = config->value[ALIGNED],
                         .is_strided = config->value[STRIDED],
                         .group = config->value[GROUP],
                         .items = config->value[ITEMS]};
    s.threads = s.is_column ? THREADS : MD_MAX(s.group, THREADS);
    return s;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_fa_family *family = &md_fa_cuda_scan_persistent;
    const int32_t *v = config->value;
    md_fa_cuda_scan_size s;
    if (v[ALIGNED] && v[STRIDED])
        return false;
    if (!(v[COLUMN] ? md_fa_cuda_columns_fit(target, v[ITEMS]) : md_fa_cuda_scan_row_fits(target, v[ITEMS])))
        return false;
    if (v[COLUMN])
        return md_fa_stage(target)->n_outer > 0 && v[GROUP] == family->field[GROUP].initial;
    md_fa_cuda_scan_measure(&s, target, size);
    /* A tile more than twice as long as the row leaves lanes idle. The smallest tile serves rows that are shorter
     * still. */
    int64_t tile = (int64_t)v[GROUP] * v[ITEMS] * md_fa_cuda_width(target->program, target->stage);
    return tile <= 2 * MD_MAX(s.n, 1) || (v[GROUP] <= 32 && v[ITEMS] == 1) ||
           (v[GROUP] == 32 && v[ITEMS] == family->field[ITEMS].initial);
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_cuda_scan scan = scan_of(config);
    md_fa_cuda_scan_envelope(out, target, &scan);
}

static md_status emit_launch(md_kn_launch_source *out, const md_fa_target *target, const md_fa_config *config,
                             int32_t phase)
{
    const md_fa_cuda_scan scan = scan_of(config);
    (void)phase;
    return md_fa_cuda_scan_print(out, target, &scan);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    return md_fa_emit_launches(out, target, config, 1, emit_launch);
}

static int64_t blocks_of(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_cuda_scan scan = scan_of(config);
    md_fa_cuda_scan_size s;
    md_fa_cuda_scan_measure(&s, target, size);
    if (s.rows == 0 || s.n == 0)
        return 0;
    if (!scan.is_column)
        return (s.rows + scan.threads / scan.group - 1) / (scan.threads / scan.group);
    int64_t width = md_fa_cuda_width(target->program, target->stage) * ACROSS;
    return s.rows / s.lanes * ((s.lanes + width - 1) / width);
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    int64_t blocks = blocks_of(target, config, shape->size);
    *out = (md_kn_geometries){0};
    out->launch[0] = md_fa_cuda_launch(blocks, scan_of(config).threads);
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_cuda_scan scan = scan_of(config);
    md_fa_cuda_scan_size s;
    md_fa_cuda_scan_measure(&s, target, size);
    double points = (double)s.rows * (double)s.n, width = md_fa_cuda_width(target->program, target->stage);
    md_fa_cuda_load load = {.blocks = (double)blocks_of(target, config, size),
                            .threads = scan.threads,
                            .bytes = 16.0 * scan.items,
                            .registers = 32 + (int32_t)width * scan.items * 5 / 4};
    *out = (md_fa_features){.ops_rate = 1, .launches = 1, .parallel = target->facts->threads};
    out->memory_bytes = s.bytes;
    out->memory_rate = md_fa_cuda_rate(target->facts, &load);
    out->transcendental = points * s.transcendental;
    out->ops = points * (s.ops + 6);
    double tile = (double)scan.group * scan.items * width, tiles = fmax(ceil((double)s.n / tile), 1);
    if (scan.is_column) {
        /* a thread's rounds follow each other, each with loads and two barriers */
        double rounds = ceil((double)s.n * ACROSS / (scan.threads * (double)scan.items));
        double resident = md_fa_cuda_resident(target->facts, &load),
               waves = load.blocks / fmax(resident * target->facts->threads, 1);
        out->serial_us = 1.5 * (rounds - 1) * fmax(1 - waves, 0);
        out->memory_rate *= scan.items >= 8 ? 0.85 : scan.items >= 4 ? 0.7 : 0.55;
        out->memory_bytes += scan.is_strided ? 2 * s.bytes : 0;
    } else {
        /* The last tile has idle lanes, and each tile waits for the one before: loads, shuffles, a barrier. */
        out->ops *= tiles * tile / fmax((double)s.n, 1);
        out->memory_rate *= 0.5 + 0.5 * fmin((double)s.n / (tiles * tile), 1);
        double resident = md_fa_cuda_resident(target->facts, &load),
               waves = load.blocks / fmax(resident * target->facts->threads, 1);
        out->serial_us = 0.1 * (tiles - 1) * fmax(1 - waves, 0);
        if (scan.group < 32 && tiles > 2) /* neighbouring groups read places that are far apart */
            out->memory_rate *= 0.9;
        out->memory_bytes += points * 24 * (scan.is_strided ? 1 : 0) + points * 8 * s.scattered;
    }
    if (!scan.is_aligned)
        out->memory_rate *= scan.items >= 8 ? 0.85 : scan.items >= 4 ? 0.7 : 0.55;
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    if (config->value[COLUMN])
        return (md_fa_class){.group = "scan_column", .field = {"items"}, .is_repeatable = true, .is_invariant = true};
    /* Vectors begin where a store is aligned: at the row's first element if the tensor is aligned, or if lanes go
     * element by element. */
    const bool is_placed = !config->value[ALIGNED] && !config->value[STRIDED];
    return (md_fa_class){.group = is_placed ? "scan_placed" : "scan",
                         .field = {"lanes", "items"},
                         .is_repeatable = true,
                         .is_invariant = !is_placed};
}

const md_fa_family md_fa_cuda_scan_persistent = {
    .name = "scan_persistent",
    .device = MD_DEV_CUDA,
    .is_persistent = true,
    .n_fields = 5,
    .field =
        {
            {"lanes", 32, 5, {32, 256, 8, 128, 512}},
            {"items", 4, 4, {4, 2, 1, 8}},
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
