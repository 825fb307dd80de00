/* Libraries load a kernel before it serves: until then own kernels do, and calls wait for nothing. */
#include "dispatch/support/script.h"

#include "dispatch/select/select.h"
#include "dispatch/call/call.h"
#include "support/check.h"
#include "base/task/jobs.h"
#include "tune/tune.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OWN = 0, LIBRARY = 20 }; /* marks: 10 * family + v */
enum { HINT = 4096, AT_HINT = 1 }; /* the op's only hint; loads that its creation begins */

static script_world world;
static md_ds_op *op;

static md_ds_op *make(const char *text, const char *pin)
{
    md_ds_op_options options = script_options();
    options.compile.hints = "4096";
    options.pin = pin;
    return script_op(&world, text, &options);
}

/* Loads that are under way end, and later ones at once. */
static void end_loads(void)
{
    atomic_store(&script_now.may_load, true);
    md_ds_op_wait(op);
}

/* Calls of one shape, until what its misses began has ended. */
static void own_kernels_serve(void)
{
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(script_call(NULL, op, 100, 1), OWN);
        md_ds_op_wait(op);
    }
}

static int set_up(void **state)
{
    (void)state;
    script_reset();
    script_allow(SCRIPT_ALPHA, 0, 20.0);
    script_allow(SCRIPT_GAMMA, 0, 10.0);
    script_now.library_loads = true;
    script_world_open(&world);
    op = make("Y[n] = X[n]", NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    atomic_store(&script_now.may_load, true);
    md_ds_op_destroy(&op);
    script_world_close(&world);
    return 0;
}

static void creation_loads_for_the_hints(void **state)
{
    (void)state;
    end_loads();
    assert_int_equal(atomic_load(&script_now.n_loads), AT_HINT);
    assert_int_equal(script_call(NULL, op, HINT, 1), LIBRARY);
    assert_int_equal(atomic_load(&script_now.n_loads), AT_HINT);
}

static void own_kernels_serve_until_it_is_loaded(void **state)
{
    (void)state;
    for (int32_t i = 0; i < 5; i++)
        assert_int_equal(script_call(NULL, op, 100, 1), OWN);
    end_loads();
    assert_int_equal(script_call(NULL, op, 100, 1), LIBRARY);
    assert_int_equal(atomic_load(&script_now.n_loads), AT_HINT + 1);
}

static void each_shape_loads_once(void **state)
{
    (void)state;
    atomic_store(&script_now.may_load, true);
    for (int64_t n = 50; n < 60; n++)
        for (int32_t i = 0; i < 3; i++)
            (void)script_call(NULL, op, n, 1);
    md_ds_op_wait(op);
    for (int64_t n = 50; n < 60; n++)
        assert_int_equal(script_call(NULL, op, n, 1), LIBRARY);
    assert_int_equal(atomic_load(&script_now.n_loads), AT_HINT + 10);
}

static void what_cannot_be_loaded_never_serves(void **state)
{
    (void)state;
    atomic_store(&script_now.load_fails, true);
    assert_int_equal(script_call(NULL, op, 100, 1), OWN);
    end_loads();
    for (int32_t i = 0; i < 5; i++)
        assert_int_equal(script_call(NULL, op, 100, 1), OWN);
    assert_int_equal(atomic_load(&script_now.n_loads), AT_HINT + 1);
}

/* Loading would hold the driver's lock: calls do not begin it, only who asks for the best does. */
static void calls_load_nothing_that_was_not_loaded(void **state)
{
    (void)state;
    end_loads();
    script_now.defers_loads = true;
    own_kernels_serve();
    assert_int_equal(atomic_load(&script_now.n_loads), AT_HINT);
    world.runtime.waits = true;
    assert_int_equal(script_call(NULL, op, 101, 1), LIBRARY);
    assert_int_equal(atomic_load(&script_now.n_loads), AT_HINT + 1);
}

/* The library saves 10 us a call, and a load costs 2,000. */
static void calls_load_once_it_pays(void **state)
{
    (void)state;
    enum { FEW = 150, ENOUGH = 220 };
    end_loads();
    script_now.defers_loads = true;
    for (int32_t i = 0; i < ENOUGH; i++) {
        assert_int_equal(script_call(NULL, op, 100, 1), OWN);
        if (i < 2)
            md_ds_op_wait(op); /* it is found out that nothing is loaded */
        if (i == FEW)
            atomic_store(&script_now.may_load, false); /* so that the load does not end within this loop */
        if (i <= FEW)
            assert_int_equal(atomic_load(&script_now.n_loads), AT_HINT);
    }
    end_loads();
    assert_int_equal(atomic_load(&script_now.n_loads), AT_HINT + 1);
    assert_int_equal(script_call(NULL, op, 100, 1), LIBRARY);
    assert_int_equal(script_call(NULL, op, 101, 1), OWN);
}

static void a_load_that_fails_is_tried_once(void **state)
{
    (void)state;
    end_loads();
    script_now.defers_loads = true;
    atomic_store(&script_now.load_fails, true);
    for (int32_t i = 0; i < 600; i++) {
        assert_int_equal(script_call(NULL, op, 100, 1), OWN);
        if (i % 100 < 2)
            md_ds_op_wait(op);
    }
    assert_int_equal(atomic_load(&script_now.n_loads), AT_HINT + 1);
}

static void small_gains_load_nothing(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 10.2);
    atomic_store(&script_now.may_load, true);
    md_ds_op *other = make("Y[n] = X[n] * 5", NULL);
    md_ds_op_wait(other);
    script_now.defers_loads = true;
    const int32_t n_before = atomic_load(&script_now.n_loads);
    for (int32_t i = 0; i < 12000; i++)
        assert_int_equal(script_call(NULL, other, 100, 1), OWN);
    md_ds_op_wait(other);
    assert_int_equal(atomic_load(&script_now.n_loads), n_before);
    md_ds_op_destroy(&other);
}

/* Nor does who wants the best wait for anything but the loads: what cannot be loaded is no candidate then. */
static void what_cannot_be_loaded_is_not_waited_for(void **state)
{
    (void)state;
    atomic_store(&script_now.load_fails, true);
    atomic_store(&script_now.may_load, true);
    world.runtime.waits = true;
    const uint64_t waits = atomic_load(&op->count.waits);
    for (int64_t n = 100; n < 104; n++)
        assert_int_equal(script_call(NULL, op, n, 1), OWN);
    assert_int_equal(atomic_load(&op->count.waits), waits);
}

/* Where a library's kernel is not loaded, and something else is amiss, that is what is said: loading would not help. */
static void what_loading_does_not_mend_is_said(void **state)
{
    (void)state;
    atomic_store(&script_now.may_load, true);
    script_now.row[SCRIPT_GAMMA][0].lo = 2000; /* of ops that are made from here on */
    md_ds_op *other = make("Y[n] = X[n] * 6", NULL);
    md_ds_op_wait(other);
    script_now.defers_loads = true;
    const md_ds_pool *pool = &other->stage[0];
    int32_t gamma = -1;
    for (int32_t i = 0; i < pool->n_variants; i++)
        gamma = strstr(script_name(other, i), "gamma") ? i : gamma;
    assert_true(gamma >= 0);
    static const struct {
        int64_t n;
        const char *why;
    } row[] = {{1000, "dim smaller than compiled"}, {3000, "its library's kernel is not loaded"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_kn_shape shape;
        const int64_t size[MD_FX_MAX_DIMS] = {row[i].n};
        md_tn_shape(&shape, other->program, size);
        (void)md_bd_variant_load(pool->variant[gamma], &shape, MD_BD_LOAD_FIND);
        md_ds_op_wait(other); /* now it is known that nothing is loaded */
        const char *why = md_ds_reject_reason(pool, gamma, &shape);
        assert_non_null(why);
        assert_int_equal(strncmp(why, row[i].why, strlen(row[i].why)), 0);
    }
    md_ds_op_destroy(&other);
}

/* What a new shape is chosen from: a library counts once it has answered. */
static void who_was_not_asked_does_not_fit_a_hurried_choice(void **state)
{
    (void)state;
    end_loads();
    const md_ds_pool *pool = &op->stage[0];
    md_kn_shape shape;
    const int64_t size[MD_FX_MAX_DIMS] = {100};
    md_tn_shape(&shape, op->program, size);
    md_ds_query hurried = {.shape = &shape, .with_unbuilt = true, .without_unasked = true}, patient = hurried;
    patient.without_unasked = false;
    int32_t n = 0;
    for (int32_t i = 0; i < pool->n_variants; i++) {
        const bool is_library = pool->variant[i]->family->library_answer != NULL;
        n += is_library && md_ds_fits(pool, i, &patient);
        assert_int_equal(md_ds_fits(pool, i, &hurried), md_ds_fits(pool, i, &patient) && !is_library);
    }
    assert_true(n > 0);
    (void)script_call(NULL, op, 100, 1); /* asks */
    md_ds_op_wait(op);
    for (int32_t i = 0; i < pool->n_variants; i++)
        assert_int_equal(md_ds_fits(pool, i, &hurried), md_ds_fits(pool, i, &patient));
}

static void a_frozen_op_loads_nothing(void **state)
{
    (void)state;
    end_loads();
    atomic_store(&op->frozen, MD_DS_FROZEN_READY);
    assert_int_equal(script_call(NULL, op, 100, 1), OWN);
    assert_int_equal(atomic_load(&script_now.n_loads), AT_HINT);
}

static void who_wants_the_best_waits_for_it(void **state)
{
    (void)state;
    world.runtime.waits = true;
    atomic_store(&script_now.may_load, true);
    assert_int_equal(script_call(NULL, op, 100, 1), LIBRARY);
    md_ds_op_wait(op);
    assert_int_equal(atomic_load(&script_now.n_loads), AT_HINT + 1);
}

/* By the shape the library takes 10 us, and own kernels 20; by its answer 30. */
static void who_waits_believes_the_answer(void **state)
{
    (void)state;
    world.runtime.waits = true;
    script_now.answered_us = 90.0;
    atomic_store(&script_now.may_load, true);
    assert_int_equal(script_call(NULL, op, 100, 1), OWN);
    md_ds_op_wait(op);
    assert_int_equal(atomic_load(&script_now.n_loads), AT_HINT + 1);
}

/* md_prepare of a shape that was called before. */
static void who_wants_the_best_gets_it_later_too(void **state)
{
    (void)state;
    md_ds_bound bound;
    md_ds_shape_entry *entry = NULL;
    script_vectors v;
    end_loads();
    script_now.defers_loads = true;
    own_kernels_serve();
    script_vectors_make(&v, 100, 1);
    assert_ok(md_ds_bind(&bound, op, v.arg, 2));
    bound.is_patient = true;
    assert_ok(md_ds_find(&entry, op, NULL, &bound));
    md_ds_shape_entry_release(entry);
    script_vectors_free(&v);
    assert_int_equal(atomic_load(&script_now.n_loads), AT_HINT + 1);
    assert_int_equal(script_call(NULL, op, 100, 1), LIBRARY);
}

/* By the shape alone the library takes 10 us, and own kernels 20. */
static void a_slow_answer_is_believed(void **state)
{
    (void)state;
    script_now.answered_us = 90.0; /* 30 in the mean */
    atomic_store(&script_now.may_load, true);
    own_kernels_serve();
    assert_int_equal(script_call(NULL, op, 100, 1), OWN);
}

/* Own kernels take 20 us, the mean is 17: slices that the shape did not tell of are a fact. */
static void slices_are_a_fact(void **state)
{
    (void)state;
    script_now.answered_us = 30.0;
    script_now.is_cut = true;
    atomic_store(&script_now.may_load, true);
    own_kernels_serve();
    assert_int_equal(script_call(NULL, op, 100, 1), OWN);
}

/* By distance, too: what a library answers here is not the kernel that is best at the hint. */
static void slices_are_a_fact_by_distance(void **state)
{
    (void)state;
    md_ds_op_options options = script_options();
    options.compile.policy.select = MD_SELECT_DISTANCE;
    end_loads();
    world.runtime.waits = true;
    for (int32_t is_cut = 0; is_cut < 2; is_cut++)
        for (int32_t has_default_hints = 0; has_default_hints < 2; has_default_hints++) {
            script_now.answered_us = 16.0; /* own kernels: 20 */
            script_now.is_cut = is_cut;
            options.compile.hints_source = has_default_hints ? "default hints" : "test";
            md_ds_op *asked = script_op(&world, "Y[n] = X[n] * 9", &options);
            assert_int_equal(script_call(NULL, asked, 100 + 2 * is_cut + has_default_hints, 1), is_cut ? OWN : LIBRARY);
            md_ds_op_wait(asked); /* until then loads ask the script */
            md_ds_op_destroy(&asked);
        }
}

/* By the shape alone it takes 13 us, and own kernels 10: that is near enough to ask it. */
static void a_fast_answer_is_believed(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 10.0);
    script_allow(SCRIPT_GAMMA, 0, 13.0);
    script_now.answered_us = 5.0; /* 8 in the mean */
    atomic_store(&script_now.may_load, true);
    for (int32_t waits = 0; waits < 2; waits++) {
        world.runtime.waits = waits;
        md_ds_op *asked = make(waits ? "Y[n] = X[n] * 8" : "Y[n] = X[n] * 7", NULL);
        if (!waits)
            (void)script_call(NULL, asked, 100, 1); /* an own kernel, unless the answer comes before it runs */
        md_ds_op_wait(asked);
        assert_int_equal(script_call(NULL, asked, waits ? 101 : 100, 1), LIBRARY);
        md_ds_op_destroy(&asked);
    }
}

static void a_library_alone_serves_at_once(void **state)
{
    (void)state;
    script_now.row[SCRIPT_ALPHA][0].hi = 1000; /* of ops that are made from here on */
    md_ds_op *other = make("Y[n] = X[n] * 2", NULL);
    assert_int_equal(script_call(NULL, other, 5000, 1), LIBRARY);
    md_ds_op_destroy(&other);
}

/* Nor does it have to be loaded before. */
static void a_library_alone_or_pinned_loads_in_the_call(void **state)
{
    (void)state;
    script_now.defers_loads = true;
    atomic_store(&script_now.may_load, true);
    script_now.row[SCRIPT_ALPHA][0].hi = 1000;
    md_ds_op *alone = make("Y[n] = X[n] * 3", NULL);
    md_ds_op *pinned = make("Y[n] = X[n] * 4", "gamma/v0_w0");
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(script_call(NULL, alone, 5000, 1), LIBRARY);
        assert_int_equal(script_call(NULL, pinned, 500, 1), LIBRARY);
        md_ds_op_wait(alone);
        md_ds_op_wait(pinned);
    }
    md_ds_op_destroy(&alone);
    md_ds_op_destroy(&pinned);
}

/* Alpha takes 8 us, beta fewer for small sizes, gamma's library half of that. A shape that waits for the library is
 * served by what was picked before, though that is slower by the model, unless it is long. */
static void recent_picks_serve_meanwhile(void **state)
{
    (void)state;
    enum { BETA = 10 };
    static const struct {
        int64_t n;
        int32_t first;
    } list[] = {{50, BETA}, {120, BETA}, {1000, OWN}, {51, BETA}, {400, OWN}, {1500, OWN}};
    script_allow(SCRIPT_ALPHA, 0, 8.0);
    script_allow(SCRIPT_GAMMA, 0, 4.0);
    script_allow(SCRIPT_BETA, 0, 1.0)->us_each = 0.1;
    md_ds_op *other = make("Y[n] = X[n] * 5", NULL);
    assert_int_equal(other->stage[0].recent, 0);
    for (int32_t i = 0; i < MD_COUNT(list); i++) {
        assert_int_equal(script_call(NULL, other, list[i].n, 1), list[i].first);
        if (i == 0) /* only beta was picked */
            assert_int_equal(other->stage[0].recent, other->stage[0].variant[0]->family->name[0] == 'b' ? 1 : 2);
    }
    atomic_store(&script_now.may_load, true);
    md_ds_op_wait(other);
    for (int32_t i = 0; i < MD_COUNT(list); i++)
        assert_int_equal(script_call(NULL, other, list[i].n, 1), LIBRARY);
    md_ds_op_destroy(&other);
}

static int32_t n_before_exit;

static void call_at_exit(void)
{
    md_status status = MD_OK;
    (void)script_call(&status, op, 100, 1);
    _exit(atomic_load(&script_now.n_loads) == n_before_exit ? 0 : 1);
}

/* The library may be gone. */
static void exit_asks_nothing_of_libraries(void **state)
{
    (void)state;
    md_ds_op_destroy(&op);
    op = make("Y[n] = X[n]", "gamma/v0_w0");
    end_loads();
    const pid_t child = fork();
    if (child == 0) {
        n_before_exit = atomic_load(&script_now.n_loads);
        (void)atexit(call_at_exit);
        md_jobs_rest_at_exit();
        exit(0);
    }
    int status = -1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(creation_loads_for_the_hints, set_up, tear_down),
        cmocka_unit_test_setup_teardown(own_kernels_serve_until_it_is_loaded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_shape_loads_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_loaded_never_serves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_loaded_is_not_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(calls_load_nothing_that_was_not_loaded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(calls_load_once_it_pays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_load_that_fails_is_tried_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(small_gains_load_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_loading_does_not_mend_is_said, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_was_not_asked_does_not_fit_a_hurried_choice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_frozen_op_loads_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_wants_the_best_waits_for_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_waits_believes_the_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_wants_the_best_gets_it_later_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_slow_answer_is_believed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(slices_are_a_fact, set_up, tear_down),
        cmocka_unit_test_setup_teardown(slices_are_a_fact_by_distance, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_fast_answer_is_believed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_library_alone_serves_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_library_alone_or_pinned_loads_in_the_call, set_up, tear_down),
        cmocka_unit_test_setup_teardown(recent_picks_serve_meanwhile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(exit_asks_nothing_of_libraries, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
