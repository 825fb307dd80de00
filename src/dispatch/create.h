/* Making, sharing and freeing ops. */
#ifndef MD_DISPATCH_CREATE_H
#define MD_DISPATCH_CREATE_H

#include "dispatch/op.h"

typedef struct md_ds_op_options {
    const char *name; /* NULL: `fallback_name`, else the first output */
    const char *fallback_name;
    md_ds_compile_options compile;
    const char *pin;
    int64_t max_shapes;
    bool is_async; /* made as soon as every stage has one variant that is ready */
} md_ds_op_options;

/** Makes an op, or finds the one that is the same in all but is_async and adds an owner. Returns when every variant is
 * built or has failed, or earlier (is_async). `runtime` must outlive the op. Thread-safe. */
md_status md_ds_op_create(md_ds_op **out, md_ds_runtime *runtime, const char *formula, const md_ds_op_options *options);
void md_ds_op_destroy(md_ds_op **op); /* removes one owner; the last one's call frees the op */
/** Frees an op after md_ds_leave (registry.h) returned true. */
void md_ds_op_free(md_ds_op **op);
/** Waits for all builds, and gives every shape that was met the best variant. */
void md_ds_op_wait(md_ds_op *op);

#endif
