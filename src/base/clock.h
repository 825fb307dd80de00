/* The monotonic clock, in nanoseconds. */
#ifndef MD_BASE_CLOCK_H
#define MD_BASE_CLOCK_H
#include <stdint.h>
uint64_t md_clock_ns(void);
#endif
