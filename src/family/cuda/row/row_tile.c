/* Family row_tile: short rows that lie side by side in memory and begin at no boundary. A block copies its rows to
 * shared memory as one run, whole vectors at a time; groups of threads then take them element by element. It serves
 * stages that read one tensor along the row, as it lies in memory, and besides it only what all rows share. */
#include "family/cuda/row/row_tile_fit.h"
#include "family/emit.h"
#include "family/cuda/cuda.h"
#include "family/cuda/row/row.h"

#include "base/dtype.h"
#include "base/status.h"
#include "family/cost.h"

#include <math.h>

extern const md_fa_family md_fa_cuda_row_tile; /* defined at the end of this file */

enum { LANES, VECTORS, THREADS, TURNS, KEEP, STAGED };
enum { LEAST_RESIDENT = 2, BOUNDARY = 16 };
/* Where configs are chosen: with fewer rows tiles leave SMs idle, and with more the same ones are the best. */
enum { LEAST_ROWS = 4096, MOST_ROWS = 16384, LEAST_ELEMENTS = 16 };

static md_fa_cuda_row row_of(const md_fa_config *config)
{
    return (md_fa_cuda_row){.source = "cuda/row_tile.cu",
                            .lanes = config->value[LANES],
                            .vectors = config->value[VECTORS],
                            .rows = config->value[THREADS] / config->value[LANES],
                            .keeps = config->value[KEEP],
                            .align = MD_FA_CUDA_SINGLE,
                            .is_resident = true,
                            .holds_weights = true};
}

static bool spec_of(void *spec, const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    *(md_fa_cuda_row *)spec = row_of(config);
    return true;
}

/* ---- Which stages */

/* True if the subscripts are the stage's indices in order, and no axis may be longer than they reach: in a tensor
 * without gaps rows then lie side by side, in the order of their numbers. */
static bool is_side_by_side(const md_fa_target *target, int32_t tensor, int32_t n, const md_fx_node *const *subscript)
{
    const md_st_stage *st = md_fa_stage(target);
    const md_fx_tensor *t = &target->program->formula->tensor[tensor];
    if (n != st->n_outer + 1)
        return false;
    for (int32_t i = 0; i < n; i++)
        if (subscript[i]->kind != MD_FX_INDEX || subscript[i]->id != (i < st->n_outer ? st->outer[i] : st->axis) ||
            t->at_least[i])
            return false;
    return true;
}

static int32_t bytes_of(const md_fa_target *target, int32_t tensor)
{
    const double bytes = md_dtype_bytes(target->program->formula->tensor[tensor].dtype);
    return bytes < 1 ? 0 : (int32_t)bytes;
}

/* The tensor that is read along the row; -1: there is none, or more. */
static int32_t row_tensor(const md_fa_target *target)
{
    const md_cg_row_options options = md_fa_cuda_row_options(target, &(md_fa_cuda_row){0});
    md_cg_on_chip on_chip;
    int32_t found = -1;
    md_cg_on_chip_make(&on_chip, &options);
    for (int32_t i = 0; i < on_chip.n_loads; i++) {
        const md_fx_node *load = on_chip.load[i].node;
        if (on_chip.load[i].is_shared)
            continue;
        if (found >= 0 || !(on_chip.load[i].passes & 1) || bytes_of(target, load->id) == 0 ||
            !is_side_by_side(target, load->id, load->n_args, load->arg))
            return -1;
        found = load->id;
    }
    return found;
}

/* The one result along the row if it is as large as what is read and lies as it does; else -1. */
static int32_t staged_tensor(const md_fa_target *target)
{
    const md_st_stage *st = md_fa_stage(target);
    int32_t found = -1;
    for (int32_t i = 0; i < st->n_stores; i++) {
        const md_st_store *store = &st->store[i];
        if (store->per_row)
            continue;
        if (found >= 0 || store->assign != MD_FX_SET ||
            bytes_of(target, store->tensor) != bytes_of(target, row_tensor(target)) ||
            !is_side_by_side(target, store->tensor, store->n_subscripts, store->subscript))
            return -1;
        found = store->tensor;
    }
    return found;
}

static bool applies(const md_fa_target *target)
{
    return target->facts->capability >= 80 && md_fa_row_applies(target) && row_tensor(target) >= 0;
}

/* ---- Which configs */

static int64_t tile_rows(const md_fa_config *config)
{
    return (int64_t)config->value[THREADS] / config->value[LANES] * config->value[TURNS];
}

static int64_t tile_bytes(const md_fa_target *target, const md_fa_config *config, int64_t n)
{
    return (tile_rows(config) * n * bytes_of(target, row_tensor(target)) + 2 * BOUNDARY - 1) / BOUNDARY * BOUNDARY;
}

static int64_t capacity_of(const md_fa_target *target, const md_fa_config *config)
{
    const int64_t room = MD_MIN(target->facts->shared_per_sm / LEAST_RESIDENT - 1024, target->facts->shared_per_block),
                  elements = (room - 2 * BOUNDARY) / (tile_rows(config) * bytes_of(target, row_tensor(target)));
    return MD_MIN((int64_t)config->value[LANES] * config->value[VECTORS], elements);
}

/* True if a thread needs all these elements: with the next smaller number the row does not fit. */
static bool is_tight(const md_fa_config *config, int64_t n)
{
    const md_fa_field *field = &md_fa_cuda_row_tile.field[VECTORS];
    for (int32_t i = 0; i < field->n; i++)
        if (field->value[i] < config->value[VECTORS] && (int64_t)config->value[LANES] * field->value[i] >= n)
            return false;
    return true;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_fa_cuda_row row = row_of(config);
    const md_st_stage *st = md_fa_stage(target);
    const int64_t n = md_st_size(target->program, st->axis, size);
    const int64_t rows = md_st_points(target->program, st->n_outer, st->outer, size);
    if (rows < LEAST_ROWS || rows > MOST_ROWS || n < LEAST_ELEMENTS)
        return false;
    if (n > (int64_t)row.lanes * row.vectors || !is_tight(config, n) || n * 2 <= row.lanes)
        return false;
    if (n > capacity_of(target, config) || (row.keeps && !md_fa_cuda_row_can_keep(target)))
        return false;
    if (config->value[STAGED] && staged_tensor(target) < 0)
        return false;
    return md_fa_cuda_row_fits(target, &row, size);
}

static bool takes(const md_fa_target *target, int32_t field, int32_t value, const int64_t *size)
{
    const int64_t n = md_st_size(target->program, md_fa_stage(target)->axis, size);
    return field == LANES ? n * 2 > value && n <= (int64_t)value * 32 : true;
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    const md_fa_cuda_row row = row_of(config);
    md_fa_cuda_row_envelope(out, target, &row);
    out->row_points_max = capacity_of(target, config);
    out->contiguous = UINT32_C(1) << row_tensor(target);
    if (config->value[STAGED])
        out->contiguous |= UINT32_C(1) << staged_tensor(target);
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    md_fa_cuda_row row = row_of(config);
    const int32_t threads = row.lanes * row.rows;
    row.rows = (int32_t)tile_rows(config);
    md_fa_cuda_row_geometry(out, target, &row, shape);
    out->launch[0].block[0] = threads;
    out->launch[0].scratch_bytes =
        tile_bytes(target, config, md_st_size(target->program, md_fa_stage(target)->axis, shape->size));
}

/* ---- Text */

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    const md_fa_cuda_row row = row_of(config);
    const md_fa_define define[] = {{"TURNS", config->value[TURNS]},
                                   {"BYTES", bytes_of(target, row_tensor(target))},
                                   {"STAGED", config->value[STAGED]}};
    md_strbuf defines = {0};
    md_fa_print_defines(&defines, define, MD_COUNT(define));
    return md_fa_cuda_row_emit_with(out, target, &row, &defines);
}

/* ---- Cost */

/* Issue slots of a thread for one row. */
static double slots_of(const md_fa_target *target, const md_fa_cuda_row_fixed *f, double held, bool is_staged)
{
    md_fa_host_work work;
    const md_st_row *row = &md_fa_stage(target)->row;
    const double levels = row->n_levels, stores = row->has_elements, weights = f->epilogue_loads,
                 idle = md_fa_cuda_row_own(f->vectors, held) - held;
    md_fa_host_count(&work, md_fa_stage(target), target->program);
    const double element = ELEMENT_SLOTS * (1 + 0.3 * levels + 0.7 * stores) + WEIGHT_SLOTS * weights +
                           EXP_SLOTS * work.transcendental +
                           (is_staged ? 0 : LINE_SLOTS * md_fa_cuda_row_lines(target, f->lanes) * stores);
    return ROW_SLOTS + STEP_SLOTS * levels * log2(f->lanes) + held * element + IDLE_SLOTS * idle * (1 + stores);
}

static double resident_of(const md_fa_target *target, const md_fa_config *config, const md_fa_cuda_row_fixed *f,
                          int64_t n)
{
    const md_fa_cuda_load load = {.threads = f->threads, .shared_bytes = tile_bytes(target, config, n)};
    return fmin(f->resident, MD_MAX(md_fa_cuda_resident(target->facts, &load), 1));
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_fixed room;
    md_fa_cuda_row_work work;
    const md_fa_cuda_row_fixed *f = md_fa_fixed_of(&room, &md_fa_cuda_row_tile, target, config);
    const md_fa_cuda_row_work *w = md_fa_cuda_row_work_of(&work, target, size);
    const double held = fmin(f->vectors, ceil((double)w->n / f->lanes)), levels = md_fa_stage(target)->row.n_levels,
                 tile = (double)tile_rows(config), turns = fmin(config->value[TURNS], ceil((double)w->rows / f->rows)),
                 resident = resident_of(target, config, f, w->n);
    const double of_sm = ceil((double)w->rows / tile) / MD_MAX(target->facts->threads, 1),
                 waves = fmax(ceil(of_sm / resident), 1);
    const double issue = fmax(of_sm, 1) * f->threads / 32 *
                         (PLACE_SLOTS + turns * slots_of(target, f, held, config->value[STAGED])) / CLOCK;
    const double waiting = BLOCK + config->value[STAGED] * RUN +
                           turns * (TURN + levels * (LEVEL + STEP * log2(f->lanes)) + ELEMENT * held * (1 + levels));
    const double memory = MEMORY * w->bytes / target->facts->memory_gbps * 1e-3;
    const double us = START + FIRST_BLOCKS * fmin(of_sm, resident) + waves * waiting + md_fa_norm(issue, memory, NORM);
    *out = (md_fa_features){
        .ops_rate = 1, .parallel = 1, .launches = 1, .serial_us = fmax(us - MD_FA_CUDA_LAUNCH_US, 0.01)};
}

/* As in row_persistent a thread has every so many-th element. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    return (md_fa_class){
        .group = "row_single", .field = {"lanes", "keep"}, .is_repeatable = true, .is_invariant = true};
}

const md_fa_family md_fa_cuda_row_tile = {
    .name = "row_tile",
    .device = MD_DEV_CUDA,
    .is_persistent = true,
    .is_reduction = true,
    .is_for_points = true,
    .n_fields = 6,
    .field = {{"lanes", 8, 6, {1, 2, 4, 8, 16, 32}},
              {"vecs", 4, 16, {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32}},
              {"threads", 128, 1, {128, 64, 256}, 2},
              {"turns", 1, 2, {1, 2, 4}, 1},
              {"keep", 0, 2, {0, 1}},
              {"staged", 0, 2, {0, 1}}},
    .kind = &md_fa_cuda_row_kind,
    .spec_of = spec_of,
    .applies = applies,
    .legal = legal,
    .takes = takes,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = numeric,
};
