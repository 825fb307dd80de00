/* Family nest: plain loops over single elements (family/point/nest.c), in blocks of points. */
#include "base/status.h"
#include "family/cost.h"
#include "family/numeric.h"
#include "family/point/point.h"

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    (void)config;
    return md_fa_nest_emit(out, target, MD_DEV_HOST);
}

/* The number of blocks, which are equal parts of the points. A stage that writes an element twice runs in one block, in
 * order. */
static int64_t blocks_of(const md_fa_target *target, const int64_t *size)
{
    const md_st_stage *st = md_fa_stage(target);
    int64_t points = md_fa_nest_points(target, size);
    double work = (double)points * md_fa_nest_steps(target, size);
    if (points == 0 || st->has_duplicates || work < 2e4)
        return points > 0;
    double blocks = work / 1e4, most = 16.0 * target->facts->threads;
    return MD_MIN(points, (int64_t)(blocks < most ? blocks : most));
}

static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    double flops = 0, bytes = 0;
    (void)config;
    md_st_work(&flops, &bytes, target->program, target->stage, size);
    double points = (double)md_fa_nest_points(target, size);
    out->memory_bytes = bytes;
    out->ops = (points * (10 + md_fa_nest_steps(target, size) * 4)) * md_fa_host_ops_per_cycle(target->facts);
    out->ops_rate = 1;
    out->parallel = md_fa_host_parallel((double)blocks_of(target, size), target->facts);
    out->launches = 1;
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    (void)config;
    *out = (md_kn_geometries){0};
    out->launch[0].blocks = blocks_of(target, shape->size);
    out->launch[0].grain = 1;
}

const md_fa_family md_fa_host_nest = {
    .name = "nest",
    .device = MD_DEV_HOST,
    .takes_packed = true,
    .is_last_resort = true,
    .applies = md_fa_nest_applies,
    .legal = md_fa_nest_legal,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = md_fa_class_nest,
};
