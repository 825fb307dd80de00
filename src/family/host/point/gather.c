/* Family gather: elementwise stages that read through index tensors. If the index does not vary along the lanes, rows
 * are copied by vectors, and the index is read and checked once for each row. */
#include "family/cost.h"
#include "family/applies.h"
#include "family/host/point/sweep.h"
#include "family/numeric.h"

enum { STRIDED, NONTEMPORAL };

static md_fa_sweep sweep_of(const md_fa_config *config)
{
    return (md_fa_sweep){
        .source = "host/pointwise.c", .is_strided = config->value[STRIDED], .is_streaming = config->value[NONTEMPORAL]};
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    return !config->value[NONTEMPORAL] || (!config->value[STRIDED] && md_fa_host_can_stream(target, size));
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    const md_fa_sweep sweep = sweep_of(config);
    md_fa_sweep_envelope(out, target, &sweep);
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_fa_sweep sweep = sweep_of(config);
    md_fa_sweep_features(out, target, &sweep, size);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    const md_fa_sweep sweep = sweep_of(config);
    return md_fa_sweep_emit(out, target, &sweep);
}

static void geometry(md_kn_plan_geometry *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    const md_fa_sweep sweep = sweep_of(config);
    md_fa_sweep_geometry(out, target, &sweep, shape->size);
}

const md_fa_family md_fa_host_gather = {
    .name = "gather",
    .device = MD_DEV_HOST,
    .n_fields = 2,
    .field = {{"strided", 1, 2, {0, 1}}, {"nontemporal", 0, 2, {0, 1}}},
    .applies = md_fa_gather_applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = md_fa_class_sweep,
};
