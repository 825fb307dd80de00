/* The measured search: rounds of proposing, building and measuring within a budget. */
#include "tune/search/search.h"

#include "base/status.h"
#include "tune/search/descent.h"
#include "tune/search/internal.h"
#include "tune/tune.h"

#include <math.h>
#include <stdlib.h>

/* With so many points, each gets half of the builds: builds for one are measured at the others, too. */
enum { MANY_POINTS = 4 };
/* The part of the new configs that each round may add. */
static const double share_of_round[] = {0.5, 0.25, 0.25};
enum { N_ROUNDS = sizeof share_of_round / sizeof *share_of_round };
/* Coordinate descent: a round looks at one field, so it makes some sweeps over all of them. */
enum { DESCENT_ROUNDS = 1 + 4 * MD_FA_MAX_FIELDS };
/* Time is shared among at most so many rounds. Most searches end after fewer. */
enum { LIKELY_ROUNDS = 6 };
/* Expected time of a build, before any was seen. */
static const double HOST_BUILD_MS = 80.0, CUDA_BUILD_MS = 250.0;
/* The part of each compile in which NVRTC's threads wait for each other. */
static const double CUDA_TURN_MS = 35.0;
/* The part of the budget in which builds are awaited. */
static const double BUILDING = 0.85;
/* If builds took all of the budget, one look that costs at most this part of it is still taken. */
static const double OVERTIME = 0.05;
/* Expected time to make memory, before any was made. Times of fewer bytes are not taken as a rate. */
static const double NS_A_BYTE = 0.2, LEAST_BYTES = 1 << 20;

/* ---- Rounds */

/* Each family's best is run for checking, the first one on fresh memory. */
static void keep_time_for_the_end(md_tn_work *w, md_tn_tuning_point *tuning_point)
{
    double us = 0.0;
    for (int32_t f = 0; f < w->n_families; f++) {
        const int32_t best = md_tn_best_of_family(w, tuning_point, f);
        us += best >= 0 ? 2.0 * tuning_point->entry[best].first_us : 0.0;
    }
    w->ending_ns -= tuning_point->ending_ns;
    tuning_point->ending_ns = us > 0.0 ? tuning_point->memory_ns + tuning_point->look_ns + (uint64_t)(us * 1e3) : 0;
    w->ending_ns += tuning_point->ending_ns;
}

static double bytes_of(const md_tn_work *w, const md_tn_tuning_point *tuning_point)
{
    double flops = 0.0, bytes = 0.0;
    md_st_work(&flops, &bytes, w->job->target.program, w->job->target.stage, tuning_point->point->size);
    return bytes;
}

/* The cost of a first look at a point: making its memory, touching it, and both again at the end. */
static uint64_t first_look_ns(const md_tn_work *w, const md_tn_tuning_point *tuning_point)
{
    return tuning_point->n_looks > 0 ? 0 : (uint64_t)(4.0 * w->ns_a_byte * bytes_of(w, tuning_point));
}

static md_status race_point(md_tn_work *w, md_tn_tuning_point *tuning_point, int32_t n_left, bool is_last)
{
    const uint64_t now = md_tn_now_ns(w->dev), end = w->deadline_ns - MD_MIN(w->ending_ns, w->deadline_ns);
    w->soft_ns = now + (end > now ? (end - now) / (uint64_t)MD_MAX(n_left, 1) : 0);
    const uint64_t look = first_look_ns(w, tuning_point);
    if (end <= now + look && (w->n_looks > 0 || (double)look > OVERTIME * (double)(w->deadline_ns - w->start_ns))) {
        tuning_point->is_cut = true;
        return MD_OK;
    }
    if (!tuning_point->has_bench && !md_tn_tuning_point_measure(w, tuning_point))
        return MD_OK;
    tuning_point->memory_ns = md_tn_now_ns(w->dev) - now;
    w->ns_a_byte = fmax(w->ns_a_byte, (double)tuning_point->memory_ns / fmax(bytes_of(w, tuning_point), LEAST_BYTES));
    md_tn_await(w, tuning_point);
    if (!md_tn_lock(w)) {
        tuning_point->is_cut = true;
        MD_TN_COUNT(w, busy);
        md_tn_log_point(w, tuning_point, "busy", "another process of this user measures on this device");
        md_tn_tuning_point_rest(tuning_point);
        return MD_OK;
    }
    md_status s = md_tn_compare_new(w, tuning_point);
    if (s == MD_OK && is_last)
        s = md_tn_compare_best(w, tuning_point);
    md_tn_unlock(w);
    keep_time_for_the_end(w, tuning_point);
    return s;
}

static bool descends(const md_tn_work *w)
{
    return w->job->strategy == MD_TUNE_DESCENT && w->job->rigor != MD_TUNE_EXHAUSTIVE;
}

static int32_t builds_of_round(const md_tn_work *w, const md_tn_tuning_point *tuning_point, int32_t round)
{
    /* what is built for one point is measured at the others, too */
    const int32_t usual = w->n_tuning_points < MANY_POINTS ? MD_TN_BUILDS : MD_TN_BUILDS / 2;
    const int32_t most = w->job->max_builds > 0 ? w->job->max_builds : usual;
    double part = descends(w) ? 1.0 : 0.0;
    for (int32_t r = 0; r <= round && !descends(w); r++)
        part += share_of_round[r];
    return w->job->rigor == MD_TUNE_EXHAUSTIVE ? INT32_MAX
                                               : MD_MAX((int32_t)(part * most + 0.5) - tuning_point->n_builds, 0);
}

/* In each round builds are queued for every point, then the points are measured in turn while the rest is built. */
static md_status search(md_tn_work *w)
{
    /* with MD_TUNE_EXHAUSTIVE, too: builds that did not seem to fit into the budget may fit later */
    const int32_t n_rounds = descends(w) ? DESCENT_ROUNDS : N_ROUNDS;
    md_tn_descent descent = {.n = MD_FA_MAX_FIELDS};
    for (w->round = 0; w->round < n_rounds; w->round++) {
        int32_t n_all = 0;
        if (descends(w) && w->round > 0 && (w->step = md_tn_descent_next(&descent)) < 0)
            w->round = n_rounds - 1;
        for (int32_t i = 0; i < w->n_tuning_points; i++) {
            md_tn_tuning_point *tuning_point = &w->tuning_point[i];
            int32_t n_new;
            if (!tuning_point->is_open)
                continue;
            tuning_point->is_cut = false; /* a round that was cut short proposes the rest again */
            MD_TRY(md_tn_propose(&n_new, w, tuning_point, builds_of_round(w, tuning_point, w->round)));
            n_all += n_new;
        }
        md_tn_descent_tell(&descent, n_all > 0);
        if (descends(w) && n_all == 0 && w->round < n_rounds - 1)
            continue;
        if (w->round == 0 && w->job->meanwhile)
            w->job->meanwhile(w->job->meanwhile_user);
        for (int32_t i = 0; i < w->n_tuning_points; i++) {
            const bool is_last = w->round == n_rounds - 1;
            if (!w->tuning_point[i].is_open)
                continue;
            MD_TRY(race_point(w, &w->tuning_point[i],
                              MD_MIN(n_rounds - w->round, LIKELY_ROUNDS) * w->n_tuning_points - i, is_last));
            if (is_last) {
                md_tn_keep_results(w, &w->tuning_point[i]);
                w->ending_ns -= w->tuning_point[i].ending_ns;
                w->tuning_point[i].ending_ns = 0;
            }
            md_tn_tuning_point_rest(&w->tuning_point[i]);
        }
    }
    return MD_OK;
}

/* ---- The job */

static md_status open_work(md_tn_work *w)
{
    const md_tn_job *job = w->job;
    w->dev = md_bd_device(job->builder);
    w->lock = -1;
    w->patterns.indices = job->indices;
    w->patterns.seed = job->seed;
    w->patterns.for_tf32 = job->target.allows_tf32;
    w->start_ns = md_tn_now_ns(w->dev);
    w->deadline_ns = w->start_ns + (uint64_t)((job->budget_ms > 0.0 ? job->budget_ms : MD_TN_BUDGET_MS) * 1e6);
    w->ns_a_byte = NS_A_BYTE;
    w->builds_ns = w->start_ns + (uint64_t)(BUILDING * (double)(w->deadline_ns - w->start_ns));
    const int32_t threads = MD_MAX(md_pool_threads(w->dev->pool), 1);
    w->build_ms =
        w->dev->facts.kind == MD_DEV_CUDA ? fmax(CUDA_BUILD_MS / threads, CUDA_TURN_MS) : HOST_BUILD_MS / threads;
    md_tn_choose_families(w);
    w->tuning_point = calloc((size_t)MD_MAX(job->n_points, 1), sizeof *w->tuning_point);
    if (!w->tuning_point)
        return md_fail_memory();
    for (int32_t i = 0; i < job->n_points; i++) {
        w->tuning_point[i].point = &job->point[i];
        w->n_tuning_points = i + 1;
        MD_TRY(md_tn_tuning_point_open(w, &w->tuning_point[i]));
    }
    return MD_OK;
}

static bool has_work(const md_tn_work *w)
{
    for (int32_t i = 0; i < w->n_tuning_points; i++)
        if (w->tuning_point[i].is_open)
            return true;
    return false;
}

static void close_work(md_tn_work *w)
{
    md_tn_unlock(w);
    for (int32_t i = 0; i < w->n_tuning_points; i++)
        md_tn_tuning_point_close(w, &w->tuning_point[i]);
    md_tn_verify_finish(w);
    for (int32_t i = 0; i < w->n_trials; i++)
        md_bd_variant_destroy(&w->trial[i].variant);
    md_tn_patterns_finish(&w->patterns);
    if (w->job->count)
        atomic_fetch_add(&w->job->count->measured_ns, md_tn_now_ns(w->dev) - w->start_ns);
    free(w->trial);
    free(w->tuning_point);
    free(w);
}

md_status md_tn_tune(const md_tn_job *job)
{
    md_tn_work *w = calloc(1, sizeof *w);
    if (!w)
        return md_fail_memory();
    w->job = job;
    md_status s = open_work(w);
    if (s == MD_OK && has_work(w) && w->n_families > 0) {
        if (w->dev->ops->report_create)
            s = w->dev->ops->report_create(&w->report, w->dev);
        if (s == MD_OK)
            s = md_tn_list_spaces(w);
        if (s == MD_OK)
            s = search(w);
    }
    close_work(w);
    return s;
}
