/* Elementwise stages that read through tensors of indices: a few lanes a row, several rows in flight. Indices that
 * differ by element are read with the elements, at a lower speed. */
#include "family/cuda/point/gather_scatter.h"
#include "family/host/point/sweep.h"
#include "family/numeric.h"

enum { LANES, ROWS, ITEMS, ALIGNED, STRIDED };

static md_fa_cuda_indirect indirect_of(const md_fa_config *config)
{
    const int32_t *v = config->value;
    return (md_fa_cuda_indirect){.source = "cuda/gather.cu",
                                 .lanes = v[LANES],
                                 .rows = v[ROWS],
                                 .items = v[ITEMS],
                                 .is_aligned = v[ALIGNED],
                                 .is_strided = v[STRIDED]};
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_cuda_indirect indirect = indirect_of(config);
    return md_fa_cuda_indirect_legal(target, &indirect, size);
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    const md_fa_cuda_indirect indirect = indirect_of(config);
    md_fa_cuda_indirect_envelope(out, target, &indirect);
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_fa_cuda_indirect indirect = indirect_of(config);
    md_fa_cuda_indirect_features(out, target, &indirect, size);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    const md_fa_cuda_indirect indirect = indirect_of(config);
    return md_fa_cuda_indirect_emit(out, target, &indirect);
}

static void geometry(md_kn_plan_geometry *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    const md_fa_cuda_indirect indirect = indirect_of(config);
    md_fa_cuda_indirect_geometry(out, target, &indirect, shape->size);
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
