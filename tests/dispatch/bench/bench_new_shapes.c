/* What the first call of a shape costs over a later one: bench_new_shapes [SHAPES [rows|products [split]]]. 40 ops are
 * alive, or 8 of products, among whose variants are the library's; nothing may be compiled. Not a test.
 *
 * A JSON line for all shapes, and one for their second half: in the first, libraries still load for hints. `slow`:
 * calls above 40 us, and in how many of them the thread waited, was interrupted, or touched new pages. split: the
 * plan is asked for before the first call, which then only launches; lines for both. */
#include "md_build_config.h"

#include <stdio.h>
#if MD_HAVE_CUDA
#include "api/context.h"
#include "base/clock.h"
#include "base/sort.h"
#include "device/cuda/internal.h"
#include "support/or_exit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MOST_LIVE = 40, TENSORS = 3, SLOW_US = 40 };

typedef struct kind {
    const char *formula;
    md_dtype dtype;
} kind;
static const kind rows[] = {{"Y[i,j] = exp(X[i,j]) / sum[k](exp(X[i,k]))", MD_F32},
                            {"Y[i,j] = X[i,j] * 2 + 1", MD_F32},
                            {"Y[i] = sum[k](X[i,k])", MD_F32},
                            {"Y[i,j] = X[i,j] - max[k](X[i,k])", MD_F32},
                            {"Y[j] = sum[i](X[i,j])", MD_F32}};
static const kind products[] = {{"Y[i,j] = sum[k](X[i,k] * W[j,k])", MD_BF16},
                                {"Y[i,j] = sum[k](X[i,k] * W[j,k])", MD_F32}};

static md_context *context;
static cudaStream_t stream;
static md_op *op[MOST_LIVE];
static int live;
static uint64_t compiled; /* texts before the first call */

static void draw_sizes(char *out, size_t n, const md_op *o, uint32_t seed)
{
    const int few = 1 + (int)(seed >> 20 & 1023), many = 1 + (int)(seed >> 10 & 4095);
    if (md_op_n_args(o) == TENSORS)
        snprintf(out, n, "i=%d, j=%d, k=%d", few, 64 * (1 + many % 64), 64 * (1 + many / 64));
    else
        snprintf(out, n, "i=%d, %s=%d", few, md_op_dim(o, "k") >= 0 ? "k" : "j", many);
}

typedef struct times {
    double choose_ns, first_ns, warm_ns; /* choose: without `splits` 0 */
    long waits, interrupts, pages; /* of the thread in the first call */
} times;

static void count(times *t, int sign)
{
    struct rusage u;
    getrusage(RUSAGE_THREAD, &u);
    t->waits += sign * u.ru_nvcsw;
    t->interrupts += sign * u.ru_nivcsw;
    t->pages += sign * u.ru_minflt;
}

/* The time of the first call, and of the fourth. */
static void time_shape(times *out, void *memory, uint32_t seed, bool splits)
{
    md_choice choice;
    md_tensor t[TENSORS];
    md_arg arg[TENSORS];
    char sizes[64];
    md_op *o = op[(int)(seed >> 8 & 0xffff) % live];
    const int n = md_op_n_args(o);
    draw_sizes(sizes, sizeof sizes, o, seed);
    for (int i = 0; i < n; i++) {
        CHECK(md_op_tensor(&t[i], o, i, sizes));
        t[i].data = (char *)memory + (size_t)i * ((size_t)1 << 27);
        arg[i] = md_t(&t[i]);
    }
    *out = (times){0};
    count(out, -1);
    uint64_t start = md_clock_ns();
    if (splits)
        CHECK(md_choice_of(&choice, o, arg, n));
    out->choose_ns = splits ? (double)(md_clock_ns() - start) : 0.0;
    start = md_clock_ns();
    CHECK(md_call(o, stream, arg, n));
    out->first_ns = (double)(md_clock_ns() - start);
    count(out, 1);
    CHECK(md_sync(context, stream));
    CHECK(md_call(o, stream, arg, n));
    CHECK(md_call(o, stream, arg, n));
    CHECK(md_sync(context, stream));
    start = md_clock_ns();
    CHECK(md_call(o, stream, arg, n));
    out->warm_ns = (double)(md_clock_ns() - start);
    CHECK(md_sync(context, stream));
}

static void print(const char *what, const char *part, const times *t, long n, bool is_choice)
{
    double *us = malloc((size_t)n * sizeof *us), *warm = malloc((size_t)n * sizeof *warm);
    long slow[4] = {0};
    for (long k = 0; k < n; k++) {
        warm[k] = t[k].warm_ns / 1e3;
        us[k] = is_choice ? t[k].choose_ns / 1e3 : (t[k].first_ns - t[k].warm_ns) / 1e3;
        const long of[4] = {1, t[k].waits > 0, t[k].interrupts > 0, t[k].pages > 0};
        for (int i = 0; i < 4 && us[k] > SLOW_US; i++)
            slow[i] += of[i];
    }
    md_sort_doubles(us, (size_t)n);
    md_sort_doubles(warm, (size_t)n);
    printf("{\"case\": \"new shapes, %d ops of %s\", \"part\": \"%s\", \"n\": %ld, \"%s_us_p50\": %.2f, \"p90\": %.2f, "
           "\"p99\": %.2f, \"max\": %.2f, \"warm_us\": %.2f, \"slow\": [%ld, %ld, %ld, %ld], \"emitted\": %llu}\n",
           live, what, part, n, is_choice ? "choose" : "over_warm", us[n / 2], us[n * 9 / 10], us[n * 99 / 100],
           us[n - 1], warm[n / 2], slow[0], slow[1], slow[2], slow[3],
           (unsigned long long)(md_bd_count(context->builder)->emitted - compiled));
    free(us);
    free(warm);
}

static void run(const char *what, long n, bool splits)
{
    times *t = malloc((size_t)n * sizeof *t);
    void *memory = NULL;
    uint32_t seed = 7;
    CHECK(md_alloc(&memory, context, (size_t)TENSORS << 27));
    compiled = md_bd_count(context->builder)->emitted;
    for (long k = 0; k < n; k++) {
        seed = seed * 1664525u + 1013904223u;
        time_shape(&t[k], memory, seed, splits);
    }
    for (int choice = 0; choice <= splits; choice++) {
        print(what, "second half", t + n / 2, n - n / 2, choice);
        print(what, "all", t, n, choice);
    }
    free(t);
    md_free(context, memory);
}

int main(int argc, char **argv)
{
    const bool are_products = argc > 2 && strcmp(argv[2], "products") == 0;
    const kind *list = are_products ? products : rows;
    const int n = are_products ? MD_COUNT(products) : MD_COUNT(rows);
    live = are_products ? 8 : MOST_LIVE;
    CHECK(md_context_create(&context, &(md_context_options){.device = "cuda"}));
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess)
        return 1;
    for (int i = 0; i < live; i++) {
        char name[32];
        snprintf(name, sizeof name, "op%d", i);
        CHECK(md_op_create(&op[i], context, list[i % n].formula,
                           &(md_op_options){.name = name, .dtype = list[i % n].dtype}));
    }
    run(are_products ? "products" : "rows", argc > 1 ? atol(argv[1]) : 2000, argc > 3);
    for (int i = 0; i < live; i++)
        md_op_destroy(&op[i]);
    return 0;
}
#else
int main(void)
{
    printf("built without CUDA: nothing to measure\n");
    return 0;
}
#endif
