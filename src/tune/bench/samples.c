/* Medians, quartiles and errors of a variant's times. */
#include "tune/bench/samples.h"

#include "base/sort.h"
#include "base/status.h"

#include <math.h>
#include <string.h>

/* The quantile by linear interpolation; n > 0. */
static double quantile(const double *sorted, int32_t n, double part)
{
    const double at = part * (n - 1);
    const int32_t i = (int32_t)at;
    return i + 1 < n ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[i];
}

/* Changes `value`. */
static double median_deviation(double *value, int32_t n, double median)
{
    for (int32_t i = 0; i < n; i++)
        value[i] = fabs(value[i] - median);
    md_sort_doubles(value, (size_t)n);
    return quantile(value, n, 0.5);
}

md_tn_summary md_tn_summarize(const double *sample, int32_t n, md_tn_estimate_by by)
{
    double sorted[MD_TN_MOST_SAMPLES];
    n = MD_MIN(n, MD_TN_MOST_SAMPLES);
    if (n <= 0)
        return (md_tn_summary){0};
    memcpy(sorted, sample, (size_t)n * sizeof *sorted);
    md_sort_doubles(sorted, (size_t)n);
    if (by == MD_TN_BY_LOW_MEDIAN)
        n = (n + 1) / 2;
    md_tn_summary s = {.n = n, .us = quantile(sorted, n, by == MD_TN_BY_LEAST ? 0.0 : 0.5)};
    s.spread = 0.5 * (quantile(sorted, n, 0.75) - quantile(sorted, n, 0.25));
    s.error = 1.48 * median_deviation(sorted, n, quantile(sorted, n, 0.5)) / sqrt((double)n);
    return s;
}
