/* Family pointwise: elementwise stages without index tensors. All subscripts are affine. */
#include "family/cost.h"
#include "family/host/point/sweep.h"
#include "family/numeric.h"

enum { FLAT, STRIDED, NONTEMPORAL, TRANSPOSE };
enum { CYCLIC = 2 }; /* of FLAT: also where loads then repeat along the lanes */

static md_fa_sweep sweep_of(const md_fa_config *config)
{
    return (md_fa_sweep){.source = "host/pointwise.c",
                         .is_flat = config->value[FLAT],
                         .is_cyclic = config->value[FLAT] == CYCLIC,
                         .is_strided = config->value[STRIDED],
                         .is_streaming = config->value[NONTEMPORAL]};
}

static bool applies(const md_fa_target *target)
{
    const md_st_stage *st = md_fa_stage(target);
    return st->kind == MD_ST_POINTWISE && !st->has_gather && !st->has_scatter;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_transpose transpose;
    if (config->value[TRANSPOSE] &&
        (config->value[FLAT] || config->value[STRIDED] || !md_fa_transpose_find(&transpose, target)))
        return false;
    bool has_axis = md_fa_stage(target)->axis >= 0;
    if (config->value[FLAT] &&
        (config->value[STRIDED] ||
         !(config->value[FLAT] == CYCLIC ? md_fa_sweep_can_repeat(target, size) : md_fa_sweep_can_flatten(target))))
        return false;
    if (!has_axis && !config->value[STRIDED])
        return false; /* for a scalar one variant is enough */
    return !config->value[NONTEMPORAL] || (!config->value[STRIDED] && md_fa_host_can_stream(target, size));
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_sweep sweep = sweep_of(config);
    if (config->value[TRANSPOSE])
        md_fa_transpose_envelope(out, target, false);
    else
        md_fa_sweep_envelope(out, target, &sweep);
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_sweep sweep = sweep_of(config);
    md_fa_sweep_features(out, target, &sweep, size);
    if (config->value[TRANSPOSE])
        md_fa_transpose_features(out, target, size);
    else
        md_fa_transpose_penalty(out, target, size);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    md_fa_sweep sweep = sweep_of(config);
    return config->value[TRANSPOSE] ? md_fa_transpose_emit(out, target, sweep.is_streaming)
                                    : md_fa_sweep_emit(out, target, &sweep);
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    md_fa_sweep sweep = sweep_of(config);
    if (config->value[TRANSPOSE])
        md_fa_transpose_geometry(out, target, shape->size);
    else
        md_fa_sweep_geometry(out, target, &sweep, shape->size);
}

const md_fa_family md_fa_host_pointwise = {
    .name = "pointwise",
    .device = MD_DEV_HOST,
    .takes_packed = true,
    .n_fields = 4,
    .field = {{"flat", 0, 3, {1, 0, CYCLIC}},
              {"strided", 1, 2, {0, 1}},
              {"nontemporal", 0, 2, {0, 1}},
              {"transpose", 0, 2, {1, 0}}},
    .applies = applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = md_fa_class_sweep,
};
