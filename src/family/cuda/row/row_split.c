/* Few long rows: each is cut over a group of blocks. They meet through memory (all of them run at once), in a
 * cluster, or, where nothing is stored along the row, the last one to arrive makes the result. Where blocks cannot
 * be made to run at once, a second launch stores what the first one found out. */
#include "family/emit.h"
#include "family/cuda/cuda.h"

#include "base/dtype.h"
#include "base/status.h"
#include "codegen/row/reduce.h"
#include "family/cost.h"
#include "family/cuda/row/row_split.h"
#include "family/numeric.h"

#include <inttypes.h>
#include <math.h>

extern const md_fa_family md_fa_cuda_row_split; /* at the end of this file */

/* The layout of the counters is that of kernels/cuda/exchange.h: so many blocks in all groups of one size. */
enum { MOST_BLOCKS = 512, MOST_STATE_BYTES = 64, OTHER_REGISTERS = 24, MOST_ROWS_OF_GRID = 65535, SHORT_ROW = 512 };
enum { OTHER_SHARED = 3072 }; /* bytes that a block has besides weights, at most */

static md_cg_row_options options_of(const md_fa_target *target, const md_fa_config *config)
{
    return (md_cg_row_options){
        .program = target->program,
        .stage = target->stage,
        .dialect = MD_DEV_CUDA,
        .access = config->value[MD_FA_SPLIT_ALIGN] == MD_FA_CUDA_STRIDED ? MD_CG_STRIDED : MD_CG_UNIT,
        .is_online = md_fa_is_online(target),
        .keep_points = config->value[MD_FA_SPLIT_KEEP] == 2 ? md_fa_cuda_width(target->program, target->stage) : 0};
}

static int64_t elements(const md_fa_target *target, const md_fa_config *config)
{
    return (int64_t)config->value[MD_FA_SPLIT_THREADS] * config->value[MD_FA_SPLIT_VECTORS] *
           md_fa_cuda_width(target->program, target->stage);
}

/* Registers of a thread for one vector: what all passes use, and what only the stores do. */
static void count_registers(int32_t *all, int32_t *epilogue, const md_fa_target *target, const md_fa_config *config)
{
    md_cg_row_options options = options_of(target, config);
    const md_st_row *row = &md_fa_stage(target)->row;
    md_cg_row_plan plan;
    md_cg_row_plan_make(&plan, &options);
    int32_t width = md_fa_cuda_width(target->program, target->stage);
    *all = *epilogue = 0;
    for (int32_t i = 0; i < plan.n_loads; i++) {
        const md_cg_row_load *load = &plan.load[i];
        int32_t n = width * (int32_t)md_dtype_size(target->program->formula->tensor[load->node->id].dtype) / 4;
        bool is_epilogue = load->is_shared && !(load->passes & ((UINT32_C(1) << row->n_levels) - 1));
        *(is_epilogue ? epilogue : all) += MD_MAX(n, 1);
    }
    int32_t kept = 0; /* in the place of what they are made from */
    for (int32_t i = 0; i < plan.n_kept; i++)
        kept += width * (plan.kept[i].node->type == MD_F64 ? 2 : 1);
    *all = kept > 0 ? MD_MAX(*all, kept) + *all / 2 : *all;
}

/* Of a thread: what it holds, with weights of `early` vectors, and what it works with, as the compiler was seen to
 * need (a config that spills is not built). */
int32_t md_fa_cuda_split_registers(const md_fa_target *target, const md_fa_config *config, int32_t early)
{
    int32_t all = 0, epilogue = 0, width = md_fa_cuda_width(target->program, target->stage),
            vectors = config->value[MD_FA_SPLIT_VECTORS];
    count_registers(&all, &epilogue, target, config);
    int32_t n =
        OTHER_REGISTERS + 2 * width + vectors * all + (config->value[MD_FA_SPLIT_KEEP] ? early : vectors) * epilogue;
    n += epilogue > 0 && early > 1 ? 4 * early + vectors + (width > 4 ? 16 : 4) : 0;
    /* finding the places of vectors, shifting weights */
    n += config->value[MD_FA_SPLIT_ALIGN] != MD_FA_CUDA_ALIGNED ? epilogue > 0 ? 12 : 4 : 0;
    n += config->value[MD_FA_SPLIT_BLOCKS] > 32 ? 4 : 0;
    n += config->value[MD_FA_SPLIT_KEEP] == 2 ? 2 * vectors : 0;
    for (int32_t i = 0; i < md_fa_stage(target)->row.n_reductions; i++) /* the vector with the best element so far */
        n += md_cg_is_arg(md_fa_stage(target)->row.reduction[i].op) ? width : 0;
    return n + (!config->value[MD_FA_SPLIT_KEEP] && md_fa_is_online(target) ? 16 : 0);
}

int32_t md_fa_cuda_split_register_limit(const md_fa_target *target, const md_fa_config *config)
{
    int32_t registers = target->facts->registers_per_sm > 0 ? target->facts->registers_per_sm : 65536;
    return MD_MIN(registers / (config->value[MD_FA_SPLIT_THREADS] * config->value[MD_FA_SPLIT_BLOCKS_PER_SM]) / 8 * 8,
                  255); /* given out by eights */
}

/* ---- Into how many blocks rows are cut */

static int32_t power_below(int64_t n)
{
    int32_t p = 1;
    while (p < 128 && (int64_t)p * 2 <= n)
        p *= 2;
    return p;
}

/* Blocks of a group at most, so that groups of them run at once. */
static int32_t most_of(const md_fa_target *target, const md_fa_config *config)
{
    int64_t resident = (int64_t)MD_MAX(target->facts->threads, 1) * config->value[MD_FA_SPLIT_BLOCKS_PER_SM];
    return config->value[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_CLUSTER
               ? config->value[MD_FA_SPLIT_BLOCKS]
               : power_below(MD_MIN(MD_MIN(resident, MOST_BLOCKS), config->value[MD_FA_SPLIT_BLOCKS]));
}

md_fa_cuda_cut md_fa_cuda_split_cut_of(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    int64_t resident =
        MD_MIN((int64_t)MD_MAX(target->facts->threads, 1) * config->value[MD_FA_SPLIT_BLOCKS_PER_SM], MOST_BLOCKS);
    int64_t n = md_st_size(target->program, st->axis, size), lot = elements(target, config);
    md_fa_cuda_cut c = {.rows = md_st_points(target->program, st->n_outer, st->outer, size),
                        .blocks = config->value[MD_FA_SPLIT_BLOCKS]};
    if (config->value[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_CLUSTER) {
        c.groups = MD_MIN(c.rows, MOST_ROWS_OF_GRID);
        return c;
    }
    int32_t wanted = power_below(resident / MD_MAX(c.rows, 1)),
            useful = power_below(n / MD_MAX(lot / config->value[MD_FA_SPLIT_VECTORS], 1)), least = 1;
    while (config->value[MD_FA_SPLIT_KEEP] && least < most_of(target, config) && n / least > lot)
        least *= 2;
    c.blocks = MD_MAX(MD_MIN(MD_MIN(wanted, useful), most_of(target, config)), least);
    c.groups = c.blocks == 1 || config->value[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_LAUNCH
                   ? MD_MIN(c.rows, MOST_ROWS_OF_GRID)
                   : MD_MIN(c.rows, resident / c.blocks);
    return c;
}

/* ---- The family */

/* What blocks tell each other has room in a slot. */
static bool applies(const md_fa_target *target)
{
    const md_st_row *row = &md_fa_stage(target)->row;
    int64_t bytes = 8;
    for (int32_t i = 0; md_fa_cuda_row_applies(target) && i < row->n_reductions; i++)
        bytes += md_dtype_size(row->reduction[i].type) <= 4 ? 8 : 16;
    return md_fa_cuda_row_applies(target) && bytes <= MOST_STATE_BYTES;
}

/* As many blocks an SM as the registers allow, where that changes nothing but what the compiler is told. */
static bool is_full(const md_fa_target *target, const md_fa_config *config)
{
    md_fa_config more = *config;
    const md_fa_field *field = &md_fa_cuda_row_split.field[MD_FA_SPLIT_BLOCKS_PER_SM];
    for (int32_t i = 0; i < field->n; i++) {
        more.value[MD_FA_SPLIT_BLOCKS_PER_SM] = field->value[i];
        if (field->value[i] > config->value[MD_FA_SPLIT_BLOCKS_PER_SM] &&
            more.value[MD_FA_SPLIT_THREADS] * more.value[MD_FA_SPLIT_BLOCKS_PER_SM] <= 2048 &&
            md_fa_cuda_split_registers(target, &more, 1) <= md_fa_cuda_split_register_limit(target, &more))
            return false;
    }
    return true;
}

static bool is_ticket_legal(const md_fa_target *target, const md_fa_config *config)
{
    const md_st_row *row = &md_fa_stage(target)->row;
    return !row->has_elements && !config->value[MD_FA_SPLIT_KEEP] && (row->n_levels == 1 || row->is_online);
}

static bool is_launch_legal(const md_fa_target *target, const md_fa_config *config)
{
    const md_st_row *row = &md_fa_stage(target)->row;
    return row->has_elements && !config->value[MD_FA_SPLIT_KEEP] && (row->n_levels == 1 || row->is_online) &&
           is_full(target, config);
}

/* Keeping needs registers, and pays where memory would be read twice. */
static bool is_keep_legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_st_row *row = &md_fa_stage(target)->row;
    if (!row->has_elements && (row->n_levels == 1 || row->is_online))
        return false;
    if (md_st_size(target->program, md_fa_stage(target)->axis, size) >
        elements(target, config) * most_of(target, config))
        return false;
    return config->value[MD_FA_SPLIT_KEEP] != 2 || md_fa_cuda_row_can_keep(target);
}

/* Whether threads have as many vectors as they need: no smaller number would do, or, where the slice is read piece
 * by piece, that is not too large. */
static bool is_tight(const md_fa_target *target, const md_fa_config *config, int64_t n, int32_t blocks)
{
    const md_fa_field *field = &md_fa_cuda_row_split.field[MD_FA_SPLIT_VECTORS];
    int64_t lot = elements(target, config) / config->value[MD_FA_SPLIT_VECTORS] * blocks, needed = (n + lot - 1) / lot;
    int32_t smaller = 0;
    for (int32_t i = 0; i < field->n; i++)
        if (field->value[i] < config->value[MD_FA_SPLIT_VECTORS])
            smaller = MD_MAX(smaller, field->value[i]);
    return needed > smaller;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const int32_t *v = config->value;
    const md_st_row *row = &md_fa_stage(target)->row;
    int64_t n = md_st_size(target->program, md_fa_stage(target)->axis, size);
    bool is_single = !row->has_elements && (row->n_levels == 1 || row->is_online);
    if (n < SHORT_ROW) /* other families' */
        return false;
    md_fa_cuda_cut c = md_fa_cuda_split_cut_of(target, config, size);
    if (v[MD_FA_SPLIT_THREADS] * v[MD_FA_SPLIT_BLOCKS_PER_SM] > 2048 || c.blocks == 1 ||
        !is_tight(target, config, n, c.blocks))
        return false;
    if (v[MD_FA_SPLIT_ALIGN] != MD_FA_CUDA_STRIDED &&
        (v[MD_FA_SPLIT_ALIGN] == MD_FA_CUDA_ALIGNED) != md_fa_cuda_row_is_aligned(target, size))
        return false;
    if (v[MD_FA_SPLIT_KEEP] && !is_keep_legal(target, config, size))
        return false;
    if (md_fa_cuda_split_registers(target, config, 1) >
        md_fa_cuda_split_register_limit(target, config)) /* counting takes long */
        return false;
    if (v[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_CLUSTER)
        return target->facts->capability >= 90 && v[MD_FA_SPLIT_BLOCKS] <= 16 && is_full(target, config);
    md_fa_config most = *config;
    most.value[MD_FA_SPLIT_BLOCKS] = 128;
    if (v[MD_FA_SPLIT_BLOCKS] != (md_fa_cuda_split_cut_of(target, &most, size).blocks > 32 ? 128 : 32))
        return false;
    if (v[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_LAUNCH)
        return is_launch_legal(target, config);
    /* with fewer blocks an SM it is the same */
    if (c.blocks * c.groups <= (int64_t)target->facts->threads * (v[MD_FA_SPLIT_BLOCKS_PER_SM] - 1))
        return false;
    return v[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_TICKET ? is_ticket_legal(target, config) : !is_single;
}

/* ---- Weights in shared memory until they are stored with */

typedef struct staged {
    int32_t pieces; /* of 16 bytes of a vector; 0: weights go through registers */
    int32_t vectors; /* of a thread that have theirs there */
    int64_t bytes; /* of a block */
} staged;

/* Whether the copies' sizes and the envelope's promises fit each load of weights. */
static bool is_copied(const md_fa_target *target, const md_cg_row_load *load)
{
    const md_st_stage *st = md_fa_stage(target);
    const md_fx_node *node = load->node;
    int64_t bytes = (int64_t)md_fa_cuda_width(target->program, target->stage) *
                    (int64_t)md_dtype_size(target->program->formula->tensor[node->id].dtype);
    return (md_cg_unit_tensors(target->program, target->stage, st->axis) >> node->id & 1) &&
           node->arg[node->n_args - 1]->kind == MD_FX_INDEX && bytes % 16 == 0;
}

static staged staged_of(const md_fa_target *target, const md_fa_config *config)
{
    md_cg_row_options options = options_of(target, config);
    uint32_t levels = (UINT32_C(1) << md_fa_stage(target)->row.n_levels) - 1;
    int32_t width = md_fa_cuda_width(target->program, target->stage), pieces = 0;
    md_cg_row_plan plan;
    if (!config->value[MD_FA_SPLIT_KEEP] || config->value[MD_FA_SPLIT_ALIGN] != MD_FA_CUDA_ALIGNED)
        return (staged){0};
    md_cg_row_plan_make(&plan, &options);
    for (int32_t i = 0; i < plan.n_loads; i++) {
        const md_cg_row_load *load = &plan.load[i];
        if (!load->is_shared || (load->passes & levels))
            continue;
        if (!is_copied(target, load))
            return (staged){0};
        pieces += width * (int32_t)md_dtype_size(target->program->formula->tensor[load->node->id].dtype) / 16;
    }
    int64_t one = (int64_t)config->value[MD_FA_SPLIT_THREADS] * pieces * 16,
            room = target->facts->shared_per_sm / config->value[MD_FA_SPLIT_BLOCKS_PER_SM] - 1024;
    room = MD_MIN(room, target->facts->shared_per_block) - OTHER_SHARED;
    int64_t vectors = one > 0 ? MD_MIN(config->value[MD_FA_SPLIT_VECTORS], room / one) : 0;
    return vectors > 0 ? (staged){pieces, (int32_t)vectors, vectors * one} : (staged){0};
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    md_cg_row_options options = options_of(target, config);
    *out = (md_kn_envelope){0};
    int32_t dim = target->program->index[md_fa_stage(target)->axis].dim;
    if (config->value[MD_FA_SPLIT_ALIGN] != MD_FA_CUDA_STRIDED)
        out->unit = md_cg_unit_tensors(target->program, target->stage, md_cg_row_lane(&options));
    if (config->value[MD_FA_SPLIT_ALIGN] == MD_FA_CUDA_ALIGNED)
        out->aligned16 = out->unit;
    out->hi[dim] = INT32_MAX - 4096; /* positions are 32-bit numbers, those of a block's last vectors too */
    if (config->value[MD_FA_SPLIT_KEEP]) {
        out->row_points_max = elements(target, config) * most_of(target, config);
        out->n_row_dims = 1;
        out->row_dim[0] = dim;
    }
}

static void geometry(md_kn_plan_geometry *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    md_fa_cuda_cut c = md_fa_cuda_split_cut_of(target, config, shape->size);
    *out = (md_kn_plan_geometry){0};
    md_kn_geometry *launch = &out->launch[0];
    out->workspace_bytes =
        config->value[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_LAUNCH ? c.rows * c.blocks * MOST_STATE_BYTES : 0;
    launch->blocks = c.rows > 0 ? c.groups * c.blocks : 0;
    launch->grain = 1;
    launch->grid[0] = c.blocks;
    launch->grid[1] = (int32_t)MD_MAX(c.groups, 1);
    launch->grid[2] = launch->block[1] = launch->block[2] = 1;
    launch->block[0] = config->value[MD_FA_SPLIT_THREADS];
    launch->cluster = config->value[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_CLUSTER ? c.blocks : 1;
    launch->is_cooperative = config->value[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_GRID && c.blocks > 1;
    launch->scratch_bytes = staged_of(target, config).bytes;
    out->launch[1] = *launch; /* MD_FA_SPLIT_BY_LAUNCH */
}

static void print_defines(md_strbuf *out, const md_fa_target *target, const md_fa_config *config, int32_t phase)
{
    int32_t all = 0, epilogue = 0, early = 1;
    const staged weights = staged_of(target, config);
    count_registers(&all, &epilogue, target, config);
    while (early < config->value[MD_FA_SPLIT_VECTORS] &&
           md_fa_cuda_split_registers(target, config, early + 1) <= md_fa_cuda_split_register_limit(target, config))
        early++;
    const struct {
        const char *name;
        int32_t value;
    } define[] = {{"VL", md_fa_cuda_width(target->program, target->stage)},
                  {"WIDE", 0},
                  {"ALIGNED", config->value[MD_FA_SPLIT_ALIGN] == MD_FA_CUDA_ALIGNED},
                  {"EXCHANGE", config->value[MD_FA_SPLIT_EXCHANGE]},
                  {"THREADS", config->value[MD_FA_SPLIT_THREADS]},
                  {"VECTORS", config->value[MD_FA_SPLIT_VECTORS]},
                  {"BLOCKS_PER_SM", config->value[MD_FA_SPLIT_BLOCKS_PER_SM]},
                  {"BLOCKS", config->value[MD_FA_SPLIT_BLOCKS]},
                  {"PHASE", phase},
                  {"KEEP", config->value[MD_FA_SPLIT_KEEP] > 0},
                  {"STAGED", weights.pieces},
                  {"EARLY", weights.pieces > 0                                                       ? weights.vectors
                            : epilogue > 0 && config->value[MD_FA_SPLIT_ALIGN] == MD_FA_CUDA_ALIGNED ? early
                                                                                                     : 0}};
    for (int32_t i = 0; i < MD_COUNT(define); i++)
        md_strbuf_printf(out, "#define MD_%s %" PRId32 "\n", define[i].name, define[i].value);
}

static md_status emit_launch(md_kn_launch_source *launch, const md_fa_target *target, const md_fa_config *config,
                             int32_t phase)
{
    md_cg_row_options options = options_of(target, config);
    md_strbuf defines = {0};
    print_defines(&defines, target, config, phase);
    if (config->value[MD_FA_SPLIT_EXCHANGE] != MD_FA_SPLIT_BY_CLUSTER) {
        const md_kn_param_kind kind =
            config->value[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_LAUNCH ? MD_KN_WORKSPACE : MD_KN_COUNTERS;
        options.extra[options.n_extra++] = (md_kn_param){.kind = kind};
    }
    return md_fa_emit_row(launch, target, &options, "cuda/row_split.cu", &defines);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    return md_fa_emit_launches(out, target, config,
                               config->value[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_LAUNCH ? 2 : 1, emit_launch);
}

/* The number of a row's blocks follows from the number of rows; their parts are added in the order of blocks. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    return (md_fa_class){.is_repeatable = true};
}

const md_fa_family md_fa_cuda_row_split = {
    .name = "row_split",
    .device = MD_DEV_CUDA,
    .is_persistent = true,
    .is_reduction = true,
    .n_fields = 7,
    .field = {{"exchange",
               MD_FA_SPLIT_BY_GRID,
               4,
               {MD_FA_SPLIT_BY_GRID, MD_FA_SPLIT_BY_CLUSTER, MD_FA_SPLIT_BY_TICKET, MD_FA_SPLIT_BY_LAUNCH}},
              {"threads", 512, 3, {512, 256, 1024}},
              {"vecs", 4, 4, {4, 2, 8, 16}},
              {"blocks_per_sm", 1, 4, {1, 2, 3, 4}},
              {"blocks", 32, 6, {32, 128, 2, 4, 8, 16}},
              {"keep", 0, 3, {0, 1, 2}},
              {"align", MD_FA_CUDA_ANY, 3, {MD_FA_CUDA_ALIGNED, MD_FA_CUDA_ANY, MD_FA_CUDA_STRIDED}}},
    .applies = applies,
    .legal = legal,
    .envelope = envelope,
    .features = md_fa_cuda_split_features,
    .emit = emit,
    .geometry = geometry,
    .numeric = numeric,
};
