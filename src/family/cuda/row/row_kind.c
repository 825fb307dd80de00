/* The kind of families in which a group of threads has a row (row_looped, row_persistent, row_thread). */
#include "family/cuda/row/row.h"

static void envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec)
{
    md_fa_cuda_row_envelope(out, target, spec);
}

static void fix(md_fa_fixed *out, const md_fa_target *target, const void *spec)
{
    md_fa_cuda_row_fix(out, target, spec);
}

static void features(md_fa_features *out, const md_fa_target *target, const void *known, const int64_t *size)
{
    const md_fa_cuda_row_fixed *f = known;
    (f->align == MD_FA_CUDA_SINGLE ? md_fa_cuda_row_single_features : md_fa_cuda_row_features)(out, target, f, size);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    return md_fa_cuda_row_emit(out, target, spec);
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec, const md_kn_shape *shape)
{
    md_fa_cuda_row_geometry(out, target, spec, shape);
}

const md_fa_kind md_fa_cuda_row_kind = {
    .envelope = envelope, .fix = fix, .features = features, .emit = emit, .geometry = geometry};
