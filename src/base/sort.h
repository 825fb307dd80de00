/* Sorting numbers. */
#ifndef MD_BASE_SORT_H
#define MD_BASE_SORT_H

#include <stddef.h>
#include <stdlib.h>

/* For qsort, ascending; not for NaN. */
static inline int md_compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void md_sort_doubles(double *values, size_t n)
{
    qsort(values, n, sizeof *values, md_compare_doubles);
}

#endif
