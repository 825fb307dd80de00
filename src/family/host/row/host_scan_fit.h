/* Constants of the cost model of scans on a CPU.
 * `tools/fit host_scan --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: scan
 * Source: a Xeon with two cores, November 2026 (data/results/scans.md) */
#ifndef MD_FAMILY_HOST_ROW_HOST_SCAN_FIT_H
#define MD_FAMILY_HOST_ROW_HOST_SCAN_FIT_H

#include "family/fit.h"

/* Cycles: of a vector besides its accesses and operations, and of a vector that is scanned along the axis in steps
 * or across it; of a row. */
MD_FIT(VECTOR_CYCLES, 2)
MD_FIT(STEPS_CYCLES, 18)
MD_FIT(ACROSS_CYCLES, 4)
MD_FIT(ROW_CYCLES, 20)

/* A scan in parts, against one in a whole: its operations and its elementary functions. */
MD_FIT(SPLIT_OPS, 1.3)
MD_FIT(SPLIT_FUNCTIONS, 1.5)

#endif
