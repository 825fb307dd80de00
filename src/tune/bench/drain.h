/* Waiting for measured kernels that may never end. */
#ifndef MD_TUNE_BENCH_DRAIN_H
#define MD_TUNE_BENCH_DRAIN_H

#include "device/device.h"

/** Waits until all work of the tuning stream is done. TIMEOUT if it is not within md_dev.hang_ms: from then on
 * md_tn_is_stuck, and what that work uses must not be freed. Synchronous devices need no waiting. */
md_status md_tn_drain(md_dev *dev);
/** True if the tuning stream has work that does not end: nothing more may be measured or checked on it. */
bool md_tn_is_stuck(const md_dev *dev);

#endif
