/* What MD_SELECT_HYBRID, or the default with its races, costs callers that wait: bench_hybrid SIZE LOAD CALLS RUNS
 * [SHARE [MODE]], MODE hybrid or default. JSON lines. Not a test.
 *
 * Requests arrive evenly, every (mean kernel time / LOAD); each is one md_call of softmax at one of eight shapes in
 * turn: SIZE large (60 to 270 MB, 120 us on an H200) or middle (80 MB, 20 us). A request's latency is the GPU's time
 * at its end less the time when it should have arrived; both clocks are read together before and after a run. The
 * first 200 calls, in which shapes are new and get their plans, count in no percentile. Runs alternate (off on on
 * off ...), each on an op of its own, so that with hybrid on every run has all its trials. */
#include "md_build_config.h"

#include <stdio.h>
#if MD_HAVE_CUDA
#include "api/context.h"
#include "base/sort.h"
#include "base/clock.h"
#include "device/cuda/internal.h"
#include "support/or_exit.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { SHAPES = 8, MOST_RUNS = 64, WARM_UP = 64, SATURATED = 400, FIRST = 200 };

#define CUDA(call)                                                                                                     \
    do {                                                                                                               \
        if ((call) != cudaSuccess) {                                                                                   \
            fprintf(stderr, "%s fails\n", #call);                                                                      \
            exit(2);                                                                                                   \
        }                                                                                                              \
    } while (0)

static const char *const shapes[2][SHAPES] = {
    {"i=8192, j=8192", "i=16384, j=3000", "i=4096, j=16384", "i=65536, j=1000", "i=6000, j=10000", "i=100000, j=600",
     "i=1500, j=30000", "i=24000, j=2500"},
    {"i=4096, j=2560", "i=10000, j=1000", "i=1000, j=10000", "i=40000, j=250", "i=500, j=20000", "i=2600, j=4000",
     "i=16000, j=640", "i=100, j=100000"}};

static md_context *context;
static cudaStream_t stream;
static md_tensor tensor[SHAPES][2];
static md_arg arg[SHAPES][2];
static cudaEvent_t *event, first, last;
static md_op *plain;
static double share; /* 0: the default */

static md_op *make_op(md_select select)
{
    static int count; /* equal ops would share their trials */
    char name[32];
    md_op *op = NULL;
    snprintf(name, sizeof name, "op%d", count++);
    const md_op_options o = {.name = name, .select = select, .hybrid_share = share};
    CHECK(md_op_create(&op, context, "softmax", &o));
    CHECK(md_op_wait(op));
    return op;
}

static void make_tensors(md_op *op, const char *const *list)
{
    for (int k = 0; k < SHAPES; k++)
        for (int i = 0; i < 2; i++) {
            CHECK(md_op_tensor(&tensor[k][i], op, i, list[k]));
            CHECK(md_alloc(&tensor[k][i].data, context,
                           (size_t)(tensor[k][i].size[0] * tensor[k][i].size[1]) * sizeof(float)));
            arg[k][i] = md_t(&tensor[k][i]);
        }
}

static void call_nth(md_op *op, long i)
{
    CHECK(md_call(op, stream, arg[i % SHAPES], 2));
}

static double elapsed_us(cudaEvent_t from, cudaEvent_t to)
{
    float ms = 0.0f;
    CUDA(cudaEventElapsedTime(&ms, from, to));
    return (double)ms * 1e3;
}

static double mean_us(md_op *op)
{
    for (int i = 0; i < WARM_UP; i++)
        call_nth(op, i);
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaEventRecord(first, stream));
    for (int i = 0; i < SATURATED; i++) {
        call_nth(op, i);
        CUDA(cudaEventRecord(event[i], stream)); /* as in the runs */
    }
    CUDA(cudaEventRecord(last, stream));
    CUDA(cudaStreamSynchronize(stream));
    return elapsed_us(first, last) / SATURATED;
}

/* The idle stream's time and the host's. */
static uint64_t mark(cudaEvent_t at)
{
    CUDA(cudaStreamSynchronize(stream));
    const uint64_t now = md_clock_ns();
    CUDA(cudaEventRecord(at, stream));
    CUDA(cudaStreamSynchronize(stream));
    return now;
}

/* Latencies in us, and what calls took of the host; returns the longest of those. */
static double run(double *latency, double *host, long *longest_at, md_op *op, long n, double period_us)
{
    double longest = 0.0;
    CUDA(cudaStreamSynchronize(stream));
    for (int i = 0; i < WARM_UP; i++)
        call_nth(plain, i); /* the GPU is awake in all runs */
    const uint64_t start = mark(first), begin = md_clock_ns();
    for (long i = 0; i < n; i++) {
        const uint64_t due = begin + (uint64_t)((double)i * period_us * 1e3);
        uint64_t now;
        while ((now = md_clock_ns()) < due)
            ;
        call_nth(op, i);
        const double spent = (double)(md_clock_ns() - now) / 1e3;
        *longest_at = spent > longest ? i : *longest_at;
        longest = spent > longest ? spent : longest;
        host[i] = spent;
        CUDA(cudaEventRecord(event[i], stream));
    }
    const double host_us = (double)(mark(last) - start) / 1e3, scale = host_us / elapsed_us(first, last);
    for (long i = 0; i < n; i++)
        latency[i < FIRST ? 0 : i - FIRST] =
            elapsed_us(first, event[i]) * scale - (double)(begin - start) / 1e3 - (double)i * period_us;
    return longest;
}

static double at(const double *sorted, long n, double part)
{
    const long i = (long)(part * (double)n);
    return sorted[i < n ? i : n - 1];
}

static double median(double *x, int n)
{
    md_sort_doubles(x, (size_t)n);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2.0;
}

/* The threads of the context were made before and go where they like. */
static void stay_here(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(sched_getcpu(), &set);
    (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

int main(int argc, char **argv)
{
    const bool is_middle = argc > 1 && !strcmp(argv[1], "middle");
    const double load = argc > 2 ? atof(argv[2]) : 0.9;
    const long n = argc > 3 && atol(argv[3]) > 2 * FIRST ? atol(argv[3]) : 8000;
    const int runs = argc > 4 ? atoi(argv[4]) : 4;
    share = argc > 5 ? atof(argv[5]) : 0.0;
    const md_select mode = argc > 6 && !strcmp(argv[6], "default") ? MD_SELECT_DEFAULT : MD_SELECT_HYBRID;
    double p99[2][MOST_RUNS], *latency = malloc((size_t)n * sizeof *latency), *host = malloc((size_t)n * sizeof *host);
    int n_runs[2] = {0, 0};
    event = calloc((size_t)n + SATURATED, sizeof(cudaEvent_t));
    CHECK(md_context_create(&context, &(md_context_options){.device = "cuda"}));
    stay_here();
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&first));
    CUDA(cudaEventCreate(&last));
    for (long i = 0; i < n + SATURATED; i++) {
        CUDA(cudaEventCreate(&event[i]));
        CUDA(cudaEventRecord(event[i], stream));
    }
    plain = make_op(MD_SELECT_MODEL);
    make_tensors(plain, shapes[is_middle]);
    const double us = mean_us(plain);
    for (int r = 0; r < runs && r < MOST_RUNS; r++) {
        const int on = r % 4 == 1 || r % 4 == 2;
        md_op *op = make_op(on ? mode : MD_SELECT_MODEL);
        long longest_at = 0;
        const double longest = run(latency, host, &longest_at, op, n, us / load);
        const long n_counted = n - FIRST;
        long worst_at = 0;
        for (long i = 0; i < n_counted; i++)
            worst_at = latency[i] > latency[worst_at] ? i : worst_at;
        md_sort_doubles(latency, (size_t)n_counted);
        md_sort_doubles(host, (size_t)n);
        p99[on][n_runs[on]++] = at(latency, n_counted, 0.99);
        const md_ds_counters *c = &op->ds->count;
        printf("{\"run\": %d, \"hybrid\": %d, \"mean_us\": %.2f, \"load\": %.2f, \"calls\": %ld, \"p50\": %.2f, "
               "\"p90\": %.2f, \"p98\": %.2f, \"p99\": %.2f, \"p999\": %.2f, "
               "\"max\": %.1f, \"worst_at\": %ld, \"host_p50\": %.2f, \"host_p90\": %.2f, \"host_p99\": %.2f, "
               "\"longest_call_us\": %.1f, \"at\": %ld, \"long_ways\": %d, \"trials\": %d, \"switches\": %d}\n",
               r, on, us, load, n, at(latency, n_counted, 0.5), at(latency, n_counted, 0.9),
               at(latency, n_counted, 0.98), at(latency, n_counted, 0.99), at(latency, n_counted, 0.999),
               latency[n_counted - 1], worst_at + FIRST, at(host, n, 0.5), at(host, n, 0.9), at(host, n, 0.99), longest,
               longest_at, (int)c->calls, (int)c->trials, (int)c->switches);
        fflush(stdout);
        md_op_destroy(&op);
    }
    const double off = median(p99[0], n_runs[0]), on = median(p99[1], n_runs[1]);
    printf("{\"p99_off\": %.2f, \"p99_on\": %.2f, \"ratio\": %.4f}\n", off, on, on / off);
    return 0; /* all ends with the process */
}
#else
int main(void)
{
    printf("built without CUDA: nothing to measure\n");
    return 0;
}
#endif
