/* Calls by launch plans in the op's plan cache. A compact plan is launched from its plan entry, others from a copy of
 * the thread's. Both get an entry in the thread cache, so that the next calls do not come here. */
#ifndef MD_DISPATCH_CALL_CACHED_CALL_H
#define MD_DISPATCH_CALL_CACHED_CALL_H

#include "dispatch/call/thread_entry.h"

typedef enum md_ds_fast_result {
    MD_DS_FAST_DONE,
    MD_DS_FAST_UNKNOWN, /* no launch plan of this call was found */
    MD_DS_FAST_UNFIT, /* the slow call must look at the arguments */
    MD_DS_FAST_SAMPLE /* the slow call shall serve and time this call */
} md_ds_fast_result;

/* A launch, apart from where it is cached. */
typedef struct md_ds_launch {
    const md_ds_param_map *param_map;
    md_kn_geometry geometry;
    const md_kn_word *params;
} md_ds_launch;

/** Runs the plan of a call that the op's plan cache has. *status is set if the result is DONE. */
md_ds_fast_result md_ds_run_cached(md_status *status, md_ds_op *op, md_ds_thread *thread, md_stream stream,
                                   const md_ds_call_args *call);
/** Runs the thread's copy of a plan; UNKNOWN if it is not the copy of a valid plan of this call. */
md_ds_fast_result md_ds_run_copy(md_status *status, md_ds_op *op, md_ds_thread *thread, md_stream stream,
                                 md_ds_thread_launch *thread_launch, const md_arg *args);

/** A sampled call, which was counted: times it around the launch, or leaves it to the slow call (SAMPLE). */
md_ds_fast_result md_ds_launch_timed(md_status *status, md_ds_counter *counter, bool is_timed, const md_ds_op *op,
                                     const md_ds_launch *l, md_stream stream);
/** For profilers: names the launch by its variant, within a range of the op's name. */
md_status md_ds_launch_named(const md_ds_op *op, const md_ds_launch *l, md_stream stream);

/** Counts a call. False for a sampled one: the last of as many calls as the mask says. */
static inline bool md_ds_count_call(md_ds_counter *c, const md_ds_thread *thread, uint64_t mask)
{
    const uint64_t n = atomic_load_explicit(c, memory_order_relaxed);
    if (thread->number < MD_DS_SHARDS - 1) /* no other thread adds here */
        atomic_store_explicit(c, n + 1, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(c, 1, memory_order_relaxed);
    return (~n & mask) != 0;
}

#endif
