/* The clock that measured work ran at. */
#ifndef MD_TUNE_BENCH_CLOCK_H
#define MD_TUNE_BENCH_CLOCK_H

#include "device/device.h"

/* Clocks that differ by more than this part give other times. */
#define MD_TN_SAME_CLOCK 0.1

/** Right after work was measured: keeps its clock in dev->mhz. Says once in the log that the device was throttled, or
 * that its clock moves. Nothing on devices that do not tell. Thread-safe; some 10 us. */
void md_tn_take_clock(md_dev *dev);
/** The clock that was measured at last in MHz; 0: not known. */
int32_t md_tn_clock_mhz(const md_dev *dev);
bool md_tn_is_throttled(const md_dev *dev);
/** False if both clocks are known and differ by too much. */
bool md_tn_is_same_clock(int32_t mhz, int32_t other_mhz);

#endif
