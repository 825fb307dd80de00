/* What the first call of a shape costs on the host, without a GPU: bench_miss [SHAPES [CASE [WAY [cold]]]]. JSON lines.
 * Not a test. WAY: model (the default), distance, or corrected: the model, corrected by as many times as there may be.
 * cold: 4 MB of other data are written between two calls.
 *
 * Pools are those of an assumed GPU, whose kernels are neither compiled nor launched; what the runtime of CUDA adds is
 * seen in bench_pairs new. CASE: only cases whose names hold it; callgrind then counts the instructions of one op
 * (--toggle-collect=md_ds_find). */
#include "dispatch/bench/new_shapes.h"

#include "base/clock.h"
#include "base/sort.h"
#include "dispatch/pool/pool.h"
#include "tune/tune.h"

static const char *way = "model";
static bool is_cold;

static void report(const char *name, int32_t variants, double *us, long n)
{
    md_sort_doubles(us, (size_t)n);
    printf("{\"case\": \"%s\", \"way\": \"%s\", \"what\": \"choose\", \"variants\": %d, \"n\": %ld, \"us_p50\": %.1f, "
           "\"p90\": %.1f, "
           "\"p99\": %.1f, \"max\": %.1f}\n",
           name, way, variants, n, us[n / 2], us[n * 9 / 10], us[n * 99 / 100], us[n - 1]);
}

/* Random sizes, of which no two calls have the same. */
static void bind_random(md_ds_bound *out, const md_ds_op *op, uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    const int64_t size[2] = {1 + (*seed >> 20 & 1023), 1 + (*seed >> 10 & 4095)};
    bind(out, op, size, 0);
}

/* At random places races of six variants, each up to 30% off the model. */
static void correct(md_ds_op *op)
{
    enum { RACERS = 6 };
    uint32_t seed = 11;
    md_ds_pool *pool = &op->stage[0];
    const int32_t n_variants = atomic_load(&pool->n_variants);
    for (int32_t i = 0; i < MD_TN_MOST_OBSERVATIONS; i++) {
        md_ds_bound bound;
        if (i % RACERS == 0)
            bind_random(&bound, op, &seed);
        seed = seed * 1664525u + 1013904223u;
        const int32_t v = (int32_t)((seed >> 8) % (uint32_t)n_variants);
        const double us = md_tn_predict_us(&pool->target, pool->variant[v]->family, &pool->variant[v]->config,
                                           bound.shape.size),
                     off = 0.7 + 0.6 * (double)(seed >> 16) / 65536.0;
        md_ds_observe_at(pool, bound.shape.size, &(md_ds_measured){v, MD_TN_CLOCK_IDLE, us * off, us}, true);
    }
}

/* What other work does between two calls of new shapes: the caches are its. */
static void chill(void)
{
    enum { BYTES = 4 << 20, LINE = 64 };
    static volatile char other[BYTES];
    for (int32_t i = 0; is_cold && i < BYTES; i += LINE)
        other[i]++;
}

static void bench(new_shapes *shapes, const new_shapes_case *c, long n, double *us)
{
    uint32_t seed = 7;
    md_ds_op *op = new_shapes_op(shapes, c->name, c->formula, c->dtype, c->sizes,
                                 strcmp(way, "distance") ? MD_SELECT_MODEL : MD_SELECT_DISTANCE);
    if (!strcmp(way, "corrected"))
        correct(op);
    for (long k = 0; k < n; k++) {
        md_ds_bound bound;
        md_ds_shape_entry *entry = NULL;
        bind_random(&bound, op, &seed);
        chill();
        const uint64_t start = md_clock_ns();
        CHECK(md_ds_find(&entry, op, NULL, &bound));
        us[k] = (double)(md_clock_ns() - start) / 1e3;
        md_ds_shape_entry_release(entry);
    }
    report(c->name, atomic_load(&op->stage[0].n_variants), us, n);
    md_ds_op_destroy(&op);
}

int main(int argc, char **argv)
{
    static new_shapes shapes;
    const long n = argc > 1 ? atol(argv[1]) : 2000;
    double *us = malloc((size_t)n * sizeof *us);
    way = argc > 3 ? argv[3] : way;
    is_cold = argc > 4;
    new_shapes_open(&shapes, 90);
    for (int32_t i = 0; i < MD_COUNT(new_shapes_cases); i++)
        if (argc < 3 || strstr(new_shapes_cases[i].name, argv[2]))
            bench(&shapes, &new_shapes_cases[i], n, us);
    new_shapes_close(&shapes);
    free(us);
    return 0;
}
