/* Family scatter: elementwise stages that write through index tensors. Of duplicates under `=` one is stored. Sums,
 * maxima and minima are atomic and in any order, so the last bits of real sums may differ from call to call. With
 * owner1 blocks own parts of the target and add in the formula's order. */
#include "family/applies.h"
#include "family/cuda/point/gather_scatter.h"
#include "family/numeric.h"

extern const md_fa_family md_fa_cuda_scatter; /* defined at the end of this file */

enum { LANES, ROWS, ITEMS, OWNER, ALIGNED, STRIDED };

static md_fa_cuda_gather_scatter gather_scatter_of(const md_fa_config *config)
{
    const int32_t *v = config->value;
    return (md_fa_cuda_gather_scatter){.source = v[OWNER] ? "cuda/scatter.cu" : "cuda/gather.cu",
                                       .lanes = v[LANES],
                                       .rows = v[ROWS],
                                       .items = v[ITEMS],
                                       .is_owned = v[OWNER],
                                       .is_aligned = v[ALIGNED],
                                       .is_strided = v[STRIDED]};
}

static bool spec_of(void *spec, const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    *(md_fa_cuda_gather_scatter *)spec = gather_scatter_of(config);
    return true;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    const md_fa_field *field = md_fa_cuda_scatter.field;
    const int32_t *v = config->value;
    md_fa_cuda_gather_scatter spec = gather_scatter_of(config);
    if (v[OWNER]) /* a whole block has a row, so groups do not matter */
        return st->has_duplicates && st->n_stores == 1 && st->axis >= 0 && md_fa_scatter_has_row_index(target) &&
               v[LANES] == field[LANES].initial && v[ROWS] == field[ROWS].initial && v[ITEMS] == field[ITEMS].initial &&
               !(v[ALIGNED] && v[STRIDED]);
    return md_fa_cuda_gather_scatter_legal(target, &spec, size);
}

/* Atomic additions are in any order, which makes no difference for whole numbers. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    const md_st_stage *st = md_fa_stage(target);
    if (!st->has_duplicates)
        return md_fa_class_sweep(target, config);
    for (int32_t i = 0; i < st->n_stores && !config->value[OWNER]; i++)
        if (md_dtype_is_real(target->program->formula->tensor[st->store[i].tensor].dtype))
            return (md_fa_class){0};
    return (md_fa_class){.group = "scatter", .is_repeatable = true, .is_invariant = true};
}

const md_fa_family md_fa_cuda_scatter = {
    .name = "scatter",
    .device = MD_DEV_CUDA,
    .n_fields = 6,
    .field =
        {
            {"lanes", 8, 4, {8, 32, 16, 4}},
            {"rows", 2, 4, {2, 4, 1, 8}},
            {"items", 2, 3, {2, 1, 4}},
            {"owner", 0, 2, {0, 1}},
            {"aligned", 0, 2, {1, 0}},
            {"strided", 0, 2, {0, 1}},
        },
    .kind = &md_fa_cuda_gather_scatter_kind,
    .spec_of = spec_of,
    .applies = md_fa_scatter_applies,
    .legal = legal,
    .numeric = numeric,
};
