/* Constants of what row_thread costs against a group of threads, us.
 * `tools/fit row_thread` judges them by recorded times, and fits them.
 *
 * Families: row_thread
 * Runs: data/results/2026-11-27-h100.tar.xz data/results/2026-11-27-h200.tar.xz
 * Fit: 29 November 2026, H100 and H200: 19.9% root mean square of log(model / recorded), picks lose 2.4%, 671 times. */
#ifndef MD_FAMILY_CUDA_ROW_ROW_THREAD_FIT_H
#define MD_FAMILY_CUDA_ROW_ROW_THREAD_FIT_H

#include "family/fit.h"

/* Each further vector of a row takes longer, since a load touches as many more lines. */
MD_FIT(EACH_MORE_VECTOR, 0.2)

/* us that a thread for each row takes less, with aligned rows and with shifted ones: it neither shares its row nor
 * shifts vectors. Weights, which a group loads together, cost about as much as that saves. */
MD_FIT(ALONE_ALIGNED, 0.16)
MD_FIT(ALONE_SHIFTED, 0.51)
MD_FIT(WEIGHTS_SHIFTED, 0.17)

/* With MANY_ROWS rows of FEW_BYTES groups leave most threads idle, and need several times as many blocks: there they
 * take this much longer (20 pairs of kernels). */
MD_FIT(MANY_SHIFTED, 0.6)
MD_FIT(MANY_ROWS, 2500)
MD_FIT(FEW_BYTES, 24)

/* Sums down columns, whose elements lie apart, by variants that could load vectors (28 kernels). */
MD_FIT(ONE_BY_ONE, 0.35)

/* To begin a block (2 pairs of kernels); a row that is longer than its whole vectors (3 pairs); a 16-bit element of
 * a column (2 kernels). */
MD_FIT(BLOCK, 0.0004)
MD_FIT(END, 1e-5)

/* us of a 16-bit element beyond the whole vectors of a longer row: stores of single elements (softmax and rms_norm of
 * 97,000 rows of 10 and 14 elements took 1.4 and 3.1 times as long as modelled). */
MD_FIT(SHORT_END, 1.6e-5)
MD_FIT(EACH_ELEMENT, 0.03)

#endif
