/* A plan: all that the launches of one shape need, as plain words without pointers into records, so that it can be
 * copied while others write it and used after its record is gone. It is short, since most parameters are in the key
 * or in the call: recipes say where. Kernels belong to the context; recipes to the op. */
#ifndef MD_DISPATCH_CACHE_LAUNCH_PLAN_H
#define MD_DISPATCH_CACHE_LAUNCH_PLAN_H

#include "dispatch/call/slow_call.h"
#include "dispatch/cache/param_map.h"

#include "base/status.h"

enum { MD_DS_SAMPLE_EVERY = 256 };

/* Words of a plan:
 *   key[n_key]
 *   span[n_tensors]      bytes from a tensor's first element to its end
 *   alias[n_outputs]     tensors that may be exactly it
 *   head                 md_ds_launch_plan_head
 *   per launch: md_ds_launch_plan_launch, then its md_dev_map, then the literals of its recipe */
typedef struct md_ds_launch_plan_head {
    uint64_t memory_bytes; /* temporaries and workspace */
    uint32_t n_launches;
    uint8_t needs_report, needs_counters; /* report: the host's own */
    uint16_t every; /* one call in so many goes the long way; a power of two, 0: none */
} md_ds_launch_plan_head;

typedef struct md_ds_launch_plan_launch {
    const md_ds_param_map *param_map;
    md_kn_geometry geometry;
} md_ds_launch_plan_launch;

/** Writes the plan of a bound call and its way; the number of words, or 0 where it has none: library calls, inputs
 * that must be copied, too many parameters, something better being built. */
int32_t md_ds_launch_plan_make(md_ds_word out[MD_DS_LAUNCH_PLAN_WORDS], const md_ds_op *op, const md_ds_call_args *call,
                               const md_ds_plan *plan, const md_ds_bound *bound);
static inline md_ds_launch_plan_head *md_ds_launch_plan_head_of(const md_ds_op *op, md_ds_word *launch_plan)
{
    return (md_ds_launch_plan_head *)(launch_plan + op->layout.n_key + op->layout.n_tensors + op->layout.n_outputs);
}
/** Makes a map point to another address. */
static inline md_status md_ds_map_move(md_dev_map *map, md_dev *dev, const md_dev_kernel *kernel, uint64_t address)
{
    if (!md_dev_map_store(map->word, map->at, address))
        MD_TRY(dev->ops->map_move(map->word, dev, kernel, address));
    map->address = address;
    return MD_OK;
}
/** Whether the memory of the call's tensors overlaps in no way that the plan does not know. */
bool md_ds_launch_plan_fits(const md_ds_op *op, const md_ds_plan_args *plan_args);
/** Runs a plan with the data of a call. */
md_status md_ds_launch_plan_run(md_ds_op *op, md_ds_plan_args *plan_args, md_stream stream);

#endif
