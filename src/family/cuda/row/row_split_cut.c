/* How row_split divides rows among blocks, and the registers of their threads. */
#include "family/emit.h"
#include "family/cuda/cuda.h"

#include "base/status.h"
#include "codegen/row/reduce.h"
#include "family/cuda/row/row_split.h"
#include "family/numeric.h"

md_cg_row_options md_fa_cuda_split_options(const md_fa_target *target, const md_fa_config *config)
{
    return (md_cg_row_options){
        .program = target->program,
        .stage = target->stage,
        .dialect = MD_DEV_CUDA,
        .access = config->value[MD_FA_SPLIT_ALIGN] == MD_FA_CUDA_STRIDED ? MD_CG_STRIDED : MD_CG_UNIT,
        .is_online = md_fa_is_online(target),
        .keep_points = config->value[MD_FA_SPLIT_KEEP] == 2 ? md_fa_cuda_width(target->program, target->stage) : 0};
}

int64_t md_fa_cuda_split_elements(const md_fa_target *target, const md_fa_config *config)
{
    return (int64_t)config->value[MD_FA_SPLIT_THREADS] * config->value[MD_FA_SPLIT_VECTORS] *
           md_fa_cuda_width(target->program, target->stage);
}

/* Registers of a thread for one vector: of what all passes use, and of what only the stores use. */
void md_fa_cuda_split_count_registers(int32_t *all, int32_t *epilogue, const md_fa_target *target,
                                      const md_fa_config *config)
{
    md_cg_row_options options = md_fa_cuda_split_options(target, config);
    const md_st_row *row = &md_fa_stage(target)->row;
    md_cg_on_chip on_chip;
    md_cg_on_chip_make(&on_chip, &options);
    int32_t width = md_fa_cuda_width(target->program, target->stage);
    *all = *epilogue = 0;
    for (int32_t i = 0; i < on_chip.n_loads; i++) {
        const md_cg_row_load *load = &on_chip.load[i];
        int32_t n = width * (int32_t)md_dtype_size(target->program->formula->tensor[load->node->id].dtype) / 4;
        bool is_epilogue = load->is_shared && !(load->passes & ((UINT32_C(1) << row->n_levels) - 1));
        *(is_epilogue ? epilogue : all) += MD_MAX(n, 1);
    }
    int32_t kept = 0; /* kept values replace the values that they are computed from */
    for (int32_t i = 0; i < on_chip.n_kept; i++)
        kept += width * (on_chip.kept[i].node->type == MD_F64 ? 2 : 1);
    *all = kept > 0 ? MD_MAX(*all, kept) + *all / 2 : *all;
}

/* Registers of a thread: what it holds, with the weights of `early` vectors, and what else the compiler was seen to
 * need. A config that spills is not built. */
int32_t md_fa_cuda_split_registers(const md_fa_target *target, const md_fa_config *config, int32_t early)
{
    int32_t all = 0, epilogue = 0, width = md_fa_cuda_width(target->program, target->stage),
            vectors = config->value[MD_FA_SPLIT_VECTORS];
    md_fa_cuda_split_count_registers(&all, &epilogue, target, config);
    int32_t n =
        OTHER_REGISTERS + 2 * width + vectors * all + (config->value[MD_FA_SPLIT_KEEP] ? early : vectors) * epilogue;
    n += epilogue > 0 && early > 1 ? 4 * early + vectors + (width > 4 ? 16 : 4) : 0;
    /* computing the place of vectors, shifting weights */
    n += config->value[MD_FA_SPLIT_ALIGN] != MD_FA_CUDA_ALIGNED ? epilogue > 0 ? 12 : 4 : 0;
    n += config->value[MD_FA_SPLIT_BLOCKS] > 32 ? 4 : 0;
    n += config->value[MD_FA_SPLIT_KEEP] == 2 ? 2 * vectors : 0;
    /* a vector with the best element of each lane */
    for (int32_t i = 0; i < md_fa_stage(target)->row.n_reductions; i++)
        n += md_cg_is_arg(md_fa_stage(target)->row.reduction[i].op) ? width : 0;
    return n + (!config->value[MD_FA_SPLIT_KEEP] && md_fa_is_online(target) ? 16 : 0);
}

int32_t md_fa_cuda_split_register_limit(const md_fa_target *target, const md_fa_config *config)
{
    int32_t registers = target->facts->registers_per_sm > 0 ? target->facts->registers_per_sm : 65536;
    return MD_MIN(registers / (config->value[MD_FA_SPLIT_THREADS] * config->value[MD_FA_SPLIT_BLOCKS_PER_SM]) / 8 * 8,
                  255); /* registers are allocated in eights */
}

/* ---- Division of rows */

static int32_t power_below(int64_t n)
{
    int32_t p = 1;
    while (p < 128 && (int64_t)p * 2 <= n)
        p *= 2;
    return p;
}

/* The number of blocks of a group is limited so that all of them run at once. */
int32_t md_fa_cuda_split_most_blocks(const md_fa_target *target, const md_fa_config *config)
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
    int64_t n = md_st_size(target->program, st->axis, size), elements = md_fa_cuda_split_elements(target, config);
    md_fa_cuda_cut c = {.rows = md_st_points(target->program, st->n_outer, st->outer, size),
                        .blocks = config->value[MD_FA_SPLIT_BLOCKS]};
    if (config->value[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_CLUSTER) {
        c.groups = MD_MIN(c.rows, MOST_ROWS_OF_GRID);
        return c;
    }
    int32_t wanted = power_below(resident / MD_MAX(c.rows, 1)),
            useful = power_below(n / MD_MAX(elements / config->value[MD_FA_SPLIT_VECTORS], 1)), least = 1;
    while (config->value[MD_FA_SPLIT_KEEP] && least < md_fa_cuda_split_most_blocks(target, config) &&
           n / least > elements)
        least *= 2;
    c.blocks = MD_MAX(MD_MIN(MD_MIN(wanted, useful), md_fa_cuda_split_most_blocks(target, config)), least);
    c.groups = c.blocks == 1 || config->value[MD_FA_SPLIT_EXCHANGE] == MD_FA_SPLIT_BY_LAUNCH
                   ? MD_MIN(c.rows, MOST_ROWS_OF_GRID)
                   : MD_MIN(c.rows, resident / c.blocks);
    return c;
}
