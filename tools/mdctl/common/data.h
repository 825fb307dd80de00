/* Arguments for an op at given sizes: memory of the device, filled with random values. On a GPU the values are made,
 * and looked at, in an image on the host. */
#ifndef MDCTL_DATA_H
#define MDCTL_DATA_H

#include "common/cli.h"

enum { DATA_MAX_ARGS = 32 };

typedef struct data_set {
    md_context *context;
    void *image[DATA_MAX_ARGS]; /* GPU: what the CPU sees of a tensor; NULL otherwise, and where it is not needed */
    int32_t n;
    md_arg_info info[DATA_MAX_ARGS];
    md_tensor tensor[DATA_MAX_ARGS];
    md_arg arg[DATA_MAX_ARGS];
} data_set;

/** Allocates and fills: reals are uniform in [-1, 1), every other one close to 0.31; index tensors lie inside every
 * axis that is gathered or scattered, lengths are three quarters of their size and more, other integers in 0..7;
 * scalars are 0.5 (reals) and 1 (integers). Free it, also after a failure. */
md_status data_make(data_set *out, md_context *context, md_op *op, const char *sizes, uint64_t seed);
/** Writes what data_make makes of index tensors and lengths into the tensors of these, which are by argument and have
 * memory of the device. */
md_status data_put_indices(md_context *context, md_op *op, const char *sizes, const md_tensor *tensor, uint64_t seed);
/** The same sizes and values in memory of its own, without images: made by copies on the device. */
md_status data_clone(data_set *out, const data_set *from);
/** Makes data_at see what the device's tensor i holds now. */
md_status data_fetch(data_set *set, int32_t i);
void data_free(data_set *set);
/** Elements of tensor i. */
int64_t data_count(const data_set *set, int32_t i);
/** Element k (row-major position) of tensor i as a double. */
double data_at(const data_set *set, int32_t i, int64_t k);
/** Prints a blank and element k: six digits of a real, all of an integer. */
void data_print(const data_set *set, int32_t i, int64_t k);

#endif
