/* md_bench: the library's benchmark engine for whatever the caller wants to compare. */
#include "base/clock.h"
#include "base/status.h"
#include "tune/bench/tournament.h"

#include <stdlib.h>

typedef struct comparison {
    md_bench_competitor *competitor;
    md_bench_fn sample;
    void *user;
    uint64_t deadline_ns; /* UINT64_MAX: none */
} comparison;

static md_tn_outcome sample(double *us, void *user, int32_t i, int32_t repeats, md_tn_step step)
{
    const comparison *c = user;
    (void)step;
    c->competitor[i].status = c->sample(us, c->user, i, repeats);
    return c->competitor[i].status == MD_OK ? MD_TN_SAMPLED : MD_TN_RUN_FAILED;
}

static md_tn_permission proceed(void *user, md_tn_moment moment, int32_t i)
{
    const comparison *c = user;
    return moment == MD_TN_BEFORE_ROUND && i > 0 && md_clock_ns() >= c->deadline_ns ? MD_TN_STOP : MD_TN_GO_ON;
}

static md_status set_policy(md_tn_policy *p, const md_bench_options *o)
{
    if (o->samples < 0 || o->samples > MD_TN_MOST_SAMPLES)
        return md_fail(MD_INVALID_ARGUMENT, "samples is %d: 0 to %d are possible", (int)o->samples, MD_TN_MOST_SAMPLES);
    if (!(o->sample_us >= 0.0) || !(o->look_factor >= 0.0) || !(o->cut_factor >= 0.0) || o->cut_samples < 0 ||
        !(o->budget_ms >= 0.0))
        return md_fail(MD_INVALID_ARGUMENT, "an option of md_bench is negative");
    if (o->samples > 0)
        p->samples = p->least_samples = o->samples;
    if (o->sample_us > 0.0)
        p->sample_us = o->sample_us;
    if (!(o->warm_up_us == 0.0))
        p->warm_up_us = o->warm_up_us > 0.0 ? o->warm_up_us : 0.0;
    p->look_factor = o->look_factor;
    if (o->cut_samples > 0)
        p->cut[0] = (md_tn_cut){o->cut_samples, o->cut_factor};
    return MD_OK;
}

static md_status start(md_tn_competitor *to, md_bench_competitor *from, int32_t n, int32_t samples)
{
    for (int32_t i = 0; i < n; i++) {
        if (!from[i].us)
            return md_fail(MD_INVALID_ARGUMENT, "competitor %d has no place for its times", (int)i);
        to[i] = (md_tn_competitor){.is_in = true,
                                   .never_drops = from[i].never_drops != 0,
                                   .groups = from[i].groups,
                                   .sample = from[i].us,
                                   .room = samples};
        from[i].n = 0;
        from[i].look_us = 0.0;
        from[i].status = MD_OK;
    }
    return MD_OK;
}

static void finish(md_bench_competitor *to, const md_tn_competitor *from, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        to[i].n = from[i].n;
        to[i].look_us = from[i].look_us;
        if (from[i].has_failed && to[i].status == MD_OK)
            to[i].status = MD_DEVICE; /* a sample gave no time */
    }
}

md_status md_bench(md_bench_competitor *competitor, int32_t n, const md_bench_options *options, md_bench_fn sample_fn,
                   void *user)
{
    const md_bench_options none = {0};
    if (n < 0 || (n > 0 && (!competitor || !sample_fn)))
        return md_fail(MD_INVALID_ARGUMENT, "%s",
                       n < 0         ? "n is negative"
                       : !competitor ? "competitor is NULL"
                                     : "sample is NULL");
    const double budget_ms = options ? options->budget_ms : 0.0;
    comparison c = {competitor, sample_fn, user,
                    budget_ms > 0.0 ? md_clock_ns() + (uint64_t)(budget_ms * 1e6) : UINT64_MAX};
    const md_tn_sampler sampler = {sample, proceed, &c};
    md_tn_competitor *own = calloc((size_t)MD_MAX(n, 1), sizeof *own);
    if (!own)
        return md_fail_memory();
    md_tn_tournament t = md_tn_tournament_make(MD_TN_FOR_BENCH, &sampler, own, n);
    md_status s = set_policy(&t.policy, options ? options : &none);
    if (s == MD_OK)
        s = start(own, competitor, n, t.policy.samples);
    if (s == MD_OK) {
        (void)md_tn_tournament_run(&t);
        finish(competitor, own, n);
    }
    free(own);
    return s;
}
