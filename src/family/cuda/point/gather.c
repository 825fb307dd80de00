/* Family gather: elementwise stages that read through index tensors. A few lanes have a row, and several rows are in
 * flight. Indices that differ by element are read with the elements, which is slower. */
#include "family/applies.h"
#include "family/cuda/point/gather_scatter.h"
#include "family/numeric.h"

enum { LANES, ROWS, ITEMS, ALIGNED, STRIDED };

static md_fa_cuda_gather_scatter gather_scatter_of(const md_fa_config *config)
{
    const int32_t *v = config->value;
    return (md_fa_cuda_gather_scatter){.source = "cuda/gather.cu",
                                       .lanes = v[LANES],
                                       .rows = v[ROWS],
                                       .items = v[ITEMS],
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
    md_fa_cuda_gather_scatter spec = gather_scatter_of(config);
    return md_fa_cuda_gather_scatter_legal(target, &spec, size);
}

const md_fa_family md_fa_cuda_gather = {
    .name = "gather",
    .device = MD_DEV_CUDA,
    .n_fields = 5,
    .field =
        {
            {"lanes", 8, 4, {8, 32, 16, 4}},
            {"rows", 2, 4, {2, 4, 1, 8}},
            {"items", 2, 3, {2, 1, 4}},
            {"aligned", 0, 2, {1, 0}},
            {"strided", 0, 2, {0, 1}},
        },
    .kind = &md_fa_cuda_gather_scatter_kind,
    .spec_of = spec_of,
    .applies = md_fa_gather_applies,
    .legal = legal,
    .numeric = md_fa_class_sweep,
};
