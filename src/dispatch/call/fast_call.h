/* Calls of an op: by a launch plan if there is one, else by the slow call. */
#ifndef MD_DISPATCH_CALL_FAST_CALL_H
#define MD_DISPATCH_CALL_FAST_CALL_H

#include "dispatch/op.h"

/** Serves a call. On an asynchronous device it returns when the launches are in the stream. Thread-safe. */
md_status md_ds_call(md_ds_op *op, md_stream stream, const md_arg *args, int32_t n_args);
/** Serves a call, whose arguments were read, by its launch plan. False if there is none: nothing was done then. */
bool md_ds_call_launch_plan(md_status *status, md_ds_op *op, const md_ds_call_args *call, md_stream stream);

#endif
