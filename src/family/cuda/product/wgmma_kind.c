/* The kind of families on Hopper's tensor cores (gemm_wgmma, gemm_swapped). */
#include "family/cuda/product/wgmma_shape.h"

static void envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec)
{
    const md_fa_wgmma_spec *s = spec;
    md_fa_wgmma_envelope(out, target, &s->shape, &s->product);
}

static void fix(md_fa_fixed *out, const md_fa_target *target, const void *spec)
{
    const md_fa_wgmma_shape *s = &((const md_fa_wgmma_spec *)spec)->shape;
    (void)target;
    md_fa_wgmma_fix(out, s, 1 + s->has_copies + (s->split > 1 && !s->is_cluster_reduced));
}

static void features(md_fa_features *out, const md_fa_target *target, const void *known, const int64_t *size)
{
    md_fa_wgmma_features(out, target, known, size);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    const md_fa_wgmma_spec *s = spec;
    return md_fa_wgmma_emit(out, target, &s->shape, &s->product);
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec, const md_kn_shape *shape)
{
    const md_fa_wgmma_spec *s = spec;
    md_fa_product room;
    md_kn_map map[MD_FA_CUDA_MAPS];
    const md_fa_product *sized = md_fa_cuda_product_launched(out, &room, target, shape->size);
    out->launch[1].grain = 1;
    if (!sized)
        return;
    md_fa_wgmma_geometry(out, target, &s->shape, sized);
    if (s->shape.has_copies && md_fa_cuda_map_operands(map, &s->product))
        md_fa_cuda_product_copies(out, sized, map);
}

const md_fa_kind md_fa_wgmma_kind = {
    .checks_config = true, .envelope = envelope, .fix = fix, .features = features, .emit = emit, .geometry = geometry};
