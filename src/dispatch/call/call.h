/* The call of an op: the path of known shapes, and that of all others. */
#ifndef MD_DISPATCH_CALL_CALL_H
#define MD_DISPATCH_CALL_CALL_H

#include "dispatch/bind/bind.h"
#include "dispatch/cache/shape_entry.h"
#include "dispatch/op.h"

/* ---- fast_call.c */

/* Calls of an op: by a launch plan if there is one, else by the slow call. */

/** Serves a call. On an asynchronous device it returns when the launches are in the stream. Thread-safe. */
md_status md_ds_call(md_ds_op *op, md_stream stream, const md_arg *args, int32_t n_args);
/** Serves a call, whose arguments were read, by its launch plan. False if there is none: nothing was done then. */
bool md_ds_call_launch_plan(md_status *status, md_ds_op *op, const md_ds_call_args *call, md_stream stream);

/* ---- slow_call.c */

/* A call without a launch plan, and its steps. */

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
