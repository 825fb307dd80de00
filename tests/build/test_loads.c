/* What libraries load before a call: which efforts begin a load, who does it, what comes of it, and who is told. The
 * family's library is the test's, and so is the clock. */
#include "support/check.h"

#include "build/internal.h"
#include "build/toy.h"
#include "support/devices/fake_device.h"
#include "support/fault.h"

#include "base/clock.h"
#include "base/status.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { N_NEEDS = 32 };

static _Atomic uint64_t clock_ns;
uint64_t __wrap_md_clock_ns(void);
uint64_t __wrap_md_clock_ns(void)
{
    return atomic_load(&clock_ns);
}

/* ---- The library: need i is word 0 of its call */

static struct {
    _Atomic int n_loads[N_NEEDS], n_looks[N_NEEDS]; /* with and without may_load */
    _Atomic int status_of_load[N_NEEDS], status_of_look[N_NEEDS];
    _Atomic bool is_held[N_NEEDS], is_in[N_NEEDS]; /* a load of it does not end, or runs now */
    md_fa_answer answer[N_NEEDS];
    int32_t first, n; /* the calls of a variant */
} library;

static int32_t list_calls(md_fa_library_call out[MD_FA_MAX_LIBRARY_CALLS], const md_fa_target *target,
                          const md_fa_config *config, const md_kn_shape *shape)
{
    (void)target, (void)config, (void)shape;
    for (int32_t i = 0; i < library.n; i++)
        out[i].word[0] = (uint64_t)(library.first + i);
    return library.n;
}

static md_status load_call(md_dev *dev, const md_fa_library_call *call, bool may_load)
{
    const uint64_t i = call->word[0];
    (void)dev;
    atomic_store(&library.is_in[i], true);
    while (atomic_load(&library.is_held[i]))
        (void)usleep(100);
    atomic_fetch_add(may_load ? &library.n_loads[i] : &library.n_looks[i], 1);
    return (md_status)atomic_load(may_load ? &library.status_of_load[i] : &library.status_of_look[i]);
}

static md_fa_answer answer_call(md_dev *dev, const md_dev_facts *facts, const md_fa_library_call *call)
{
    (void)dev, (void)facts;
    return library.answer[call->word[0]];
}

typedef struct fixture {
    md_pool *pool;
    fake_device fake;
    md_bd *builder;
    md_fa_family family;
    md_bd_variant *variant;
    toy toy;
    _Atomic int32_t n_told;
} fixture;

static void tell(void *user)
{
    fixture *f = user;
    atomic_fetch_add(&f->n_told, 1);
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f || md_pool_create(&f->pool, 2) != MD_OK)
        return -1;
    memset((void *)&library, 0, sizeof library);
    library.n = 1;
    for (int i = 0; i < N_NEEDS; i++)
        atomic_store(&library.status_of_look[i], MD_NOT_FOUND);
    atomic_store(&clock_ns, UINT64_C(1000000000));
    fake_device_init(&f->fake, f->pool, NULL);
    toy_init(&f->toy, &f->fake.base.facts);
    f->family = toy_family;
    f->family.library_calls = list_calls;
    f->family.load_library_call = load_call;
    f->family.library_answer = answer_call;
    const md_fa_config config = toy_config(TOY_FUNCTION, 0);
    *state = f;
    return md_bd_create(&f->builder, &f->fake.base) != MD_OK ||
           md_bd_variant_create(&f->variant, f->builder, &f->toy.target, &f->family, &config) != MD_OK;
}

static int teardown(void **state)
{
    fixture *f = *state;
    md_bd_variant_destroy(&f->variant);
    md_bd_destroy(&f->builder);
    md_pool_destroy(&f->pool);
    free(f);
    return 0;
}

/* Asks for n needs from `first`. */
static md_bd_load_state ask(fixture *f, int32_t first, int32_t n, md_bd_load_effort effort)
{
    library.first = first;
    library.n = n;
    return md_bd_variant_load(f->variant, &(md_kn_shape){0}, effort);
}

/* Looking begins nothing; finding out asks without loading, once; then starting loads, once. */
static void test_efforts(void **state)
{
    fixture *f = *state;
    assert_int_equal(ask(f, 0, 1, MD_BD_LOAD_LOOK), MD_BD_NOT_LOADED);
    assert_int_equal(ask(f, 0, 1, MD_BD_LOAD_LOOK), MD_BD_NOT_LOADED);
    md_bd_wait_loads(f->builder);
    assert_int_equal(library.n_looks[0] + library.n_loads[0], 0);
    for (int i = 0; i < 2; i++) {
        const md_bd_load_state found = ask(f, 0, 1, MD_BD_LOAD_FIND);
        assert_true(i == 0 ? found == MD_BD_NOT_LOADED || found == MD_BD_DEFERRED : found == MD_BD_DEFERRED);
        md_bd_wait_loads(f->builder);
        assert_int_equal(library.n_looks[0], 1);
        assert_int_equal(library.n_loads[0], 0);
        assert_int_equal(ask(f, 0, 1, MD_BD_LOAD_LOOK), MD_BD_DEFERRED);
    }
    for (int i = 0; i < 2; i++) {
        (void)ask(f, 0, 1, MD_BD_LOAD_START);
        md_bd_wait_loads(f->builder);
        assert_int_equal(library.n_loads[0], 1);
        assert_int_equal(ask(f, 0, 1, MD_BD_LOAD_LOOK), MD_BD_LOADED);
    }
    assert_int_equal(ask(f, 1, 1, MD_BD_LOAD_WAIT), MD_BD_LOADED); /* what nobody asked for before */
    (void)ask(f, 2, 1, MD_BD_LOAD_START);
    md_bd_wait_all(f->builder);
    assert_int_equal(ask(f, 2, 1, MD_BD_LOAD_FIND), MD_BD_LOADED);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(library.n_loads[i], 1);
        assert_int_equal(library.n_looks[i], 0);
    }
}

/* What is there already needs no load; what the library refuses stays refused; of several needs the worst counts. */
static void test_states(void **state)
{
    fixture *f = *state;
    atomic_store(&library.status_of_look[0], MD_OK);
    atomic_store(&library.status_of_look[1], MD_UNSUPPORTED);
    atomic_store(&library.status_of_load[3], MD_DEVICE);
    (void)ask(f, 0, 3, MD_BD_LOAD_FIND);
    md_bd_wait_loads(f->builder);
    assert_int_equal(ask(f, 0, 1, MD_BD_LOAD_LOOK), MD_BD_LOADED);
    assert_int_equal(ask(f, 1, 1, MD_BD_LOAD_LOOK), MD_BD_CANNOT_LOAD);
    assert_int_equal(ask(f, 2, 1, MD_BD_LOAD_LOOK), MD_BD_DEFERRED);
    assert_int_equal(ask(f, 0, 3, MD_BD_LOAD_LOOK), MD_BD_CANNOT_LOAD);
    assert_int_equal(ask(f, 1, 2, MD_BD_LOAD_LOOK), MD_BD_CANNOT_LOAD);
    assert_int_equal(ask(f, 0, 1, MD_BD_LOAD_WAIT), MD_BD_LOADED);
    assert_int_equal(ask(f, 1, 1, MD_BD_LOAD_WAIT), MD_BD_CANNOT_LOAD);
    assert_int_equal(ask(f, 2, 1, MD_BD_LOAD_WAIT), MD_BD_LOADED);
    assert_int_equal(ask(f, 3, 1, MD_BD_LOAD_WAIT), MD_BD_CANNOT_LOAD);
    assert_int_equal(ask(f, 2, 2, MD_BD_LOAD_LOOK), MD_BD_CANNOT_LOAD);
    assert_int_equal(ask(f, 0, 0, MD_BD_LOAD_LOOK), MD_BD_LOADED); /* no needs */
    for (int i = 0; i < 4; i++)
        assert_int_equal(library.n_loads[i], i >= 2);
    f->family.library_calls = NULL;
    assert_int_equal(ask(f, 9, 1, MD_BD_LOAD_WAIT), MD_BD_LOADED);
    assert_int_equal(library.n_loads[9], 0);
}

static void *wait_for_0(void *user)
{
    fixture *f = user;
    return ask(f, 0, 1, MD_BD_LOAD_WAIT) == MD_BD_LOADED ? NULL : f;
}

/* A load that runs is waited for, and not begun by whoever waits. */
static void test_waits_for_a_load(void **state)
{
    fixture *f = *state;
    pthread_t thread;
    void *result = f;
    atomic_store(&library.is_held[0], true);
    (void)ask(f, 0, 1, MD_BD_LOAD_START);
    while (!atomic_load(&library.is_in[0]))
        (void)usleep(100);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_0, f), 0);
    (void)usleep(20000); /* a thread that loaded would have begun by now */
    atomic_store(&library.is_held[0], false);
    pthread_join(thread, &result);
    assert_null(result);
    md_bd_wait_all(f->builder);
    assert_int_equal(library.n_loads[0], 1);
}

/* A queued load is done by the thread that waits for it, and not again by the job; one that runs is waited for. */
static void test_who_waits(void **state)
{
    fixture *f = *state;
    atomic_store(&library.is_held[0], true);
    (void)ask(f, 0, 1, MD_BD_LOAD_START);
    while (!atomic_load(&library.is_in[0]))
        (void)usleep(100);
    (void)ask(f, 1, 1, MD_BD_LOAD_START); /* behind the one that does not end, if there is one thread for jobs */
    assert_int_equal(ask(f, 0, 1, MD_BD_LOAD_LOOK), MD_BD_NOT_LOADED);
    assert_int_equal(ask(f, 1, 1, MD_BD_LOAD_WAIT), MD_BD_LOADED);
    atomic_store(&library.is_held[0], false);
    assert_int_equal(ask(f, 0, 1, MD_BD_LOAD_WAIT), MD_BD_LOADED);
    md_bd_wait_all(f->builder);
    assert_int_equal(library.n_loads[0], 1);
    assert_int_equal(library.n_loads[1], 1);
}

/* A thread that waits while another one only finds out loads afterwards. */
static void test_waits_for_a_look(void **state)
{
    fixture *f = *state;
    atomic_store(&library.is_held[0], true);
    (void)ask(f, 0, 1, MD_BD_LOAD_FIND);
    while (!atomic_load(&library.is_in[0]))
        (void)usleep(100);
    (void)ask(f, 0, 1, MD_BD_LOAD_START); /* begins nothing: the state is not DEFERRED */
    atomic_store(&library.is_held[0], false);
    assert_int_equal(ask(f, 0, 1, MD_BD_LOAD_WAIT), MD_BD_LOADED);
    assert_int_equal(library.n_looks[0], 1);
    assert_int_equal(library.n_loads[0], 1);
}

/* Holds the jobs, asks for all needs, lets `step` ns pass before each load ends; how often the listener was told. */
static int32_t tell_of_loads(fixture *f, uint64_t step)
{
    md_bd_listen(f->builder, tell, f);
    for (int i = 0; i < N_NEEDS; i++)
        atomic_store(&library.is_held[i], true);
    for (int i = 0; i < N_NEEDS; i++)
        (void)ask(f, i, 1, MD_BD_LOAD_START);
    for (int i = 0; i < N_NEEDS; i++) {
        while (!atomic_load(&library.is_in[i]))
            (void)usleep(100);
        atomic_fetch_add(&clock_ns, step);
        atomic_store(&library.is_held[i], false);
        while (ask(f, i, 1, MD_BD_LOAD_LOOK) != MD_BD_LOADED)
            (void)usleep(100);
    }
    md_bd_wait_all(f->builder);
    return atomic_load(&f->n_told);
}

/* Loads that end within 10 ms of each other are told of at first and at last, others each. */
static void test_listener(void **state)
{
    assert_int_equal(tell_of_loads(*state, 1), 2);
}

static void test_listener_of_slow_loads(void **state)
{
    assert_int_equal(tell_of_loads(*state, 10000000), N_NEEDS);
}

/* Times of several calls add up, if all are known; what reports show is the first call's. */
static void test_answers(void **state)
{
    fixture *f = *state;
    library.answer[0] = (md_fa_answer){.us = 2, .slices = 1, .algorithm = 5, .rows = 64, .columns = 32, .waves = 1.5};
    library.answer[1] = (md_fa_answer){.us = 3, .slices = 4, .algorithm = 6, .rows = 16, .columns = 8, .waves = 2.5};
    library.answer[2] = (md_fa_answer){.slices = 2};
    assert_true(md_bd_variant_answer(f->variant, &(md_kn_shape){0}).us == 0.0); /* nobody asked yet */
    assert_int_equal(ask(f, 0, 3, MD_BD_LOAD_WAIT), MD_BD_LOADED);
    library.n = 2;
    const md_fa_answer two = md_bd_variant_answer(f->variant, &(md_kn_shape){0});
    assert_true(two.us == 5.0 && two.slices == 4 && two.algorithm == 5 && two.rows == 64 && two.columns == 32 &&
                two.waves == 1.5);
    library.n = 3;
    const md_fa_answer three = md_bd_variant_answer(f->variant, &(md_kn_shape){0});
    assert_true(three.us == 0.0 && three.slices == 4 && three.algorithm == 5);
    library.first = 1;
    library.n = 1;
    assert_true(md_bd_variant_answer(f->variant, &(md_kn_shape){0}).us == 3.0);
    library.n = 0;
    assert_true(md_bd_variant_answer(f->variant, &(md_kn_shape){0}).us == 0.0);
    f->family.library_answer = NULL; /* nothing is known then */
    assert_int_equal(ask(f, 7, 1, MD_BD_LOAD_WAIT), MD_BD_LOADED);
    assert_true(md_bd_variant_answer(f->variant, &(md_kn_shape){0}).us == 0.0);
}

/* After a fork no thread loads: what was being loaded cannot be, what is loaded serves on. */
static void test_lost_loads(void **state)
{
    fixture *f = *state;
    assert_int_equal(ask(f, 0, 1, MD_BD_LOAD_WAIT), MD_BD_LOADED);
    (void)ask(f, 1, 1, MD_BD_LOAD_FIND);
    md_bd_wait_loads(f->builder);
    atomic_store(&library.is_held[2], true);
    (void)ask(f, 2, 1, MD_BD_LOAD_START);
    while (!atomic_load(&library.is_in[2]))
        (void)usleep(100);
    md_bd_lose_loads(f->builder);
    assert_int_equal(ask(f, 0, 1, MD_BD_LOAD_LOOK), MD_BD_LOADED);
    assert_int_equal(ask(f, 1, 1, MD_BD_LOAD_LOOK), MD_BD_CANNOT_LOAD);
    assert_int_equal(ask(f, 1, 1, MD_BD_LOAD_WAIT), MD_BD_CANNOT_LOAD);
    assert_int_equal(ask(f, 2, 1, MD_BD_LOAD_LOOK), MD_BD_CANNOT_LOAD);
    atomic_store(&library.is_held[2], false);
    md_bd_wait_loads(f->builder);
}

/* Without memory for a need nothing is loaded, and the next time it is. */
static void test_short_of_memory(void **state)
{
    fixture *f = *state;
    int n_refused = 0;
    for (int64_t n = 1; n < 6; n++) {
        fault_once(n);
        const md_bd_load_state found = ask(f, (int32_t)n, 1, MD_BD_LOAD_WAIT);
        const int happened = fault_happened();
        fault_once(0);
        n_refused += happened;
        assert_int_equal(found, happened ? MD_BD_CANNOT_LOAD : MD_BD_LOADED);
        assert_int_equal(ask(f, (int32_t)n, 1, MD_BD_LOAD_WAIT), MD_BD_LOADED);
    }
    assert_in_range(n_refused, 2, 4);
}

/* Who asks several times before it is told is told at least once, and the builder waits for that. */
static void test_told_later(void **state)
{
    fixture *f = *state;
    md_bd_listen(f->builder, tell, f);
    md_bd_notify_later(f->builder);
    md_bd_wait_all(f->builder);
    assert_int_equal(atomic_load(&f->n_told), 1);
    for (int i = 0; i < 3; i++)
        md_bd_notify_later(f->builder);
    md_bd_wait_all(f->builder);
    assert_in_range(atomic_load(&f->n_told), 2, 4);
    md_bd_listen(f->builder, NULL, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(test_efforts),          TEST(test_states),
                                       TEST(test_who_waits),        TEST(test_waits_for_a_load),
                                       TEST(test_listener),         TEST(test_answers),
                                       TEST(test_waits_for_a_look), TEST(test_lost_loads),
                                       TEST(test_short_of_memory),  TEST(test_listener_of_slow_loads),
                                       TEST(test_told_later)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
