/* Rows that lie across memory: lanes over the last outer index. */
#include "family/host/host.h"
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
    return md_fa_row_applies(target) && target->program->stage[target->stage].n_outer > 0;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    return !config->value[NONTEMPORAL] || (!config->value[STRIDED] && md_fa_row_can_stream(target, size));
}

MD_FA_FORWARD(md_fa_row, row_of, shape->size)

const md_fa_family md_fa_host_column = {
    .name = "column",
    .device = MD_DEV_HOST,
    .is_reduction = true,
    .n_fields = 3,
    .field = {{"tile", 16, 3, {16, 4, 1}}, {"strided", 0, 2, {0, 1}}, {"nontemporal", 0, 2, {0, 1}}},
    .applies = applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .emit = emit,
    .geometry = geometry,
};
