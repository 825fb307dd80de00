/* What some times of one variant say: middle, spread, error. Pure functions. */
#ifndef MD_TUNE_BENCH_SAMPLES_H
#define MD_TUNE_BENCH_SAMPLES_H

#include <stdint.h>

enum { MD_TN_MOST_SAMPLES = 1024 }; /* further samples are ignored */

typedef enum md_tn_estimate_by {
    MD_TN_BY_MEDIAN,
    MD_TN_BY_LOW_MEDIAN, /* of the lower half: for clocks that other work can only delay */
    MD_TN_BY_LEAST,
} md_tn_estimate_by;

typedef struct md_tn_summary {
    int32_t n; /* samples that were used */
    double us; /* 0: no samples */
    double spread; /* half the distance between the quartiles, us */
    double error; /* standard error of the median, us: 1.48 x the median deviation over the root of n */
} md_tn_summary;

md_tn_summary md_tn_summarize(const double *sample, int32_t n, md_tn_estimate_by by);

#endif
