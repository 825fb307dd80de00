#include "dispatch/online/idle_bench.h"

#include "base/clock.h"
#include "base/dtype.h"
#include "base/status.h"
#include "tune/bench/bench.h"
#include "tune/bench/settle.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A sample takes about SAMPLE_US, so that a call that comes meanwhile is hardly held up. */
enum {
    ALIGNMENT = 256,
    SAMPLE_US = 50,
    MOST_RUNS = 64,
    ROUNDS = MD_DS_CHALLENGER_TIMES / 2,
    PIECE = 1 << 20,
    LOOK_NS = 50000,
    PATIENCE_NS = 100000000,
    MOST_WASTED = 64
};
/* Runs go through memory of so many times the cache, as they meet what they read where other work runs in between. */
static const double cold = 2.5;
/* A part of the free memory that may be taken. */
enum { SHARE = 20 };

struct md_ds_idle_bench {
    md_ds_op *op;
    md_kn_call call; /* of the next run */
    int32_t stage, n;
    int64_t at[MD_KN_MAX_TENSORS], set_bytes, workspace_bytes; /* where tensors lie in a set */
    int64_t n_sets, turn;
    char *memory; /* the sets, then the workspace: the tuning stream's, filled when it was this */
    md_kn_shape shape;
    uint64_t deadline_ns, seen_ns, n_calls;
    int32_t n_wasted; /* times during which somebody called, this time */
    double spent_us;
    struct racer {
        md_ds_challenger times; /* of which only the times are used */
        md_kn_plan_geometry geometry;
        int32_t runs; /* in a sample; 0: was not run */
        bool is_out;
    } racer[];
};

/* ---- Making */

/* From the first to the last element; 0 where it is empty; -1 where it cannot be told. */
static int64_t bytes_of(const md_fx_tensor *x, const md_kn_shape *shape, int32_t t)
{
    int64_t last = 0;
    for (int32_t a = 0; a < x->rank; a++) {
        if (shape->extent[t][a] == 0)
            return 0;
        if (shape->stride[t][a] < 0)
            return -1;
        last += (shape->extent[t][a] - 1) * shape->stride[t][a];
    }
    return (last + 1) * (int64_t)md_dtype_size(x->dtype);
}

/* Where a tensor begins behind a boundary of 64 bytes. That its rows do not lie at one may be why it is not aligned;
 * else its address is. */
static int64_t offset_of(const md_fx_tensor *x, const md_kn_shape *shape, int32_t t)
{
    const int64_t item = (int64_t)md_dtype_size(x->dtype);
    bool at64 = true, at16 = true;
    for (int32_t a = 0; a + 1 < x->rank; a++) {
        at64 &= shape->extent[t][a] <= 1 || shape->stride[t][a] * item % 64 == 0;
        at16 &= shape->extent[t][a] <= 1 || shape->stride[t][a] * item % 16 == 0;
    }
    at16 &= x->rank == 0 || shape->extent[t][x->rank - 1] * item % 16 == 0;
    if (!at64 || shape->aligned >> t & 1)
        return !at16 || at64 || shape->aligned16 >> t & 1 ? 0 : item;
    return shape->aligned16 >> t & 1 ? 16 : item;
}

static md_status lay_out(md_ds_idle_bench *r)
{
    const md_st_program *p = r->op->program;
    const md_st_stage *s = &p->stage[r->stage];
    for (int32_t i = 0; i < s->n_tensors; i++) {
        const int32_t t = s->tensor[i];
        const md_fx_tensor *x = &p->formula->tensor[t];
        const int64_t n_bytes = bytes_of(x, &r->shape, t);
        if (!md_dtype_is_real(x->dtype) || n_bytes < 0)
            return md_fail(MD_UNSUPPORTED, "made-up values could be wrong ones");
        r->at[t] = r->set_bytes + offset_of(x, &r->shape, t);
        r->set_bytes += (n_bytes + 16 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if ((double)r->set_bytes > MD_DS_IDLE_BENCH_BYTES)
            return md_fail(MD_UNSUPPORTED, "too large to be timed beside calls");
    }
    return s->has_scatter || s->has_gather || r->set_bytes == 0
               ? md_fail(MD_UNSUPPORTED, "made-up values could be wrong ones")
               : MD_OK;
}

static void make_call(md_ds_idle_bench *r)
{
    const md_ds_op *op = r->op;
    r->call.shape = &r->shape;
    r->call.report = op->report.kernel;
    r->call.program = op->program;
    r->call.stage = &op->program->stage[r->stage];
    r->call.device = op->runtime->dev;
    r->call.stream = op->runtime->dev->tuning;
    r->call.threads = op->runtime->dev->facts.threads;
    md_tn_data_scalars(r->call.scalar, op->formula);
}

static md_status check_memory(md_ds_idle_bench *r)
{
    md_dev *dev = r->op->runtime->dev;
    const int64_t limit = (dev->ops->free_bytes ? dev->ops->free_bytes(dev) : dev->facts.global_bytes) / SHARE;
    r->n_sets = (int64_t)(cold * (double)dev->facts.l2_bytes) / r->set_bytes + 1;
    if (r->n_sets * r->set_bytes + r->workspace_bytes > limit && limit > 0)
        return md_fail(MD_OUT_OF_MEMORY, "too little memory is free to time beside calls");
    return MD_OK;
}

md_status md_ds_idle_bench_create(md_ds_idle_bench **out, md_ds_op *op, const md_ds_trial *trial)
{
    md_ds_idle_bench *r = calloc(1, sizeof *r + (size_t)trial->n_challengers * sizeof *r->racer);
    if (!r)
        return md_fail_memory();
    r->op = op;
    r->stage = trial->stage;
    r->shape = trial->shape;
    r->n = trial->n_challengers;
    for (int32_t i = 0; i < r->n; i++) {
        r->racer[i].times.variant = trial->challenger[i].variant;
        r->racer[i].geometry = trial->challenger[i].plan->stage[trial->stage].geometry;
        r->workspace_bytes = MD_MAX(r->workspace_bytes, r->racer[i].geometry.workspace_bytes);
    }
    md_status s = lay_out(r);
    if (s == MD_OK)
        s = check_memory(r);
    if (s != MD_OK) {
        free(r);
        return s;
    }
    make_call(r);
    *out = r;
    return MD_OK;
}

void md_ds_idle_bench_destroy(md_ds_idle_bench **idle)
{
    free(*idle);
    *idle = NULL;
}

/* ---- Quiet moments */

/* False where another thread is at the list of ops. */
static bool count_calls(uint64_t *out, md_ds_runtime *runtime)
{
    if (pthread_mutex_trylock(&runtime->lock_of_ops) != 0)
        return false;
    *out = 0;
    for (md_ds_op *op = runtime->ops; op; op = op->next)
        *out += md_ds_calls_of(op);
    pthread_mutex_unlock(&runtime->lock_of_ops);
    return true;
}

static bool has_been_called(md_ds_idle_bench *r)
{
    uint64_t n = 0;
    if (count_calls(&n, r->op->runtime) && n == r->n_calls)
        return false;
    r->n_calls = n;
    r->seen_ns = md_clock_ns();
    return true;
}

static bool is_quiet(md_ds_idle_bench *r, const md_ds_idle_bench_watch *watch)
{
    if (has_been_called(r))
        return false;
    const uint64_t quiet_ns = md_clock_ns() - r->seen_ns;
    return quiet_ns >= watch->quiet_ns && !watch->is_busy(watch->user, quiet_ns);
}

static bool wait_until_quiet(md_ds_idle_bench *r, const md_ds_idle_bench_watch *watch)
{
    while (!is_quiet(r, watch)) {
        if (md_clock_ns() >= r->deadline_ns || atomic_load_explicit(watch->is_ending, memory_order_acquire))
            return false;
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    }
    r->deadline_ns = md_clock_ns() + PATIENCE_NS;
    return !atomic_load_explicit(watch->is_ending, memory_order_acquire) && !md_tn_is_stuck(r->op->runtime->dev);
}

/* ---- Samples */

static md_kn_call *next_set(void *user)
{
    md_ds_idle_bench *r = user;
    const md_st_stage *s = &r->op->program->stage[r->stage];
    char *set = r->memory + r->turn * r->set_bytes;
    for (int32_t i = 0; i < s->n_tensors; i++)
        r->call.data[s->tensor[i]] = set + r->at[s->tensor[i]];
    r->call.workspace = r->memory + r->n_sets * r->set_bytes;
    r->call.counters = NULL;
    r->turn = (r->turn + 1) % r->n_sets;
    return &r->call;
}

/* Reals in [-1, 1), as wide as the narrowest: a wider one that is made of such is a real as well. */
static void write_piece(const md_ds_idle_bench *r, void *piece)
{
    const md_st_stage *s = &r->op->program->stage[r->stage];
    md_dtype narrow = r->op->formula->tensor[s->tensor[0]].dtype;
    for (int32_t i = 1; i < s->n_tensors; i++) {
        const md_dtype other = r->op->formula->tensor[s->tensor[i]].dtype;
        if (md_dtype_size(other) < md_dtype_size(narrow))
            narrow = other;
    }
    for (int64_t i = 0; i < PIECE / (int64_t)md_dtype_size(narrow); i++)
        md_dtype_store(narrow, piece, i, (double)((uint64_t)i * 2654435761u % 1021) / 510.5 - 1.0);
}

/* One piece from here; the rest doubles itself over there. */
static md_status fill(md_ds_idle_bench *r, int64_t n_bytes)
{
    md_dev *dev = r->op->runtime->dev;
    int64_t done = MD_MIN(n_bytes, (int64_t)PIECE);
    void *piece = malloc(PIECE);
    if (!piece)
        return md_fail_memory();
    write_piece(r, piece);
    md_status s = dev->ops->copy_background(dev, dev->tuning, r->memory, piece, (size_t)done);
    for (int64_t n; s == MD_OK && done < n_bytes; done += n) {
        n = MD_MIN(done, n_bytes - done);
        s = dev->ops->copy_background(dev, dev->tuning, r->memory + done, r->memory, (size_t)n);
    }
    free(piece);
    return s;
}

/* The tuning stream's memory, which others may have made longer meanwhile. The lock of tuning is held. */
static md_status get_memory(md_ds_idle_bench *r)
{
    md_dev *dev = r->op->runtime->dev;
    void *p = NULL;
    const int64_t n_bytes = r->n_sets * r->set_bytes;
    MD_TRY(dev->ops->workspace(&p, dev, dev->tuning, (size_t)(n_bytes + r->workspace_bytes + ALIGNMENT)));
    char *memory = (char *)(((uintptr_t)p + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (memory == r->memory)
        return MD_OK;
    r->memory = memory;
    return fill(r, n_bytes);
}

static md_status time_runs(double *us, md_ds_idle_bench *r, struct racer *who, int32_t n)
{
    md_ds_runtime *runtime = r->op->runtime;
    md_tn_runs runs = {
        runtime->dev, r->op->stage[r->stage].variant[who->times.variant], &who->geometry, next_set, r, n};
    pthread_mutex_lock(&runtime->lock_of_tuning);
    md_status s = get_memory(r);
    if (s == MD_OK)
        s = md_tn_time_runs(us, &runs);
    pthread_mutex_unlock(&runtime->lock_of_tuning);
    r->spent_us += s == MD_OK ? *us * n : 0.0;
    return s;
}

/* One that is first run pays for code that is in no cache. False: it is not quiet any more. */
static bool sample(md_ds_idle_bench *r, struct racer *who, const md_ds_idle_bench_watch *watch)
{
    double us = 0.0;
    if (!wait_until_quiet(r, watch))
        return false;
    if (who->runs == 0) {
        md_status s = time_runs(&us, r, who, 1);
        if (s == MD_OK)
            s = time_runs(&us, r, who, 1);
        who->is_out = s != MD_OK || !(us > 0.0);
        who->runs = who->is_out ? 1 : (int32_t)MD_MAX(1.0, MD_MIN(SAMPLE_US / us, MOST_RUNS));
        return true;
    }
    const md_status s = time_runs(&us, r, who, who->runs);
    if (s == MD_OK && has_been_called(r))
        return ++r->n_wasted < MOST_WASTED; /* the time is not only ours, and is taken again */
    who->is_out = s != MD_OK || !md_ds_challenger_add(&who->times, us);
    return true;
}

/* ---- The race */

/* 0: none. */
static double least_of(const md_ds_challenger *x)
{
    double least = x->n > 0 ? x->us[0] : 0.0;
    for (int32_t i = 1; i < MD_MIN(x->n, MD_DS_CHALLENGER_TIMES); i++)
        least = MD_MIN(least, x->us[i]);
    return least;
}

/* Who is behind by more than noise gets no more; whether several are left. By the least times: what else runs on the
 * GPU only adds to them. */
static bool narrow(md_ds_idle_bench *r, double factor)
{
    double best = 0.0;
    int32_t n = 0;
    for (int32_t i = 0; i < r->n; i++) {
        const double us = least_of(&r->racer[i].times);
        if (us > 0.0 && (!(best > 0.0) || us < best))
            best = us;
    }
    for (int32_t i = 0; i < r->n; i++) {
        struct racer *who = &r->racer[i];
        who->is_out |= least_of(&who->times) > factor * best;
        n += !who->is_out;
    }
    return n > 1;
}

/* A B C C B A. Who has its samples of the round already, had them before somebody called. */
static bool run_round(md_ds_idle_bench *r, int32_t round, const md_ds_idle_bench_watch *watch)
{
    for (int32_t k = 0; k < 2 * r->n; k++) {
        struct racer *who = &r->racer[k < r->n ? k : 2 * r->n - 1 - k];
        const int32_t wanted = 2 * round + 1 + (k >= r->n);
        if (!who->is_out && who->runs == 0 && !sample(r, who, watch))
            return false;
        while (!who->is_out && who->times.n < wanted)
            if (!sample(r, who, watch))
                return false;
    }
    return true;
}

static bool run_all(md_ds_idle_bench *r, const md_ds_idle_bench_watch *watch)
{
    static const double factor[ROUNDS] = {1.2, 1.12, 1.06, 1.04, 1.03, 1.02, 1.02};
    for (int32_t round = 0; round < ROUNDS; round++) {
        if (!run_round(r, round, watch))
            return false;
        if (round + 1 < ROUNDS && !narrow(r, factor[round]))
            return true;
    }
    return true;
}

bool md_ds_idle_bench_run(md_ds_idle_bench *r, const md_ds_idle_bench_watch *watch)
{
    md_ds_runtime *runtime = r->op->runtime;
    if (atomic_exchange_explicit(&runtime->is_racing, true, memory_order_acquire))
        return false;
    r->deadline_ns = md_clock_ns() + PATIENCE_NS;
    r->n_calls = 0;
    r->n_wasted = 0;
    r->seen_ns = md_clock_ns();
    const bool is_done = run_all(r, watch);
    atomic_store_explicit(&runtime->is_racing, false, memory_order_release);
    return is_done;
}

double md_ds_idle_bench_us(double *spread, const md_ds_idle_bench *r, int32_t variant)
{
    *spread = 0.0;
    for (int32_t i = 0; i < r->n; i++)
        if (r->racer[i].times.variant == variant)
            return md_ds_challenger_low_median(spread, &r->racer[i].times);
    return 0.0;
}

double md_ds_idle_bench_spent_us(const md_ds_idle_bench *r)
{
    return r->spent_us;
}
