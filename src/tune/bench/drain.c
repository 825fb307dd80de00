/* Waiting for the tuning stream, with a limit. */
#include "tune/bench/bench.h"

#include "base/clock.h"
#include "base/status.h"

#include <time.h>

enum { DEFAULT_HANG_MS = 10000, STEP_NS = 50000 };

bool md_tn_is_stuck(const md_dev *dev)
{
    return atomic_load_explicit(&dev->is_stuck, memory_order_relaxed);
}

static md_status wait_for(md_dev *dev, md_dev_mark *mark)
{
    const int32_t limit_ms = dev->hang_ms > 0 ? dev->hang_ms : DEFAULT_HANG_MS;
    const uint64_t deadline = md_clock_ns() + (uint64_t)limit_ms * 1000000;
    double us = -1.0;
    MD_TRY(dev->ops->mark_put(dev, mark, dev->tuning));
    for (;;) {
        MD_TRY(dev->ops->mark_time(&us, dev, mark, mark));
        if (!(us < 0.0))
            return MD_OK;
        if (md_clock_ns() >= deadline)
            break;
        nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    }
    atomic_store_explicit(&dev->is_stuck, true, memory_order_relaxed);
    return md_fail(MD_TIMEOUT,
                   "a kernel that was measured did not end within %d ms: nothing more is measured in this process",
                   limit_ms);
}

md_status md_tn_drain(md_dev *dev)
{
    md_dev_mark *mark = NULL;
    if (!dev->ops->mark_time)
        return MD_OK;
    MD_TRY(dev->ops->mark_create(&mark, dev));
    md_status s = wait_for(dev, mark);
    if (s != MD_TIMEOUT)
        dev->ops->mark_destroy(dev, mark);
    return s;
}
