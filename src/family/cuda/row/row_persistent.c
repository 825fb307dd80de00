/* Family row_persistent: rows in registers. A row is read once, each level is a pass over registers, and sums are exact
 * two-pass sums. */
#include "family/cuda/cuda.h"
#include "family/cuda/row/row.h"

extern const md_fa_family md_fa_cuda_row_persistent; /* defined at the end of this file */

enum { LANES, VECTORS, ROWS, KEEP, ALIGN, OCCUPANCY };

static md_fa_cuda_row row_of(const md_fa_config *config)
{
    return (md_fa_cuda_row){.source = "cuda/row_persistent.cu",
                            .lanes = config->value[LANES],
                            .vectors = config->value[VECTORS],
                            .rows = config->value[ROWS],
                            .keeps = config->value[KEEP],
                            .occupancy = config->value[OCCUPANCY],
                            .align = (md_fa_cuda_align)config->value[ALIGN],
                            .is_resident = true,
                            .spreads = true};
}

static bool spec_of(void *spec, const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    *(md_fa_cuda_row *)spec = row_of(config);
    return true;
}

/* True if the lanes need all these vectors: with the next smaller number the row does not fit. */
static bool is_tight(int32_t lanes, int32_t vectors, int64_t whole)
{
    const md_fa_field *field = &md_fa_cuda_row_persistent.field[VECTORS];
    for (int32_t i = 0; i < field->n; i++)
        if (field->value[i] < vectors && (int64_t)lanes * field->value[i] >= whole)
            return false;
    return true;
}

/* Groups inside a warp, since each further row's exchange would need memory of its own; few elements of each row,
 * fewer where results along the rows need addresses and weights, too. */
static bool may_be_at_once(const md_fa_target *target, const md_fa_cuda_row *row)
{
    const int32_t most = md_fa_stage(target)->row.has_elements ? 32 : 48;
    return row->lanes <= 32 && row->vectors * md_fa_cuda_row_at_once(row->align) <= most;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_cuda_row row = row_of(config);
    int64_t n = md_st_size(target->program, md_fa_stage(target)->axis, size);
    int64_t whole = n / md_fa_cuda_row_width(target, &row);
    int32_t threads = row.lanes * row.rows;
    if ((int64_t)row.lanes * row.vectors < whole || !is_tight(row.lanes, row.vectors, whole))
        return false;
    if (row.lanes > 4 && whole * 2 <= row.lanes) /* half of the threads would be idle */
        return false;
    if (row.rows > 1 && row.lanes > 32) /* several warps a row and several rows a block: slower than either */
        return false;
    if (threads > 1024 || threads < 64 || (row.rows > 1 && threads > 512) || (threads < 128 && row.lanes < 64))
        return false;
    if (row.keeps && !md_fa_cuda_row_can_keep(target))
        return false;
    const int32_t at_once = md_fa_cuda_row_at_once(row.align);
    if (row.align == MD_FA_CUDA_SINGLE && row.lanes < 32)
        return false;
    if (at_once > 1 && !may_be_at_once(target, &row))
        return false;
    return md_fa_cuda_row_fits(target, &row, size) && md_fa_cuda_row_has_occupancy(target, &row);
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    if (config->value[ALIGN] >= MD_FA_CUDA_SINGLE) /* rows by single elements: a thread has every so many-th one */
        return (md_fa_class){
            .group = "row_single", .field = {"lanes", "keep"}, .is_repeatable = true, .is_invariant = true};
    return md_fa_cuda_row_class(false, config->value[ALIGN] == MD_FA_CUDA_ANY);
}

const md_fa_family md_fa_cuda_row_persistent = {
    .name = "row_persistent",
    .device = MD_DEV_CUDA,
    .takes_packed = true,
    .is_persistent = true,
    .is_reduction = true,
    .n_fields = 6,
    .field = {{"lanes",
               256,
               12,
               {4, 8, 16, 32, 64, 128, 192, 256, 384, 512, 768, 1024, 96, 160, 224, 320, 448, 640, 896},
               7},
              {"vecs", 4, 12, {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16}},
              {"rows", 1, 7, {1, 2, 4, 8, 16, 32, 64}},
              {"keep", 0, 2, {0, 1}},
              {"align",
               1,
               6,
               {MD_FA_CUDA_ALIGNED, MD_FA_CUDA_ANY, MD_FA_CUDA_STRIDED, MD_FA_CUDA_SINGLE, MD_FA_CUDA_SINGLE2,
                MD_FA_CUDA_SINGLE4}},
              {"occupancy", 0, 1, {0, 1, 2}, 2}},
    .kind = &md_fa_cuda_row_kind,
    .spec_of = spec_of,
    .applies = md_fa_row_applies,
    .legal = legal,
    .numeric = numeric,
};
