/* Family scan: prefix sums and the like, along rows in vectors, down columns in lanes, or over long rows that are cut
 * into pieces. */
#include "base/status.h"
#include "codegen/row/scan.h"
#include "family/applies.h"
#include "family/emit.h"
#include "family/cost.h"
#include "family/host/cycles_fit.h"
#include "family/host/row/host_scan_fit.h"

#include <math.h>

enum { COLUMN, SPLIT, STRIDED, NONTEMPORAL }; /* COLUMN: vectors of a block of columns; 0: lanes run along the axis */
enum { PIECE = 16384, MANY_POINTS = 16384 };

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    if (config->value[COLUMN] && (st->n_outer == 0 || config->value[SPLIT]))
        return false;
    if (config->value[SPLIT] && md_st_size(target->program, st->axis, size) <= PIECE)
        return false;
    return !config->value[NONTEMPORAL] || (!config->value[STRIDED] && md_fa_host_can_stream(target, size));
}

static int32_t lane_of(const md_fa_target *target, const md_fa_config *config)
{
    const md_st_stage *st = md_fa_stage(target);
    return config->value[COLUMN] ? st->outer[st->n_outer - 1] : st->axis;
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    *out = (md_kn_envelope){0};
    if (!config->value[STRIDED])
        out->unit = md_cg_unit_tensors(target->program, target->stage, lane_of(target, config));
}

static md_status print_launch(md_kn_launch_source *launch, const md_fa_target *target, const md_fa_config *config,
                              int32_t phase)
{
    md_strbuf defines = {0}, expr = {0};
    MD_TRY(md_fa_begin_launch(launch, target));
    if (phase > 0)
        launch->param[launch->n_params++] = (md_kn_param){.kind = MD_KN_WORKSPACE};
    md_cg_scan_options options = {.program = target->program,
                                  .stage = target->stage,
                                  .dialect = MD_DEV_HOST,
                                  .access = config->value[STRIDED] ? MD_CG_STRIDED : MD_CG_UNIT,
                                  .streaming = config->value[NONTEMPORAL] && phase != 1 && phase != 2,
                                  .is_column = config->value[COLUMN] > 0,
                                  .n_params = launch->n_params,
                                  .param = launch->param};
    md_strbuf_printf(&defines, "#define MD_VL %d\n#define MD_PHASE %d\n#define MD_PIECE %d\n",
                     (int)md_cg_width(target->facts), (int)phase, (int)PIECE);
    if (config->value[COLUMN])
        md_strbuf_printf(&defines, "#define MD_TILE %d\n", (int)config->value[COLUMN]);
    md_status status = md_cg_scan_print(&defines, &expr, &options);
    return md_fa_end_launch(status, launch, MD_DEV_HOST, "host/scan.c", &defines, &expr);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    return md_fa_emit_launches(out, target, config, config->value[SPLIT] ? 3 : 1, print_launch);
}

static void set_blocks(md_kn_geometry *out, int64_t blocks, int64_t points, const md_fa_target *target)
{
    *out = (md_kn_geometry){.blocks = blocks, .grain = md_fa_host_grain(blocks, points, target->facts)};
}

static void place(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    int64_t n = md_st_size(target->program, st->axis, size),
            rows = md_st_points(target->program, st->n_outer, st->outer, size);
    int64_t pieces = (n + PIECE - 1) / PIECE, width = md_cg_width(target->facts) * config->value[COLUMN];
    *out = (md_kn_geometries){0};
    if (config->value[SPLIT]) {
        set_blocks(&out->launch[0], rows * pieces, PIECE, target);
        set_blocks(&out->launch[1], pieces > 0 ? rows : 0, pieces, target);
        set_blocks(&out->launch[2], rows * pieces, PIECE, target);
        out->workspace_bytes = rows * pieces * (md_fx_is_recurrence(st->scan.op) ? 16 : 8);
    } else if (config->value[COLUMN]) {
        int64_t lanes = md_st_size(target->program, st->outer[st->n_outer - 1], size);
        int64_t outer = md_st_points(target->program, st->n_outer - 1, st->outer, size);
        set_blocks(&out->launch[0], outer * ((lanes + width - 1) / width), MD_MIN(n, MANY_POINTS) * width, target);
    } else {
        set_blocks(&out->launch[0], rows, n, target);
    }
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    place(out, target, config, shape->size);
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    double flops = 0, bytes = 0, stored = md_fa_stored_bytes(target, size);
    double rows = (double)md_st_points(target->program, st->n_outer, st->outer, size),
           n = (double)md_st_size(target->program, st->axis, size);
    md_fa_host_work work;
    md_kn_geometries plan;
    md_fa_host_count(&work, st, target->program);
    md_st_work(&flops, &bytes, target->program, target->stage, size);
    place(&plan, target, config, size);
    bool is_split = config->value[SPLIT], is_column = config->value[COLUMN] > 0;
    double vectors = rows * (is_column ? n / md_cg_width(target->facts) : ceil(n / md_cg_width(target->facts)));
    double accesses = work.loads + work.stores;
    /* Along the axis a vector is scanned in steps and depends on the previous vector. Across it a step is one
     * operation. */
    double cycles =
        vectors * (VECTOR_CYCLES + accesses + work.operations + (is_column ? ACROSS_CYCLES : STEPS_CYCLES)) +
        rows * (is_column ? 0 : ROW_CYCLES);
    /* Accesses were counted for lanes along the axis. For columns the other ones are vectors. */
    cycles += rows * n *
              (config->value[STRIDED] ? STRIDED_CYCLES * accesses
               : is_column            ? SCATTERED_CYCLES * (accesses - work.scattered)
                                      : SCATTERED_CYCLES * work.scattered);
    *out = (md_fa_features){.ops_rate = 1, .launches = is_split ? 3 : 1};
    /* cache lines of a row that a block of columns reads at a time */
    double piece = config->value[COLUMN] * (double)target->facts->vector_bytes / 64.0;
    out->memory_bytes = bytes + (config->value[NONTEMPORAL] ? 0 : stored) + (is_split ? bytes - stored : 0);
    if (is_column)
        out->memory_bytes *= 1 + PIECE_PART / (piece * piece);
    out->serial_us = config->value[NONTEMPORAL] ? STREAMING_US : 0;
    out->ops = cycles * (is_split ? SPLIT_OPS : 1) * md_fa_host_ops_per_cycle(target->facts);
    out->transcendental = rows * n * work.transcendental * (is_split ? SPLIT_FUNCTIONS : 1);
    const md_kn_geometry *last = &plan.launch[is_split ? 2 : 0];
    out->parallel = md_fa_host_parallel(ceil((double)last->blocks / (double)last->grain), target->facts);
}

/* Nontemporal stores begin at an aligned address, so the place of vectors depends on the row's address. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    const bool is_column = config->value[COLUMN] != 0, is_placed = !is_column && config->value[NONTEMPORAL];
    (void)target;
    return (md_fa_class){.group = is_column   ? "scan_column"
                                  : is_placed ? "scan_placed"
                                              : "scan",
                         .field = {is_column ? NULL : "split"},
                         .is_repeatable = true,
                         .is_invariant = !is_placed};
}

const md_fa_family md_fa_host_scan = {
    .name = "scan",
    .device = MD_DEV_HOST,
    .takes_packed = true,
    .is_reduction = false,
    .n_fields = 4,
    .field = {{"column", 0, 3, {0, 16, 2}},
              {"split", 0, 2, {0, 1}},
              {"strided", 0, 2, {0, 1}},
              {"nontemporal", 0, 2, {0, 1}}},
    .applies = md_fa_scan_applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = numeric,
};
