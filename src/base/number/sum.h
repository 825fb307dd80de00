/* How many additions a term of a long sum goes through: what the manual promises (multidispatch(3), "Accuracy"), tests
 * demand, and tuning allows. The error is this x the unit roundoff x the sum of the terms' magnitudes. */
#ifndef MD_BASE_NUMBER_SUM_H
#define MD_BASE_NUMBER_SUM_H

#include <math.h>

/** At most, of n terms, where a kernel cuts its sums: the largest of all families' runs, then pairwise. */
static inline double md_sum_additions(double n)
{
    return fmin(n, 512.0 + log2(fmax(n, 1.0)));
}

#endif
