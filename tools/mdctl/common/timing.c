/* Samples of a time, their quantiles and ratios. */
#include "common/timing.h"

#include <stdlib.h>
#include <string.h>

void timing_add(timing *t, double us)
{
    if (t->n < TIMING_MAX)
        t->us[t->n++] = us;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double timing_quantile(const timing *t, double q)
{
    double sorted[TIMING_MAX];
    if (t->n == 0)
        return 0.0;
    memcpy(sorted, t->us, (size_t)t->n * sizeof *sorted);
    qsort(sorted, (size_t)t->n, sizeof *sorted, by_value);
    int i = (int)(q * t->n);
    return sorted[i < t->n ? i : t->n - 1];
}

double timing_ratio(const timing *a, const timing *b)
{
    timing r = {0};
    for (int i = 0; i < a->n && i < b->n; i++)
        if (b->us[i] > 0.0)
            timing_add(&r, a->us[i] / b->us[i]);
    return timing_quantile(&r, 0.5);
}
