/* Family cells: stages whose reads are not vectors, such as windows, borders and resizing, and reductions over small
 * windows. A thread has neighbouring elements of neighbouring planes; what depends on the place in a plane is computed
 * once for them. */
#include "family/cuda/point/cells.h"

#include "family/cuda/cuda.h"
#include "family/cuda/point/cells_fit.h"
#include "family/cuda/point/point.h"

#include "base/dtype.h"
#include "base/status.h"
#include "family/cost.h"
#include "family/numeric.h"

#include <inttypes.h>
#include <math.h>

enum { MOST_CELLS = 16, MOST_CELLS_OF_ROWS = 24, MOST_BLOCKS = 65535 };
/* Of vectors that end with rows: other threads and planes were slower. */
enum { THREADS_OF_ROWS = 128, WAVES_THREADS = 8192 /* of an SM, four times as many as it runs at once */ };

/* ---- Which stages */

static bool is_in_order(const md_fa_target *target, const md_st_store *store, const md_fa_cells_form *f)
{
    const md_fx_tensor *tensor = &target->program->formula->tensor[store->tensor];
    if (store->assign != MD_FX_SET || store->n_subscripts != f->n || md_dtype_is_packed(tensor->dtype))
        return false;
    for (int32_t i = 0; i < f->n; i++)
        if (!md_fx_is_index(store->subscript[i], f->all[i]) || tensor->at_least[i])
            return false;
    return true;
}

static bool applies(const md_fa_target *target)
{
    static const md_fa_config any = {.value = {1, 1, 1, 128, 0, 0}};
    const md_st_stage *st = md_fa_stage(target);
    if ((st->kind != MD_ST_POINTWISE && st->kind != MD_ST_NEST) || st->has_scatter || st->has_duplicates ||
        st->axis < 0 || md_fa_has_packed(target))
        return false;
    const md_fa_cells_form f = md_fa_cells_form_of(target, &any);
    for (int32_t i = 0; i < st->n_stores; i++)
        if (!is_in_order(target, &st->store[i], &f) || md_fx_has_kind(st->store[i].value, MD_FX_SCAN))
            return false;
    return st->kind == MD_ST_NEST || md_fa_cuda_moved_reads(target) > 0;
}

static int32_t last_dim(const md_fa_target *target, const md_fa_cells_form *f)
{
    return target->program->index[f->all[f->n - 1]].dim;
}

static int64_t last_size(const md_fa_target *target, const md_fa_cells_form *f, const int64_t *size)
{
    return md_st_size(target->program, f->all[f->n - 1], size);
}

static bool fits_row(const int32_t *v, int64_t last)
{
    return last >= v[MD_FA_CELLS_LANES] && (!v[MD_FA_CELLS_WHOLE] || last % v[MD_FA_CELLS_LANES] == 0);
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const int32_t *v = config->value;
    const md_fa_cells_form f = md_fa_cells_form_of(target, config);
    const int32_t most = v[MD_FA_CELLS_ROWS] ? MOST_CELLS_OF_ROWS : MOST_CELLS;
    if (v[MD_FA_CELLS_LANES] * v[MD_FA_CELLS_STEPS] > most || f.n_inner != v[MD_FA_CELLS_PLANE] ||
        (f.step < 0 && v[MD_FA_CELLS_STEPS] > 1))
        return false;
    if (!v[MD_FA_CELLS_ROWS])
        return !v[MD_FA_CELLS_WHOLE];
    if (v[MD_FA_CELLS_PLANE] != 2 || v[MD_FA_CELLS_THREADS] != THREADS_OF_ROWS)
        return false;
    const int64_t fixed = target->program->formula->dim[last_dim(target, &f)].size;
    return fits_row(v, fixed < 0 ? MOST_CELLS_OF_ROWS : fixed) && (!size || fits_row(v, last_size(target, &f, size)));
}

/* rule_value: tensors whose offsets have 32 bits; the dim of rows that are whole vectors, and their elements. */
enum { SHORT_TENSORS, WHOLE_DIM, WHOLE_LANES };

static const char *rule_miss(const md_kn_envelope *envelope, const md_kn_shape *shape)
{
    for (int32_t t = 0; t < MD_KN_MAX_TENSORS; t++) {
        double span = 0;
        for (int32_t a = 0; envelope->rule_value[SHORT_TENSORS] >> t & 1 && a < MD_MAX_RANK; a++)
            span += fabs((double)shape->stride[t][a]) * (double)MD_MAX(shape->extent[t][a] - 1, 0);
        if (span >= INT32_MAX / 2)
            return "larger than 32 bits count";
    }
    const int32_t lanes = envelope->rule_value[WHOLE_LANES];
    if (lanes > 0 && shape->size[envelope->rule_value[WHOLE_DIM]] % lanes != 0)
        return "row is no multiple of its vectors";
    return NULL;
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    const md_fa_cells_form f = md_fa_cells_form_of(target, config);
    const md_st_stage *st = md_fa_stage(target);
    *out = (md_kn_envelope){.row_points_max = INT32_MAX / 2, .n_row_dims = f.n_inner, .rule_miss = rule_miss};
    for (int32_t i = 0; i < st->n_stores; i++)
        out->contiguous |= UINT32_C(1) << st->store[i].tensor;
    const int64_t most = md_fa_cells_narrow_size(target);
    if (most > 0) {
        for (int32_t i = 0; i < target->program->formula->n_dims; i++)
            out->hi[i] = most;
        for (int32_t i = 0; i < st->n_tensors; i++)
            out->rule_value[SHORT_TENSORS] |= (int32_t)(UINT32_C(1) << st->tensor[i]);
    }
    if (config->value[MD_FA_CELLS_ROWS])
        out->lo[last_dim(target, &f)] = config->value[MD_FA_CELLS_LANES];
    if (config->value[MD_FA_CELLS_WHOLE]) {
        out->rule_value[WHOLE_DIM] = last_dim(target, &f);
        out->rule_value[WHOLE_LANES] = config->value[MD_FA_CELLS_LANES];
    }
    for (int32_t i = 0; i < f.n_inner; i++)
        out->row_dim[i] = target->program->index[md_fa_cells_inner(&f)[i]].dim;
    out->unit = config->value[MD_FA_CELLS_STRIDED] ? 0 : md_fa_cells_loaded(st);
}

/* ---- Geometry and cost */

/* Blocks along a plane, along the planes side by side, and around them. */
static void grid_of(int64_t grid[3], const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_fa_cells_form f = md_fa_cells_form_of(target, config);
    const int32_t *v = config->value;
    const int64_t inner = md_st_points(target->program, f.n_inner, md_fa_cells_inner(&f), size),
                  outer = md_st_points(target->program, f.n_outer, f.all, size),
                  steps = f.step < 0 ? 1 : md_st_size(target->program, f.step, size);
    const int64_t last = v[MD_FA_CELLS_ROWS] ? last_size(target, &f, size) : inner;
    const int64_t vectors = inner / MD_MAX(last, 1) * ((last + v[MD_FA_CELLS_LANES] - 1) / v[MD_FA_CELLS_LANES]),
                  chunks = (vectors + v[MD_FA_CELLS_THREADS] - 1) / v[MD_FA_CELLS_THREADS];
    grid[0] = chunks;
    grid[1] = MD_MIN((steps + v[MD_FA_CELLS_STEPS] - 1) / v[MD_FA_CELLS_STEPS], MOST_BLOCKS);
    grid[2] = MD_MIN(outer, MOST_BLOCKS);
    if (v[MD_FA_CELLS_ROWS]) {
        const int64_t enough = WAVES_THREADS / v[MD_FA_CELLS_THREADS] * MD_MAX(target->facts->threads, 1),
                      across = MD_MAX(grid[0] * grid[1], 1), blocks = MD_MAX((enough + across - 1) / across, 1),
                      each = (outer + blocks - 1) / blocks;
        grid[2] = MD_MIN((outer + MD_MAX(each, 1) - 1) / MD_MAX(each, 1), MOST_BLOCKS);
    }
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    int64_t grid[3];
    grid_of(grid, target, config, shape->size);
    *out = (md_kn_geometries){0};
    out->launch[0] = md_fa_cuda_launch(grid[0], config->value[MD_FA_CELLS_THREADS]);
    out->launch[0].grid[1] = (int32_t)MD_MAX(grid[1], 1);
    out->launch[0].grid[2] = (int32_t)MD_MAX(grid[2], 1);
    out->launch[0].blocks = grid[0] * grid[1] * grid[2];
}

/* Turns of an element's loops. */
static double turns_of(const md_fa_target *target, double points, const int64_t *size)
{
    double flops = 0, bytes = 0;
    md_fa_work(&flops, &bytes, target, size);
    return md_fa_stage(target)->kind == MD_ST_NEST && points > 0 ? fmax(flops / points, 1) : 1;
}

/* A config at some sizes: elements that its threads have, also in vain; the part of reads that neighbours do not
 * share. */
typedef struct load {
    int32_t lanes, steps, item; /* bytes of an element */
    bool has_rows;
    double threads, rounds, cells, own, turns;
} load;

static load load_of(const md_fa_target *target, const md_fa_config *config, const int64_t grid[3], const int64_t *size)
{
    const int32_t *v = config->value;
    const md_fa_cells_form f = md_fa_cells_form_of(target, config);
    const double points = (double)md_st_points(target->program, f.n, f.all, size);
    load l = {.lanes = v[MD_FA_CELLS_LANES],
              .steps = v[MD_FA_CELLS_STEPS],
              .item = 16 / md_fa_cuda_width(target->program, target->stage),
              .has_rows = v[MD_FA_CELLS_ROWS],
              .threads = (double)grid[0] * (double)grid[1] * (double)grid[2] * v[MD_FA_CELLS_THREADS],
              .rounds = (double)md_st_points(target->program, f.n_outer, f.all, size) / fmax((double)grid[2], 1),
              .own = 1,
              .turns = turns_of(target, points, size)};
    l.rounds = ceil(l.rounds);
    l.cells = l.threads * l.rounds * l.lanes * l.steps;
    if (v[MD_FA_CELLS_WHOLE] && md_fa_cuda_halved_reads(target))
        l.own = fmin(SHARED + SHARED_END / l.lanes, 1);
    return l;
}

/* Instructions of a thread: to find its place, of each of its planes' points, of each element. */
static double instructions(const md_fa_host_work *work, const load *l)
{
    const double read = l->has_rows ? READ_ROW : READ, operation = l->has_rows ? OPERATION_ROW : OPERATION,
                 own = 1 - SHARED_OPERATIONS * (1 - l->own);
    const double each = CELL + l->turns * (read * work->loads * l->own + operation * work->operations * own);
    const double place = l->has_rows ? PLACE_ROW : PLACE, point = l->has_rows ? POINT_ROW : POINT;
    const double addresses = l->has_rows ? PLANE_ROW * l->turns * work->loads * l->own * l->steps : 0;
    return place + l->rounds * (point + addresses + l->lanes * l->steps * each);
}

static int64_t common(int64_t a, int64_t b)
{
    return b ? common(b, a % b) : a;
}

/* us in which the L1 serves a warp's reads, a line each, and stores that are no vectors. Reads beside each other in a
 * row take lines that are there. */
static double lines_us(const md_fa_target *target, const md_fa_config *config, const md_fa_host_work *work,
                       const load *l, const int64_t *size)
{
    const md_fa_cells_form f = md_fa_cells_form_of(target, config);
    const int64_t inner = md_st_points(target->program, f.n_inner, md_fa_cells_inner(&f), size);
    const double step = md_fa_cuda_moved_reads(target) > 1 ? 2 : 1, line = l->lanes * l->item / 4.0;
    double lines = l->has_rows && step < 2 ? 0 : l->turns * work->loads * l->own * fmax(1, line * step * l->own);
    if (l->has_rows)
        lines += PIECE_LINES * work->stores * fmax(1, line) * l->item /
                 (double)common(common(last_size(target, &f, size) * l->item, 16), l->lanes * l->item);
    else if (inner % l->lanes != 0)
        lines += SINGLE_LINES * work->stores * line;
    return l->cells * lines * 4 / md_fa_cuda_fma_per_us(target->facts);
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    double flops = 0, bytes = 0;
    int64_t grid[3];
    md_fa_host_work work;
    md_fa_host_count(&work, md_fa_stage(target), target->program);
    md_fa_work(&flops, &bytes, target, size);
    grid_of(grid, target, config, size);
    const double blocks = (double)grid[0] * (double)grid[1] * (double)grid[2], sms = MD_MAX(target->facts->threads, 1);
    const load l = load_of(target, config, grid, size);
    const double rate = md_fa_cuda_bytes_per_us(target->facts),
                 memory = bytes * (l.has_rows && l.turns < 2 ? RUNS : 1) / (rate * MEMORY);
    const double own = instructions(&work, &l), issue = l.threads * own / md_fa_cuda_fma_per_us(target->facts);
    const double us = hypot(memory, hypot(issue, LINES * lines_us(target, config, &work, &l, size)));
    *out = (md_fa_features){.memory_bytes = bytes, .ops_rate = 1, .launches = 1, .serial_us = START + own * LENGTH};
    out->memory_rate = fmin(bytes / fmax(us * rate, 1e-3), 1);
    out->parallel = MD_MIN(MD_MAX(blocks, 1), sms);
    const md_fa_cells_form f = md_fa_cells_form_of(target, config);
    out->transcendental = (double)md_st_points(target->program, f.n, f.all, size) * work.transcendental;
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    if (md_fa_stage(target)->kind == MD_ST_POINTWISE)
        return md_fa_class_sweep(target, config);
    return (md_fa_class){.group = "cells", .is_repeatable = true, .is_invariant = true};
}

const md_fa_family md_fa_cuda_cells = {
    .name = "cells",
    .device = MD_DEV_CUDA,
    .n_fields = 7,
    .field = {{"lanes", 4, 4, {4, 2, 8, 1}},
              {"steps", 4, 5, {4, 2, 8, 1, 3}},
              {"plane", 2, 3, {2, 3, 1}},
              {"threads", 256, 2, {256, 128}},
              {"strided", 0, 2, {0, 1}},
              {"rows", 0, 2, {0, 1}},
              {"whole", 0, 2, {0, 1}}},
    .applies = applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = md_fa_cells_emit,
    .geometry = geometry,
    .numeric = numeric,
};
