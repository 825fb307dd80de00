/* Family scatter: elementwise stages that write through index tensors. `=` runs like any other sweep; of duplicates one
 * is stored. Accumulation is done in the formula's order, so that the bits repeat: by one block, or with owner1 by
 * blocks that each own a part of the target, visit all points and write those that fall into their part. */
#include "family/applies.h"
#include "family/cost.h"
#include "family/host/point/bins.h"
#include "family/host/point/sweep.h"
#include "family/host/point/sweep_fit.h"
#include "family/numeric.h"

#include "base/status.h"

enum { STRIDED, OWNER };

static md_fa_sweep sweep_of(const md_fa_target *target, const md_fa_config *config)
{
    md_fa_sweep s = {
        .source = "host/pointwise.c", .is_strided = config->value[STRIDED], .is_owned = config->value[OWNER]};
    if (md_fa_stage(target)->has_duplicates) {
        s.source = "host/scatter.c";
        s.n_extra = 1;
        s.extra[0] = (md_kn_param){.kind = MD_KN_BLOCKS};
    }
    return s;
}

static bool spec_of(void *spec, const md_fa_target *target, const md_fa_config *config)
{
    *(md_fa_sweep *)spec = sweep_of(target, config);
    return true;
}

static bool legal(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    (void)size;
    return !config->value[OWNER] ||
           (st->has_duplicates && st->n_stores == 1 && st->axis >= 0 && md_fa_scatter_has_row_index(target));
}

static int64_t points_of(const md_fa_target *target, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    int64_t lanes = st->axis >= 0 ? md_st_size(target->program, st->axis, size) : 1;
    return md_st_points(target->program, st->n_outer, st->outer, size) * lanes;
}

/* The number of blocks of a scatter that accumulates: one for each thread if there is enough work. */
static int64_t owners_of(const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    int64_t points = points_of(target, size), most = points / MD_FA_BLOCK_POINTS;
    if (!config->value[OWNER])
        return points > 0;
    return MD_MIN(MD_MAX(most, points > 0), target->facts->threads);
}

/* Sums of reals that would round too often here are for scatter_bins. */
static const char *rule_miss(const md_kn_envelope *envelope, const md_kn_shape *shape)
{
    const md_st_program *program = envelope->rule;
    return md_fa_bins_wanted(program, envelope->rule_value[0], shape) ? "sums of many updates" : NULL;
}

static void envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)
{
    const md_fa_sweep sweep = sweep_of(target, config);
    md_fa_sweep_envelope(out, target, &sweep);
    if (!md_fa_bins_apply(target) || !md_fa_bins_round_less(target))
        return;
    out->rule_miss = rule_miss;
    out->rule = target->program;
    out->rule_value[0] = target->stage;
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    md_fa_sweep sweep = sweep_of(target, config);
    md_fa_sweep_features(out, target, &sweep, size);
    if (!st->has_duplicates)
        return;
    int64_t blocks = owners_of(target, config, size);
    /* Each update asks its lane's mask, which bins do once for a vector. */
    if (md_fa_bins_apply(target))
        out->ops += MASK_CYCLES * (double)points_of(target, size) * md_fa_host_ops_per_cycle(target->facts);
    out->parallel = (double)MD_MAX(blocks, 1);
    /* Every block reads all indices. */
    out->serial_us = blocks > 1 ? (double)md_st_points(target->program, st->n_outer, st->outer, size) * INDEX_US : 0;
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    md_fa_sweep sweep = sweep_of(target, config);
    md_fa_sweep_geometry(out, target, &sweep, shape->size);
    if (md_fa_stage(target)->has_duplicates)
        out->launch[0].blocks = owners_of(target, config, shape->size);
}

/* Accumulation is in the formula's order, whether one block does it or several that own parts of the target. */
static md_fa_class numeric(const md_fa_target *target, const md_fa_config *config)
{
    md_fa_class c = md_fa_class_sweep(target, config);
    c.group = md_fa_stage(target)->has_duplicates ? "scatter" : c.group;
    return c;
}

const md_fa_family md_fa_host_scatter = {
    .name = "scatter",
    .device = MD_DEV_HOST,
    .n_fields = 2,
    .field = {{"strided", 1, 2, {0, 1}}, {"owner", 0, 2, {0, 1}}},
    .kind = &md_fa_host_sweep_kind,
    .spec_of = spec_of,
    .applies = md_fa_scatter_applies,
    .legal = legal,
    .envelope = envelope,
    .features = features,
    .geometry = geometry,
    .numeric = numeric,
};
