/* Family column: reductions along an axis whose elements are not neighbours in memory. Lanes run along the last outer
 * index, and several threads share a column. */
#include "family/cuda/row/column_fit.h"
#include "family/emit.h"
#include "family/cuda/cuda.h"

#include "base/status.h"
#include "family/cost.h"
#include "family/cuda/row/row.h"

#include <math.h>

extern const md_fa_family md_fa_cuda_column; /* defined at the end of this file */

enum { THREADS_X, THREADS_Y, ITEMS, KEEP, SPLIT, ALIGN };
/* A split launch has its tickets at fixed places (kernels/cuda/column.cu). With more blocks than MOST_TICKETS there is
 * no need to split. */
enum { MOST_TICKETS = 4096, MOST_SPLIT = 64, OTHER_REGISTERS = 34, SHARED_BYTES = 48 * 1024 };
/* An SM waits for memory with fewer threads, and with more there are more parts to add up. */
enum { THREADS_OF_SM = 768 };

static bool is_online(const md_fa_target *target)
{
    const md_st_row *row = &md_fa_stage(target)->row;
    return row->is_online && row->n_levels > 1;
}

static int32_t lane_of(const md_fa_target *target)
{
    const md_st_stage *st = md_fa_stage(target);
    return st->outer[st->n_outer - 1];
}

static md_cg_row_options options_of(const md_fa_target *target, const md_fa_config *config)
{
    return (md_cg_row_options){.program = target->program,
                               .stage = target->stage,
                               .dialect = MD_DEV_CUDA,
                               .is_column = true,
                               .access = config->value[ALIGN] == MD_FA_CUDA_STRIDED ? MD_CG_STRIDED : MD_CG_UNIT,
                               .is_online = is_online(target) && !config->value[KEEP]};
}

/* Bytes of an element that loads read, by whether neighbours in memory are neighbouring lanes or neighbours along the
 * axis. */
typedef struct direction {
    const md_fa_target *target;
    int64_t by_lane, by_axis;
} direction;

static bool note_direction(void *user, const md_fx_node *node)
{
    direction *d = user;
    const md_st_program *program = d->target->program;
    int64_t lane[MD_MAX_RANK], axis[MD_MAX_RANK];
    if (node->kind != MD_FX_LOAD || node->n_args == 0 || !md_fx_uses_index(node, md_fa_stage(d->target)->axis))
        return true;
    if (!md_st_step(lane, program, node->id, node->arg, lane_of(d->target)) ||
        !md_st_step(axis, program, node->id, node->arg, md_fa_stage(d->target)->axis))
        return true;
    int64_t bytes = (int64_t)md_dtype_size(program->formula->tensor[node->id].dtype);
    *(lane[node->n_args - 1] != 0 ? &d->by_lane : &d->by_axis) += bytes;
    return true;
}

/* False if most bytes are contiguous along the axis: each thread of a warp would read a row of its own. */
static bool applies(const md_fa_target *target)
{
    if (!md_fa_row_applies(target) || md_fa_stage(target)->n_outer == 0)
        return false;
    direction d = {.target = target};
    md_cg_visit(md_fa_stage(target), note_direction, &d);
    return d.by_lane >= d.by_axis;
}

/* Bytes for each thread that the threads of a column exchange and that blocks leave for each other: at least what the
 * text needs. */
static int64_t part_bytes(const md_fa_target *target)
{
    const md_st_row *row = &md_fa_stage(target)->row;
    int64_t width = md_fa_cuda_width(target->program, target->stage), bytes = 16;
    for (int32_t i = 0; i < row->n_reductions; i++)
        bytes += width * (md_dtype_size(row->reduction[i].type) <= 4 ? 4 : 12);
    return bytes;
}

/* Elements of all tensors that a thread loads before it adds up the first. */
static int32_t elements_held(const md_fa_target *target, const md_fa_config *config)
{
    md_cg_row_options options = options_of(target, config);
    md_cg_on_chip on_chip;
    md_cg_on_chip_make(&on_chip, &options);
    return config->value[ITEMS] * md_fa_cuda_width(target->program, target->stage) * MD_MAX(on_chip.n_loads, 1);
}

static int32_t registers_of(const md_fa_target *target, const md_fa_config *config)
{
    md_cg_row_options options = options_of(target, config);
    const md_st_row *row = &md_fa_stage(target)->row;
    int32_t width = md_fa_cuda_width(target->program, target->stage), held = 0;
    md_cg_on_chip on_chip;
    md_cg_on_chip_make(&on_chip, &options);
    for (int32_t i = 0; i < on_chip.n_loads; i++)
        held += MD_MAX(
            width * (int32_t)md_dtype_size(target->program->formula->tensor[on_chip.load[i].node->id].dtype) / 4, 1);
    return config->value[ITEMS] * held + OTHER_REGISTERS +
           width * (1 + row->n_reductions * (options.is_online ? 3 : 1));
}

static int32_t min_blocks(const md_fa_target *target, const md_fa_config *config)
{
    int32_t threads = config->value[THREADS_X] * config->value[THREADS_Y],
            registers = (registers_of(target, config) + 7) / 8 * 8;
    return MD_MIN(MD_MAX(MD_MIN(65536 / (registers * threads), 2048 / threads), 1), 8);
}

static bool is_aligned(const md_fa_target *target, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    uint32_t unit = md_cg_unit_tensors(target->program, target->stage, lane_of(target));
    for (int32_t i = 0; i < st->n_tensors; i++) {
        const md_fx_tensor *t = &target->program->formula->tensor[st->tensor[i]];
        if ((unit >> st->tensor[i] & 1) && t->rank > 1 &&
            size[t->dim[t->rank - 1]] * (int64_t)md_dtype_size(t->dtype) % 16 != 0)
            return false;
    }
    return true;
}

/* ---- Blocks */

static bool has_phases(const md_fa_target *target, const md_fa_config *config)
{
    return config->value[SPLIT] && md_fa_stage(target)->row.has_elements;
}

typedef struct grid {
    int64_t tiles, rows, axis;
    int32_t split;
} grid;

static grid grid_of(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    int64_t width = (int64_t)config->value[THREADS_X] * md_fa_cuda_width(target->program, target->stage);
    int64_t columns = md_st_size(target->program, lane_of(target), size);
    grid g = {.tiles = columns / width + (columns % width != 0),
              .rows = md_st_points(target->program, st->n_outer - 1, st->outer, size),
              .axis = md_st_size(target->program, st->axis, size),
              .split = 1};
    const int32_t of_sm = MD_MAX(THREADS_OF_SM / (config->value[THREADS_X] * config->value[THREADS_Y]), 1);
    int64_t blocks = g.tiles * g.rows, wanted = (int64_t)MD_MAX(target->facts->threads, 1) * of_sm;
    int64_t steps = g.axis / ((int64_t)config->value[THREADS_Y] * config->value[ITEMS]);
    if (config->value[SPLIT] && blocks > 0 && blocks <= MOST_TICKETS)
        g.split = (int32_t)MD_MAX(MD_MIN(MD_MIN(wanted / blocks, steps), MOST_SPLIT), 1);
    return g;
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    grid g = grid_of(target, config, shape->size);
    *out = (md_kn_geometries){0};
    md_kn_geometry *launch = &out->launch[0];
    launch->blocks = g.tiles * g.rows * g.split;
    launch->grain = 1;
    launch->grid[0] = md_fa_cuda_grid(g.tiles * g.rows);
    launch->grid[1] = g.split;
    launch->grid[2] = launch->block[1] = launch->block[2] = 1;
    launch->block[0] = config->value[THREADS_X] * config->value[THREADS_Y];
    out->launch[1] = *launch; /* used if the stage stores along the axis */
    if (g.split > 1 || has_phases(target, config))
        out->workspace_bytes = g.tiles * g.rows * g.split * config->value[THREADS_X] * part_bytes(target) * 2;
}

/* ---- Legality and envelope */

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const int32_t *v = config->value;
    const md_st_row *row = &md_fa_stage(target)->row;
    int32_t threads = v[THREADS_X] * v[THREADS_Y], registers = (registers_of(target, config) + 7) / 8 * 8;
    int64_t n = md_st_size(target->program, md_fa_stage(target)->axis, size);
    if (threads < 64 || threads > 1024 || registers * threads > 65536 || registers > 200)
        return false;
    if (2 * (threads / 32) * v[THREADS_X] * part_bytes(target) > SHARED_BYTES)
        return false;
    if (v[KEEP] && ((int64_t)v[THREADS_Y] * v[ITEMS] < n || (int64_t)v[THREADS_Y] * v[ITEMS] >= 4 * MD_MAX(n, 4) ||
                    (!row->has_elements && row->n_levels == 1)))
        return false;
    if (v[SPLIT] && (v[KEEP] || (row->n_levels > 1 && !row->is_online)))
        return false;
    if (v[SPLIT] && grid_of(target, config, size).split == 1)
        return false;
    if (v[ALIGN] == MD_FA_CUDA_STRIDED)
        return true;
    const bool is_direct = is_aligned(target, size);
    /* Elements that are loaded one by one: a warp touches many lines, and each takes a register. */
    if (!is_direct && (v[THREADS_X] < 8 || elements_held(target, config) > 64))
        return false;
    return (v[ALIGN] == MD_FA_CUDA_ALIGNED) == is_direct;
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    int32_t dim = target->program->index[md_fa_stage(target)->axis].dim;
    *out = (md_kn_envelope){0};
    if (config->value[ALIGN] != MD_FA_CUDA_STRIDED)
        out->unit = md_cg_unit_tensors(target->program, target->stage, lane_of(target));
    if (config->value[ALIGN] == MD_FA_CUDA_ALIGNED)
        out->aligned16 = out->unit;
    out->hi[dim] = INT32_MAX; /* positions are 32-bit numbers */
    if (config->value[KEEP]) {
        out->row_points_max = (int64_t)config->value[THREADS_Y] * config->value[ITEMS];
        out->n_row_dims = 1;
        out->row_dim[0] = dim;
    }
}

/* ---- Text */

static void print_defines(md_strbuf *out, const md_fa_target *target, const md_fa_config *config, int32_t phase)
{
    const md_fa_define define[] = {{"VL", md_fa_cuda_width(target->program, target->stage)},
                                   {"WIDE", 0},
                                   {"ALIGNED", config->value[ALIGN] == MD_FA_CUDA_ALIGNED},
                                   {"THREADS_X", config->value[THREADS_X]},
                                   {"THREADS_Y", config->value[THREADS_Y]},
                                   {"ITEMS", config->value[ITEMS]},
                                   {"KEEP", config->value[KEEP]},
                                   {"SPLIT", config->value[SPLIT]},
                                   {"PHASE", phase},
                                   {"PART_BYTES", (int32_t)part_bytes(target)},
                                   {"MIN_BLOCKS", min_blocks(target, config)}};
    md_fa_print_defines(out, define, MD_COUNT(define));
}

static md_status emit_launch(md_kn_launch_source *launch, const md_fa_target *target, const md_fa_config *config,
                             int32_t phase)
{
    md_cg_row_options options = options_of(target, config);
    md_strbuf defines = {0};
    print_defines(&defines, target, config, phase);
    if (config->value[SPLIT]) {
        options.extra[options.n_extra++] = (md_kn_param){.kind = MD_KN_WORKSPACE};
        options.extra[options.n_extra++] = (md_kn_param){.kind = MD_KN_COUNTERS};
    }
    return md_fa_emit_row(launch, target, &options, "cuda/column.cu", &defines);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    return md_fa_emit_launches(out, target, config, has_phases(target, config) ? 2 : 1, emit_launch);
}

/* ---- Cost */

/* Issue slots of a thread: of a tile that is full, and of one that is not, which loads elements one by one. */
typedef struct thread_slots {
    double full, cut;
} thread_slots;

static thread_slots slots_of(const md_fa_target *target, const md_fa_config *config, const int64_t *size, const grid *g,
                             double passes)
{
    md_fa_host_work work;
    md_fa_host_count(&work, md_fa_stage(target), target->program);
    const double width = md_fa_cuda_width(target->program, target->stage), across = config->value[THREADS_X],
                 lines = 32 / across * (across / 8 + 1);
    const double rows = ceil((double)g->axis / g->split) / config->value[THREADS_Y];
    const double sums = rows * width * (work.operations + EXP_SLOTS * work.transcendental + ELEMENT_SLOTS * passes),
                 loads = rows * width * lines * LINE_SLOTS * fmax(work.loads, 1) * passes;
    const bool is_direct = config->value[ALIGN] != MD_FA_CUDA_STRIDED && is_aligned(target, size);
    return (thread_slots){.full = sums + (is_direct ? 0 : loads), .cut = sums + loads};
}

typedef struct fixed {
    int32_t registers, resident; /* of a thread; blocks on an SM */
} fixed;

static void fix(md_fa_fixed *out, const md_fa_target *target, const md_fa_config *config)
{
    fixed *f = (void *)out->bytes;
    const md_fa_cuda_load load = {.threads = config->value[THREADS_X] * config->value[THREADS_Y],
                                  .registers = registers_of(target, config)};
    *f = (fixed){load.registers, md_fa_cuda_resident(target->facts, &load)};
}

/* How often elements are read again. */
static double rereads_of(const md_fa_target *target, const md_fa_config *config)
{
    const md_st_row *row = &md_fa_stage(target)->row;
    if (config->value[KEEP] || (is_online(target) && !row->has_elements))
        return 0;
    return is_online(target) ? 1 : row->n_levels + row->has_elements - 1;
}

/* The bytes that memory moves: what is read again comes from the L2 if that holds what all running blocks read. */
static double moved_bytes(const md_fa_target *target, double rereads, double bytes, double live)
{
    const double again = rereads * bytes * (md_fa_stage(target)->row.has_elements ? 0.5 : 1);
    return fmax(bytes + again * (live > 0.6 * (double)target->facts->l2_bytes ? 1 : CACHED), 1);
}

/* Issuing instructions: on the busiest SM, and in the longest block of each wave. */
static double issue_us(const md_fa_target *target, const md_fa_config *config, const int64_t *size, const grid *g,
                       double waves)
{
    const int64_t columns = md_st_size(target->program, lane_of(target), size),
                  width = (int64_t)config->value[THREADS_X] * md_fa_cuda_width(target->program, target->stage);
    const double threads = config->value[THREADS_X] * config->value[THREADS_Y], is_cut = columns % width != 0;
    const thread_slots slots = slots_of(target, config, size, g, 1 + rereads_of(target, config));
    const double of_row = (double)(columns / width) * slots.full + is_cut * slots.cut;
    const double sms = MD_MAX(target->facts->threads, 1), of_sm = (double)g->tiles * (double)g->rows * g->split / sms,
                 busiest = of_sm > 0 ? ceil(of_sm) / of_sm : 1;
    const double own = config->value[ALIGN] == MD_FA_CUDA_ANY ? OWN_CHECKED : OWN;
    return fmax((double)g->rows * g->split * of_row * threads * busiest / md_fa_cuda_fma_per_us(target->facts),
                fmax(is_cut * slots.cut, slots.full) * own * waves + WAVE * (waves - 1));
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_fixed room;
    const fixed *f = md_fa_fixed_of(&room, &md_fa_cuda_column, target, config);
    const grid g = grid_of(target, config, size);
    const double sms = MD_MAX(target->facts->threads, 1), rate = md_fa_cuda_bytes_per_us(target->facts),
                 warps = config->value[THREADS_X] * config->value[THREADS_Y] / 32.0,
                 blocks = (double)g.tiles * (double)g.rows * g.split, resident = MD_MAX(f->resident, 1) * sms,
                 live = fmin(blocks, resident) * config->value[THREADS_X] * 16.0 * (double)g.axis / g.split;
    double flops = 0, bytes = 0;
    md_fa_work(&flops, &bytes, target, size);
    const double memory =
        moved_bytes(target, rereads_of(target, config), bytes, live) / (rate * MEMORY * fmin(blocks / sms * BURST, 1));
    const double us = fmax(memory, issue_us(target, config, size, &g, fmax(blocks / resident, 1)));
    *out = (md_fa_features){.ops_rate = 1,
                            .launches = has_phases(target, config) ? 2 : 1,
                            .parallel = fmin(blocks, sms),
                            .memory_bytes = fmin(bytes, us * rate),
                            .serial_us = START + LEVEL * (md_fa_stage(target)->row.n_levels - 1) + WARP * warps};
    out->memory_rate = fmax(out->memory_bytes / rate / us, 1e-9);
    out->serial_us += g.split > 1 ? SPLIT_US + ROUND * ceil((double)g.split / config->value[THREADS_Y]) : 0;
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    if (config->value[SPLIT])
        return (md_fa_class){.is_repeatable = true};
    return (md_fa_class){.group = "column",
                         .field = {"threads_x", "threads_y", "items", "keep"},
                         .is_repeatable = true,
                         .is_invariant = true};
}

const md_fa_family md_fa_cuda_column = {
    .name = "column",
    .device = MD_DEV_CUDA,
    .takes_packed = true,
    .is_reduction = true,
    .n_fields = 6,
    .field = {{"threads_x", 16, 4, {16, 8, 32, 4}},
              {"threads_y", 16, 4, {16, 8, 32, 4}},
              {"items", 4, 4, {4, 8, 2, 16}},
              {"keep", 0, 2, {0, 1}},
              {"split", 0, 2, {0, 1}},
              {"align", MD_FA_CUDA_ANY, 3, {MD_FA_CUDA_ALIGNED, MD_FA_CUDA_ANY, MD_FA_CUDA_STRIDED}}},
    .applies = applies,
    .legal = legal,
    .envelope = envelope,
    .fix = fix,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = numeric,
};
