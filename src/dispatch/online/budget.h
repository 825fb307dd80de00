/* What trials of MD_SELECT_HYBRID may cost, saved up from calls. Where a GPU is busy for a part p of the time, what
 * a call takes more delays it and p / (1 - p) as much of the calls behind it, and for the 99th percentile of
 * latencies to stay, fewer than 1% of all calls may be delayed. Where callers run ahead of the GPU nobody waits for
 * a call, and what trials cost is a part of the throughput. No locks. */
#ifndef MD_DISPATCH_ONLINE_BUDGET_H
#define MD_DISPATCH_ONLINE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

typedef struct md_ds_budget { /* a zeroed one is empty */
    double us, spent_us; /* what rivals may take more than who serves, now; what they took more in all */
    double call_us; /* a usual call's time, of late */
    double load; /* part of the time that the GPU is busy, as seen last; 0: not known, which counts as 0.9 */
    bool is_ahead, is_closed; /* callers do not wait for the GPU; wait for each call before they make the next */
    double sum_us, sum_calls; /* of calls that brought something; half of what was before the last look counts */
    /* calls that were looked at since the last look; those that found work left on their stream */
    int32_t n_seen, n_busy;
    bool was_busy; /* the last one did */
    uint64_t since_ns, n_calls;
} md_ds_budget;

/** `calls` calls that take `us` each (by marks; the stream was idle or not) bring a share of their time, which is
 * saved up: this share at a load of 90%, more where fewer calls are delayed. */
void md_ds_budget_earn(md_ds_budget *budget, double share, double us, int32_t calls, bool is_idle);
/** One that was looked at found work left on its stream, or not. True now and then: md_ds_budget_look is due. */
bool md_ds_budget_see(md_ds_budget *budget, bool is_busy, uint64_t now_ns);
/** The load since the last look, by how many calls the op had in all. */
void md_ds_budget_look(md_ds_budget *budget, uint64_t n_calls, uint64_t now_ns);
/** Whether enough is there for a rival of whom `ratio` times the time of who serves, own_us, is to be expected. The
 * less promising it is, the more must have been saved up: other shapes may have a better one. */
bool md_ds_budget_covers(const md_ds_budget *budget, double own_us, double ratio);
/** A rival took `us`. */
void md_ds_budget_spend(md_ds_budget *budget, double us, double own_us);

#endif
