/* What trials of MD_SELECT_HYBRID may cost, saved up from calls. Where a GPU is busy for a part p of the time, what a call takes more delays it and p / (1 - p) as much
 * of the calls behind it: at 90%, a share of 0.1% delays fewer than 1% of all calls, so that their 99th percentile stays. No locks. */
#ifndef MD_DISPATCH_CREDIT_H
#define MD_DISPATCH_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct md_ds_credit { /* a zeroed one is empty */
    double us, spent_us; /* what rivals may take more than who serves, now; what they took more in all */
    double call_us; /* a usual call's time, of late */
} md_ds_credit;

/** `calls` calls that take `us` each bring this share of their time, which is saved up to the time of one call. */
void md_ds_credit_earn(md_ds_credit *credit, double share, double us, int32_t calls);
/** Whether enough is there for a rival of whom `ratio` times the time of who serves, own_us, is to be expected. The less promising it is, the more must have been
 * saved up: other shapes may have a better one. */
bool md_ds_credit_covers(const md_ds_credit *credit, double own_us, double ratio);
/** A rival took `us`. */
void md_ds_credit_spend(md_ds_credit *credit, double us, double own_us);

#endif
