/* Family row_looped: rows of any length. Chunks are merged in one pass over memory if the program allows it; otherwise
 * each level is a pass. */
#include "family/cuda/cuda.h"
#include "family/cuda/row/row.h"
#include "family/numeric.h"

enum { LANES, VECTORS, ROWS, ALIGN, OCCUPANCY };
enum { RUN_ADDITIONS = 64 }; /* MD_RUN_ADDITIONS in cuda/row.h */

static md_fa_cuda_row row_of(const md_fa_config *config)
{
    return (md_fa_cuda_row){.source = "cuda/row_looped.cu",
                            .lanes = config->value[LANES],
                            .vectors = config->value[VECTORS],
                            .rows = config->value[ROWS],
                            .align = (md_fa_cuda_align)config->value[ALIGN],
                            .merges = true,
                            .occupancy = config->value[OCCUPANCY]};
}

static bool spec_of(void *spec, const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    *(md_fa_cuda_row *)spec = row_of(config);
    return true;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_cuda_row row = row_of(config);
    int64_t n = md_st_size(target->program, md_fa_stage(target)->axis, size);
    int64_t whole = n / md_fa_cuda_width(target->program, target->stage);
    int32_t threads = row.lanes * row.rows;
    if (row.lanes > 32 && (int64_t)row.lanes * row.vectors > whole) /* a shorter row needs no loop */
        return false;
    if (threads > 1024 || threads < 128 || (row.rows > 1 && (threads > 256 || row.lanes > 32)))
        return false;
    /* seen on an H200: 3 and 8 vectors of scattered elements took 2.5 to 3 times as long as 2 or 4; not explained */
    if ((row.vectors == 3 || row.vectors > 4) && md_fa_cuda_row_traffic(target) > 1)
        return false;
    return md_fa_cuda_row_fits(target, &row, size) && md_fa_cuda_row_has_occupancy(target, &row);
}

/* A thread's runs of additions end after whole loop steps (MD_RUN_END), so after 64 of them only if these are whole
 * steps. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    md_fa_class class = md_fa_cuda_row_class(md_fa_is_online(target), config->value[ALIGN] == MD_FA_CUDA_ANY);
    if (RUN_ADDITIONS % config->value[VECTORS] != 0)
        class.field[1] = "vecs";
    return class;
}

const md_fa_family md_fa_cuda_row_looped = {
    .name = "row_looped",
    .device = MD_DEV_CUDA,
    .takes_packed = true,
    .is_reduction = true,
    .n_fields = 5,
    .field = {{"lanes", 256, 6, {32, 128, 256, 512, 768, 1024, 192, 384}, 2},
              {"vecs", 4, 5, {2, 3, 4, 6, 8, 1, 5}, 2},
              {"rows", 1, 3, {1, 4, 8, 2}, 1},
              {"align", 1, 3, {MD_FA_CUDA_ALIGNED, MD_FA_CUDA_ANY, MD_FA_CUDA_STRIDED}},
              {"occupancy", 0, 1, {0, 1}, 1}},
    .kind = &md_fa_cuda_row_kind,
    .spec_of = spec_of,
    .applies = md_fa_row_applies,
    .legal = legal,
    .numeric = numeric,
};
