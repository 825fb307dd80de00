/* What the first call of a shape costs on the host, without a GPU: bench_miss [SHAPES]. JSON lines. Not a test.
 *
 * Pools are those of an assumed GPU, whose kernels are neither compiled nor launched; what the runtime of CUDA adds is
 * seen in bench_pairs new. */
#include "base/sort.h"
#include "base/clock.h"
#include "base/task/pool.h"
#include "dispatch/call/slow_call.h"
#include "dispatch/cache/shape_entry.h"
#include "dispatch/create.h"
#include "dispatch/open.h"
#include "dispatch/support/bind.h"
#include "support/devices/fake_device.h"
#include "support/or_exit.h"

enum { OPS = 40 };

static void report(const char *name, const char *what, int32_t variants, double *us, long n)
{
    md_sort_doubles(us, (size_t)n);
    printf("{\"case\": \"%s\", \"what\": \"%s\", \"variants\": %d, \"n\": %ld, \"us_p50\": %.1f, \"p90\": %.1f, "
           "\"p99\": %.1f, \"max\": %.1f}\n",
           name, what, variants, n, us[n / 2], us[n * 9 / 10], us[n * 99 / 100], us[n - 1]);
}

/* A random shape of a matrix op, contiguous. */
static void bind_random(md_ds_bound *out, const md_ds_op *op, uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    const int64_t size[2] = {1 + (*seed >> 20 & 1023), 1 + (*seed >> 10 & 4095)};
    bind(out, op, size, 0);
}

int main(int argc, char **argv)
{
    static const char *const formula[] = {"Y[i,j] = exp(X[i,j]) / sum[k](exp(X[i,k]))", "Y[i,j] = X[i,j] * 2 + 1",
                                          "Y[i] = sum[k](X[i,k])", "Y[i,j] = X[i,j] - max[k](X[i,k])",
                                          "Y[j] = sum[i](X[i,j])"};
    const long n = argc > 1 ? atol(argv[1]) : 20000;
    md_pool *pool = NULL;
    md_log log = {0};
    md_bd *builder = NULL;
    md_ds_runtime runtime;
    static fake_device device;
    static md_ds_op *op[OPS];
    static double *us[5], all_us[200000];
    CHECK(md_pool_create(&pool, 2));
    fake_device_init(&device, pool, &log);
    CHECK(md_dev_cuda_assume(&device.base.facts, 90));
    device.base.facts.can_compile = true;
    CHECK(md_bd_create(&builder, &device.base));
    md_ds_runtime_init(&runtime);
    runtime.dev = &device.base;
    runtime.builder = builder;
    runtime.log = &log;
    for (int i = 0; i < OPS; i++) {
        char name[32];
        snprintf(name, sizeof name, "op%d", i);
        md_ds_op_options o = {
            .name = name,
            .compile.dtype = MD_F32,
            .compile.hints = "1,16,64,256,1024,4096",
            .compile.hints_source = "default hints",
            .max_shapes = 16384,
            .compile.policy = {.select = MD_SELECT_MODEL, .metric = MD_METRIC_LOG2, .persistent = MD_PERSISTENT_AUTO}};
        CHECK(md_ds_op_create(&op[i], &runtime, formula[i % 5], &o));
    }
    long count[5] = {0};
    for (int i = 0; i < 5; i++)
        us[i] = malloc((size_t)n * sizeof **us);
    uint32_t seed = 7;
    for (long k = 0; k < n; k++) {
        md_ds_bound bound;
        md_ds_shape_entry *entry = NULL;
        seed = seed * 1664525u + 1013904223u;
        const int which = (int)((seed >> 8) % OPS);
        bind_random(&bound, op[which], &seed);
        uint64_t start = md_clock_ns();
        CHECK(md_ds_find(&entry, op[which], NULL, &bound));
        double spent = (double)(md_clock_ns() - start) / 1e3;
        md_ds_shape_entry_release(entry);
        us[which % 5][count[which % 5]++] = spent;
        all_us[k] = spent;
    }
    for (int i = 0; i < 5; i++)
        report(formula[i], "choose", atomic_load(&op[i]->stage[0].n_variants), us[i], count[i]);
    report("all", "choose", 0, all_us, n);
    return 0;
}
