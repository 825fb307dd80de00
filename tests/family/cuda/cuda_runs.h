/* Formulas on a GPU with configs of given families, picked by MD_TEST_SEED, against the reference within its bounds. */
#ifndef MD_TESTS_FAMILY_CUDA_RUNS_H
#define MD_TESTS_FAMILY_CUDA_RUNS_H

#include "device/suite_call.h"

#include "base/status.h"

enum { CUDA_RUN_SETS = 4, CUDA_RUN_DIMS = 12 };

typedef struct cuda_run {
    const char *text;
    md_dtype dtype;
    int64_t size[CUDA_RUN_SETS][CUDA_RUN_DIMS]; /* by dim, in order of appearance; 0: chosen; -1: really none */
    const char *variant; /* of the first stage, checked besides from capability 9.0 on; NULL: none */
} cuda_run;

/** What main returns: 77 where there is no GPU, and every variant of the list has a text. MD_TEST_EFFORT: configs of
 * each family and formula (3); MD_TEST_FORMULA: one by number; MD_TEST_FAMILY: one of the families; MD_TEST_VARIANT:
 * this variant of the first stage and no other; `family`: what the names of families begin with. */
int cuda_runs(const cuda_run *list, int n, const char *family);

#endif
