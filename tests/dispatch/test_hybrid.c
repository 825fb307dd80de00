/* MD_SELECT_HYBRID on scripted devices: who serves, who is tried, what it costs, what becomes of wrong and slow variants. */
#include "base/status.h"
#include "dispatch/hybrid.h"
#include "dispatch/record.h"
#include "dispatch/script.h"
#include "dispatch/trial.h"
#include "support/async_device.h"
#include "support/check.h"

#include <math.h>
#include <pthread.h>
#include <time.h>

/* ---- Trials by themselves */

static md_ds_trial trial_of(int32_t n)
{
    md_ds_trial t = {.n_rivals = n};
    md_ds_trial_next(&t);
    return t;
}

static void add_times(md_ds_rival *r, int32_t n, double us)
{
    for (int32_t i = 0; i < n; i++)
        assert_true(md_ds_rival_add(r, us * (i % 2 ? 1.001 : 0.999)));
}

static void what_is_no_time_is_dropped(void **state)
{
    (void)state;
    md_ds_rival r = {0};
    double spread;
    assert_false(md_ds_rival_add(&r, 0.0));
    assert_false(md_ds_rival_add(&r, -1.0));
    assert_false(md_ds_rival_add(&r, NAN));
    assert_false(md_ds_rival_add(&r, INFINITY));
    assert_true(md_ds_rival_median(&spread, &r) == 0.0);
    assert_true(md_ds_rival_add(&r, 5.0));
    assert_float_equal(md_ds_rival_median(&spread, &r), 5.0, 1e-12);
}

static void a_switch_takes_a_gain_that_is_no_noise(void **state)
{
    (void)state;
    static const struct { double us; int32_t n; md_ds_verdict verdict; } row[] = {
        {10.0, 1, MD_DS_GO_ON}, {11.0, 2, MD_DS_NEXT}, {9.0, 2, MD_DS_GO_ON}, {9.0, 4, MD_DS_SWITCH}, {9.9, 4, MD_DS_GO_ON}, {9.9, 8, MD_DS_NEXT},
        {10.1, 4, MD_DS_NEXT}, {9.7, 4, MD_DS_SWITCH},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_ds_trial t = trial_of(2);
        add_times(&t.rival[0], 4, 10.0);
        add_times(&t.rival[1], row[i].n, row[i].us);
        assert_int_equal(md_ds_trial_judge(&t), row[i].verdict);
    }
    md_ds_trial t = trial_of(2); /* 5% below, but all over the place */
    static const double noisy[] = {8.0, 11.0, 7.5, 12.0, 9.5, 9.5};
    add_times(&t.rival[0], 4, 10.0);
    for (size_t i = 0; i < sizeof noisy / sizeof *noisy; i++)
        assert_true(md_ds_rival_add(&t.rival[1], noisy[i]));
    assert_int_equal(md_ds_trial_judge(&t), MD_DS_GO_ON);
}

static void one_that_becomes_slow_is_demoted(void **state)
{
    (void)state;
    md_ds_trial t = trial_of(3);
    int32_t better = -1;
    add_times(&t.rival[0], 4, 10.0);
    add_times(&t.rival[1], 4, 10.4);
    add_times(&t.rival[2], 4, 13.0);
    t.rival[1].is_out = t.rival[2].is_out = true;
    md_ds_trial_next(&t);
    assert_true(t.is_over);
    for (int i = 0; i < 100; i++)
        assert_false(md_ds_trial_watch(&better, &t, 10.9));
    bool is_demoted = false;
    for (int i = 0; i < MD_DS_WATCHED && !is_demoted; i++)
        is_demoted = md_ds_trial_watch(&better, &t, 11.5);
    assert_true(is_demoted);
    assert_int_equal(better, 1);
    assert_int_equal(t.demotions, 1);
    assert_false(t.is_over);
    assert_int_equal(t.at, 1);
}

/* ---- Ops */

static script_world world;
static async_device device;
static bool is_async;
static double us_of[40]; /* by mark */
static double now_us;
static int32_t served[40];
static void *made[16]; /* of the test at hand */
static int n_made;
static pthread_mutex_t lock_of_clock = PTHREAD_MUTEX_INITIALIZER; /* the pool checks variants meanwhile */
static const char *const formula = "scalar a; Y[n] = X[n] * a";

/* "COPY <mark>": mark 3 of the last place is wrong; takes its time on the scripted clock, or by the real one. */
static void copy_scaled(const char *text, const md_kn_word *params, int32_t n)
{
    int mark = 0;
    assert_true(n >= 5 && sscanf(text, "COPY %d", &mark) == 1);
    for (int64_t i = 0; i < params[2].i; i++)
        ((float *)params[0].p)[i] = ((const float *)params[1].p)[i * params[3].i] * (float)params[4].d + (mark % 10 == 3 ? 1.0f : 0.0f);
    pthread_mutex_lock(&lock_of_clock);
    served[mark]++;
    now_us += us_of[mark];
    pthread_mutex_unlock(&lock_of_clock);
    if (!is_async)
        nanosleep(&(struct timespec){.tv_nsec = (long)(us_of[mark] * 4e3)}, NULL);
}

static double clock_us(void *user)
{
    (void)user;
    pthread_mutex_lock(&lock_of_clock);
    double us = now_us;
    pthread_mutex_unlock(&lock_of_clock);
    return us;
}

static int set_up(void **state)
{
    (void)state;
    script_reset();
    script_now.is_text = true;
    memset(served, 0, sizeof served);
    now_us = 1.0;
    script_world_open(&world);
    world.device.on_launch = copy_scaled;
    is_async = false;
    return 0;
}

static int set_up_async(void **state)
{
    set_up(state);
    md_bd_destroy(&world.builder);
    if (!async_device_init(&device, &world.device.base))
        return -1;
    assert_ok(md_bd_create(&world.builder, &device.base));
    world.runtime.dev = &device.base;
    world.runtime.builder = world.builder;
    device.clock = clock_us;
    is_async = true;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    while (n_made > 0)
        world.runtime.dev->ops->free(world.runtime.dev, made[--n_made]);
    script_world_close(&world);
    if (is_async)
        device.base.ops->destroy(&device.base);
    return 0;
}

static md_ds_op *hybrid_op(void)
{
    md_ds_op_options o = script_options();
    o.policy.select = MD_SELECT_HYBRID;
    return script_op(&world, formula, &o);
}

typedef struct call {
    md_tensor y, x;
    md_arg arg[3];
} call;

enum { N = 300 };

static void make(call *c)
{
    const int64_t n = N;
    void *p[2] = {NULL};
    float value[N];
    for (int i = 0; i < N; i++)
        value[i] = (float)i;
    md_dev *dev = world.runtime.dev;
    for (int i = 0; i < 2; i++) {
        assert_ok(dev->ops->alloc(&p[i], dev, sizeof value));
        made[n_made++] = p[i];
        assert_ok(dev->ops->copy(dev, p[i], value, sizeof value));
    }
    c->y = md_tensor_make(p[0], MD_F32, 1, &n);
    c->x = md_tensor_make(p[1], MD_F32, 1, &n);
    c->arg[0] = md_s(2.0);
    c->arg[1] = md_t(&c->y);
    c->arg[2] = md_t(&c->x);
}

/* The pool prepares the trial. */
static void wait_for_trial(md_ds_op *op, call *c)
{
    for (int i = 0; i < 10000; i++) {
        md_ds_bound bound;
        md_ds_record *record = NULL;
        assert_ok(md_ds_call(op, NULL, c->arg, 3));
        assert_ok(md_ds_bind(&bound, op, c->arg, 3));
        assert_ok(md_ds_find(&record, op, NULL, &bound));
        bool is_there = atomic_load(&record->trial) || atomic_load(&record->trial_state) == MD_DS_TRIAL_VAIN;
        md_ds_record_give_back(op, record);
        if (is_there)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    fail_msg("no trial");
}

/* A device that is not far behind. Results are looked at now and then. */
static void run_calls(md_ds_op *op, call *c, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        assert_ok(md_ds_call(op, NULL, c->arg, 3));
        if (is_async && i % 3 == 0)
            assert_ok(device.base.ops->sync(&device.base, NULL));
        if (i % 50 == 0) {
            float y[N];
            assert_ok(world.runtime.dev->ops->copy(world.runtime.dev, y, c->y.data, sizeof y));
            for (int k = 0; k < N; k++)
                assert_true(y[k] == 2.0f * (float)k);
        }
        if (i == 2)
            wait_for_trial(op, c);
    }
}

static int32_t mark_in_charge(md_ds_op *op, const call *c)
{
    md_ds_bound bound;
    md_ds_record *record = NULL;
    int mark = 0, w = 0;
    char family = 0;
    assert_ok(md_ds_bind(&bound, op, c->arg, 3));
    assert_ok(md_ds_find(&record, op, NULL, &bound));
    const char *name = script_name(op, md_ds_way_of(record)->stage[0].pick.variant);
    md_ds_record_give_back(op, record);
    assert_int_equal(sscanf(name, "%c%*[a-z]/v%d_w%d", &family, &mark, &w), 3);
    return mark + (family == 'a' ? 0 : family == 'b' ? 10 : 20);
}

static void finish(md_ds_op **op)
{
    assert_ok(world.runtime.dev->ops->sync(world.runtime.dev, NULL));
    md_ds_op_destroy(op);
}

/* The model's pick is not the fastest: real calls show it. */
static void the_faster_one_stays(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.1);
    script_allow(SCRIPT_GAMMA, 0, 1.2);
    us_of[0] = 100.0;
    us_of[10] = is_async ? 80.0 : 30.0; /* the real clock is noisy */
    us_of[20] = 140.0;
    call c;
    md_ds_op *op = hybrid_op();
    make(&c);
    run_calls(op, &c, is_async ? 3000 : 1000);
    assert_int_equal(mark_in_charge(op, &c), 10);
    assert_int_equal(op->count.switches, 1);
    assert_true(op->count.trials >= 5 && op->count.trials < 40);
    assert_int_equal(op->count.quarantined, 0);
    assert_true(op->count.calls < 1000); /* most are warm */
    int32_t before = served[10];
    run_calls(op, &c, 1000); /* nearly all are the winner's */
    assert_true(served[10] - before >= (is_async ? 990 : 900));
    finish(&op);
}

/* What trials cost is a share of the time: a rival that takes twice as long is tried seldom. */
static void trials_keep_to_their_share(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.05);
    us_of[0] = 100.0;
    us_of[10] = 900.0;
    call c;
    md_ds_op *op = hybrid_op();
    make(&c);
    run_calls(op, &c, 2000);
    assert_int_equal(mark_in_charge(op, &c), 0);
    assert_true(served[10] >= 1 && served[10] <= 4); /* one of them checked it beforehand */
    finish(&op);
}

static void a_wrong_variant_never_serves(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 3, 1.1); /* wrong, and fast */
    script_allow(SCRIPT_GAMMA, 0, 1.2);
    us_of[0] = us_of[20] = 100.0;
    us_of[13] = 10.0;
    call c;
    md_ds_op *op = hybrid_op();
    make(&c);
    run_calls(op, &c, 2000);
    assert_int_equal(served[13], 1); /* when it was checked */
    assert_int_equal(op->count.quarantined, 1);
    assert_non_null(strstr(world.warning, "beta/v3_w0 gives other results than most variants do"));
    finish(&op);
}

/* The model's own pick may be the wrong one: it goes as soon as that is known. */
static void a_wrong_pick_is_replaced(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 3, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.1);
    script_allow(SCRIPT_GAMMA, 0, 1.2);
    us_of[3] = us_of[10] = us_of[20] = 100.0;
    call c;
    md_ds_op *op = hybrid_op();
    make(&c);
    wait_for_trial(op, &c);
    assert_int_equal(op->count.quarantined, 1);
    assert_int_equal(mark_in_charge(op, &c), 10);
    run_calls(op, &c, 200);
    finish(&op);
}

static void one_that_becomes_slow_makes_room(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.1);
    us_of[0] = 100.0;
    us_of[10] = 103.0;
    call c;
    md_ds_op *op = hybrid_op();
    make(&c);
    run_calls(op, &c, 2000);
    assert_int_equal(mark_in_charge(op, &c), 0);
    us_of[0] = 150.0;
    run_calls(op, &c, 5000);
    assert_int_equal(mark_in_charge(op, &c), 10);
    assert_true(op->count.demotions >= 1);
    finish(&op);
}

/* Neither while the stream is captured, nor when the op is frozen, does anything happen beside the call. */
static void captures_and_frozen_ops_are_left_alone(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.1);
    us_of[0] = 100.0;
    us_of[10] = 50.0;
    call c;
    md_ds_op *op = hybrid_op();
    make(&c);
    run_calls(op, &c, 20);
    async_device_capture(&device, NULL, true);
    int64_t marks = device.n_marks;
    for (int i = 0; i < 500; i++)
        assert_ok(md_ds_call(op, NULL, c.arg, 3));
    assert_int_equal(device.n_marks, marks);
    assert_int_equal(device.n_violations, 0);
    async_device_capture(&device, NULL, false);
    atomic_store(&op->frozen, MD_DS_FROZEN_READY);
    run_calls(op, &c, 500);
    assert_int_equal(device.n_marks, marks);
    atomic_store(&op->frozen, MD_DS_NOT_FROZEN);
    run_calls(op, &c, 2000);
    assert_int_equal(mark_in_charge(op, &c), 10);
    finish(&op);
}

/* A device that is far behind, or hangs, is never waited for. */
static void nothing_waits_for_a_time(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.1);
    us_of[0] = 100.0;
    us_of[10] = 50.0;
    call c;
    md_ds_op *op = hybrid_op();
    make(&c);
    run_calls(op, &c, 20);
    int64_t syncs = device.n_syncs;
    for (int i = 0; i < 2000; i++)
        assert_ok(md_ds_call(op, NULL, c.arg, 3));
    assert_int_equal(device.n_syncs, syncs);
    assert_int_equal(mark_in_charge(op, &c), 0); /* no time has come yet */
    finish(&op);
}

/* ---- MD_SELECT_MEASURE, with variants that are wrong, give no time, or do not end */

static md_ds_op *measuring_op(void)
{
    md_ds_op_options o = script_options();
    o.policy.select = MD_SELECT_MEASURE;
    return script_op(&world, formula, &o);
}

static void measuring_passes_over_wrong_variants(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 3, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.1);
    script_allow(SCRIPT_GAMMA, 0, 1.2);
    us_of[3] = 10.0; /* wrong, and the fastest */
    us_of[10] = 800.0;
    us_of[20] = 100.0;
    call c;
    md_ds_op *op = measuring_op();
    make(&c);
    assert_ok(md_ds_call(op, NULL, c.arg, 3));
    assert_int_equal(mark_in_charge(op, &c), 20);
    assert_int_equal(op->count.quarantined, 1);
    finish(&op);
}

static void measuring_passes_over_what_gives_no_time(void **state)
{
    (void)state;
    static const double nonsense[] = {0.0, -50.0, NAN};
    for (int i = 0; i < 3; i++) {
        script_allow(SCRIPT_ALPHA, 0, 1.0);
        script_allow(SCRIPT_BETA, 0, 1.1);
        script_allow(SCRIPT_GAMMA, 0, 1.2);
        now_us = 1e6;
        us_of[0] = nonsense[i];
        us_of[10] = 400.0;
        us_of[20] = 200.0;
        if (i == 2)
            us_of[0] = 0.0; /* NaN would stay in the clock; the next part has it */
        call c;
        md_ds_op *op = measuring_op();
        make(&c);
        assert_ok(md_ds_call(op, NULL, c.arg, 3));
        assert_int_equal(mark_in_charge(op, &c), 20);
        finish(&op);
    }
    us_of[0] = us_of[10] = us_of[20] = NAN; /* nobody has a time: the model decides */
    call c;
    md_ds_op *op = measuring_op();
    make(&c);
    assert_ok(md_ds_call(op, NULL, c.arg, 3));
    assert_int_equal(mark_in_charge(op, &c), 0);
    finish(&op);
}

static void measuring_gives_up_on_one_that_does_not_end(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 1, 1.0)->hangs = true;
    script_allow(SCRIPT_BETA, 0, 1.1);
    script_allow(SCRIPT_GAMMA, 0, 1.2);
    us_of[10] = us_of[20] = 100.0;
    device.base.hang_ms = 50;
    call c;
    md_ds_op *op = measuring_op();
    make(&c);
    assert_ok(md_ds_call(op, NULL, c.arg, 3));
    assert_int_equal(mark_in_charge(op, &c), 10); /* the model's, of those that are left */
    assert_int_equal(op->count.quarantined, 1);
    assert_non_null(strstr(world.warning, "alpha/v1_w0 does not run"));
    assert_true(atomic_load(&device.base.is_stuck));
    assert_ok(device.base.ops->sync(&device.base, (md_stream)(uintptr_t)8)); /* other streams go on */
    md_ds_op_destroy(&op);
}

/* In the background, too. */
static void a_hybrid_gives_up_on_one_that_does_not_end(void **state)
{
    (void)state;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 1, 1.1)->hangs = true;
    script_allow(SCRIPT_GAMMA, 0, 1.2);
    us_of[0] = us_of[20] = 100.0;
    device.base.hang_ms = 50;
    call c;
    md_ds_op *op = hybrid_op();
    make(&c);
    wait_for_trial(op, &c);
    for (int i = 0; i < 100; i++)
        assert_ok(md_ds_call(op, NULL, c.arg, 3));
    assert_int_equal(mark_in_charge(op, &c), 0);
    assert_int_equal(op->count.quarantined, 1);
    md_ds_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_time_is_dropped),
        cmocka_unit_test(a_switch_takes_a_gain_that_is_no_noise),
        cmocka_unit_test(one_that_becomes_slow_is_demoted),
        cmocka_unit_test_setup_teardown(the_faster_one_stays, set_up_async, tear_down),
        cmocka_unit_test_setup_teardown(the_faster_one_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(trials_keep_to_their_share, set_up_async, tear_down),
        cmocka_unit_test_setup_teardown(a_wrong_variant_never_serves, set_up_async, tear_down),
        cmocka_unit_test_setup_teardown(a_wrong_variant_never_serves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_wrong_pick_is_replaced, set_up_async, tear_down),
        cmocka_unit_test_setup_teardown(one_that_becomes_slow_makes_room, set_up_async, tear_down),
        cmocka_unit_test_setup_teardown(captures_and_frozen_ops_are_left_alone, set_up_async, tear_down),
        cmocka_unit_test_setup_teardown(nothing_waits_for_a_time, set_up_async, tear_down),
        cmocka_unit_test_setup_teardown(measuring_passes_over_wrong_variants, set_up_async, tear_down),
        cmocka_unit_test_setup_teardown(measuring_passes_over_wrong_variants, set_up, tear_down),
        cmocka_unit_test_setup_teardown(measuring_passes_over_what_gives_no_time, set_up_async, tear_down),
        cmocka_unit_test_setup_teardown(measuring_gives_up_on_one_that_does_not_end, set_up_async, tear_down),
        cmocka_unit_test_setup_teardown(a_hybrid_gives_up_on_one_that_does_not_end, set_up_async, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
