/* Texts that no variant uses: the latest stay loaded, and failures that may pass do not. */
#include "support/check.h"

#include "build/build.h"
#include "build/toy.h"
#include "support/devices/fake_device.h"

#include <pthread.h>

typedef struct fixture {
    md_pool *pool;
    fake_device fake;
    md_bd *builder;
    toy toy;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f || md_pool_create(&f->pool, 2) != MD_OK)
        return -1;
    fake_device_init(&f->fake, f->pool, NULL);
    toy_init(&f->toy, &f->fake.base.facts);
    *state = f;
    return md_bd_create(&f->builder, &f->fake.base) == MD_OK ? 0 : -1;
}

static int teardown(void **state)
{
    fixture *f = *state;
    md_bd_destroy(&f->builder);
    const int32_t leaked = f->fake.n_loaded - f->fake.n_unloaded;
    md_pool_destroy(&f->pool);
    free(f);
    return leaked;
}

static md_bd_variant *make(fixture *f, int32_t kind, int32_t salt)
{
    md_bd_variant *v = NULL;
    md_fa_config config = toy_config(kind, salt);
    assert_ok(md_bd_variant_create(&v, f->builder, &f->toy.target, &toy_family, &config));
    return v;
}

static int32_t state_of(const md_bd_variant *v)
{
    return atomic_load_explicit(&v->state, memory_order_acquire);
}

/* Kernels that no variant uses: the latest stay, the oldest go, and what is used stays in any case. */
static void test_unused(void **state)
{
    enum { BEYOND = 100, ALL = MD_BD_MAX_UNUSED + BEYOND };
    fixture *f = *state;
    const md_bd_counters *count = md_bd_count(f->builder);
    md_bd_variant *used = make(f, TOY_PLAIN, 0), *v = NULL;
    assert_ok(md_bd_variant_wait(used));
    for (int32_t i = 1; i <= ALL; i++) {
        v = make(f, TOY_PLAIN, i);
        assert_ok(md_bd_variant_hurry(v));
        md_bd_variant_destroy(&v);
    }
    md_bd_wait_all(f->builder);
    assert_int_equal(count->compiled, ALL + 1);
    assert_int_equal(f->fake.n_unloaded, BEYOND);
    v = make(f, TOY_PLAIN, 0); /* used all the time */
    assert_int_equal(state_of(v), MD_BD_READY);
    assert_ptr_equal(v->kernel[0], used->kernel[0]);
    md_bd_variant_destroy(&v);
    md_bd_variant_destroy(&used);
    v = make(f, TOY_PLAIN, BEYOND + 2); /* the oldest but one that is there */
    assert_int_equal(state_of(v), MD_BD_READY);
    md_bd_variant_destroy(&v);
    v = make(f, TOY_PLAIN, 1); /* gone */
    assert_int_equal(state_of(v), MD_BD_QUEUED);
    assert_ok(md_bd_variant_wait(v));
    md_bd_variant_destroy(&v);
    assert_int_equal(count->compiled, ALL + 2);
}

/* What failed because the disk was full is tried again, once no variant has its failure. */
static void test_failures_that_pass(void **state)
{
    fixture *f = *state;
    atomic_store(&f->fake.disk_is_full, true);
    md_bd_variant *a = make(f, TOY_PLAIN, 1), *b, *bad = make(f, TOY_BAD_TEXT, 1);
    assert_fails(md_bd_variant_wait(a), MD_COMPILE, "no space is left");
    assert_fails(md_bd_variant_wait(bad), MD_COMPILE, "no space is left");
    atomic_store(&f->fake.disk_is_full, false);
    b = make(f, TOY_PLAIN, 1);
    assert_int_equal(state_of(b), MD_BD_FAILED); /* a has it */
    md_bd_variant_destroy(&a);
    md_bd_variant_destroy(&b);
    md_bd_variant_destroy(&bad);
    a = make(f, TOY_PLAIN, 1);
    assert_ok(md_bd_variant_wait(a));
    bad = make(f, TOY_BAD_TEXT, 1);
    assert_fails(md_bd_variant_wait(bad), MD_COMPILE, "does not compile");
    md_bd_variant_destroy(&bad);
    bad = make(f, TOY_BAD_TEXT, 1);
    assert_int_equal(state_of(bad), MD_BD_FAILED); /* this will not pass */
    md_bd_variant_destroy(&bad);
    md_bd_variant_destroy(&a);
}

static void *make_and_drop(void *context)
{
    fixture *f = context;
    uint64_t seed = (uintptr_t)&seed;
    for (int i = 0; i < 3000; i++) {
        md_bd_variant *v = NULL;
        const uint64_t bits = check_random(&seed);
        md_fa_config config =
            toy_config(bits & 64 ? TOY_TWICE : TOY_PLAIN, (int32_t)(bits >> 32) % (2 * MD_BD_MAX_UNUSED));
        if (md_bd_variant_create(&v, f->builder, &f->toy.target, &toy_family, &config) != MD_OK)
            return f;
        const md_status s = bits & 1 ? md_bd_variant_hurry(v) : bits & 2 ? md_bd_variant_wait(v) : MD_OK;
        md_bd_variant_destroy(&v);
        if (s != MD_OK)
            return f;
    }
    return NULL;
}

/* Kernels go while other threads ask for them, build them ahead of the queue, and leave before their end. */
static void test_unused_by_threads(void **state)
{
    enum { N = 4 };
    fixture *f = *state;
    pthread_t thread[N];
    for (int i = 0; i < N; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, make_and_drop, f), 0);
    for (int i = 0; i < N; i++) {
        void *result = NULL;
        pthread_join(thread[i], &result);
        assert_null(result);
    }
    md_bd_wait_all(f->builder);
    assert_true(f->fake.n_unloaded > 0);
    assert_true(f->fake.n_loaded - f->fake.n_unloaded <= MD_BD_MAX_UNUSED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_unused), TEST(test_unused_by_threads), TEST(test_failures_that_pass)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
