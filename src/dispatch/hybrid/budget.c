/* Computes what trials may cost from the load of the GPU and the times of calls. */
#include "dispatch/hybrid/budget.h"

#include "base/status.h"

/* The load that a share is meant for, and that is assumed before any was seen. */
static const double usual_load = 0.9;
/* Callers run ahead if most calls find work left (`ahead`), and the GPU can do no more (`overload`), or the op's own
 * calls do not explain that much load (`above_load`). */
static const double overload = 0.97, ahead = 0.9, above_load = 0.1;
/* us that marks measure besides the kernel: [0] on a busy stream; [1] on an idle one, with the launch. At least
 * `least_part` of a time is taken to be the kernel's. */
static const double overhead_us[] = {1.0, 4.0}, least_part = 0.25;
/* Factors of the share: while callers run ahead, and at most while the GPU is nearly idle. */
static const double share_ahead = 25.0, most_share = 30.0;
/* A call that takes longer by less than this part costs nothing. */
static const double noticeable = 0.02;
/* A challenger that is expected to be slower by this part needs a full budget. */
static const double unpromising = 0.25;
/* The load is looked at after so many calls, but not more often than every LOOK_NS. */
enum { LOOK_CALLS = 16, LOOK_NS = 10000000 };

/* Calls that are not delayed for each one that is: (1 - p) / p at load p. Callers that wait for each call load the GPU
 * fully, too, but there only the call itself is delayed. */
static double spare(const md_ds_budget *budget)
{
    if (budget->is_closed)
        return 1.0;
    const double p = budget->load > 0.0 ? MD_MAX(MD_MIN(budget->load, overload), 0.02) : usual_load;
    return (1.0 - p) / p;
}

static double share_of(const md_ds_budget *budget, double share)
{
    return share *
           (budget->is_ahead ? share_ahead : MD_MIN(spare(budget) * usual_load / (1.0 - usual_load), most_share));
}

/* The most budget that may be saved up: spent at once, it delays `most_delayed` calls. */
static double most_of(const md_ds_budget *budget, double us)
{
    static const double most_delayed = 5.0;
    return MD_MAX(budget->call_us, us) * (budget->is_ahead ? 1.0 : spare(budget) * most_delayed);
}

void md_ds_budget_earn(md_ds_budget *budget, double share, double us, int32_t calls, bool is_idle)
{
    budget->call_us =
        budget->call_us > 0.0 ? budget->call_us + (us - budget->call_us) * MD_MIN(calls / 256.0, 1.0) : us;
    budget->sum_us += MD_MAX(us - overhead_us[is_idle], least_part * us) * calls;
    budget->sum_calls += calls;
    const double most = most_of(budget, us);
    if (budget->us < most)
        budget->us = MD_MIN(budget->us + share_of(budget, share) * us * calls, most);
}

bool md_ds_budget_see(md_ds_budget *budget, bool is_busy, uint64_t now_ns)
{
    budget->n_seen++;
    budget->n_busy += is_busy;
    budget->was_busy = is_busy;
    return budget->since_ns == 0 || (budget->n_seen >= LOOK_CALLS && now_ns - budget->since_ns >= LOOK_NS);
}

void md_ds_budget_look(md_ds_budget *budget, uint64_t n_calls, uint64_t now_ns)
{
    const double us = (double)(now_ns - budget->since_ns) * 1e-3, before = most_of(budget, 1.0);
    if (budget->since_ns && us > 0.0 && budget->n_seen > 0 && budget->sum_calls > 0.0) {
        const double own = (double)(n_calls - budget->n_calls) * budget->sum_us / budget->sum_calls / us,
                     busy = (double)budget->n_busy / budget->n_seen;
        const double load = MD_MIN(MD_MAX(own, busy), 1.0);
        budget->load = budget->load > 0.0 ? 0.5 * (budget->load + load) : load;
        budget->is_closed = own >= overload && budget->load >= overload && busy < 1.0 - ahead;
        budget->is_ahead = busy >= ahead && (own >= overload || busy > own + above_load);
    }
    budget->since_ns = now_ns;
    budget->n_calls = n_calls;
    budget->n_seen = budget->n_busy = 0;
    budget->sum_us *= 0.5;
    budget->sum_calls *= 0.5;
    budget->us *= MD_MIN(most_of(budget, 1.0) / before, 1.0); /* at a higher load, the savings would delay more calls */
}

int32_t md_ds_budget_every(const md_ds_budget *budget, double us, double slow_us)
{
    static const double calls_for_one = 120.0;
    enum { MOST = 4096 };
    const double call_us = MD_MAX(budget->call_us, us),
                 delayed = call_us > 0.0 && !budget->is_closed ? slow_us / (call_us * spare(budget)) : 1.0;
    int32_t every = 1;
    while (slow_us > noticeable * call_us && every < MOST && every < calls_for_one * MD_MAX(delayed, 1.0))
        every *= 2;
    return every;
}

/* A call that is noticeably slower costs at least one of the calls that may be delayed. */
static double price(const md_ds_budget *budget, double more, double own_us)
{
    return more <= noticeable * own_us ? 0.0 : budget->is_ahead ? more : MD_MAX(more, budget->call_us * spare(budget));
}

bool md_ds_budget_covers(const md_ds_budget *budget, double own_us, double ratio)
{
    const double behind = ratio - 1.0, least = most_of(budget, own_us) * MD_MIN(behind / unpromising, 1.0);
    return budget->us > 0.0 &&
           budget->us >= MD_MIN(MD_MAX(price(budget, behind * own_us, own_us), least), most_of(budget, own_us));
}

void md_ds_budget_spend(md_ds_budget *budget, double us, double own_us)
{
    const double more = us - own_us;
    budget->us -= price(budget, more, own_us);
    budget->spent_us += MD_MAX(more, 0.0);
}
