/* The pools of a CPU's ops at default hints: few variants, since each is a run of the C compiler, and by the model
 * hardly slower than the pools of the same hints when a user asks for them. Nothing is compiled. */
#include "dispatch/support/sim_world.h"

#include "base/status.h"
#include "dispatch/create.h"
#include "dispatch/pool/fill.h"
#include "dispatch/select/select.h"
#include "expr/catalogue.h"

#include <math.h>

static md_dev_facts facts = {.kind = MD_DEV_HOST,
                             .name = "test",
                             .compiler = "test 1",
                             .can_compile = true,
                             .threads = 2,
                             .vector_bytes = 64, /* and 32, 16 */
                             .l1_bytes = 48 << 10,
                             .l2_bytes = 2 << 20,
                             .l3_bytes = 32 << 20,
                             .memory_gbps = 20,
                             .lane_gbps = 12,
                             .cache_gbps = 60,
                             .gflops = 150,
                             .launch_us = 4};
static const char default_hints[] = "1,16,64,256,1024,4096";
static sim_world w;

static double price(void *user, const char *variant, const md_kn_call *call)
{
    (void)user, (void)variant, (void)call;
    return 1.0;
}

/* *state: bytes of a vector. */
static int set_up(void **state)
{
    facts.vector_bytes = *(const int32_t *)*state;
    facts.gflops = 150 / 64.0 * facts.vector_bytes;
    sim_world_open(&w, (sim_device_options){.facts = &facts, .price = price, .seed = 1});
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sim_world_close(&w);
    return 0;
}

static md_ds_op *op_by(md_select select, const char *formula, const char *source)
{
    const md_ds_op_options o = {.compile = {.dtype = MD_F32,
                                            .hints = default_hints,
                                            .hints_source = source,
                                            .policy = {.select = select,
                                                       .metric = MD_METRIC_LOG2,
                                                       .persistent = MD_PERSISTENT_AUTO,
                                                       .tune = MD_TUNE_ESTIMATE,
                                                       .wisdom = w.wisdom}},
                                .max_shapes = 10};
    md_ds_op *op = NULL;
    assert_ok(md_ds_op_create(&op, &w.runtime, formula, &o));
    return op;
}

static md_ds_op *op_of(const char *formula, const char *source)
{
    return op_by(MD_SELECT_MODEL, formula, source);
}

static int32_t count_compiled(const md_ds_pool *pool)
{
    int32_t n = 0;
    for (int32_t i = 0; i < pool->n_variants; i++)
        n += !pool->variant[i]->family->is_library;
    return n;
}

static int32_t count_variants(const md_ds_op *op)
{
    int32_t n = 0;
    for (int32_t s = 0; s < op->n_stages; s++)
        n += count_compiled(&op->stage[s]);
    return n;
}

/* Model time of the pool's best for contiguous tensors; INFINITY where none fits. */
static double least_us(const md_ds_pool *pool, const md_kn_shape *shape)
{
    double least = INFINITY;
    for (int32_t i = 0; i < pool->n_variants; i++)
        if (!md_kn_envelope_miss(&pool->variant[i]->envelope, shape))
            least = fmin(least, md_tn_predict_us(&pool->target, pool->variant[i]->family, &pool->variant[i]->config,
                                                 shape->size));
    return least;
}

/* The worst time over that of the full pool, and their mean logarithm, at sizes on and off the hints. */
typedef struct regret {
    double worst, sum;
    int32_t n;
} regret;

static void compare(regret *r, const md_ds_op *few, const md_ds_op *all)
{
    static const int64_t sizes[] = {1, 5, 16, 47, 64, 200, 256, 1000, 1024, 3000, 4096};
    for (int32_t s = 0; s < few->n_stages; s++)
        for (int32_t i = 0; i < MD_COUNT(sizes) * MD_COUNT(sizes); i++) {
            int64_t size[MD_FX_MAX_DIMS];
            md_kn_shape shape;
            for (int32_t d = 0; d < few->formula->n_dims; d++)
                size[d] = few->formula->dim[d].size >= 0 ? few->formula->dim[d].size
                          : d % 2                        ? sizes[i % MD_COUNT(sizes)]
                                                         : sizes[i / MD_COUNT(sizes)];
            md_tn_shape(&shape, few->program, size);
            const double best = least_us(&all->stage[s], &shape), ratio = least_us(&few->stage[s], &shape) / best;
            if (!(best < INFINITY))
                continue;
            r->worst = fmax(r->worst, ratio);
            r->sum += log(ratio);
            r->n++;
        }
}

static void few_variants_that_are_hardly_slower(void **state)
{
    (void)state;
    regret r = {0};
    int32_t n_few = 0, n_all = 0;
    for (int32_t i = 0; i < md_catalogue_count; i++) {
        md_ds_op *few = op_of(md_catalogue_table[i].formula, "default hints"),
                 *all = op_of(md_catalogue_table[i].formula, "test");
        regret one = {0};
        compare(&one, few, all);
        if (!(one.worst < 2.5))
            fail_msg("%s: %.2f times slower than the full pool", md_catalogue_table[i].name, one.worst);
        r.worst = fmax(r.worst, one.worst);
        r.sum += one.sum;
        r.n += one.n;
        n_few += count_variants(few);
        n_all += count_variants(all);
        md_ds_op_destroy(&few);
        md_ds_op_destroy(&all);
    }
    printf("%d variants instead of %d; slower by %.4f on average, %.2f at worst\n", n_few, n_all, exp(r.sum / r.n),
           r.worst);
    assert_true(n_few <= 0.85 * n_all); /* elementwise ops have few to begin with, and narrow vectors few tiles */
    assert_true(exp(r.sum / r.n) < 1.01);
}

static bool has_family(const md_ds_pool *pool, const md_fa_family *f)
{
    for (int32_t i = 0; i < pool->n_variants; i++)
        if (pool->variant[i]->family == f)
            return true;
    return false;
}

/* With async the first result waits for one variant of each stage, so no more than one is compiled before. */
static void async_begins_with_one_variant_of_a_stage(void **state)
{
    (void)state;
    for (int32_t i = 0; i < md_catalogue_count; i++) {
        md_ds_op *op = op_of(md_catalogue_table[i].formula, "default hints");
        for (int32_t s = 0; s < op->n_stages; s++) {
            md_ds_pool pool;
            assert_ok(md_ds_pool_init(&pool, w.builder, &op->stage[s].target, &op->space, &op->policy));
            assert_ok(md_ds_pool_fill(&pool, true));
            assert_true(pool.n_variants >= 1 && count_compiled(&pool) <= 1); /* none where a library is the best */
            assert_ok(md_ds_pool_fill_rest(&pool));
            for (int32_t v = 0; v < op->stage[s].n_variants; v++)
                assert_true(has_family(&pool, op->stage[s].variant[v]->family));
            md_ds_pool_finish(&pool);
        }
        md_ds_op_destroy(&op);
    }
}

static double uniform(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(*seed >> 11) * 0x1p-53;
}

/* The time of the nearest hint's variant over that of the pool's best, minus 1. */
static double loss_at(md_ds_op *op, const int64_t *size)
{
    const md_ds_pool *pool = &op->stage[0];
    md_ds_pick pick;
    md_kn_shape shape;
    md_tn_shape(&shape, op->program, size);
    const md_ds_query query = {.shape = &shape, .select_sizes = size, .with_unbuilt = true, .may_load = true};
    assert_ok(md_ds_select(&pick, op, 0, &query));
    const md_bd_variant *v = pool->variant[pick.variant];
    return md_tn_predict_us(&pool->target, v->family, &v->config, size) / least_us(pool, &shape) - 1.0;
}

/* Random sizes of 1 to 16384 up to 2^24 elements: most are far from the diagonal. */
static void distance_sees_lopsided_shapes(void **state)
{
    (void)state;
    enum { SHAPES = 150 };
    static const char *const formulas[] = {
        "Y[b,n] = sum[k](X[b,k] * W[n,k])",
        "Y[i,j] = exp(X[i,j] - max[k](X[i,k])) / sum[k](exp(X[i,k] - max[l](X[i,l])))", "Y[i] = sum[j](X[i,j])",
        "Y[i,j] = X[j,i]"};
    uint64_t seed = check_seed();
    for (int32_t i = 0; i < MD_COUNT(formulas); i++) {
        md_ds_op *op = op_by(MD_SELECT_DISTANCE, formulas[i], "default hints");
        double sum = 0.0, worst = 0.0;
        for (int32_t k = 0; k < SHAPES; k++) {
            int64_t size[MD_FX_MAX_DIMS];
            double points = 1.0;
            do {
                points = 1.0;
                for (int32_t d = 0; d < op->formula->n_dims; d++)
                    points *= (double)(size[d] = (int64_t)exp2(14.0 * uniform(&seed)));
            } while (points > 1 << 24);
            const double loss = loss_at(op, size);
            sum += loss;
            worst = fmax(worst, loss);
        }
        print_message("%s: %.2f%%, at worst %.0f%%\n", formulas[i], 100.0 * sum / SHAPES, 100.0 * worst);
        assert_true(sum / SHAPES < 0.04);
        assert_true(worst < 1.5);
        md_ds_op_destroy(&op);
    }
}

int main(void)
{
    static int32_t bytes[] = {64, 32, 16};
#define AT_WIDTHS(test)                                                                                                \
    {#test " at 64 bytes", test, set_up, tear_down, &bytes[0]},                                                        \
        {#test " at 32 bytes", test, set_up, tear_down, &bytes[1]},                                                    \
    {                                                                                                                  \
#test " at 16 bytes", test, set_up, tear_down, &bytes[2]                                                       \
    }
    const struct CMUnitTest tests[] = {AT_WIDTHS(few_variants_that_are_hardly_slower),
                                       AT_WIDTHS(async_begins_with_one_variant_of_a_stage),
                                       AT_WIDTHS(distance_sees_lopsided_shapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
