/* Measures the contenders of a case with md_bench. A run is one pass over the sets. */
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>

/* What launches nothing (empty tensors) takes no time; md_bench takes no 0 for one. */
static const double NO_TIME_US = 1e-6;
/* With `far`: contenders slower than it get FAR_SAMPLES samples, those that a look finds slower than VERY_FAR none. */
enum { FAR_SAMPLES = 3, VERY_FAR = 3 };

typedef struct job {
    bench_case *c;
    contender *called[BENCH_CONTENDERS]; /* competitor c->n + i: whole calls of called[i] */
    int n_called;
} job;

static md_status pass_kernels(double *us, const bench_case *c, const contender *rival)
{
    if (!rival->op) {
        *us = copier_run(c->copier, c->to, c->from, (size_t)(c->bytes / 2));
        return MD_OK;
    }
    md_status s = sweep_time(us, c->sweep, rival->launch, c->n_sets);
    *us *= c->n_sets;
    return s;
}

static md_status pass_calls(double *us, const bench_case *c, const contender *rival)
{
    double start = cli_now_us();
    for (int k = 0; k < c->n_sets; k++) {
        md_status s = md_call(rival->op, NULL, c->set[k].arg, c->set[k].n);
        if (s != MD_OK)
            return s;
    }
    *us = cli_now_us() - start;
    return MD_OK;
}

static md_status sample(double *us, void *user, int32_t i, int32_t repeats)
{
    const job *j = user;
    double sum = 0.0, one = 0.0;
    for (int32_t k = 0; k < repeats; k++) {
        md_status s =
            i < j->c->n ? pass_kernels(&one, j->c, &j->c->who[i]) : pass_calls(&one, j->c, j->called[i - j->c->n]);
        if (s != MD_OK)
            return s;
        sum += one;
    }
    *us = sum > 0.0 ? sum / repeats : NO_TIME_US;
    return MD_OK;
}

/* Calls of what may be dropped are not timed; on a GPU neither are those of the copy. */
static void list_calls(job *j)
{
    for (int i = 0; i < j->c->n && !j->c->is_brief; i++) {
        contender *rival = &j->c->who[i];
        if (rival->op && !(j->c->sweep->launch && !strcmp(rival->peer, "copy")))
            j->called[j->n_called++] = rival;
    }
}

/* The time of one of the sets, from that of a pass; what got no samples has that of its look. */
static md_status take(timing *to, const md_bench_competitor *from, int n_sets)
{
    to->n = from->n > 0 ? from->n : 1;
    if (from->n == 0)
        to->us[0] = from->look_us;
    for (int k = 0; k < to->n; k++)
        to->us[k] = to->us[k] > NO_TIME_US ? to->us[k] / n_sets : 0.0;
    return from->status;
}

md_status bench_race(bench *b, bench_case *c, double far)
{
    enum { KERNELS = 1, CALLS = 2 };
    job *j = calloc(1, sizeof *j);
    md_bench_competitor *x = calloc(2 * BENCH_CONTENDERS, sizeof *x);
    md_bench_options o = {.samples = b->o->repeat < TIMING_MAX ? b->o->repeat : TIMING_MAX, .budget_ms = b->case_ms};
    if (c->is_brief && c->sweep->launch)
        o.sample_us = 1e-3; /* one pass */
    if (far > 0.0) {
        o.look_factor = VERY_FAR;
        o.cut_samples = FAR_SAMPLES;
        o.cut_factor = far;
    }
    md_status s = j && x ? MD_OK : MD_OUT_OF_MEMORY;
    if (s == MD_OK) {
        j->c = c;
        list_calls(j);
        for (int i = 0; i < c->n; i++)
            x[i] = (md_bench_competitor){.us = c->who[i].kernel.us, .groups = KERNELS};
        for (int i = 0; i < j->n_called; i++)
            x[c->n + i] = (md_bench_competitor){.us = j->called[i]->call.us, .groups = CALLS};
        cli_progress("%s %s: %d contenders", c->name, c->sizes, c->n);
        s = md_bench(x, c->n + j->n_called, &o, sample, j);
    }
    for (int i = 0; i < c->n && s == MD_OK; i++)
        s = take(&c->who[i].kernel, &x[i], c->who[i].op ? c->n_sets : 1);
    for (int i = 0; s == MD_OK && i < j->n_called; i++)
        s = take(&j->called[i]->call, &x[c->n + i], c->n_sets);
    free(x);
    free(j);
    return s;
}
