/* Keeps the clock of measured work, and tells of clocks that make times unsure. */
#include "tune/bench/bench.h"

#include "base/status.h"

#include <stdlib.h>
#include <time.h>

/* A clock that is locked moves by less than this part. */
static const double LOCKED = 0.03;
/* Clocks that differ by more than this part give other times. */
static const double SAME = 0.1;

/* False if the clock was the same, or higher. */
static bool extend(_Atomic int32_t *limit, int32_t mhz, int32_t sign)
{
    int32_t old = atomic_load_explicit(limit, memory_order_relaxed);
    while ((old == 0 || sign * mhz > sign * old) &&
           !atomic_compare_exchange_weak_explicit(limit, &old, mhz, memory_order_relaxed, memory_order_relaxed))
        ;
    return old != 0 && sign * mhz > sign * old;
}

void md_tn_take_clock(md_dev *dev)
{
    md_dev_clock clock;
    if (!dev->ops->clock_rate || dev->ops->clock_rate(&clock, dev) != MD_OK || clock.mhz <= 0)
        return;
    atomic_store_explicit(&dev->mhz, clock.is_throttled ? -clock.mhz : clock.mhz, memory_order_relaxed);
    if (clock.is_throttled)
        md_log_once(dev->log, MD_LOG_THROTTLED, MD_LOG_WARN,
                    "%s was throttled to %d of %d MHz while kernels were measured: their times are kept as estimates",
                    dev->facts.name, clock.mhz, clock.most_mhz);
    const bool is_less = extend(&dev->least_mhz, clock.mhz, -1), is_more = extend(&dev->most_mhz, clock.mhz, 1);
    const int32_t least = atomic_load_explicit(&dev->least_mhz, memory_order_relaxed),
                  most = atomic_load_explicit(&dev->most_mhz, memory_order_relaxed);
    if ((is_less || is_more) && !clock.is_throttled && (double)(most - least) > LOCKED * (double)most)
        md_log_once(dev->log, MD_LOG_UNLOCKED, MD_LOG_INFO,
                    "the clock of %s is not locked: kernels were measured at %d to %d MHz (nvidia-smi -lgc locks it)",
                    dev->facts.name, least, most);
}

/* 0: not known. */
static int32_t clock_mhz(const md_dev *dev)
{
    return abs(atomic_load_explicit(&dev->mhz, memory_order_relaxed));
}

static bool is_throttled(const md_dev *dev)
{
    return atomic_load_explicit(&dev->mhz, memory_order_relaxed) < 0;
}

/* False if both clocks are known and differ by too much. */
static bool is_same_clock(int32_t mhz, int32_t other_mhz)
{
    const int32_t most = MD_MAX(mhz, other_mhz), least = MD_MIN(mhz, other_mhz);
    return least <= 0 || (double)(most - least) <= SAME * (double)most;
}

md_tn_conditions md_tn_conditions_now(const md_tn_stored *stored, const md_dev *dev)
{
    return (md_tn_conditions){.environment = md_tn_stored_environment(stored),
                              .mhz = clock_mhz(dev),
                              .is_throttled = is_throttled(dev),
                              .date = (int64_t)time(NULL)};
}

bool md_tn_is_fact(const md_tn_conditions *at, const md_tn_stored *stored, const md_dev *dev)
{
    return at->environment == md_tn_stored_environment(stored) && !at->is_throttled &&
           is_same_clock(at->mhz, clock_mhz(dev));
}
