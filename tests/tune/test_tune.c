/* The model, the search by model, shapes of hints, and races on private copies. */
#include "support/check.h"

#include "base/status.h"
#include "build/toy.h"
#include "support/devices/fake_device.h"
#include "tune/bench/copies.h"
#include "tune/tune.h"
#include "device/open.h"

#include <math.h>

typedef struct fixture {
    md_pool *pool;
    fake_device fake;
    md_dev *host;
    md_bd *builder; /* on the host device */
    toy toy;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f || md_pool_create(&f->pool, 2) != MD_OK ||
        md_dev_open(&f->host, &(md_dev_options){.pool = f->pool}) != MD_OK)
        return -1;
    fake_device_init(&f->fake, f->pool, NULL);
    toy_init(&f->toy, &f->fake.base.facts); /* round numbers for the model */
    *state = f;
    return md_bd_create(&f->builder, f->host) == MD_OK ? 0 : -1;
}

static int teardown(void **state)
{
    fixture *f = *state;
    md_bd_destroy(&f->builder);
    md_dev_close(&f->host);
    md_pool_destroy(&f->pool);
    free(f);
    return 0;
}

/* ---- The model */

static double random_size(uint64_t *seed)
{
    return exp2((double)(check_random(seed) % 3000) / 100.0) *
           (double)(check_random(seed) % 4 != 0); /* 0 now and then */
}

/* The roof is the work at the device's rates. What a kernel loses most by is named, and nothing is below the roof. */
static void test_shortfall_names_the_loss(void **state)
{
    fixture *f = *state;
    md_dev_facts facts = f->fake.base.facts;
    facts.kind = MD_DEV_CUDA;
    facts.threads = 100;
    facts.memory_gbps = 1000.0; /* 1 us a MB */
    facts.gflops = 10000.0; /* 1 us for 10 million operations */
    const md_tn_need moves = {.flops = 1e6, .bytes = 100e6}, counts = {.flops = 5e9, .bytes = 1e6},
                     multiplies = {.flops = 5e9, .bytes = 1e6, .is_product = true, .operand_bytes = 2};
    const md_fa_features ideal = {
        .memory_bytes = 100e6, .ops = 1e6, .ops_rate = 1.0, .parallel = 100, .launches = 1, .memory_rate = 1.0};
    md_fa_features twice = ideal, starved = ideal, alone = ideal, late = ideal, heavy = ideal, slow = ideal;
    twice.memory_bytes = 200e6;
    starved.memory_rate = 0.25;
    late.serial_us = 500.0;
    heavy.transcendental = 1e9;
    alone.ops = slow.ops = 5e9;
    alone.parallel = 10;
    slow.ops_rate = 0.1;
    const struct {
        const md_fa_features *features;
        const md_tn_need *need;
        double roof_us;
        bool is_arithmetic;
        const char *reason;
    } row[] = {{&ideal, &moves, 100.0, false, "the launch"},
               {&twice, &moves, 100.0, false, "it moves more bytes"},
               {&starved, &moves, 100.0, false, "too few loads in flight"},
               {&late, &moves, 100.0, false, "latency"},
               {&heavy, &moves, 100.0, false, "more operations than the formula counts"},
               {&alone, &counts, 500.0, true, "too few blocks"},
               {&slow, &counts, 500.0, true, "instructions beside the arithmetic"},
               {&slow, &multiplies, 500.0 / 14.8, true, "instructions beside the arithmetic"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const md_tn_shortfall x = md_tn_shortfall_of(&facts, row[i].features, row[i].need);
        assert_true(fabs(x.roof_us - row[i].roof_us) < 1e-6 * row[i].roof_us);
        assert_int_equal(x.is_arithmetic, row[i].is_arithmetic);
        assert_true(x.us > x.roof_us && x.lost_us > 0.0);
        if (strncmp(x.reason, row[i].reason, strlen(row[i].reason)) != 0)
            fail_msg("row %zu: '%s'", i, x.reason);
    }
}

static void test_model_is_monotone(void **state)
{
    fixture *f = *state;
    uint64_t seed = check_seed();
    for (int i = 0; i < 20000; i++) {
        md_dev_facts facts = i % 2 ? f->fake.base.facts : f->host->facts;
        facts.threads = 1 + (int32_t)(check_random(&seed) % 64);
        md_fa_features features = {.memory_bytes = random_size(&seed),
                                   .cache_bytes = random_size(&seed),
                                   .ops = random_size(&seed),
                                   .ops_rate = (double)(1 + check_random(&seed) % 100) / 100.0,
                                   .transcendental = random_size(&seed),
                                   .serial_us = random_size(&seed) * 1e-6,
                                   .parallel = 1.0 + (double)(check_random(&seed) % 6400) / 100.0,
                                   .launches = 1 + (int32_t)(check_random(&seed) % 4)};
        const double us = md_tn_model_us(&facts, &features), k = 1.0 + (double)(check_random(&seed) % 100) / 10.0;
        assert_true(us > 0.0 && isfinite(us));
        md_fa_features more[7] = {features, features, features, features, features, features, features};
        more[0].memory_bytes *= k;
        more[1].cache_bytes *= k;
        more[2].ops *= k;
        more[3].transcendental *= k;
        more[4].serial_us *= k;
        more[5].launches += 1;
        more[6].ops_rate /= k;
        for (int j = 0; j < 7; j++)
            if (md_tn_model_us(&facts, &more[j]) < us * (1.0 - 1e-12))
                fail_msg("more of feature %d takes less time", j);
        if (features.parallel > 1.0) {
            features.parallel *= k;
            assert_true(md_tn_model_us(&facts, &features) <= us * (1.0 + 1e-12));
        }
    }
}

static void test_model_is_sane(void **state)
{
    fixture *f = *state;
    const md_dev_facts *facts = &f->fake.base.facts;
    md_fa_features tiny = {.memory_bytes = 512, .ops = 64, .ops_rate = 1.0, .parallel = 1.0, .launches = 1};
    md_fa_features split = tiny;
    split.parallel = 2.0;
    assert_true(md_tn_model_us(facts, &tiny) < 0.5); /* a single block costs a call */
    assert_true(md_tn_model_us(facts, &split) > 1.0); /* and more than one a launch */
    md_fa_features large = tiny;
    large.memory_bytes = 256e6;
    split.memory_bytes = 256e6;
    double alone = md_tn_model_us(facts, &large), both = md_tn_model_us(facts, &split);
    assert_true(alone > 256e6 / 12e9 * 1e6 * 0.9 && alone < 256e6 / 12e9 * 1e6 * 1.1); /* 12 GB/s a lane */
    assert_true(both > 256e6 / 20e9 * 1e6 * 0.9 && both < 256e6 / 20e9 * 1e6 * 1.1); /* 20 GB/s together */
    md_fa_features flops = {.ops = 1e9, .ops_rate = 0.5, .parallel = 2.0, .launches = 1};
    double us = md_tn_model_us(facts, &flops);
    assert_true(us > 20e3 && us < 20.1e3); /* 1e9 at half of 100 GFLOP/s */
    const md_dev_facts nothing = {.threads = 1};
    const md_fa_features odd[] = {
        {0}, {.memory_bytes = NAN, .ops = INFINITY, .ops_rate = -1}, {.parallel = -3, .ops = 10}};
    for (int i = 0; i < 3; i++) {
        us = md_tn_model_us(&nothing, &odd[i]);
        assert_true(us > 0.0 && isfinite(us));
    }
}

/* ---- The search */

static void test_best(void **state)
{
    fixture *f = *state;
    md_fa_config config;
    double us = 0.0;
    int64_t size[MD_KN_MAX_DIMS] = {100};
    assert_ok(md_tn_best(&config, &us, &f->toy.target, &toy_family, size, NULL));
    assert_int_equal(config.value[0], TOY_SHORT_ROWS); /* the fastest in its envelope */
    assert_int_equal(config.value[1], 0);
    assert_true(us == md_tn_predict_us(&f->toy.target, &toy_family, &config, size));
    size[0] = 101;
    assert_ok(md_tn_best(&config, NULL, &f->toy.target, &toy_family, size, NULL));
    assert_int_equal(config.value[0], TOY_PLAIN); /* outside of it */
    md_kn_shape shape;
    md_tn_shape(&shape, &f->toy.program, size);
    shape.unit = 1; /* the input is strided */
    assert_fails(md_tn_best(&config, NULL, &f->toy.target, &toy_family, size, &shape), MD_NOT_FOUND, "toy");
}

/* ---- Shapes */

static void test_shape(void **state)
{
    fixture *f = *state;
    md_fx_formula *g = &f->toy.formula;
    g->n_dims = 4; /* Y[n], X[i, n], T[more, n] of bytes: n 64, i 3, more unknown */
    g->n_tensors = 3;
    g->tensor[1].rank = 2;
    g->tensor[1].dim[0] = 1;
    g->tensor[1].dim[1] = 0;
    g->tensor[2] = g->tensor[1];
    g->tensor[2].dim[0] = 2;
    g->tensor[2].at_least[0] = true;
    g->tensor[2].dtype = MD_U8;
    int64_t size[MD_KN_MAX_DIMS] = {64, 3, 0, 0};
    md_kn_shape s;
    md_tn_shape(&s, &f->toy.program, size);
    assert_int_equal(s.extent[0][0], 64);
    assert_int_equal(s.stride[1][0], 64);
    assert_int_equal(s.stride[1][1], 1);
    assert_int_equal(s.extent[2][0], 1); /* nothing is known to be needed */
    assert_int_equal(s.size[2], 1);
    assert_int_equal(s.contiguous, 7);
    assert_int_equal(s.unit, 7);
    assert_int_equal(s.aligned, 7);
    size[0] = 63;
    size[2] = 5;
    md_tn_shape(&s, &f->toy.program, size);
    assert_int_equal(s.extent[2][0], 5);
    assert_int_equal(s.aligned, 1); /* rows of 63 elements start anywhere */
}

/* ---- Copies and races */

static void test_copies(void **state)
{
    fixture *f = *state;
    uint64_t seed = check_seed();
    for (int i = 0; i < 300; i++) {
        /* X[a, b, c] anywhere in a buffer, with any order and sign of strides. */
        float buffer[4096], output[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        for (int j = 0; j < 4096; j++)
            buffer[j] = (float)j;
        md_fx_tensor *x = &f->toy.formula.tensor[1];
        md_kn_shape shape;
        md_kn_call call;
        toy_call(&call, &shape, &f->toy, output, NULL, 8);
        x->rank = 3;
        int64_t origin = 2048, stride[3] = {1, 1 + (int64_t)(check_random(&seed) % 12), 0};
        stride[2] = stride[1] * (int64_t)(check_random(&seed) % 12);
        int first = (int)(check_random(&seed) % 3);
        for (int a = 0; a < 3; a++) {
            int64_t sign = check_random(&seed) % 3 ? 1 : -1;
            shape.extent[1][a] = 1 + (int64_t)(check_random(&seed) % 6);
            shape.stride[1][a] = sign * stride[(a + first) % 3];
        }
        call.data[1] = buffer + origin;
        md_tn_copies copies;
        const int64_t n_bytes = md_tn_copies_bytes(&f->toy.target, &call, 1024);
        char *memory = aligned_alloc(MD_TN_COPIES_ALIGNMENT, (size_t)n_bytes);
        assert_true(memory && n_bytes % MD_TN_COPIES_ALIGNMENT == 0);
        assert_ok(md_tn_copies_make(&copies, f->host, &f->toy.target, &call, memory));
        const float *y = copies.call.data[1];
        assert_ptr_not_equal(y, buffer + origin);
        assert_ptr_not_equal(copies.call.data[0], output);
        assert_int_equal((uintptr_t)copies.call.data[0] % 64, (uintptr_t)output % 64);
        assert_int_equal((uintptr_t)y % 64, (uintptr_t)(buffer + origin) % 64);
        assert_ptr_equal(copies.call.report, &copies.report);
        assert_ptr_equal((char *)copies.call.workspace + 1024, memory + n_bytes);
        for (int64_t a = 0; a < shape.extent[1][0]; a++)
            for (int64_t b = 0; b < shape.extent[1][1]; b++)
                for (int64_t c = 0; c < shape.extent[1][2]; c++) {
                    int64_t at = a * shape.stride[1][0] + b * shape.stride[1][1] + c * shape.stride[1][2];
                    assert_true(y[at] == buffer[origin + at]);
                }
        free(memory);
    }
}

static void test_copies_of_nothing(void **state)
{
    fixture *f = *state;
    md_kn_shape shape;
    md_kn_call call;
    md_tn_copies copies;
    toy_call(&call, &shape, &f->toy, NULL, NULL, 5000); /* a temporary that does not exist yet */
    char *memory = aligned_alloc(MD_TN_COPIES_ALIGNMENT, (size_t)md_tn_copies_bytes(&f->toy.target, &call, 0));
    assert_non_null(memory);
    assert_ok(md_tn_copies_make(&copies, f->host, &f->toy.target, &call, memory));
    for (int i = 0; i < 5000; i++)
        assert_true(((const float *)copies.call.data[1])[i] == 0.0f);
    free(memory);
    toy_call(&call, &shape, &f->toy, NULL, NULL, 0);
    assert_int_equal(md_tn_copies_bytes(&f->toy.target, &call, 0), 0);
    assert_ok(md_tn_copies_make(&copies, f->host, &f->toy.target, &call, NULL));
    int64_t limit = md_tn_copies_limit(f->host);
    assert_true(limit > 0 && limit <= 256 << 20);
    toy_call(&call, &shape, &f->toy, NULL, NULL, limit / 8); /* two tensors of half the limit, and some */
    assert_true(md_tn_copies_bytes(&f->toy.target, &call, 0) > limit);
}

static md_bd_variant *make(fixture *f, md_bd *builder, int32_t kind)
{
    md_bd_variant *v = NULL;
    md_fa_config config = toy_config(kind, 0);
    assert_ok(md_bd_variant_create(&v, builder, &f->toy.target, &toy_family, &config));
    assert_ok(md_bd_variant_wait(v));
    return v;
}

static void test_race(void **state)
{
    fixture *f = *state;
    enum { N = 20000, N_VARIANTS = 4 };
    const int32_t kinds[N_VARIANTS] = {TOY_SLOW, TOY_PLAIN, TOY_FAILING_FUNCTION, TOY_TWICE};
    md_bd_variant *v[N_VARIANTS];
    static float x[N], y[N];
    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = -1.0f;
    }
    for (int i = 0; i < N_VARIANTS; i++)
        v[i] = make(f, f->builder, kinds[i]);
    md_kn_shape shape;
    md_kn_call call;
    toy_call(&call, &shape, &f->toy, y, x, N);
    call.scalar[0].d = 2.0;
    const md_kn_call before = call;
    double us[N_VARIANTS] = {0};
    /* again where other work took the processor meanwhile */
    for (int i = 0; i < 8 && !(us[1] > 0.0 && us[0] > 2.0 * us[1]); i++) {
        assert_ok(md_tn_measure(us, v, N_VARIANTS, &call, 100.0));
        printf("slow %.2f us, plain %.2f us, failing %.2f, twice %.2f us\n", us[0], us[1], us[2], us[3]);
    }
    assert_true(us[1] > 0.0 && us[0] > 2.0 * us[1]); /* ten times the work */
    assert_true(us[2] < 0.0);
    assert_true(us[3] > 0.0);
    assert_memory_equal(&before, &call, sizeof call);
    for (int i = 0; i < N; i++)
        assert_true(x[i] == (float)i && y[i] == -1.0f); /* the caller's memory is as it was */
    toy_call(&call, &shape, &f->toy, y, x, (int64_t)1 << 40);
    call.scalar[0].d = 2.0;
    assert_fails(md_tn_measure(us, v, N_VARIANTS, &call, 100.0), MD_OUT_OF_MEMORY, "measuring");
    for (int i = 0; i < N_VARIANTS; i++)
        md_bd_variant_destroy(&v[i]);
}

/* Kernels that take long take no more than their share: the budget, and one run each. */
static void test_budget(void **state)
{
    fixture *f = *state;
    md_bd *builder = NULL;
    assert_ok(md_bd_create(&builder, &f->fake.base));
    f->fake.owns_clock = true;
    toy_slow_us = 10000;
    md_bd_variant *v[3] = {make(f, builder, TOY_PLAIN), make(f, builder, TOY_SLOW), make(f, builder, TOY_PLAIN)};
    toy_slow_us = 0;
    float x[8] = {0}, y[8] = {0};
    md_kn_shape shape;
    md_kn_call call;
    toy_call(&call, &shape, &f->toy, y, x, 8);
    call.scalar[0].d = 2.0;
    double us[3] = {0};
    const double budget = 60.0;
    const uint64_t start = f->fake.now_ns;
    assert_ok(md_tn_measure(us, v, 2, &call, budget));
    const double ms = (double)(f->fake.now_ns - start) * 1e-6;
    printf("%.0f ms of %.0f, where a run takes 10\n", ms, budget);
    assert_true(ms < budget + 12.0 * 10.0); /* 30 samples each would take 60 of them */
    assert_true(us[0] >= 9000.0 && us[1] >= 9000.0);
    assert_ok(md_tn_measure(us, v, 3, &call, 0.0));
    assert_true(us[0] > 0.0 && us[1] > 0.0 && us[2] < 0.0); /* the third was not reached */
    for (int i = 0; i < 3; i++)
        md_bd_variant_destroy(&v[i]);
    md_bd_destroy(&builder);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_shortfall_names_the_loss),
        TEST(test_model_is_monotone),
        TEST(test_model_is_sane),
        TEST(test_best),
        TEST(test_shape),
        TEST(test_copies),
        TEST(test_copies_of_nothing),
        TEST(test_race),
        TEST(test_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
