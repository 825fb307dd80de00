/* A new shape never waits for what is better than what is ready: stand-ins, promotion, ops that are made while their
 * kernels are, frozen ops. */
#include "base/clock.h"
#include "base/status.h"
#include "dispatch/select/async_fill.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/script.h"
#include "dispatch/call/fast_call.h"
#include "dispatch/online/times.h"
#include "support/check.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static script_world world;
static const char *const formula = "scalar a; Y[n] = X[n] * a";

/* Stores the mark that the text names in every element. */
static void store_mark(const char *text, const md_kn_word *params, int32_t n)
{
    float *y = params[0].p;
    assert_true(!strncmp(text, "COPY ", 5) && n >= 5);
    for (int64_t i = 0; i < params[2].i; i++)
        y[i] = (float)atoi(text + 5);
}

/* Alpha is better below 1000 elements, beta above. */
static int set_up(void **state)
{
    (void)state;
    script_reset();
    script_now.is_text = true;
    script_allow(SCRIPT_ALPHA, 0, 1.0)->us_each = 0.01;
    script_allow(SCRIPT_BETA, 0, 11.0);
    script_world_open(&world);
    world.device.on_launch = store_mark;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    script_world_close(&world);
    return 0;
}

/* All of its pool is chosen; pools that grow while calls are served are test_growth's. */
static md_ds_op *async_op(void)
{
    md_ds_op_options o = script_options();
    o.is_async = true;
    md_ds_op *op = script_op(&world, formula, &o);
    md_ds_async_fill_wait(op);
    return op;
}

static void hold(const char *text)
{
    atomic_store(&world.device.held, text);
}

/* The mark of a call with n elements. */
static int32_t call_status(md_status *status, md_ds_op *op, int64_t n)
{
    _Alignas(64) float y[4], x[4] = {0}; /* only the first elements are there: sizes below 4, strides of 0 for more */
    float *big = n > 4 ? aligned_alloc(64, (size_t)(n + 16) / 16 * 64) : NULL;
    md_tensor ty = md_tensor_make(big ? big : y, MD_F32, 1, &n), tx = md_tensor_make(x, MD_F32, 1, &n);
    tx.stride[0] = n > 4 ? 0 : 1;
    md_arg arg[3];
    for (int32_t i = 0; i < 3; i++) {
        const md_fx_formula *f = op->formula;
        arg[i] = f->args[i].is_scalar                            ? md_s(1.0)
                 : f->tensor[f->args[i].id].role == MD_FX_OUTPUT ? md_t(&ty)
                                                                 : md_t(&tx);
    }
    *status = md_ds_call(op, NULL, arg, 3);
    int32_t mark = *status == MD_OK ? (int32_t)((float *)ty.data)[n - 1] : -1;
    free(big);
    return mark;
}

static int32_t call(md_ds_op *op, int64_t n)
{
    md_status status;
    int32_t mark = call_status(&status, op, n);
    assert_ok(status);
    return mark;
}

static void an_op_is_made_with_its_first_variant(void **state)
{
    (void)state;
    hold("COPY 10");
    md_ds_op *op = async_op();
    assert_int_equal(op->stage[0].variant[1]->state, MD_BD_QUEUED);
    assert_int_equal(call(op, 100), 0);
    assert_int_equal(op->count.nearest, 0); /* the best there is */
    for (int i = 0; i < 5; i++)
        assert_int_equal(call(op, 2000), 0); /* beta would be better */
    assert_int_equal(op->count.nearest, 5);
    assert_int_equal(op->count.misses, 2);
    assert_int_equal(op->n_waiting, 1);
    hold(NULL);
    md_ds_op_wait(op);
    assert_int_equal(call(op, 2000), 10);
    assert_int_equal(call(op, 100), 0);
    assert_int_equal(op->count.promotions, 1);
    assert_int_equal(op->count.misses, 2);
    assert_int_equal(op->count.nearest, 5);
    assert_int_equal(op->n_waiting, 0);
    assert_int_equal(op->count.waits, 0);
    for (int i = 0; i < 10; i++)
        assert_int_equal(call(op, 2000), 10);
    md_ds_op_destroy(&op);
}

/* Nobody asks: the builder's thread promotes. */
static void promotion_comes_by_itself(void **state)
{
    (void)state;
    hold("COPY 10");
    md_ds_op *op = async_op();
    assert_int_equal(call(op, 2000), 0);
    hold(NULL);
    uint64_t start = md_clock_ns();
    while (atomic_load(&op->count.promotions) == 0 && md_clock_ns() - start < 20000000000u)
        sched_yield();
    assert_int_equal(op->count.promotions, 1);
    assert_int_equal(call(op, 2000), 10);
    md_ds_op_destroy(&op);
}

static void what_fails_is_not_waited_for(void **state)
{
    (void)state;
    script_now.row[SCRIPT_BETA][0].cannot_compile = true;
    hold("COPY 10");
    md_ds_op *op = async_op();
    assert_int_equal(call(op, 2000), 0);
    assert_int_equal(op->n_waiting, 1);
    hold(NULL);
    md_ds_op_wait(op);
    assert_int_equal(op->n_waiting, 0);
    assert_int_equal(op->count.promotions, 0); /* alpha is the best there is */
    for (int i = 0; i < 3; i++)
        assert_int_equal(call(op, 2000), 0);
    assert_int_equal(op->count.nearest, 1);
    md_ds_op_destroy(&op);
}

/* The first of an op's variants may fail; then the next one is waited for. */
static void the_first_that_is_ready_counts(void **state)
{
    (void)state;
    script_now.row[SCRIPT_ALPHA][0].cannot_compile = true;
    md_ds_op *op = async_op();
    assert_int_equal(call(op, 100), 10);
    script_now.row[SCRIPT_BETA][0].cannot_compile = true;
    md_ds_op_options o = script_options();
    o.is_async = true;
    md_ds_op *none = script_op(&world, "scalar a; Y[n] = X[n] + a", &o);
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
    hold("COPY 10");
    md_ds_op *op = async_op();
    md_bd_variant *const *v = op->stage[0].variant;
    md_bd_variant_wait(v[2]);
    assert_int_equal(op->stage[0].n_variants, 3);
    v[0]->numeric_class = 7;
    v[1]->numeric_class = v[2]->numeric_class = 8;
    assert_int_equal(call(op, 2000), 20);
    hold(NULL);
    md_ds_op_wait(op);
    assert_int_equal(call(op, 2000), 10);
    md_ds_op_destroy(&op);
}

static void a_shape_that_nothing_fits_waits(void **state)
{
    (void)state;
    script_now.row[SCRIPT_ALPHA][0].hi = 1000;
    hold("COPY 10");
    md_ds_op *op = async_op();
    assert_int_equal(call(op, 100), 0);
    hold(NULL);
    assert_int_equal(call(op, 3000), 10);
    assert_true(op->count.waits <= 1);
    assert_int_equal(op->count.nearest, 0);
    assert_int_equal(op->count.adopted, 0); /* it was in the pool */
    md_ds_op_destroy(&op);
}

static void ops_may_be_told_to_wait(void **state)
{
    (void)state;
    world.runtime.waits = true;
    world.device.compile_ms = 20;
    md_ds_op *op = async_op();
    assert_int_equal(op->stage[0].variant[1]->state, MD_BD_READY);
    assert_int_equal(call(op, 2000), 10);
    assert_int_equal(op->count.nearest, 0);
    md_ds_op_destroy(&op);
}

static void an_op_may_go_while_its_kernels_are_made(void **state)
{
    (void)state;
    script_allow(SCRIPT_GAMMA, 0, 50.0);
    hold("COPY 1");
    script_now.row[SCRIPT_BETA][0].us_each = 0.001;
    script_allow(SCRIPT_BETA, 1, 12.0);
    script_now.row[SCRIPT_BETA][1].legal_lo = 1000;
    md_ds_op *op = async_op();
    assert_int_equal(call(op, 3000), 0);
    assert_int_equal(op->n_waiting, 1);
    hold(NULL);
    md_ds_op_destroy(&op);
}

/* The child has no thread that builds: what is ready goes on serving there, and the parent does not notice. */
static void a_child_of_fork_is_served(void **state)
{
    (void)state;
    hold("COPY 10");
    md_ds_op *op = async_op();
    for (int i = 0; i < 3; i++)
        assert_int_equal(call(op, 100), 0);
    assert_int_equal(call(op, 2000), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(call(op, 100) == 0 && call(op, 2000) == 0 && call(op, 2001) == 0 && call(op, 101) == 0 ? 0 : 1);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    hold(NULL);
    md_ds_op_wait(op);
    assert_int_equal(call(op, 2000), 10);
    md_ds_op_destroy(&op);
}

/* A kernel that stops launching, warm or not: an error each time, and no harm to the others. */
static void a_variant_that_stops_launching(void **state)
{
    (void)state;
    script_now.is_text = false; /* functions have no plans */
    md_ds_op *op = script_op(&world, "Y[n] = X[n]", NULL);
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
    md_ds_op *op = script_op(&world, formula, NULL);
    md_status status;
    assert_int_equal(call(op, 100), 0);
    int32_t n = world.device.n_compiled;
    atomic_store(&op->frozen, MD_DS_FROZEN_READY);
    assert_int_equal(call(op, 100), 0);
    assert_int_equal(call(op, 2000), 10);
    assert_int_equal(op->count.frozen_misses, 1);
    assert_int_equal(call_status(&status, op, 6000), -1);
    assert_fails(status, MD_UNSUPPORTED, "is frozen, and no kernel that is ready fits this shape");
    atomic_store(&op->frozen, MD_DS_FROZEN_REFERENCE);
    assert_int_equal(call(op, 6000), 0); /* 0 * a */
    assert_int_equal(op->count.by_reference, 1);
    assert_int_equal(call(op, 2001), 10);
    atomic_store(&op->frozen, MD_DS_FROZEN_FAIL);
    assert_int_equal(call(op, 2001), 10);
    assert_int_equal(call_status(&status, op, 2002), -1);
    assert_fails(status, MD_UNSUPPORTED, "is frozen, and this shape was not met before");
    assert_int_equal(world.device.n_compiled, n);
    assert_int_equal(op->count.adopted, 0);
    atomic_store(&op->frozen, MD_DS_NOT_FROZEN);
    assert_int_equal(call(op, 6001), 20);
    md_ds_op_destroy(&op);
}

/* ---- Plans */

static md_ds_shape_entry *record_at(const md_ds_op *op, int64_t n)
{
    for (int64_t i = 0; i < op->n_entries; i++)
        if (op->ring[i] && op->ring[i]->size[0] == n)
            return op->ring[i];
    return NULL;
}

static void a_switch_replaces_plans(void **state)
{
    (void)state;
    md_ds_op *op = script_op(&world, formula, NULL);
    for (int i = 0; i < 5; i++)
        assert_int_equal(call(op, 3), 0);
    md_ds_shape_entry *r = record_at(op, 3);
    assert_true(r && r->users == 2); /* the table, the plan */
    md_kn_shape shape = {.size = {3}, .stride = {{1}, {1}}, .extent = {{3}, {3}}};
    for (int round = 0; round < 20; round++) {
        md_ds_pick pick = md_ds_plan_of(r)->stage[0].pick;
        pick.variant = !pick.variant;
        assert_ok(md_ds_switch(op, r, &shape, 0, &pick));
        for (int i = 0; i < 5; i++)
            assert_int_equal(call(op, 3), pick.variant ? 10 : 0);
        assert_int_equal(r->users, 2);
    }
    assert_int_equal(op->count.promotions, 20);
    assert_int_equal(op->count.misses, 1);
    md_ds_op_destroy(&op);
}

/* ---- Threads */

enum { THREADS = 16 };

typedef struct caller {
    md_ds_op *op;
    pthread_barrier_t *start;
    int64_t n, n_shapes;
    int32_t n_wrong;
} caller;

static void *call_often(void *user)
{
    caller *c = user;
    md_status status;
    pthread_barrier_wait(c->start);
    for (int i = 0; i < 200; i++) {
        int32_t mark = call_status(&status, c->op, c->n + i % c->n_shapes);
        c->n_wrong += status != MD_OK || (mark != 0 && mark != 10);
    }
    return NULL;
}

static void crowd(md_ds_op *op, int64_t n, int64_t step, int64_t n_shapes, void (*meanwhile)(md_ds_op *op))
{
    pthread_t thread[THREADS];
    pthread_barrier_t start;
    caller who[THREADS];
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        who[i] = (caller){op, &start, n + step * i, n_shapes, 0};
        assert_int_equal(pthread_create(&thread[i], NULL, call_often, &who[i]), 0);
    }
    meanwhile(op);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(who[i].n_wrong, 0);
    }
    pthread_barrier_destroy(&start);
}

static void release(md_ds_op *op)
{
    (void)op;
    hold(NULL);
}

static void promotion_under_calls(void **state)
{
    (void)state;
    for (int round = 0; round < 4; round++) {
        hold("COPY 10");
        md_ds_op_options o = script_options();
        o.is_async = true;
        o.max_shapes = round % 2 ? 8 : 1000;
        md_ds_op *op = script_op(&world, round < 2 ? formula : "scalar a; Y[n] = X[n] - a", &o);
        crowd(op, 1000, round < 2 ? 0 : 50, 50, release);
        md_ds_op_wait(op);
        assert_int_equal(op->n_waiting, 0);
        for (int64_t n = 1001; n < 1050; n++)
            assert_int_equal(call(op, n), 10);
        md_ds_op_destroy(&op);
    }
}

static void nothing(md_ds_op *op)
{
    (void)op;
}

/* 16 first calls of one shape, and of 16, that nothing fits: what is made for them is made once. */
static void first_calls_of_many_threads(void **state)
{
    (void)state;
    script_now.row[SCRIPT_ALPHA][0].hi = 5000;
    script_now.row[SCRIPT_BETA][0].hi = 0;
    script_now.row[SCRIPT_BETA][0].legal_lo = 5000;
    world.device.compile_ms = 5;
    for (int64_t step = 0; step < 2; step++) {
        md_ds_op *op = script_op(&world, step ? formula : "scalar a; Y[n] = X[n] + a", NULL);
        assert_int_equal(op->stage[0].n_variants, 1);
        int32_t n = world.device.n_compiled;
        crowd(op, 6000, step, 1, nothing);
        assert_int_equal(op->stage[0].n_variants, 2);
        assert_int_equal(op->count.adopted, 1);
        assert_true(world.device.n_compiled <= n + 1);
        md_ds_op_destroy(&op);
    }
}

static void switch_often(md_ds_op *op)
{
    md_kn_shape shape = {.size = {1003}, .stride = {{1}, {1}}, .extent = {{1003}, {1003}}};
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&op->lock_of_entries);
        md_ds_shape_entry *r = record_at(op, 1003);
        if (r)
            atomic_fetch_add(&r->users, 1);
        pthread_mutex_unlock(&op->lock_of_entries);
        if (!r) {
            sched_yield();
            continue;
        }
        md_ds_pick pick = md_ds_plan_of(r)->stage[0].pick;
        pick.variant = !pick.variant;
        assert_ok(md_ds_switch(op, r, &shape, 0, &pick));
        atomic_fetch_sub(&r->users, 1);
    }
}

static void switches_under_calls(void **state)
{
    (void)state;
    md_ds_op *op = script_op(&world, formula, NULL);
    crowd(op, 1000, 0, 8, switch_often);
    md_ds_shape_entry *r = record_at(op, 1003);
    for (int i = 0; i < 5; i++)
        /* no plan of another way is left */
        assert_int_equal(call(op, 1003), md_ds_plan_of(r)->stage[0].pick.variant ? 10 : 0);
    md_ds_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_op_is_made_with_its_first_variant, set_up, tear_down),
        cmocka_unit_test_setup_teardown(promotion_comes_by_itself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_fails_is_not_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_first_that_is_ready_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stand_ins_are_of_the_same_class, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_shape_that_nothing_fits_waits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ops_may_be_told_to_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_op_may_go_while_its_kernels_are_made, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_child_of_fork_is_served, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_variant_that_stops_launching, set_up, tear_down),
        cmocka_unit_test_setup_teardown(frozen_ops_build_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_switch_replaces_plans, set_up, tear_down),
        cmocka_unit_test_setup_teardown(promotion_under_calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(first_calls_of_many_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(switches_under_calls, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
