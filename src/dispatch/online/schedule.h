/* Which calls are timed, and which variant serves them. The lock of hybrid is held. */
#ifndef MD_DISPATCH_ONLINE_SCHEDULE_H
#define MD_DISPATCH_ONLINE_SCHEDULE_H

#include "dispatch/online/state.h"

enum {
    MD_DS_NOT_TIMED = -1,
    MD_DS_STALE_TRIAL = -2, /* the trial must be refreshed first */
    MD_DS_ROUND_OVER = -3 /* the challenger must be judged first */
};
/** The challenger that serves the next timed call (0: the incumbent), or one of the above. */
int32_t md_ds_next_challenger(struct md_ds_hybrid *hybrid, md_ds_shape_entry *entry);
/** True if this call may be timed: of a shape without a launch plan every call comes here, of others only samples. */
bool md_ds_is_timing_due(md_ds_trial *trial, const md_ds_shape_entry *entry, bool is_sample);
/** Calls that this one stands for: those that took the fast path since the last slow one. */
int32_t md_ds_calls_since(md_ds_trial *trial, const md_ds_shape_entry *entry);
/** Sets how many calls take the fast path for each slow one; launch plans made from now on have it. */
void md_ds_set_rate(const struct md_ds_hybrid *hybrid, md_ds_trial *trial);

#endif
