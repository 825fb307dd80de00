#include "dispatch/credit.h"

#include "base/status.h"

/* A call is delayed by what so many others take more: those of a GPU that is busy for nine tenths of the time. */
static const double delayed = 9.0;
/* Below this part of its time a call is not felt to be slower. */
static const double felt = 0.02;
static const double unpromising = 0.25;

void md_ds_credit_earn(md_ds_credit *c, double share, double us, int32_t calls)
{
    c->call_us = c->call_us > 0.0 ? c->call_us + (us - c->call_us) * MD_MIN(calls / 256.0, 1.0) : us;
    const double most = MD_MAX(c->call_us, us);
    if (c->us < most)
        c->us = MD_MIN(c->us + share * us * calls, most);
}

/* A call that is felt to be slower counts as one of the calls that may be. */
static double price(const md_ds_credit *c, double more, double own_us)
{
    return more <= felt * own_us ? 0.0 : MD_MAX(more, c->call_us / delayed);
}

bool md_ds_credit_covers(const md_ds_credit *c, double own_us, double ratio)
{
    const double behind = ratio - 1.0, least = MD_MAX(c->call_us, own_us) * MD_MIN(behind / unpromising, 1.0);
    return c->us > 0.0 && c->us >= MD_MAX(price(c, behind * own_us, own_us), least);
}

void md_ds_credit_spend(md_ds_credit *c, double us, double own_us)
{
    const double more = us - own_us;
    c->us -= price(c, more, own_us);
    c->spent_us += MD_MAX(more, 0.0);
}
