/* Private copies of the tensors of one call, so that variants are timed on its data without changing it. */
#ifndef MD_TUNE_BENCH_COPIES_H
#define MD_TUNE_BENCH_COPIES_H

#include "build/build.h"

enum { MD_TN_COPIES_ALIGNMENT = 256 };

typedef struct md_tn_copies {
    md_dev *dev;
    md_kn_call call; /* what to launch with: the caller's shape and scalars, private memory */
    md_kn_report report;
} md_tn_copies; /* must not move: `call` points into it */

/** Bytes of one set of copies and of the workspace behind them: a multiple of the alignment if workspace_bytes is. */
int64_t md_tn_copies_bytes(const md_fa_target *target, const md_kn_call *call, int64_t workspace_bytes);
/** Copies the tensors that the stage reads, indices included, to aligned memory of md_tn_copies_bytes, and makes room
 * for those it writes. Offsets from 64-byte boundaries are kept, so that a variant meets the alignment it will have;
 * what has no data yet (temporaries) is zeros. The caller keeps the memory. */
md_status md_tn_copies_make(md_tn_copies *out, md_dev *dev, const md_fa_target *target, const md_kn_call *call,
                            void *memory);
/** Bytes that measuring may take: 5% of the free memory, on the host at most 256 MiB. */
int64_t md_tn_copies_limit(md_dev *dev);

#endif
