/* MD_SELECT_MEASURE: times the variants of a stage at one call's shape, on private copies of the call's data. */
#include "base/clock.h"
#include "base/status.h"
#include "tune/bench/bench.h"
#include "tune/bench/copies.h"
#include "tune/bench/tournament.h"
#include "tune/tune.h"

#include <math.h>
#include <stdlib.h>

/* Before each sample other memory is swept through the cache, and each run of a sample has a set of copies for
 * itself: where tensors are small, sets alone would have to be thousands. Where memory is short nothing is swept, and
 * more sets take turns. */
enum { MAX_SETS = 32, SWEPT_SETS = 16 };
/* Kernels take no less than the model's time over this. */
static const double MODEL_ERROR = 2.0;

typedef struct variant_state {
    const md_bd_variant *variant;
    md_kn_geometries geometry;
} variant_state;

typedef struct measurement {
    md_dev *dev;
    md_tn_copies set[MAX_SETS];
    int32_t n_sets, next; /* set of the next run */
    md_tn_sweep sweep;
    void *memory; /* of the sets and the sweep */
    variant_state *of;
    md_tn_competitor *competitor;
    double *sample; /* of all competitors */
    int32_t n;
    int64_t packed_bytes; /* of each set, behind its workspace: what variants pack once */
    uint64_t deadline_ns;
    int32_t hung; /* the variant that does not end; -1 */
} measurement;

static md_kn_call *next_set(void *user)
{
    measurement *m = user;
    md_kn_call *call = &m->set[m->next].call;
    m->next = (m->next + 1) % m->n_sets;
    return call;
}

/* False if the variant's first run does not end. */
static bool ends(measurement *m, md_tn_runs *runs)
{
    return !m->dev->ops->mark_time || md_tn_run_all(runs) != MD_OK || md_tn_drain(m->dev) != MD_TIMEOUT;
}

static md_tn_outcome sample(double *us, void *user, int32_t i, int32_t repeats, md_tn_step step)
{
    measurement *m = user;
    md_tn_runs runs = {m->dev, m->of[i].variant, &m->of[i].geometry, next_set, m, repeats};
    if (step == MD_TN_FIRST_LOOK && !ends(m, &runs)) {
        m->hung = i;
        return MD_TN_RUN_HANGS;
    }
    return md_tn_sweep_run(&m->sweep) == MD_OK && md_tn_time_runs(us, &runs) == MD_OK ? MD_TN_SAMPLED
                                                                                      : MD_TN_RUN_FAILED;
}

/* The first two variants are looked at in any case: the time of one says nothing. */
static md_tn_permission proceed(void *user, md_tn_moment moment, int32_t i)
{
    const measurement *m = user;
    if (moment == MD_TN_BEFORE_LOOK && i < 2)
        return MD_TN_GO_ON;
    return md_tn_now_ns(m->dev) >= m->deadline_ns ? MD_TN_STOP : MD_TN_GO_ON;
}

static int64_t plan(measurement *m, md_bd_variant *const *variants, const md_kn_call *call)
{
    const int32_t n_samples = md_tn_policy_for(MD_TN_FOR_MEASURE)->samples;
    int64_t workspace_bytes = 0;
    for (int32_t i = 0; i < m->n; i++) {
        variant_state *state = &m->of[i];
        const md_bd_variant *v = variants[i];
        state->variant = v;
        md_fa_geometry_of(&state->geometry, v->family, &v->target, &v->config, call->shape);
        workspace_bytes = MD_MAX(workspace_bytes, state->geometry.workspace_bytes);
        m->packed_bytes = MD_MAX(m->packed_bytes, state->geometry.packed_bytes);
        m->competitor[i] = (md_tn_competitor){.is_in = true, .sample = m->sample + i * n_samples, .room = n_samples};
    }
    return workspace_bytes;
}

/* Sets that the longest sample takes in turn: more would be copied in vain. */
static int32_t most_sets(const measurement *m, const md_kn_call *call, bool is_swept)
{
    const md_bd_variant *v = m->of[0].variant;
    const double us = md_tn_predict_us(&v->target, v->family, &v->config, call->shape->size),
                 runs = us > 0.0 ? ceil(MODEL_ERROR * md_tn_policy_for(MD_TN_FOR_MEASURE)->sample_us / us) : MAX_SETS;
    return is_swept ? (int32_t)fmax(1.0, fmin(runs, SWEPT_SETS)) : MAX_SETS;
}

/* One block for all, since each request may take a GPU some 100 us: fewer sets where memory is short. */
static md_status get_memory(measurement *m, int64_t set_bytes, int64_t *sweep_bytes)
{
    for (;;) {
        const md_status s = m->dev->ops->alloc(&m->memory, m->dev,
                                               (size_t)(m->n_sets * set_bytes + *sweep_bytes + MD_TN_COPIES_ALIGNMENT));
        if (s != MD_OUT_OF_MEMORY || (m->n_sets == 1 && *sweep_bytes == 0))
            return s;
        *sweep_bytes = m->n_sets == 1 ? 0 : *sweep_bytes;
        m->n_sets = MD_MAX(m->n_sets / 2, 1);
    }
}

static md_status make_sets(measurement *m, const md_fa_target *target, const md_kn_call *call, int64_t workspace_bytes)
{
    const int64_t limit = md_tn_copies_limit(m->dev), align = MD_TN_COPIES_ALIGNMENT,
                  own_bytes = (workspace_bytes + align - 1) / align * align,
                  set_bytes =
                      md_tn_copies_bytes(target, call, own_bytes + (m->packed_bytes + align - 1) / align * align);
    if (set_bytes > limit)
        return md_fail(MD_OUT_OF_MEMORY, "measuring would take more than %lld bytes", (long long)limit);
    int64_t sweep_bytes = md_tn_sweep_bytes(m->dev);
    if (sweep_bytes > (limit - set_bytes) / 2)
        sweep_bytes = 0;
    const int32_t wanted = md_tn_cold_sets(m->dev, (double)MD_MAX(set_bytes, 1), most_sets(m, call, sweep_bytes > 0));
    m->n_sets = (int32_t)MD_MAX(MD_MIN(wanted, (limit - sweep_bytes) / MD_MAX(set_bytes, 1)), 1);
    MD_TRY(m->dev->ops->sync(m->dev, call->stream)); /* earlier work may still write what is to be copied */
    MD_TRY(get_memory(m, set_bytes, &sweep_bytes));
    char *at = (char *)(((uintptr_t)m->memory + (uintptr_t)align - 1) / (uintptr_t)align * (uintptr_t)align);
    for (int32_t i = 0; i < m->n_sets; i++, at += set_bytes) {
        MD_TRY(md_tn_copies_make(&m->set[i], m->dev, target, call, at));
        if (m->packed_bytes > 0)
            m->set[i].call.packed = (char *)m->set[i].call.workspace + own_bytes;
    }
    md_tn_sweep_make(&m->sweep, m->dev, sweep_bytes > 0 ? at : NULL);
    return MD_OK;
}

static void trace_times(const measurement *m, const double *us, uint64_t start_ns)
{
    md_trace_arg *args = m->dev->trace ? calloc((size_t)m->n + 1, sizeof *args) : NULL;
    if (!args)
        return;
    for (int32_t i = 0; i < m->n; i++)
        args[i] = (md_trace_arg){.name = m->of[i].variant->name, .number = us[i]};
    md_trace_span(m->dev->trace, "measure", "measure (us)", start_ns, md_clock_ns(), args);
    free(args);
}

static md_status run(double *us, measurement *m)
{
    const md_tn_sampler sampler = {sample, proceed, m};
    md_tn_tournament t = md_tn_tournament_make(MD_TN_FOR_MEASURE, &sampler, m->competitor, m->n);
    if (m->sweep.memory)
        t.policy.most_repeats = m->n_sets;
    const md_tn_ending ending = md_tn_tournament_run(&t);
    for (int32_t i = 0; i < m->n; i++) {
        const double found = ending == MD_TN_HANGS ? 0.0 : md_tn_tournament_result(&t, i).us;
        us[i] = i == m->hung ? MD_TN_HUNG : found > 0.0 ? found : -1.0;
    }
    return ending == MD_TN_HANGS ? MD_TIMEOUT : MD_OK;
}

/* Memory that a hung kernel still uses is not freed. */
static void finish(measurement *m)
{
    if (m->memory && m->hung < 0)
        m->dev->ops->free(m->dev, m->memory);
    free(m->of);
    free(m->competitor);
    free(m->sample);
    free(m);
}

md_status md_tn_measure(double *us, md_bd_variant *const *variants, int32_t n, const md_kn_call *call, double budget_ms)
{
    if (n <= 0)
        return MD_OK;
    const uint64_t start_ns = md_clock_ns();
    measurement *m = calloc(1, sizeof *m);
    if (!m)
        return md_fail_memory();
    m->n = n;
    m->hung = -1;
    m->dev = md_bd_device(variants[0]->builder);
    m->of = calloc((size_t)n, sizeof *m->of);
    m->competitor = calloc((size_t)n, sizeof *m->competitor);
    m->sample = calloc((size_t)(n * md_tn_policy_for(MD_TN_FOR_MEASURE)->samples), sizeof *m->sample);
    md_status status =
        !m->of || !m->competitor || !m->sample ? md_fail_memory()
        : md_tn_is_stuck(m->dev)
            ? md_fail(MD_TIMEOUT, "a kernel that was measured before still runs: nothing more is measured")
            : MD_OK;
    if (status == MD_OK)
        status = make_sets(m, &variants[0]->target, call, plan(m, variants, call));
    if (status == MD_OK) {
        m->deadline_ns = md_tn_now_ns(m->dev) + (uint64_t)(MD_MAX(budget_ms, 0.0) * 1e6);
        status = run(us, m);
        md_tn_take_clock(m->dev);
        trace_times(m, us, start_ns);
    }
    finish(m);
    return status;
}
