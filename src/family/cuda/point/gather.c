/* Family gather: elementwise stages that read through index tensors. A few lanes have a row, and several rows are in
 * flight. Indices that differ by element are read with the elements, which is slower. */
#include "family/applies.h"
#include "family/cuda/point/gather_scatter.h"
#include "family/numeric.h"

enum { LANES, ROWS, ITEMS, ALIGNED, STRIDED };

static md_fa_cuda_gather_scatter spec_of(const md_fa_config *config)
{
    const int32_t *v = config->value;
    return (md_fa_cuda_gather_scatter){.source = "cuda/gather.cu",
                                       .lanes = v[LANES],
                                       .rows = v[ROWS],
                                       .items = v[ITEMS],
                                       .is_aligned = v[ALIGNED],
                                       .is_strided = v[STRIDED]};
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_cuda_gather_scatter spec = spec_of(config);
    return md_fa_cuda_gather_scatter_legal(target, &spec, size);
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    const md_fa_cuda_gather_scatter spec = spec_of(config);
    md_fa_cuda_gather_scatter_envelope(out, target, &spec);
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_fa_cuda_gather_scatter spec = spec_of(config);
    md_fa_cuda_gather_scatter_features(out, target, &spec, size);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    const md_fa_cuda_gather_scatter spec = spec_of(config);
    return md_fa_cuda_gather_scatter_emit(out, target, &spec);
}

static void geometry(md_kn_plan_geometry *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    const md_fa_cuda_gather_scatter spec = spec_of(config);
    md_fa_cuda_gather_scatter_geometry(out, target, &spec, shape->size);
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
    .applies = md_fa_gather_applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = md_fa_class_sweep,
};
