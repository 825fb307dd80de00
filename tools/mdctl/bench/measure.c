/* Measures the contenders of a case, interleaved. */
#include "bench/bench.h"

#include <string.h>

enum { DEFAULT_REPEAT = 15, MAX_PASSES = 64, SAMPLE_US = 1000, WARM_UP_US = 50000, VERY_FAR = 3 };

/* One pass over the sets; *us is the mean time of a kernel. */
static md_status pass_kernels(double *us, const bench_case *c, const contender *w)
{
    double sum = 0.0;
    md_status s = c->sweeper ? md_launch_run(c->sweeper, NULL, NULL, 0) : MD_OK;
    if (s == MD_OK)
        s = md_launch_time_all(&sum, (const md_launch *const *)w->launch, c->n_sets, NULL);
    *us = sum / c->n_sets;
    return s;
}

static md_status pass_calls(double *us, const bench_case *c, const contender *w)
{
    double start = cli_now_us();
    for (int k = 0; k < c->n_sets; k++) {
        md_status s = md_call(w->op, NULL, c->set[k].arg, c->set[k].n);
        if (s != MD_OK)
            return s;
    }
    *us = (cli_now_us() - start) / c->n_sets;
    return MD_OK;
}

static md_status pass_copy(double *us, const bench_case *c, const contender *w)
{
    (void)w;
    *us = copier_run(c->copier, c->to, c->from, (size_t)(c->bytes / 2));
    return MD_OK;
}

typedef md_status (*bench_pass)(double *us, const bench_case *c, const contender *w);

/* Repeats short kernels until the sample is long enough for the clock, and for one interruption not to matter. */
static md_status add_sample(timing *to, bench_pass pass, const bench_case *c, const contender *w)
{
    const double least = c->is_brief && c->sweeper ? 0.0 : SAMPLE_US;
    double sum = 0.0, us = 0.0;
    int n = 0;
    do {
        md_status s = pass(&us, c, w);
        if (s != MD_OK)
            return s;
        sum += us;
        n++;
    } while (n < MAX_PASSES && sum * c->n_sets < least);
    timing_add(to, sum / n);
    return MD_OK;
}

static md_status run_once(const bench_case *c, contender *w)
{
    if (!w->op)
        return add_sample(&w->kernel, pass_copy, c, w);
    md_status s = add_sample(&w->kernel, pass_kernels, c, w);
    const bool is_called = !c->is_brief && !(c->sweeper && !strcmp(w->peer, "copy"));
    return s == MD_OK && is_called ? add_sample(&w->call, pass_calls, c, w) : s;
}

/* A first sample warms up. It counts if it is so slow that the warm-up does not matter. */
static md_status screen_one(const bench_case *c, contender *w, double *least)
{
    md_status s = run_once(c, w);
    w->is_far = s == MD_OK && *least > 0.0 && w->kernel.us[0] > VERY_FAR * *least;
    if (s != MD_OK || w->is_far)
        return s;
    w->kernel.n = w->call.n = 0;
    s = run_once(c, w);
    if (s == MD_OK && (*least == 0.0 || w->kernel.us[0] < *least))
        *least = w->kernel.us[0];
    return s;
}

md_status bench_screen(bench_case *c, double far, int samples)
{
    double least = 0.0;
    md_status s = MD_OK;
    for (int i = 0; i < c->n && s == MD_OK; i++)
        s = screen_one(c, &c->who[i], &least);
    for (int i = 0; i < c->n && s == MD_OK; i++) {
        contender *w = &c->who[i];
        if (w->is_far)
            continue;
        w->is_far = w->kernel.us[0] > far * least;
        for (int k = 1; w->is_far && k < samples && s == MD_OK; k++)
            s = run_once(c, w);
    }
    return s;
}

/* One sample of each contender, in alternating order. */
static md_status run_round(bench_case *c, int round)
{
    for (int i = 0; i < c->n; i++) {
        contender *w = &c->who[round % 2 ? i : c->n - 1 - i];
        md_status s = w->is_far ? MD_OK : run_once(c, w);
        if (s != MD_OK)
            return s;
    }
    return MD_OK;
}

/* One round; on a GPU as many as it takes to reach its working temperature. */
static md_status warm_up(bench_case *c)
{
    const double start = cli_now_us();
    md_status s = MD_OK;
    do {
        s = run_round(c, 1);
        for (int i = 0; i < c->n; i++)
            if (!c->who[i].is_far)
                c->who[i].kernel.n = c->who[i].call.n = 0;
    } while (s == MD_OK && c->sweeper && cli_now_us() - start < WARM_UP_US);
    return s;
}

/* Order A B C C B A: a drift of the clock affects all contenders equally. */
md_status bench_race(bench *b, bench_case *c)
{
    int repeat = b->o->repeat ? b->o->repeat : DEFAULT_REPEAT;
    md_status s = warm_up(c);
    for (int r = 0; r < repeat && s == MD_OK; r++) {
        cli_progress("%s %s: run %d of %d, %d contenders", c->name, c->sizes, r + 1, repeat, c->n);
        s = run_round(c, r);
    }
    return s;
}
