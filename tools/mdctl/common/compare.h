/* A result against the reference. */
#ifndef MDCTL_COMPARE_H
#define MDCTL_COMPARE_H

#include "common/data.h"

typedef struct comparison {
    double worst; /* largest error over the largest reference value; infinite where one is no number and the other is */
    double allowed; /* of such an error, by the dtype and the additions */
    int64_t at; /* element of the worst error, -1 where all are equal */
    int64_t n;
} comparison;

/** The most additions that a term of the op's sums goes through at these sizes, as md_explain says. */
md_status compare_additions(double *out, md_op *op, const char *sizes);
/** Tensor i of two sets of one shape, results of so many additions. */
comparison compare_tensors(const data_set *got, const data_set *want, int32_t i, double additions);

#endif
