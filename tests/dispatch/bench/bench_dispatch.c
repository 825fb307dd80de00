/* What a warm call costs over the launch of the same kernel, in ns: JSON lines. Not a test.
 *
 * "stubbed": the device's launch is replaced by a function that returns at once, so that selection alone is left;
 * else the kernel runs, on a few elements, on the device that the first argument names (host). Batches of raw
 * launches and of calls alternate; the figure is the median of their paired differences. */
#include "api/context.h"
#include "base/sort.h"
#include "base/clock.h"
#include "dispatch/call/call.h"
#include "dispatch/support/stub.h"
#include "support/or_exit.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 200, ROUNDS = 401, MANY = 10000, THREADS = 8 };

typedef struct raw {
    md_dev *dev;
    const md_dev_kernel *kernel;
    md_kn_geometry geometry;
    md_kn_word params[MD_KN_MAX_PARAMS];
    int32_t n;
} raw;

typedef struct data {
    float *memory;
    md_tensor tensor[4];
    md_arg arg[4];
    int n;
} data;

static void make_data(data *d, md_op *op, const char *sizes)
{
    void *p = NULL;
    d->n = md_op_n_args(op);
    CHECK(md_alloc(&p, op->context, 1 << 18));
    d->memory = p;
    for (int i = 0; i < d->n; i++) {
        CHECK(md_op_tensor(&d->tensor[i], op, i, sizes));
        d->tensor[i].data = d->memory + (size_t)i * (1 << 14);
        d->arg[i] = md_t(&d->tensor[i]);
    }
}

static void make_raw(raw *r, md_op *op, data *d)
{
    md_ds_bound bound;
    md_ds_shape_entry *entry = NULL;
    md_kn_call call;
    CHECK(md_ds_bind(&bound, op->ds, d->arg, d->n));
    CHECK(md_ds_find(&entry, op->ds, NULL, &bound));
    md_bd_variant *v = op->ds->stage[0].variant[md_ds_plan_of(entry)->stage[0].pick.variant];
    md_ds_fill_call(&call, op->ds, &bound);
    r->dev = op->context->dev;
    r->kernel = v->kernel[0];
    r->geometry = md_ds_plan_of(entry)->stage[0].geometry.launch[0];
    r->n = v->n_params[0];
    call.blocks = r->geometry.blocks;
    md_kn_pack(r->params, v->param[0], r->n, &call);
    md_ds_shape_entry_release(entry);
}

/* Shape k of "Y[i,j] = X[i,j] * 2 + B[j]". */
static void set_shape(data *d, int k)
{
    int64_t i = 1 + k % 100, j = 1 + k / 100;
    d->tensor[0].size[0] = d->tensor[1].size[0] = i;
    d->tensor[0].size[1] = d->tensor[1].size[1] = d->tensor[2].size[0] = j;
    d->tensor[0].stride[0] = d->tensor[1].stride[0] = j;
}

static double run_raw(const raw *r)
{
    uint64_t start = md_clock_ns();
    for (int i = 0; i < BATCH; i++)
        (void)r->dev->ops->launch(r->dev, NULL, r->kernel, &r->geometry, (md_dev_params){r->params, r->n}, NULL);
    return (double)(md_clock_ns() - start) / BATCH;
}

/* Any of n shapes of one set of tensors: what the caller does is a few stores. */
static double run_shapes(md_op *op, data *d, int n, uint32_t *seed)
{
    uint32_t s = *seed;
    uint64_t start = md_clock_ns();
    for (int i = 0; i < BATCH; i++) {
        s = s * 1664525u + 1013904223u;
        int k = (int)((uint64_t)s * (uint64_t)n >> 32);
        set_shape(d, k);
        (void)md_call(op, NULL, d->arg, d->n);
    }
    *seed = s;
    return (double)(md_clock_ns() - start) / BATCH;
}

static double run_calls(md_op *const *op, data *const *d, int n, uint32_t *seed)
{
    uint32_t s = *seed;
    uint64_t start = md_clock_ns();
    for (int i = 0; i < BATCH; i++) {
        s = s * 1664525u + 1013904223u;
        int k = n == 1 ? 0 : (int)((uint64_t)s * (uint64_t)n >> 32);
        (void)md_call(op[k], NULL, d[k]->arg, d[k]->n);
    }
    *seed = s;
    return (double)(md_clock_ns() - start) / BATCH;
}

typedef struct bench_case {
    const char *name, *launch;
    md_op *const *op;
    data *const *d; /* one per op; NULL: n shapes of `one` */
    data *one;
    int n;
} bench_case;

static void report(const raw *r, const bench_case *c)
{
    md_op *const *op = c->op;
    data *const *d = c->d;
    data *one = c->one;
    const int n = c->n;
    static double difference[ROUNDS], plain[ROUNDS];
    uint32_t seed = 1;
    for (int i = 0; i < 6; i++) /* until every shape has a launch plan, and an entry in the thread cache */
        for (int k = 0; k < n; k++) {
            if (!d)
                set_shape(one, k);
            CHECK(d ? md_call(op[k], NULL, d[k]->arg, d[k]->n) : md_call(op[0], NULL, one->arg, one->n));
        }
    uint64_t calls = op[0]->ds->count.calls;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(md_sync(op[0]->context, NULL)); /* a queue that is full makes callers wait */
        plain[i] = run_raw(r);
        CHECK(md_sync(op[0]->context, NULL));
        difference[i] = (d ? run_calls(op, d, n, &seed) : run_shapes(op[0], one, n, &seed)) - plain[i];
    }
    calls = op[0]->ds->count.calls - calls;
    md_sort_doubles(difference, ROUNDS);
    md_sort_doubles(plain, ROUNDS);
    printf("{\"case\": \"%s\", \"launch\": \"%s\", \"over_ns\": %.1f, \"lo\": %.1f, \"hi\": %.1f, \"raw_ns\": %.1f, "
           "\"shapes\": %d, \"long_way\": %.4f}\n",
           c->name, c->launch, difference[ROUNDS / 2], difference[ROUNDS / 10], difference[ROUNDS * 9 / 10],
           plain[ROUNDS / 2], n, (double)calls / ((double)BATCH * ROUNDS));
    fflush(stdout);
}

/* ---- Threads */

typedef struct worker {
    int number;
    md_op *op;
    data d;
    int64_t n;
    uint64_t sum;
} worker;

/* To a core of its own among those that the process may use. */
static void pin(int number)
{
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && number-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            (void)sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

static void *work(void *user)
{
    worker *w = user;
    pin(w->number);
    for (int64_t i = 0; i < w->n; i++)
        (void)md_call(w->op, NULL, w->d.arg, w->d.n);
    return NULL;
}

/* Arithmetic that needs nothing but its core: what the machine itself gives to so many threads. */
static void *spin(void *user)
{
    worker *w = user;
    pin(w->number);
    uint64_t a = 1, b = 2, c = 3, d = 4;
    for (int64_t i = 0; i < w->n * 8; i++) {
        a = a * 6364136223846793005u + 1;
        b = b * 6364136223846793005u + a;
        c = (c ^ c >> 7) + b;
        d = (d ^ d << 9) + c;
    }
    w->sum = a ^ b ^ c ^ d;
    return NULL;
}

static double rate(md_op *op, int threads, void *(*work_of)(void *user))
{
    enum { CALLS = 4000000 };
    worker w[THREADS];
    pthread_t t[THREADS];
    for (int i = 0; i < threads; i++) {
        w[i] = (worker){.number = i, .op = op, .n = CALLS};
        make_data(&w[i].d, op, "i=4, j=64");
    }
    uint64_t start = md_clock_ns();
    for (int i = 0; i < threads; i++)
        pthread_create(&t[i], NULL, work_of, &w[i]);
    for (int i = 0; i < threads; i++)
        pthread_join(t[i], NULL);
    double seconds = (double)(md_clock_ns() - start) * 1e-9;
    for (int i = 0; i < threads; i++)
        md_free(op->context, w[i].d.memory);
    return threads * (double)CALLS / seconds;
}

int main(int argc, char **argv)
{
    const char *device = argc > 1 ? argv[1] : "host";
    static const char *const formula[8] = {"Y[i,j] = X[i,j] * 2 + B[j]",      "Y[i,j] = X[i,j] + B[j]",
                                           "Y[i,j] = X[i,j] - B[j]",          "Y[i,j] = X[i,j] * B[j]",
                                           "Y[i,j] = max(X[i,j], B[j])",      "Y[i,j] = abs(X[i,j])",
                                           "Y[i,j] = X[i,j] * X[i,j] + B[j]", "Y[i,j] = sum[k](X[i,k]) + X[i,j]"};
    static md_op *op[8], *all_op[512];
    static data set[512], *all[512];
    md_context *c = NULL;
    CHECK(md_context_create(&c, &(md_context_options){.device = device, .threads = 1, .hints = "64"}));
    for (int i = 0; i < 8; i++)
        CHECK(md_op_create(&op[i], c, formula[i], &(md_op_options){.max_variants = 2}));
    for (int k = 0; k < 512; k++) {
        char sizes[64];
        snprintf(sizes, sizeof sizes, "i=%d, j=%d", 1 + k / 8 % 8, 16 + k / 64);
        all_op[k] = op[k % 8];
        all[k] = &set[k];
        make_data(all[k], all_op[k], sizes);
    }
    data first;
    raw r;
    make_data(&first, op[0], "i=4, j=64");
    make_raw(&r, op[0], &first);
    report(&r, &(bench_case){"one shape", device, op, &(data *){&first}, NULL, 1});
    report(&r, &(bench_case){"8 ops x 64 shapes", device, all_op, all, NULL, 512});
    stub stubbed;
    stub_make(&stubbed, c->dev);
    stub_set(&stubbed, c->dev, true);
    report(&r, &(bench_case){"one shape", "stubbed", op, &(data *){&first}, NULL, 1});
    report(&r, &(bench_case){"8 ops x 64 shapes", "stubbed", all_op, all, NULL, 512});
    report(&r, &(bench_case){"10000 shapes", "stubbed", op, NULL, &first, MANY});
    cpu_set_t cpus;
    const int threads =
        sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) < THREADS ? CPU_COUNT(&cpus) : THREADS;
    for (int round = 0; round < 3; round++) { /* clocks of cores change */
        const double plain = rate(op[0], threads, spin) / rate(op[0], 1, spin), alone = rate(op[0], 1, work),
                     together = rate(op[0], threads, work);
        printf("{\"case\": \"%d threads\", \"launch\": \"stubbed\", \"calls_per_s\": %.0f, \"alone\": %.0f, \"times\": "
               "%.2f, \"times_of_arithmetic\": %.2f}\n",
               threads, together, alone, together / alone, plain);
    }
    stub_set(&stubbed, c->dev, false);
    for (int k = 0; k < 512; k++)
        md_free(c, set[k].memory);
    md_free(c, first.memory);
    for (int i = 0; i < 8; i++)
        md_op_destroy(&op[i]);
    md_context_destroy(&c);
    return 0;
}
