/* The kind of the host's sweeps: gather and scatter. */
#include "family/host/point/sweep.h"

static void envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec)
{
    md_fa_sweep_envelope(out, target, spec);
}

static void features(md_fa_features *out, const md_fa_target *target, const void *spec, const int64_t *size)
{
    md_fa_sweep_features(out, target, spec, size);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    return md_fa_sweep_emit(out, target, spec);
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec, const md_kn_shape *shape)
{
    md_fa_sweep_geometry(out, target, spec, shape->size);
}

const md_fa_kind md_fa_host_sweep_kind = {
    .envelope = envelope, .features = features, .emit = emit, .geometry = geometry};
