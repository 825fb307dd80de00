/* Family gather: elementwise stages that read through index tensors. If the index does not vary along the lanes, rows
 * are copied by vectors, and the index is read and checked once for each row. */
#include "family/cost.h"
#include "family/applies.h"
#include "family/host/point/places.h"
#include "family/host/point/sweep.h"
#include "family/numeric.h"

enum { STRIDED, NONTEMPORAL };
enum { PLACED = 2 }; /* of STRIDED: strides of 1, and short rows */

static md_fa_sweep sweep_of(const md_fa_config *config)
{
    const bool is_placed = config->value[STRIDED] == PLACED;
    return (md_fa_sweep){.source = "host/pointwise.c",
                         .is_strided = config->value[STRIDED] == 1,
                         .is_streaming = config->value[NONTEMPORAL],
                         .is_placed = is_placed,
                         .block_points = is_placed ? MD_FA_PLACED_BLOCK : 0};
}

static bool spec_of(void *spec, const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    *(md_fa_sweep *)spec = sweep_of(config);
    return true;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_placed placed;
    if (config->value[STRIDED] == PLACED &&
        (!md_fa_placed_find(&placed, target) ||
         md_st_size(target->program, md_fa_stage(target)->axis, size) > MD_FA_PLACED_LANES))
        return false;
    return !config->value[NONTEMPORAL] || (config->value[STRIDED] != 1 && md_fa_host_can_stream(target, size));
}

const md_fa_family md_fa_host_gather = {
    .name = "gather",
    .device = MD_DEV_HOST,
    .n_fields = 2,
    .field = {{"strided", 1, 3, {0, 1, PLACED}}, {"nontemporal", 0, 2, {0, 1}}},
    .kind = &md_fa_host_sweep_kind,
    .spec_of = spec_of,
    .applies = md_fa_gather_applies,
    .legal = legal,
    .numeric = md_fa_class_sweep,
};
