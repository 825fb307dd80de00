/* Constants that the cost models of all loops over vectors on a CPU share.
 * `tools/fit cycles --runs RUN` judges them by recorded times, of which none are in the tree.
 *
 * Families: all
 * Source: a Xeon with two cores and AVX-512, November 2025 and 2026 (data/results/host.md) */
#ifndef MD_FAMILY_HOST_CYCLES_FIT_H
#define MD_FAMILY_HOST_CYCLES_FIT_H

#include "family/fit.h"

/* Cycles of an element: of an access of a variant that loads and stores one by one, and of an access that is no
 * vector in other variants. */
MD_FIT(STRIDED_CYCLES, 1.5)
MD_FIT(SCATTERED_CYCLES, 1.2)

/* us of a launch with nontemporal stores, which must end before others may read. */
MD_FIT(STREAMING_US, 0.3)

/* What a piece of a row of one cache line costs more than a whole row, where lanes run over columns; pieces of more
 * lines cost less by the square of their number. */
MD_FIT(PIECE_PART, 1.2)

#endif
