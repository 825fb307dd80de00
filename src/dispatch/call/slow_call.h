/* A call without a launch plan, and its steps. */
#ifndef MD_DISPATCH_CALL_SLOW_CALL_H
#define MD_DISPATCH_CALL_SLOW_CALL_H

#include "dispatch/bind/bind.h"
#include "dispatch/cache/shape_entry.h"

/** The shape entry of a bound call, held: the caller releases it. Chooses for a shape that was not met before; while
 * the stream is captured, only among ready variants. */
md_status md_ds_find(md_ds_shape_entry **out, md_ds_op *op, md_stream stream, const md_ds_bound *bound);

/** Publishes a launch plan of a bound call in the op's plan cache, unless there can be none. */
void md_ds_add_launch_plan(md_ds_op *op, const md_ds_call_args *call, md_ds_shape_entry *entry,
                           const md_ds_bound *bound);

/** Serves a call. Checks everything; errors name what is wrong. `call`: NULL, or the call for which a launch plan is
 * wanted if its shape is known. is_sample: the call shall be timed. */
md_status md_ds_slow_call(md_ds_op *op, md_stream stream, const md_arg *args, int32_t n_args,
                          const md_ds_call_args *call, bool is_sample);

#endif
