/* Texts that no variant uses: the latest stay loaded, and failures that may pass do not. Texts that were being built
 * when the process forked. */
#include "support/check.h"

#include "build/build.h"
#include "build/toy.h"
#include "support/devices/fake_device.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* What a child of fork does with three variants that its parent was building, of two texts the last one. Nothing of it
 * may assert: the number of what is wrong is its exit status. */
static int wait_for_one(fixture *f, md_bd_variant **v)
{
    return md_bd_variant_wait(v[1]) != MD_OK                                  ? 1
           : f->fake.n_compiled != 1                                          ? 2
           : state_of(v[0]) != MD_BD_QUEUED || state_of(v[2]) != MD_BD_QUEUED ? 3
           : md_bd_variant_wait(v[2]) != MD_OK || f->fake.n_compiled != 3     ? 4
           : state_of(v[0]) != MD_BD_QUEUED || state_of(v[1]) != MD_BD_READY  ? 5
                                                                              : 0;
}

static int wait_for_any(fixture *f, md_bd_variant **v)
{
    md_bd_variant_wait_any(v, 2);
    return f->fake.n_compiled != 1 || (state_of(v[0]) == MD_BD_READY) == (state_of(v[1]) == MD_BD_READY);
}

static int wait_for_all(fixture *f, md_bd_variant **v)
{
    md_bd_wait_all(f->builder);
    return f->fake.n_compiled != 4 || state_of(v[0]) != MD_BD_READY || state_of(v[2]) != MD_BD_READY;
}

static int hurry_one(fixture *f, md_bd_variant **v)
{
    return md_bd_variant_hurry(v[0]) != MD_OK || f->fake.n_compiled != 1 || state_of(v[1]) != MD_BD_QUEUED;
}

static int leave_all(fixture *f, md_bd_variant **v)
{
    for (int i = 0; i < 3; i++)
        md_bd_variant_destroy(&v[i]);
    const int32_t n_compiled = f->fake.n_compiled;
    md_bd_destroy(&f->builder);
    return n_compiled != 0;
}

static int make_another(fixture *f, md_bd_variant **v)
{
    md_bd_variant *again = make(f, TOY_PLAIN, 1), *other = make(f, TOY_PLAIN, 9);
    return md_bd_variant_wait(other) != MD_OK || md_bd_variant_wait(again) != MD_OK || state_of(v[0]) != MD_BD_READY ||
           f->fake.n_compiled != 2;
}

static void test_texts_of_a_forked_child(void **state)
{
    int (*const run[])(fixture *, md_bd_variant **) = {wait_for_one, wait_for_any, wait_for_all,
                                                       hurry_one,    leave_all,    make_another};
    fixture *f = *state;
    atomic_store(&f->fake.held, "toy");
    md_bd_variant *v[] = {make(f, TOY_PLAIN, 1), make(f, TOY_PLAIN, 2), make(f, TOY_TWICE, 3)};
    for (size_t i = 0; i < MD_COUNT(run); i++) {
        int status = 0;
        const pid_t child = fork();
        if (child == 0) {
            (void)alarm(20);
            atomic_store(&f->fake.held, NULL);
            f->fake.n_compiled = 0;
            _exit(run[i](f, v));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status)
            fail_msg("child %zu ends with %x", i, (unsigned)status);
    }
    atomic_store(&f->fake.held, NULL);
    for (size_t i = 0; i < MD_COUNT(v); i++) {
        assert_ok(md_bd_variant_wait(v[i]));
        md_bd_variant_destroy(&v[i]);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_unused), TEST(test_unused_by_threads), TEST(test_failures_that_pass),
                                       TEST(test_texts_of_a_forked_child)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
