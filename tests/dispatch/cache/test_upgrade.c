/* A new shape never waits if a ready variant fits: stand-ins, upgrades, ops that serve while their kernels are built,
 * frozen ops. */
#include "dispatch/cache/marks.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/call/call.h"
#include "support/check.h"

#include <sys/wait.h>
#include <unistd.h>

static void an_op_is_made_with_its_first_variant(void **state)
{
    (void)state;
    marks_hold("COPY 10");
    md_ds_op *op = marks_async_op();
    assert_int_equal(op->stage[0].variant[1]->state, MD_BD_QUEUED);
    assert_int_equal(marks_call(op, 100), 0);
    assert_int_equal(op->count.nearest, 0); /* the best there is */
    for (int i = 0; i < 5; i++)
        assert_int_equal(marks_call(op, 2000), 0); /* beta would be better */
    assert_int_equal(op->count.nearest, 5);
    assert_int_equal(op->count.misses, 2);
    assert_int_equal(op->n_waiting, 1);
    marks_hold(NULL);
    md_ds_op_wait(op);
    assert_int_equal(marks_call(op, 2000), 10);
    assert_int_equal(marks_call(op, 100), 0);
    assert_int_equal(op->count.upgrades, 1);
    assert_int_equal(op->count.misses, 2);
    assert_int_equal(op->count.nearest, 5);
    assert_int_equal(op->n_waiting, 0);
    assert_int_equal(op->count.waits, 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(marks_call(op, 2000), 10);
    md_ds_op_destroy(&op);
}

/* Nobody asks: the builder's thread upgrades. */
static void upgrade_comes_by_itself(void **state)
{
    (void)state;
    marks_hold("COPY 10");
    md_ds_op *op = marks_async_op();
    assert_int_equal(marks_call(op, 2000), 0);
    marks_hold(NULL);
    while (atomic_load(&op->count.upgrades) == 0) /* the program's time limit ends it */
        sched_yield();
    assert_int_equal(op->count.upgrades, 1);
    assert_int_equal(marks_call(op, 2000), 10);
    md_ds_op_destroy(&op);
}

static void what_fails_is_not_waited_for(void **state)
{
    (void)state;
    script_now.row[SCRIPT_BETA][0].cannot_compile = true;
    marks_hold("COPY 10");
    md_ds_op *op = marks_async_op();
    assert_int_equal(marks_call(op, 2000), 0);
    assert_int_equal(op->n_waiting, 1);
    marks_hold(NULL);
    md_ds_op_wait(op);
    assert_int_equal(op->n_waiting, 0);
    assert_int_equal(op->count.upgrades, 0); /* alpha is the best there is */
    for (int i = 0; i < 3; i++)
        assert_int_equal(marks_call(op, 2000), 0);
    assert_int_equal(op->count.nearest, 1);
    md_ds_op_destroy(&op);
}

/* Builds that end one by one: after the first the shape still waits for the second. Alpha is ready at once; of beta and
 * gamma, which are better, the first does not compile. */
static void a_shape_may_wait_again(void **state)
{
    (void)state;
    script_now.row[SCRIPT_BETA][0].is_legal = false;
    script_allow(SCRIPT_BETA, 1, 11.0)->cannot_compile = true;
    script_allow(SCRIPT_GAMMA, 1, 15.0);
    marks_hold("1 w0"); /* of "COPY 11 w0" and "COPY 21 w0" */
    md_ds_op *op = marks_async_op();
    const int32_t n_variants = op->stage[0].n_variants, first = marks_call(op, 2000);
    marks_hold("COPY 21");
    for (int32_t i = 0; i < n_variants; i++)
        if (!strncmp(op->stage[0].variant[i]->name, "beta", 4))
            md_bd_variant_wait(op->stage[0].variant[i]);
    md_ds_upgrade_ready(op);
    const int32_t n_waiting = op->n_waiting, second = marks_call(op, 2000);
    marks_hold(NULL);
    md_ds_op_wait(op);
    assert_int_equal(n_variants, 3);
    assert_int_equal(first, 0);
    assert_int_equal(n_waiting, 1);
    assert_int_equal(second, 0);
    assert_int_equal(op->n_waiting, 0);
    assert_int_equal(marks_call(op, 2000), 21);
    assert_int_equal(op->count.upgrades, 1);
    assert_int_equal(op->count.misses, 1);
    md_ds_op_destroy(&op);
}

/* The first of an op's variants may fail; then the next one is waited for. */
static void the_first_that_is_ready_counts(void **state)
{
    (void)state;
    script_now.row[SCRIPT_ALPHA][0].cannot_compile = true;
    md_ds_op *op = marks_async_op();
    assert_int_equal(marks_call(op, 100), 10);
    script_now.row[SCRIPT_BETA][0].cannot_compile = true;
    md_ds_op_options o = script_options();
    o.is_async = true;
    md_ds_op *none = script_op(&marks_world, "scalar a; Y[n] = X[n] + a", &o);
    float y = 0.0f, x = 3.0f;
    const int64_t one = 1;
    md_tensor ty = md_tensor_make(&y, MD_F32, 1, &one), tx = md_tensor_make(&x, MD_F32, 1, &one);
    assert_ok(md_ds_call(none, NULL, (md_arg[]){md_s(2.0), md_t(&ty), md_t(&tx)}, 3));
    assert_true(y == 5.0f); /* the reference */
    md_ds_op_destroy(&none);
    md_ds_op_destroy(&op);
}

/* Numeric classes: of two that are ready, the one with the wished one's bits stands in, though it is slower. */
static void stand_ins_are_of_the_same_class(void **state)
{
    (void)state;
    script_allow(SCRIPT_GAMMA, 0, 50.0);
    marks_hold("COPY 10");
    md_ds_op *op = marks_async_op();
    md_bd_variant *const *v = op->stage[0].variant;
    md_bd_variant_wait(v[2]);
    assert_int_equal(op->stage[0].n_variants, 3);
    v[0]->numeric_class = 7;
    v[1]->numeric_class = v[2]->numeric_class = 8;
    assert_int_equal(marks_call(op, 2000), 20);
    marks_hold(NULL);
    md_ds_op_wait(op);
    assert_int_equal(marks_call(op, 2000), 10);
    md_ds_op_destroy(&op);
}

static void a_shape_that_nothing_fits_waits(void **state)
{
    (void)state;
    script_now.row[SCRIPT_ALPHA][0].hi = 1000;
    marks_hold("COPY 10");
    md_ds_op *op = marks_async_op();
    assert_int_equal(marks_call(op, 100), 0);
    marks_hold(NULL);
    assert_int_equal(marks_call(op, 3000), 10);
    assert_true(op->count.waits <= 1);
    assert_int_equal(op->count.nearest, 0);
    assert_int_equal(op->count.adopted, 0); /* it was in the pool */
    md_ds_op_destroy(&op);
}

static void ops_may_be_told_to_wait(void **state)
{
    (void)state;
    marks_world.runtime.waits = true;
    marks_world.device.compile_ms = 20;
    md_ds_op *op = marks_async_op();
    assert_int_equal(op->stage[0].variant[1]->state, MD_BD_READY);
    assert_int_equal(marks_call(op, 2000), 10);
    assert_int_equal(op->count.nearest, 0);
    md_ds_op_destroy(&op);
}

static void an_op_may_go_while_its_kernels_are_made(void **state)
{
    (void)state;
    script_allow(SCRIPT_GAMMA, 0, 50.0);
    marks_hold("COPY 1");
    script_now.row[SCRIPT_BETA][0].us_each = 0.001;
    script_allow(SCRIPT_BETA, 1, 12.0);
    script_now.row[SCRIPT_BETA][1].legal_lo = 1000;
    md_ds_op *op = marks_async_op();
    assert_int_equal(marks_call(op, 3000), 0);
    assert_int_equal(op->n_waiting, 1);
    marks_hold(NULL);
    md_ds_op_destroy(&op);
}

/* The child has no thread that builds: what is ready goes on serving there, and the parent does not notice. */
static void a_child_of_fork_is_served(void **state)
{
    (void)state;
    marks_hold("COPY 10");
    md_ds_op *op = marks_async_op();
    for (int i = 0; i < 3; i++)
        assert_int_equal(marks_call(op, 100), 0);
    assert_int_equal(marks_call(op, 2000), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(marks_call(op, 100) == 0 && marks_call(op, 2000) == 0 && marks_call(op, 2001) == 0 &&
                      marks_call(op, 101) == 0
                  ? 0
                  : 1);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    marks_hold(NULL);
    md_ds_op_wait(op);
    assert_int_equal(marks_call(op, 2000), 10);
    md_ds_op_destroy(&op);
}

/* A kernel that stops launching, warm or not: an error each time, and no harm to the others. */
static void a_variant_that_stops_launching(void **state)
{
    (void)state;
    script_now.is_text = false; /* functions have no plans */
    md_ds_op *op = script_op(&marks_world, "Y[n] = X[n]", NULL);
    md_status status;
    for (int i = 0; i < 4; i++)
        assert_int_equal(script_call(NULL, op, 3, 1), 0);
    atomic_store(&script_now.row[SCRIPT_ALPHA][0].cannot_launch, true);
    for (int i = 0; i < 4; i++) {
        (void)script_call(&status, op, 3, 1);
        assert_fails(status, MD_DEVICE, "does not launch");
        assert_int_equal(script_call(NULL, op, 2000, 1), 10);
    }
    atomic_store(&script_now.row[SCRIPT_ALPHA][0].cannot_launch, false);
    assert_int_equal(script_call(NULL, op, 3, 1), 0);
    md_ds_op_destroy(&op);
}

/* ---- Frozen ops */

static void frozen_ops_build_nothing(void **state)
{
    (void)state;
    script_now.row[SCRIPT_ALPHA][0].hi = script_now.row[SCRIPT_BETA][0].hi = 5000;
    script_allow(SCRIPT_GAMMA, 0, 90.0)->legal_lo = 5000; /* in no hint's list: made for a shape */
    md_ds_op *op = script_op(&marks_world, marks_formula, NULL);
    md_status status;
    assert_int_equal(marks_call(op, 100), 0);
    int32_t n = marks_world.device.n_compiled;
    atomic_store(&op->frozen, MD_DS_FROZEN_READY);
    assert_int_equal(marks_call(op, 100), 0);
    assert_int_equal(marks_call(op, 2000), 10);
    assert_int_equal(op->count.frozen_misses, 1);
    assert_int_equal(marks_call_status(&status, op, 6000), -1);
    assert_fails(status, MD_UNSUPPORTED, "is frozen, and no kernel that is ready fits this shape");
    atomic_store(&op->frozen, MD_DS_FROZEN_REFERENCE);
    assert_int_equal(marks_call(op, 6000), 0); /* 0 * a */
    assert_int_equal(op->count.by_reference, 1);
    assert_int_equal(marks_call(op, 2001), 10);
    atomic_store(&op->frozen, MD_DS_FROZEN_FAIL);
    assert_int_equal(marks_call(op, 2001), 10);
    assert_int_equal(marks_call_status(&status, op, 2002), -1);
    assert_fails(status, MD_UNSUPPORTED, "is frozen, and this shape was not met before");
    assert_int_equal(marks_world.device.n_compiled, n);
    assert_int_equal(op->count.adopted, 0);
    atomic_store(&op->frozen, MD_DS_NOT_FROZEN);
    assert_int_equal(marks_call(op, 6001), 20);
    md_ds_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_op_is_made_with_its_first_variant, marks_set_up, marks_tear_down),
        cmocka_unit_test_setup_teardown(upgrade_comes_by_itself, marks_set_up, marks_tear_down),
        cmocka_unit_test_setup_teardown(a_shape_may_wait_again, marks_set_up, marks_tear_down),
        cmocka_unit_test_setup_teardown(what_fails_is_not_waited_for, marks_set_up, marks_tear_down),
        cmocka_unit_test_setup_teardown(the_first_that_is_ready_counts, marks_set_up, marks_tear_down),
        cmocka_unit_test_setup_teardown(stand_ins_are_of_the_same_class, marks_set_up, marks_tear_down),
        cmocka_unit_test_setup_teardown(a_shape_that_nothing_fits_waits, marks_set_up, marks_tear_down),
        cmocka_unit_test_setup_teardown(ops_may_be_told_to_wait, marks_set_up, marks_tear_down),
        cmocka_unit_test_setup_teardown(an_op_may_go_while_its_kernels_are_made, marks_set_up, marks_tear_down),
        cmocka_unit_test_setup_teardown(a_child_of_fork_is_served, marks_set_up, marks_tear_down),
        cmocka_unit_test_setup_teardown(a_variant_that_stops_launching, marks_set_up, marks_tear_down),
        cmocka_unit_test_setup_teardown(frozen_ops_build_nothing, marks_set_up, marks_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
