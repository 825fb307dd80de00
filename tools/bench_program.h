/* What the benchmark programs share: a clock, failing, medians. */
#ifndef MD_TOOLS_BENCH_PROGRAM_H
#define MD_TOOLS_BENCH_PROGRAM_H

#include <md/md.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Microseconds of a clock that never goes back. */
static inline double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Ends the program with the library's message unless all is well. */
static inline void bench_ok(md_status s)
{
    if (s == MD_OK)
        return;
    fprintf(stderr, "%s\n", md_last_error());
    exit(1);
}

/* For qsort of doubles. */
static inline int bench_by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#endif
