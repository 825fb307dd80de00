/* Chooses a variant by the op's policy: pinned, measured at once, nearest hint, or the model. */
#include "dispatch/select/select.h"

#include "base/status.h"
#include "dispatch/pool/pool.h"
#include "dispatch/space/space.h"
#include "dispatch/numeric/numeric.h"
#include "dispatch/space/points.h"
#include "dispatch/select/stored.h"
#include "tune/bench/bench.h"
#include "tune/tune.h"

#include <math.h>

/* Timing the variants at a shape takes so long: RUNS runs of the fastest, by the model; with what their libraries load,
 * which may take LOADS_MS. Choosing and the call itself come on top: about 10 ms
 * and 20 runs are promised. MOST_ROUNDS: of looking for variants that agree. */
static const double RUNS = 17.0, LEAST_MS = 6.0, MOST_MS = 200.0, LOADS_MS = 4.0;
enum { MOST_ROUNDS = 4 };

/* ---- By distance */

/* True if the variant can serve as the kernel that a hint's list names. */
static bool stands_for_hint(const md_ds_op *op, const md_ds_pool *pool, int32_t variant, const md_ds_query *query)
{
    return md_ds_fits(pool, variant, query) && !md_ds_answers_otherwise(op, pool->target.stage, variant, query);
}

/* The first of a hint's list that can serve; -1: none. */
static int32_t first_fit(const md_ds_op *op, const md_ds_pool *pool, int32_t hint, const md_ds_query *query,
                         int32_t except)
{
    const md_ds_ranks *ranks = md_ds_ranks_of(pool);
    for (int32_t i = 0; i < ranks->n[hint]; i++) {
        int32_t v = ranks->of[hint][i].variant;
        if (v != except && stands_for_hint(op, pool, v, query))
            return v;
    }
    return -1;
}

/* Sizes near a hint that are aligned as the query's, and not too large for the model. True if they are the hint's. */
static bool sizes_at(int64_t sizes[MD_FX_MAX_DIMS], const md_ds_op *op, const md_ds_pool *pool,
                     const md_ds_query *query, const int64_t *hint)
{
    const bool is_hint = md_ds_sizes_at_hint(sizes, &op->space, query->select_sizes, hint);
    md_ds_bring_into_reach(sizes, &pool->target);
    return is_hint;
}

/* The best of a hint's list for sizes that are aligned as the query's. The list is in order for the hint itself. */
static int32_t best_at(md_ds_op *op, const md_ds_pool *pool, int32_t hint, const md_ds_query *query, int32_t except)
{
    const md_ds_ranks *ranks = md_ds_ranks_of(pool);
    int64_t sizes[MD_FX_MAX_DIMS];
    double us[MD_DS_MAX_VARIANTS];
    bool wanted[MD_DS_MAX_VARIANTS] = {false};
    int32_t best = -1, n = 0;
    if (sizes_at(sizes, op, pool, query, op->space.hint[hint]))
        return first_fit(op, pool, hint, query, except);
    for (int32_t i = 0; i < ranks->n[hint]; i++) {
        const int32_t v = ranks->of[hint][i].variant;
        wanted[v] = v != except && stands_for_hint(op, pool, v, query);
        n = MD_MAX(n, v + 1);
    }
    md_ds_model_us(us, op, pool->target.stage, sizes, n, wanted);
    for (int32_t i = 0; i < ranks->n[hint]; i++) { /* of equally fast ones the first in the list */
        const int32_t v = ranks->of[hint][i].variant;
        if (wanted[v] && (best < 0 || us[v] < us[best]))
            best = v;
    }
    return best;
}

/* The nearest hint with a candidate other than `except` that fits, and its best; ties to the earlier hint. */
static int32_t nearest(int32_t *hint, double *distance, md_ds_op *op, const md_ds_pool *pool, const md_ds_query *query,
                       int32_t except)
{
    *hint = -1;
    for (int32_t h = 0; h < op->space.n_hints; h++) {
        double d = md_ds_distance(&op->space, op->policy.metric, query->select_sizes, op->space.hint[h]);
        if ((*hint >= 0 && d >= *distance) || first_fit(op, pool, h, query, except) < 0)
            continue;
        *distance = d;
        *hint = h;
    }
    return *hint < 0 ? -1 : best_at(op, pool, *hint, query, except);
}

static bool choose_nearest(md_ds_pick *out, md_ds_op *op, const md_ds_pool *pool, const md_ds_query *query)
{
    out->variant = nearest(&out->hint, &out->distance, op, pool, query, -1);
    if (out->variant < 0)
        return false;
    int32_t hint;
    double distance;
    out->source = MD_DS_NEAREST;
    out->runner_up = nearest(&hint, &distance, op, pool, query, out->variant);
    out->margin = out->runner_up >= 0 ? distance - out->distance : 0.0;
    return true;
}

/* The nearest of the hints in whose lists the variant is. */
static void set_distance(md_ds_pick *out, const md_ds_op *op, const md_ds_pool *pool, const int64_t *sizes)
{
    out->hint = md_ds_nearest_of(&out->distance, op, md_ds_hints_of(pool, out->variant), sizes);
}

/* The least of the times that are > 0, and the second. */
static bool choose_least(md_ds_pick *out, const double *us, int32_t n, md_ds_source source)
{
    for (int32_t i = 0; i < n; i++) {
        if (!(us[i] > 0.0))
            continue;
        if (out->variant < 0 || us[i] < us[out->variant]) {
            out->runner_up = out->variant;
            out->variant = i;
        } else if (out->runner_up < 0 || us[i] < us[out->runner_up]) {
            out->runner_up = i;
        }
    }
    if (out->variant < 0)
        return false;
    out->source = source;
    out->us = us[out->variant];
    out->margin = out->runner_up >= 0 ? us[out->runner_up] / out->us - 1.0 : 0.0;
    return true;
}

/* ---- By the model */

/* Times at `sizes` of the variants that fit the query, -1 for the others. Without `is_exact`, times other than the two
 * least may be anything above them. Returns how many variants there are. */
static int32_t model_fitting(double *us, md_ds_op *op, int32_t stage, const int64_t *sizes, const md_ds_query *query,
                             bool is_exact)
{
    const md_ds_pool *pool = &op->stage[stage];
    const int32_t n = atomic_load_explicit(&pool->n_variants, memory_order_acquire);
    bool fits[MD_DS_MAX_VARIANTS];
    md_ds_fit_all(fits, pool, n, query);
    (is_exact ? md_ds_model_us : md_ds_predict_fastest)(us, op, stage, sizes, n, fits);
    md_ds_take_answers(us, op, stage, query->shape, sizes, n);
    return n;
}

/* Two threads may lose each other's note. */
static void note_recent(md_ds_pool *pool, int32_t variant)
{
    _Static_assert(MD_DS_MAX_VARIANTS < 256, "a variant's number, plus one, is a byte");
    const uint64_t all = atomic_load_explicit(&pool->recent, memory_order_relaxed);
    bool is_known = pool->variant[variant]->family->library_calls != NULL;
    for (uint64_t left = all; left; left >>= 8)
        is_known |= (int32_t)(left & 0xff) == variant + 1;
    if (!is_known)
        atomic_store_explicit(&pool->recent, all << 8 | (uint64_t)(variant + 1), memory_order_relaxed);
}

static bool choose_model(md_ds_pick *out, md_ds_op *op, int32_t stage, const md_ds_query *query)
{
    md_ds_pool *pool = &op->stage[stage];
    double us[MD_DS_MAX_VARIANTS];
    const int32_t n = model_fitting(us, op, stage, query->select_sizes, query, false);
    if (!choose_least(out, us, n, MD_DS_MODEL))
        return false;
    if (!query->only_recent && pool->n_libraries > 0)
        note_recent(pool, out->variant);
    set_distance(out, op, pool, query->select_sizes);
    return true;
}

/* ---- By measurement */

/* The model's best few that agree with each other, the fastest first. *budget_ms: what timing them may take. */
static int32_t list_racers(int32_t number[MD_DS_RACERS], double *budget_ms, md_ds_op *op, md_ds_pool *pool,
                           const md_ds_query *query)
{
    double us[MD_DS_MAX_VARIANTS], loads_ms = 0.0;
    int32_t m = 0;
    /* again where some gave wrong results: others take their places */
    for (int32_t round = 0, wrong = 1; round < MOST_ROUNDS && wrong > 0; round++) {
        const int32_t n = model_fitting(us, op, pool->target.stage, query->select_sizes, query, true);
        const uint64_t start_ns = md_tn_now_ns(query->call->device);
        m = md_ds_load_racers(number, md_ds_pick_racers(number, pool, us, n), pool, query,
                              fmax(LOADS_MS - loads_ms, 0.0));
        loads_ms += (double)(md_tn_now_ns(query->call->device) - start_ns) * 1e-6;
        md_ds_agree(op, pool->target.stage, number, m, query->shape);
        wrong = 0;
        for (int32_t i = 0; i < m; i++)
            wrong += !md_ds_fits(pool, number[i], query);
    }
    const double ms = m > 0 ? RUNS * us[number[0]] * 1e-3 : 0.0;
    *budget_ms = (ms < LEAST_MS ? LEAST_MS : ms > MOST_MS ? MOST_MS : ms) - fmin(loads_ms, LOADS_MS);
    return m;
}

/* Tells the correction what was measured: later choices that cannot measure use it. */
static void observe_measured(md_ds_pool *pool, const int64_t *sizes, const double us[MD_DS_MAX_VARIANTS])
{
    for (int32_t i = 0; i < MD_DS_MAX_VARIANTS; i++) {
        if (!(us[i] > 0.0))
            continue;
        const double model_us =
            md_tn_predict_us(&pool->target, pool->variant[i]->family, &pool->variant[i]->config, sizes);
        md_ds_observe_at(pool, sizes, &(md_ds_measured){i, MD_TN_CLOCK_MEASURE, us[i], model_us}, true);
    }
}

/* Where one variant was timed only: the next by the corrected model. */
static void add_runner_up(md_ds_pick *out, md_ds_op *op, int32_t stage, const md_ds_query *query)
{
    double us[MD_DS_MAX_VARIANTS];
    md_ds_pick next = {.variant = -1, .runner_up = -1};
    const int32_t n = model_fitting(us, op, stage, query->select_sizes, query, true);
    const double own_us = us[out->variant];
    us[out->variant] = -1.0;
    if (!choose_least(&next, us, n, MD_DS_MODEL))
        return;
    out->runner_up = next.variant;
    out->margin = own_us > 0.0 && next.us > own_us ? next.us / own_us - 1.0 : 0.0;
}

static bool choose_measured(md_ds_pick *out, md_ds_op *op, md_ds_pool *pool, const md_ds_query *query)
{
    md_ds_query ready = *query;
    ready.with_unbuilt = false;
    ready.loads = true;
    md_bd_variant *racer[MD_DS_RACERS];
    int32_t number[MD_DS_RACERS] = {0};
    double time[MD_DS_RACERS], us[MD_DS_MAX_VARIANTS], budget_ms = 0.0;
    const int32_t m = list_racers(number, &budget_ms, op, pool, &ready);
    for (int32_t i = 0; i < MD_DS_MAX_VARIANTS; i++)
        us[i] = -1.0;
    for (int32_t i = 0; i < m; i++) {
        racer[i] = pool->variant[number[i]];
        time[i] = -1.0;
    }
    md_status s = m > 0 ? md_tn_measure(time, racer, m, query->call, budget_ms) : MD_NOT_FOUND;
    for (int32_t i = 0; i < m && s == MD_TIMEOUT; i++)
        if (time[i] == MD_TN_HUNG)
            md_ds_quarantine(op, pool->target.stage, number[i], MD_TN_FAILS);
    if (s != MD_OK)
        return false;
    atomic_fetch_add_explicit(&op->count.measured, (uint64_t)m, memory_order_relaxed);
    for (int32_t i = 0; i < m; i++)
        us[number[i]] = time[i];
    observe_measured(pool, query->select_sizes, us);
    if (!choose_least(out, us, MD_DS_MAX_VARIANTS, MD_DS_MEASURED))
        return false;
    if (out->runner_up < 0)
        add_runner_up(out, op, pool->target.stage, &ready);
    set_distance(out, op, pool, query->select_sizes);
    if (query->key)
        md_ds_stored_put(op, pool->target.stage, *query->key, out, true);
    return true;
}

/* What was measured at this very shape. */
static bool choose_stored(md_ds_pick *out, md_ds_op *op, int32_t stage, const md_ds_query *query)
{
    if (!md_ds_stored_find(out, op, stage, query))
        return false;
    set_distance(out, op, &op->stage[stage], query->select_sizes);
    return true;
}

static md_status choose_pinned(md_ds_pick *out, const md_ds_pool *pool, const md_kn_shape *shape)
{
    const char *why = md_ds_misfit(pool, pool->pinned, shape);
    if (why)
        return md_fail(MD_UNSUPPORTED, "pinned variant '%s' does not fit the shape: %s",
                       pool->variant[pool->pinned]->name, why);
    out->variant = pool->pinned;
    out->source = MD_DS_PINNED;
    return MD_OK;
}

/* The best of the pool at the nearest hint of the grid, which has all variants in its list. Libraries that answer
 * otherwise are left out; the two fastest of the others are exact. */
static bool choose_on_grid(md_ds_pick *out, md_ds_op *op, int32_t stage, const md_ds_query *query)
{
    int64_t hint[MD_DS_MAX_DYNAMIC], sizes[MD_FX_MAX_DIMS];
    double us[MD_DS_MAX_VARIANTS];
    const double distance = md_ds_nearest_on_grid(hint, &op->space, op->policy.metric, query->select_sizes);
    (void)sizes_at(sizes, op, &op->stage[stage], query, hint);
    const int32_t n = model_fitting(us, op, stage, sizes, query, false);
    for (int32_t i = 0; i < n; i++)
        if (us[i] > 0.0 && md_ds_answers_otherwise(op, stage, i, query))
            us[i] = -1.0;
    if (!choose_least(out, us, n, MD_DS_NEAREST_ON_GRID))
        return false;
    out->distance = distance;
    out->us = 0.0; /* that time is of another shape */
    return true;
}

static bool choose_by_distance(md_ds_pick *out, md_ds_op *op, int32_t stage, const md_ds_query *query)
{
    return md_ds_has_grid(op) ? choose_on_grid(out, op, stage, query)
                              : choose_nearest(out, op, &op->stage[stage], query);
}

/* The model's pick serves until ranks agree. */
static void propose_measured(md_ds_op *op, int32_t stage, const md_ds_query *query, const md_ds_pick *measured)
{
    if (query->key && measured->us > 0.0)
        md_ds_propose(op, stage, *query->key, measured->variant, measured->us);
}

static bool choose_by_policy(md_ds_pick *out, md_ds_op *op, int32_t stage, const md_ds_query *query)
{
    md_ds_pool *pool = &op->stage[stage];
    if (choose_stored(out, op, stage, query))
        return true;
    if (op->policy.select == MD_SELECT_MEASURE && query->call && choose_measured(out, op, pool, query)) {
        if (!op->policy.agrees)
            return true;
        propose_measured(op, stage, query, out);
        *out = md_ds_empty_pick(MD_DS_DEFAULT);
    }
    if (op->policy.select == MD_SELECT_DISTANCE && choose_by_distance(out, op, stage, query))
        return true;
    /* by distance, too: variants that were made for other shapes are in no hint's list */
    return choose_model(out, op, stage, query);
}

bool md_ds_has_stored_picks(md_ds_op *op, const md_ds_query *query)
{
    md_ds_query q = *query;
    q.with_unbuilt = q.may_load = true;
    for (int32_t s = 0; s < op->n_stages; s++) {
        const md_ds_pool *pool = &op->stage[s];
        md_ds_pick pick;
        q.numeric_class = pool->numeric ? md_ds_numeric_class(pool->numeric, query->shape) : 0;
        if (pool->pinned < 0 && !md_ds_stored_find(&pick, op, s, &q))
            return false;
    }
    return true;
}

md_status md_ds_select(md_ds_pick *out, md_ds_op *op, int32_t stage, const md_ds_query *query)
{
    md_ds_pool *pool = &op->stage[stage];
    *out = md_ds_empty_pick(MD_DS_DEFAULT);
    if (pool->pinned >= 0)
        return choose_pinned(out, pool, query->shape);
    md_ds_query of_class = *query;
    if (pool->numeric)
        of_class.numeric_class = md_ds_numeric_class(pool->numeric, query->shape);
    return choose_by_policy(out, op, stage, &of_class) ? MD_OK : MD_NOT_FOUND;
}
