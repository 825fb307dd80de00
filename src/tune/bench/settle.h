/* Waiting for measured work that may never end. */
#ifndef MD_TUNE_BENCH_SETTLE_H
#define MD_TUNE_BENCH_SETTLE_H

#include "device/device.h"

/** Waits until all work of the tuning stream is done. TIMEOUT where it is not within md_dev.hang_ms: from then on
 * md_tn_is_stuck. What that work uses must not be freed. Devices that are done when they return need no waiting. */
md_status md_tn_settle(md_dev *dev);
/** Whether the tuning stream has work that does not end: nothing more may be measured or checked there. */
bool md_tn_is_stuck(const md_dev *dev);

#endif
