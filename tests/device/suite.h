/* What every device must pass, through the public interface only: known values, and every variant of formulas of all
 * kinds against the reference within bounds, on all dtypes, ragged shapes and views, with poisoned outputs between
 * guard bands. A device's test program is: int main(void) { return suite_run(&(suite_options){.device = "host"}); }
 *
 * MD_TEST_SEED picks the random part, MD_TEST_EFFORT (default 1; 0.3: a sample) how much there is of it,
 * MD_TEST_ONLY which tests run. */
#ifndef MD_TESTS_DEVICE_SUITE_H
#define MD_TESTS_DEVICE_SUITE_H

#include "support/tolerance/bound.h"

typedef struct suite_options {
    const char *device; /* as in md_context_options */
    int n_threads; /* that take formulas in turns, each with a context of its own; 0, 1: the caller's thread */
    bound_options bounds;
    double effort; /* part of the formulas that is taken where MD_TEST_EFFORT says nothing; 0: all */
} suite_options;

/** Runs all tests; returns main's value. */
int suite_run(const suite_options *options);

#endif
