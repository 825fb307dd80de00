/* Family row_split: few long rows, each divided among a group of blocks. The blocks exchange partial results through
 * memory (all of them run at once), through a cluster, or by the last block to arrive if nothing is stored along the
 * row. Where they cannot run at once, a second launch stores the results. */
#include "family/emit.h"
#include "family/cuda/cuda.h"

#include "base/status.h"
#include "codegen/row/reduce.h"
#include "family/cuda/row/row_split.h"
#include "family/numeric.h"

extern const md_fa_family md_fa_cuda_row_split; /* defined at the end of this file */

/* ---- The family */

/* True if the states of all reductions fit the slot through which blocks exchange them. */
static bool applies(const md_fa_target *target)
{
    const md_st_row *row = &md_fa_stage(target)->row;
    int64_t bytes = 8;
    for (int32_t i = 0; md_fa_row_applies(target) && i < row->n_reductions; i++)
        bytes += md_dtype_size(row->reduction[i].type) <= 4 ? 8 : 16;
    return md_fa_row_applies(target) && bytes <= MOST_STATE_BYTES;
}

/* True if no larger number of blocks on an SM has enough registers. Smaller numbers would only change what the compiler
 * is told. */
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

/* Keeping a row needs registers, and pays if memory would be read twice. */
static bool is_keep_legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_st_row *row = &md_fa_stage(target)->row;
    if (!row->has_elements && (row->n_levels == 1 || row->is_online))
        return false;
    if (md_st_size(target->program, md_fa_stage(target)->axis, size) >
        md_fa_cuda_split_elements(target, config) * md_fa_cuda_split_most_blocks(target, config))
        return false;
    return config->value[MD_FA_SPLIT_KEEP] != 2 || md_fa_cuda_row_can_keep(target);
}

/* True if a thread needs all its vectors: the next smaller number would not hold the slice of a block. */
static bool is_tight(const md_fa_target *target, const md_fa_config *config, int64_t n, int32_t blocks)
{
    const md_fa_field *field = &md_fa_cuda_row_split.field[MD_FA_SPLIT_VECTORS];
    int64_t elements = md_fa_cuda_split_elements(target, config) / config->value[MD_FA_SPLIT_VECTORS] * blocks,
            needed = (n + elements - 1) / elements;
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
    if (n < SHORT_ROW) /* other families serve short rows */
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
        md_fa_cuda_split_register_limit(target, config)) /* after the cheap checks, since counting is slow */
        return false;
    if (v[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_CLUSTER)
        return target->facts->capability >= 90 && v[MD_FA_SPLIT_BLOCKS] <= 16 && is_full(target, config);
    md_fa_config most = *config;
    most.value[MD_FA_SPLIT_BLOCKS] = 128;
    if (v[MD_FA_SPLIT_BLOCKS] != (md_fa_cuda_split_cut_of(target, &most, size).blocks > 32 ? 128 : 32))
        return false;
    if (v[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_LAUNCH)
        return is_launch_legal(target, config);
    /* with fewer blocks on an SM it would be the same kernel */
    if (c.blocks * c.groups <= (int64_t)target->facts->threads * (v[MD_FA_SPLIT_BLOCKS_PER_SM] - 1))
        return false;
    return v[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_TICKET ? is_ticket_legal(target, config) : !is_single;
}

/* ---- Weights that wait in shared memory for the stores */

typedef struct staged {
    int32_t pieces; /* 16-byte pieces of a vector of weights; 0: weights go through registers */
    int32_t vectors; /* vectors of a thread whose weights are in shared memory */
    int64_t bytes; /* of a block */
} staged;

/* True if a load of weights can be copied in pieces of 16 bytes, as the envelope promises. */
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
    md_cg_row_options options = md_fa_cuda_split_options(target, config);
    uint32_t levels = (UINT32_C(1) << md_fa_stage(target)->row.n_levels) - 1;
    int32_t width = md_fa_cuda_width(target->program, target->stage), pieces = 0;
    md_cg_on_chip on_chip;
    if (!config->value[MD_FA_SPLIT_KEEP] || config->value[MD_FA_SPLIT_ALIGN] != MD_FA_CUDA_ALIGNED)
        return (staged){0};
    md_cg_on_chip_make(&on_chip, &options);
    for (int32_t i = 0; i < on_chip.n_loads; i++) {
        const md_cg_row_load *load = &on_chip.load[i];
        if (!load->is_shared || (load->passes & levels))
            continue;
        if (!is_copied(target, load))
            return (staged){0};
        pieces += width * (int32_t)md_dtype_size(target->program->formula->tensor[load->node->id].dtype) / 16;
    }
    int64_t one = (int64_t)config->value[MD_FA_SPLIT_THREADS] * pieces * 16,
            left = target->facts->shared_per_sm / config->value[MD_FA_SPLIT_BLOCKS_PER_SM] - 1024;
    left = MD_MIN(left, target->facts->shared_per_block) - OTHER_SHARED;
    int64_t vectors = one > 0 ? MD_MIN(config->value[MD_FA_SPLIT_VECTORS], left / one) : 0;
    return vectors > 0 ? (staged){pieces, (int32_t)vectors, vectors * one} : (staged){0};
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    md_cg_row_options options = md_fa_cuda_split_options(target, config);
    *out = (md_kn_envelope){0};
    int32_t dim = target->program->index[md_fa_stage(target)->axis].dim;
    if (config->value[MD_FA_SPLIT_ALIGN] != MD_FA_CUDA_STRIDED)
        out->unit = md_cg_unit_tensors(target->program, target->stage, md_cg_row_lane(&options));
    if (config->value[MD_FA_SPLIT_ALIGN] == MD_FA_CUDA_ALIGNED)
        out->aligned16 = out->unit;
    out->hi[dim] = INT32_MAX - 4096; /* positions are 32-bit numbers, even those of a block's last vectors */
    if (config->value[MD_FA_SPLIT_KEEP]) {
        out->row_points_max = md_fa_cuda_split_elements(target, config) * md_fa_cuda_split_most_blocks(target, config);
        out->n_row_dims = 1;
        out->row_dim[0] = dim;
    }
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    md_fa_cuda_cut c = md_fa_cuda_split_cut_of(target, config, shape->size);
    *out = (md_kn_geometries){0};
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
    md_fa_cuda_split_count_registers(&all, &epilogue, target, config);
    while (early < config->value[MD_FA_SPLIT_VECTORS] &&
           md_fa_cuda_split_registers(target, config, early + 1) <= md_fa_cuda_split_register_limit(target, config))
        early++;
    const md_fa_define define[] = {{"VL", md_fa_cuda_width(target->program, target->stage)},
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
                                   {"EARLY", weights.pieces > 0 ? weights.vectors
                                             : epilogue > 0 && config->value[MD_FA_SPLIT_ALIGN] == MD_FA_CUDA_ALIGNED
                                                 ? early
                                                 : 0}};
    md_fa_print_defines(out, define, MD_COUNT(define));
}

static md_status emit_launch(md_kn_launch_source *launch, const md_fa_target *target, const md_fa_config *config,
                             int32_t phase)
{
    md_cg_row_options options = md_fa_cuda_split_options(target, config);
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

/* Without keeping its row a kernel that stores along it, or needs one reduction for the next, reads it again. */
static bool reads_again(const md_fa_target *target, const md_fa_config *config)
{
    const md_st_row *row = &md_fa_stage(target)->row;
    return !config->value[MD_FA_SPLIT_KEEP] && (row->has_elements || (row->n_levels > 1 && !row->is_online));
}

/* The number of a row's blocks depends on the number of rows. Their parts are added in the order of blocks. */
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
    .reads_again = reads_again,
    .fix = md_fa_cuda_split_fix,
    .features = md_fa_cuda_split_features,
    .emit = emit,
    .geometry = geometry,
    .numeric = numeric,
};
