/* Rates that are given, and those that were measured before: how sure they are, and those of this process, for further
 * devices. A program may open many, and one measurement takes 80 ms. What a processor can do is of the machine, so this
 * is a global of the process. Entries are written once, without a lock that a fork could leave taken. */
#include "device/host/host.h"

#include "base/env.h"
#include "base/status.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

bool md_dev_host_given_rates(md_dev_host_rates *out)
{
    static const double unit = 1e-3; /* MB/s, MFLOP/s, ns */
    int64_t given[MD_ENV_RATES];
    const bool are_given = md_env_rates(given);
    *out = (md_dev_host_rates){.at = (int64_t)time(NULL)};
    for (int32_t i = 0; i < MD_DEV_HOST_RATES; i++)
        out->rate[i] = (double)given[i] * unit;
    return are_given;
}

static bool are_old(const md_dev_host_rates *rates)
{
    enum { DAY = 24 * 3600, MOST_DAYS = 30 };
    const int64_t age = (int64_t)time(NULL) - rates->at;
    return age > (int64_t)MOST_DAYS * DAY || age < -DAY;
}

int32_t md_dev_host_machine(void)
{
    /* the kernel keeps a little memory for itself, more or less by its version: an eighth of an octave */
    const double pages = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGE_SIZE);
    return (int32_t)sysconf(_SC_NPROCESSORS_CONF) * 1000 + (int32_t)lround(8.0 * log2(fmax(pages, 1.0)));
}

bool md_dev_host_are_possible(const md_dev_host_rates *r)
{
    static const double most = 1e6, longest_us = 1e7;
    bool are_possible = r->spread >= 0 && r->spread <= most;
    for (int32_t i = 0; i < MD_DEV_HOST_RATES; i++)
        are_possible &= r->rate[i] > 0 && r->rate[i] <= most;
    for (int32_t i = 0; i < MD_DEV_LIBRARY_SHAPES; i++)
        are_possible &= r->library_us[i] >= 0 && r->library_us[i] <= longest_us;
    return are_possible;
}

static const double SURE_SPREAD = 0.1; /* half of a rate's step is more than this */

bool md_dev_host_are_sure(const md_dev_host_rates *rates)
{
    return rates->spread <= SURE_SPREAD && !are_old(rates);
}

md_dev_host_rates md_dev_host_join_rates(const md_dev_host_rates *old, const md_dev_host_rates *now)
{
    enum { LAUNCH_US = MD_DEV_HOST_RATES - 1 };
    if (are_old(old) && now->spread <= SURE_SPREAD)
        return *now;
    md_dev_host_rates r = {.spread = fmin(old->spread, now->spread), .at = are_old(old) ? old->at : now->at};
    for (int32_t i = 0; i < LAUNCH_US; i++)
        r.rate[i] = fmax(old->rate[i], now->rate[i]);
    memcpy(r.library_us, now->library_us[0] > 0 ? now->library_us : old->library_us, sizeof r.library_us);
    r.rate[LAUNCH_US] = fmin(old->rate[LAUNCH_US], now->rate[LAUNCH_US]);
    return r;
}

/* ---- of this process ---- */

enum { EMPTY, WRITING, WRITTEN };

typedef struct measured {
    _Atomic int32_t state;
    int32_t threads, vector_bytes;
    bool is_foreign;
    md_dev_host_rates rates;
} measured;

static measured of_process[8];

const md_dev_host_rates *md_dev_host_find_measured(const md_dev_facts *facts, bool is_foreign)
{
    for (int32_t i = 0; i < MD_COUNT(of_process); i++) {
        const measured *m = &of_process[i];
        if (atomic_load_explicit(&m->state, memory_order_acquire) == WRITTEN && m->threads == facts->threads &&
            m->vector_bytes == facts->vector_bytes && m->is_foreign == is_foreign && md_dev_host_are_sure(&m->rates))
            return &m->rates;
    }
    return NULL;
}

void md_dev_host_note_measured(const md_dev_host_rates *rates, const md_dev_facts *facts, bool is_foreign)
{
    for (int32_t i = 0; i < MD_COUNT(of_process) && md_dev_host_are_sure(rates); i++) {
        measured *m = &of_process[i];
        int32_t state = EMPTY;
        if (!atomic_compare_exchange_strong(&m->state, &state, WRITING))
            continue;
        m->threads = facts->threads;
        m->vector_bytes = facts->vector_bytes;
        m->is_foreign = is_foreign;
        m->rates = *rates;
        atomic_store_explicit(&m->state, WRITTEN, memory_order_release);
        return;
    }
}
