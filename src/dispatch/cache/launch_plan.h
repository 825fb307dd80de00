/* A launch plan: all that the launches of one shape need, as plain words. It has no pointers into shape entries, so
 * it can be copied while another thread writes it, and be used after its entry is gone. It is short, since most
 * parameters come from the key or the call: param maps say which. Kernels and param maps live as long as the op. */
#ifndef MD_DISPATCH_CACHE_LAUNCH_PLAN_H
#define MD_DISPATCH_CACHE_LAUNCH_PLAN_H

#include "base/status.h"
#include "dispatch/bind/bind.h"
#include "dispatch/cache/param_map.h"

enum { MD_DS_SAMPLE_EVERY = 256 };

/* Words of a launch plan:
 *   key[n_key]
 *   span[n_tensors]      bytes from a tensor's first element to its end
 *   alias[n_outputs]     bits of the tensors that may be exactly the output
 *   head                 md_ds_launch_head
 *   per launch: md_ds_launch_record, then its md_dev_maps, then its literals */
typedef struct md_ds_launch_record {
    const md_ds_param_map *param_map;
    md_kn_geometry geometry;
} md_ds_launch_record;

/** Writes the launch plan of a bound call. Returns the number of words, or 0 if there can be none: library calls,
 * inputs that must be copied, too many parameters. That of a stand-in plan is for a caller who looks for a better plan
 * at each run. */
int32_t md_ds_launch_plan_make(md_ds_word out[MD_DS_LAUNCH_PLAN_WORDS], md_ds_op *op, const md_ds_call_args *call,
                               const md_ds_plan *plan, const md_ds_bound *bound);
static inline md_ds_launch_head *md_ds_launch_head_of(const md_ds_op *op, md_ds_word *launch_plan)
{
    return (md_ds_launch_head *)(launch_plan + op->layout.n_key + op->layout.n_tensors + op->layout.n_outputs);
}
/** Makes a tensor map point to another address. */
static inline md_status md_ds_map_move(md_dev_map *map, md_dev *dev, const md_dev_kernel *kernel, uint64_t address)
{
    if (!md_dev_map_store(map->word, map->at, address))
        MD_TRY(dev->ops->map_move(map->word, dev, kernel, address));
    map->address = address;
    return MD_OK;
}
/** True if tensors of the call overlap only as the launch plan allows, and its operands are packed, which are noted. */
bool md_ds_launch_plan_fits(const md_ds_op *op, md_ds_launch_args *launch_args);
/** Runs a launch plan with the data of a call, which is in `launch_args`. Tensor maps in it are moved, so `launch_args`
 * belongs to one thread. */
md_status md_ds_launch_plan_run(md_ds_op *op, md_ds_launch_args *launch_args, md_stream stream);

#endif
