/* What trials of MD_SELECT_HYBRID may cost, earned from calls. On a GPU that is busy for a part p of the time, a
 * call that takes longer delays the calls after it by p / (1 - p) as much again. Fewer than 1% of all calls may be
 * delayed, so that the 99th percentile of latencies stays. If callers run ahead of the GPU, no caller waits for a
 * call, and a trial costs throughput only. Not thread-safe. */
#ifndef MD_DISPATCH_HYBRID_BUDGET_H
#define MD_DISPATCH_HYBRID_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

typedef struct md_ds_budget { /* a zeroed one is empty */
    double us; /* time that challengers may take beyond the incumbent's, at present */
    double spent_us; /* time that they took beyond it so far */
    double call_us; /* usual time of a call, of late */
    double load; /* part of the time that the GPU is busy, as seen last; 0: not known, which counts as 0.9 */
    bool is_ahead; /* callers do not wait for the GPU */
    bool is_closed; /* callers wait for each call before they make the next */
    double sum_us, sum_calls; /* of calls that earned; halved at each look */
    int32_t n_seen, n_busy; /* calls since the last look, and those that found work left on their stream */
    bool was_busy; /* the last call found work left */
    uint64_t since_ns, n_calls; /* time and calls of the op at the last look */
} md_ds_budget;

/** Earns a share of the time of `calls` calls that take `us` each, by marks on a stream that was idle or not. The
 * share is meant for a load of 90%, and is larger if fewer calls are delayed. */
void md_ds_budget_earn(md_ds_budget *budget, double share, double us, int32_t calls, bool is_idle);
/** Counts a call that found work left on its stream, or not. True if md_ds_budget_look is due. */
bool md_ds_budget_see(md_ds_budget *budget, bool is_busy, uint64_t now_ns);
/** Computes the load since the last look. n_calls: all calls of the op so far. */
void md_ds_budget_look(md_ds_budget *budget, uint64_t n_calls, uint64_t now_ns);
/** True if the budget covers a challenger that is expected to take `ratio` x the incumbent's own_us. The less
 * promising it is, the more must have been saved: other shapes may have a better one. */
bool md_ds_budget_covers(const md_ds_budget *budget, double own_us, double ratio);
/** Of how many calls of `us` one may take the slow path, which takes slow_us more of the host, so that fewer than 1% of
 * all calls are delayed by it. A power of two. */
int32_t md_ds_budget_every(const md_ds_budget *budget, double us, double slow_us);
/** A challenger took `us`. */
void md_ds_budget_spend(md_ds_budget *budget, double us, double own_us);

#endif
