/* Equal ops are one: what counts as equal, owners, and threads that wait for the one that makes the op. */
#include "base/status.h"
#include "dispatch/support/script.h"
#include "dispatch/registry.h"
#include "support/check.h"

#include <pthread.h>

static script_world world;
static const char *const formula = "Y[n] = X[n]";

static int set_up(void **state)
{
    (void)state;
    script_reset();
    script_now.is_text = true;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_world_open(&world);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    script_world_close(&world);
    return 0;
}

static void equal_ops_are_one(void **state)
{
    (void)state;
    md_ds_op *a = script_op(&world, formula, NULL);
    md_ds_op *b = script_op(&world, "Y[n]=X[ n ]", NULL); /* printed back, it is the same */
    assert_ptr_equal(a, b);
    assert_int_equal(a->n_owners, 2);
    md_ds_op_destroy(&a); /* in any order */
    assert_null(a);
    assert_int_equal(b->n_owners, 1);
    assert_int_equal(b->stage[0].n_variants, 1);
    md_ds_op_destroy(&b);
    assert_null(world.runtime.ops);
}

static void what_tells_ops_apart(void **state)
{
    (void)state;
    md_ds_op_options o[10];
    md_ds_op *op[10];
    for (int i = 0; i < 10; i++)
        o[i] = script_options();
    o[1].name = "other";
    o[2].compile.dtype = MD_F64;
    o[3].compile.sizes = "n=8";
    o[4].compile.sizes = "n=1..8";
    o[5].compile.hints = "64,256";
    o[6].pin = "alpha/v0_w0";
    o[7].compile.policy.select = MD_SELECT_DISTANCE;
    o[8].compile.bounds = MD_BOUNDS_ZERO;
    o[9].max_shapes = 7;
    for (int i = 0; i < 10; i++)
        op[i] = script_op(&world, formula, &o[i]);
    for (int i = 0; i < 10; i++)
        for (int k = 0; k < i; k++)
            assert_ptr_not_equal(op[i], op[k]);
    o[1] = script_options();
    o[1].compile.hints = "256, 4096 ,64,64"; /* the same points are not the same order, by which ties go */
    md_ds_op *again = script_op(&world, formula, &o[1]);
    for (int i = 0; i < 10; i++)
        assert_ptr_not_equal(again, op[i]);
    md_ds_op_destroy(&again);
    o[5].compile.hints = " 64, 256 "; /* but these are */
    o[5].is_async = true;
    again = script_op(&world, formula, &o[5]);
    assert_ptr_equal(again, op[5]);
    md_ds_op_destroy(&again);
    for (int i = 9; i >= 0; i--)
        md_ds_op_destroy(&op[i]);
}

/* ---- Threads */

enum { THREADS = 16 };

typedef struct maker {
    const md_ds_op_options *options;
    pthread_barrier_t *start;
    md_ds_op *op;
    md_status status;
} maker;

static void *make(void *user)
{
    maker *m = user;
    pthread_barrier_wait(m->start);
    m->status = md_ds_op_create(&m->op, &world.runtime, formula, m->options);
    return NULL;
}

static void make_at_once(maker makers[THREADS], const md_ds_op_options *options)
{
    pthread_t thread[THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        makers[i] = (maker){options, &start, NULL, MD_OK};
        assert_int_equal(pthread_create(&thread[i], NULL, make, &makers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    pthread_barrier_destroy(&start);
}

static void made_once_by_many_threads(void **state)
{
    (void)state;
    maker makers[THREADS];
    md_ds_op_options o = script_options();
    world.device.compile_ms = 10;
    for (int round = 0; round < 4; round++) {
        o.is_async = round % 2;
        make_at_once(makers, &o);
        for (int i = 0; i < THREADS; i++) {
            assert_ok(makers[i].status);
            assert_ptr_equal(makers[i].op, makers[0].op);
        }
        assert_int_equal(world.device.n_compiled, 1);
        for (int i = 0; i < THREADS; i++)
            md_ds_op_destroy(&makers[(i * 7 + round) % THREADS].op);
        assert_null(world.runtime.ops);
    }
}

static void what_fails_fails_for_all(void **state)
{
    (void)state;
    maker makers[THREADS];
    md_ds_op_options o = script_options();
    o.pin = "alpha/no_such_config";
    make_at_once(makers, &o);
    for (int i = 0; i < THREADS; i++) {
        assert_true(makers[i].status != MD_OK);
        assert_null(makers[i].op);
    }
    assert_null(world.runtime.ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(equal_ops_are_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_tells_ops_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(made_once_by_many_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_fails_fails_for_all, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
