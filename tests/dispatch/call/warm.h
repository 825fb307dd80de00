/* Calls of Y[n] = X[n] * a on the fake device, whose kernels compute it. */
#ifndef MD_TESTS_DISPATCH_WARM_H
#define MD_TESTS_DISPATCH_WARM_H

#include "dispatch/support/script.h"

extern script_world warm_world;
extern _Atomic int64_t warm_launched; /* launches */
extern const char *const warm_formula;

int warm_set_up(void **state);
int warm_tear_down(void **state);
/** The launch: Y[n] = X[n * stride] * a. With script_now.with_memory it also writes the workspace. */
void warm_copy_scaled(const char *text, const md_kn_word *params, int32_t n);

md_ds_op *warm_op(int64_t max_shapes);

typedef struct warm_vectors {
    float y[80], x[400];
    md_tensor ty, tx;
    md_arg arg[3];
} warm_vectors;

/** n elements; y begins at `offset`, x has a stride. */
void warm_shape(warm_vectors *v, int64_t n, int64_t stride, int offset);
/** Arguments in the order of the op. */
void warm_order(const md_ds_op *op, warm_vectors *v, md_arg out[3], double a);
md_status warm_call(md_ds_op *op, warm_vectors *v, double a);
bool warm_is_right(const warm_vectors *v, int64_t n, int64_t stride, int offset, double a);

/** Slow calls so far. */
uint64_t warm_slow_calls(md_ds_op *op);

typedef struct warm_sum {
    uint64_t calls, n_timed, ns;
} warm_sum;

/** For md_ds_table_each: adds the counts of an entry to a warm_sum. */
void warm_add_calls(void *sum, const md_ds_shape_entry *entry);
/** All calls that the op and its shape entries have counted. */
uint64_t warm_all_calls(md_ds_op *op);

#endif
