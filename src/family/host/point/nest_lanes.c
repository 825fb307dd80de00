/* Family nest_lanes: reductions over several indices at once, for neighbouring results together: a filter over planes,
 * a window of pixels. The lanes are the last index of what is stored. */
#include "family/cost.h"
#include "family/host/cycles_fit.h"
#include "family/host/point/sweep.h"
#include "family/host/point/sweep_fit.h"
#include "family/numeric.h"

#include <math.h>

enum { STRIDED };
enum { GROUP = 4, BLOCK_POINTS = 1024 }; /* of which each takes many steps */

static bool spec_of(void *spec, const md_fa_target *target, const md_fa_config *config)
{
    const bool is_grouped = md_fa_stage(target)->n_outer > 0;
    *(md_fa_sweep *)spec = (md_fa_sweep){.source = "host/pointwise.c",
                                         .is_strided = config->value[STRIDED],
                                         .fuses = true,
                                         .n_group = is_grouped ? GROUP : 0,
                                         .block_points = is_grouped ? BLOCK_POINTS / GROUP : BLOCK_POINTS};
    return true;
}

/* A scan would run along the lanes, or begin anew in each. */
static bool applies(const md_fa_target *target)
{
    const md_st_stage *st = md_fa_stage(target);
    return st->kind == MD_ST_NEST && st->axis >= 0 && !st->has_scatter &&
           !md_fx_has_kind(st->store[0].value, MD_FX_SCAN);
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    md_fa_sweep sweep;
    const md_st_stage *st = md_fa_stage(target);
    (void)spec_of(&sweep, target, config);
    md_fa_host_work work;
    md_kn_geometries geometry;
    double flops = 0, bytes = 0;
    md_fa_host_count(&work, st, target->program);
    md_fa_work(&flops, &bytes, target, size);
    md_fa_sweep_geometry(&geometry, target, &sweep, size);
    const double rows = (double)md_st_points(target->program, st->n_outer, st->outer, size),
                 lanes = (double)md_st_size(target->program, st->axis, size), points = rows * lanes,
                 vectors = rows * ceil(lanes / md_cg_width(target->facts));
    const double steps = points > 0 ? 1 + flops / points : 1;
    double cycles = rows * ROW_CYCLES + vectors * (VECTOR_CYCLES + steps * STEP_CYCLES);
    cycles += points * steps * SCATTERED_CYCLES * (sweep.is_strided ? 1 : work.scattered);
    out->memory_bytes = bytes;
    out->ops = cycles * md_fa_host_ops_per_cycle(target->facts);
    out->ops_rate = 1;
    out->parallel = md_fa_host_parallel((double)geometry.launch[0].blocks, target->facts);
    out->launches = 1;
}

static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    (void)target, (void)config;
    return (md_fa_class){.group = "nest_lanes", .is_repeatable = true, .is_invariant = true};
}

const md_fa_family md_fa_host_nest_lanes = {
    .name = "nest_lanes",
    .device = MD_DEV_HOST,
    .n_fields = 1,
    .field = {{"strided", 1, 2, {0, 1}}},
    .kind = &md_fa_host_sweep_kind,
    .spec_of = spec_of,
    .applies = applies,
    .features = features,
    .numeric = numeric,
};
