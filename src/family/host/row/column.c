/* Family column: reductions along an axis whose elements are not neighbours in memory. Lanes run along the last outer
 * index. */
#include "family/host/row/row.h"

enum { TILE, STRIDED, NONTEMPORAL };

static md_fa_row row_of(const md_fa_config *config)
{
    return (md_fa_row){.source = "host/column.c",
                       .is_column = true,
                       .tile = config->value[TILE],
                       .is_strided = config->value[STRIDED],
                       .is_streaming = config->value[NONTEMPORAL]};
}

static bool applies(const md_fa_target *target)
{
    return md_fa_row_applies(target) && md_fa_stage(target)->n_outer > 0;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    return !config->value[NONTEMPORAL] || (!config->value[STRIDED] && md_fa_row_can_stream(target, size));
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    const md_fa_row row = row_of(config);
    md_fa_row_envelope(out, target, &row);
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_fa_row row = row_of(config);
    md_fa_row_features(out, target, &row, size);
}

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    const md_fa_row row = row_of(config);
    return md_fa_row_emit(out, target, &row);
}

static void geometry(md_kn_plan_geometry *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    const md_fa_row row = row_of(config);
    md_fa_row_geometry(out, target, &row, shape->size);
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    return (md_fa_class){.group = "column", .is_repeatable = true, .is_invariant = true};
}

const md_fa_family md_fa_host_column = {
    .name = "column",
    .device = MD_DEV_HOST,
    .takes_packed = true,
    .is_reduction = true,
    .n_fields = 3,
    .field = {{"tile", 16, 3, {16, 4, 1}}, {"strided", 0, 2, {0, 1}}, {"nontemporal", 0, 2, {0, 1}}},
    .applies = applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = numeric,
};
