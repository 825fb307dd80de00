/* Family nest on a GPU: plain loops, one thread for each point. It serves every stage. */
#include "family/cuda/cuda.h"

#include "base/status.h"
#include "family/cost.h"
#include "family/point/point.h"
#include "family/numeric.h"

enum { THREADS = 128 };

static md_status emit(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)
{
    (void)config;
    return md_fa_nest_emit(out, target, MD_DEV_CUDA);
}

static bool is_in_order(const md_fa_target *target)
{
    return md_fa_stage(target)->has_duplicates;
}

/* A stage that writes an element twice runs in one thread, in order. */
static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    int64_t points = md_fa_nest_points(target, shape->size), most = INT64_C(64) * MD_MAX(target->facts->threads, 1);
    int64_t blocks = is_in_order(target) ? points > 0 : (points + THREADS - 1) / THREADS;
    (void)config;
    *out = (md_kn_geometries){0};
    md_kn_geometry *launch = &out->launch[0];
    launch->grain = 1;
    launch->blocks = MD_MIN(blocks, most);
    launch->grid[0] = (int32_t)launch->blocks;
    launch->grid[1] = launch->grid[2] = launch->block[1] = launch->block[2] = 1;
    launch->block[0] = is_in_order(target) ? 32 : THREADS;
}

/* A thread does about one operation, or one uncoalesced access, every 4 clocks if its SM has other threads to run,
 * otherwise every 30. */
static void features(md_fa_features *out, const md_fa_target *target, const md_fa_config *config, const int64_t *size)
{
    double flops = 0, bytes = 0;
    (void)config;
    md_fa_work(&flops, &bytes, target, size);
    double points = (double)md_fa_nest_points(target, size), steps = points * (10 + 4 * md_fa_nest_steps(target, size));
    double sms = MD_MAX(target->facts->threads, 1), blocks = points / THREADS;
    out->memory_bytes = bytes;
    out->ops = 2 * steps * 8;
    out->ops_rate = 1;
    out->parallel = blocks < 1 ? 1 : MD_MIN(blocks, sms);
    out->launches = 1;
    out->memory_rate = 0.25;
    if (is_in_order(target))
        out->serial_us = steps * 30 / 1.7e3;
}

const md_fa_family md_fa_cuda_nest = {
    .name = "nest",
    .device = MD_DEV_CUDA,
    .takes_packed = true,
    .is_last_resort = true,
    .applies = md_fa_nest_applies,
    .legal = md_fa_nest_legal,
    .features = features,
    .emit = emit,
    .geometry = geometry,
    .numeric = md_fa_class_nest,
};
