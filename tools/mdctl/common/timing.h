/* Samples of a time and what is said of them. */
#ifndef MDCTL_TIMING_H
#define MDCTL_TIMING_H

enum { TIMING_MAX = 1024 };

typedef struct timing {
    int n;
    double us[TIMING_MAX];
} timing;

void timing_add(timing *t, double us);
/** The q-quantile, q in [0, 1]; 0 where there are no samples. */
double timing_quantile(const timing *t, double q);
/** Median of a[i] / b[i]: the runs were made in pairs. */
double timing_ratio(const timing *a, const timing *b);

#endif
