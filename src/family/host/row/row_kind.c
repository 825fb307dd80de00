/* The kind of the host's row families. */
#include "family/host/row/row.h"

static void envelope(md_kn_envelope *out, const md_fa_target *target, const void *spec)
{
    md_fa_row_envelope(out, target, spec);
}

static void features(md_fa_features *out, const md_fa_target *target, const void *spec, const int64_t *size)
{
    md_fa_row_features(out, target, spec, size);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const void *spec)
{
    return md_fa_row_emit(out, target, spec);
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec, const md_kn_shape *shape)
{
    md_fa_row_geometry(out, target, spec, shape->size);
}

const md_fa_kind md_fa_host_row_kind = {.envelope = envelope, .features = features, .emit = emit, .geometry = geometry};
