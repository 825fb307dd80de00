/* Timing single calls. */
#ifndef MD_DISPATCH_ONLINE_TIMED_CALL_H
#define MD_DISPATCH_ONLINE_TIMED_CALL_H

#include "dispatch/online/state.h"

typedef struct md_ds_timed_call {
    md_ds_trial *trial; /* NULL: the call is not timed */
    bool is_stale; /* the trial is to be refreshed after the launch */
    md_ds_plan *plan; /* the challenger's; NULL: the incumbent's */
    md_ds_timing *marks; /* NULL: the host's clock */
    md_ds_timing time; /* whose time it is, where there are no marks */
} md_ds_timed_call;

/** Decides whether and whom this call times, and marks its begin. The lock is held. */
void md_ds_begin_timing(md_ds_timed_call *out, struct md_ds_hybrid *hybrid, md_ds_shape_entry *entry, md_stream stream,
                        bool is_sample);
/** Marks the end, or takes `us` where there are no marks. `status`: of the launch; one that failed has no time. Takes
 * the lock. */
void md_ds_end_timing(const md_ds_timed_call *call, struct md_ds_hybrid *hybrid, md_ds_shape_entry *entry,
                      md_stream stream, double us, md_status status);
/** Takes the times that are there by now. The lock is held. */
void md_ds_poll_timings(struct md_ds_hybrid *hybrid);
/** Creates marks where they are missing; false where the device has none left. */
bool md_ds_timing_has_marks(md_ds_timing *timing, md_dev *dev);

#endif
