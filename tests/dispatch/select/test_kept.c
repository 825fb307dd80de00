/* Picks that were measured last: an evicted shape and a later process measure nothing again. */
#include "dispatch/select/kept.h"

#include "base/status.h"
#include "dispatch/call/fast_call.h"
#include "dispatch/support/timed.h"
#include "stats/digest.h"
#include "stats/explain.h"
#include "store/scratch.h"
#include "support/check.h"
#include "tune/kept/kept.h"

static scratch *disk;
static md_dev_ops ops;
static md_dev_clock clock_now;

static md_status tell_clock(md_dev_clock *out, md_dev *dev)
{
    (void)dev;
    *out = clock_now;
    return MD_OK;
}

/* One variant of each family, beta the fastest, and the model wrong about it. */
static void set_times(void)
{
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.1);
    script_allow(SCRIPT_GAMMA, 0, 1.2);
    timed_now.us_of[0] = 300.0;
    timed_now.us_of[10] = 100.0;
    timed_now.us_of[20] = 200.0;
}

static int set_up(void **state)
{
    void *s = NULL;
    const int failed = scratch_setup(&s) || timed_set_up_async(state);
    disk = s;
    if (!failed)
        ops = *timed_now.world.runtime.dev->ops;
    return failed;
}

static int tear_down(void **state)
{
    void *s = disk;
    const int failed = timed_tear_down(state);
    return scratch_teardown(&s) || failed;
}

static md_tn_kept *open_store(const char *root, const char *system, const char *environment)
{
    md_tn_kept *k = NULL;
    assert_ok(md_tn_kept_open(
        &k, &(md_tn_kept_options){.root = root, .system_path = system, .environment = environment, .log = &disk->log}));
    return k;
}

/* A process: an op, and the store that it keeps its picks in. */
typedef struct process {
    md_tn_kept *store;
    md_ds_op *op;
} process;

static process start(md_select select, md_tn_kept *store, int64_t max_shapes)
{
    process p = {.store = store};
    md_ds_op_options o = script_options();
    o.compile.policy.select = select;
    o.compile.policy.kept = p.store;
    o.compile.policy.quiet_us = -1.0;
    o.max_shapes = max_shapes;
    timed_now.world.runtime.dev->ops = &ops;
    p.op = script_op(&timed_now.world, "scalar a; Y[n] = X[n] * a", &o);
    return p;
}

static process start_here(md_select select)
{
    set_times();
    return start(select, open_store(disk->root, NULL, "here"), 100);
}

static void end(process *p)
{
    timed_finish(&p->op);
    md_tn_kept_close(&p->store);
}

static void call(process *p, timed_call *c)
{
    assert_ok(md_ds_call(p->op, NULL, c->arg, 3));
}

static md_ds_source why(process *p, const timed_call *c)
{
    md_ds_bound bound;
    md_ds_shape_entry *entry = NULL;
    assert_ok(md_ds_bind(&bound, p->op, c->arg, 3));
    assert_ok(md_ds_find(&entry, p->op, NULL, &bound));
    const md_ds_source source = md_ds_plan_of(entry)->stage[0].pick.source;
    md_ds_shape_entry_release(entry);
    return source;
}

static bool explains(process *p, const timed_call *c, bool json, const char *text)
{
    md_ds_bound bound;
    md_strbuf out = {0};
    assert_ok(md_ds_bind(&bound, p->op, c->arg, 3));
    assert_ok(md_ss_explain(&out, p->op, &bound, json));
    const bool says = strstr(md_strbuf_text(&out), text) != NULL;
    md_strbuf_finish(&out);
    return says;
}

static md_digest128 digest_of(process *p)
{
    md_ss_choices choices = {0};
    md_digest128 digest;
    md_ss_choices_add(&choices, p->op);
    assert_ok(md_ss_choices_digest(&digest, &choices));
    return digest;
}

enum { SHAPES = 5 };
static const int64_t size[SHAPES] = {1, 65, 300, 301, 5000};

/* Two shapes of one size differ by stride and alignment. */
static void make_calls(timed_call c[SHAPES + 2])
{
    for (int i = 0; i < SHAPES; i++)
        timed_make(&c[i], size[i]);
    timed_make(&c[SHAPES], 600);
    c[SHAPES].x.size[0] = c[SHAPES].y.size[0] = 300;
    c[SHAPES].x.stride[0] = 2;
    c[SHAPES].arg[1] = md_t(&c[SHAPES].y);
    c[SHAPES].arg[2] = md_t(&c[SHAPES].x);
    timed_make(&c[SHAPES + 1], 304);
    c[SHAPES + 1].x.data = (float *)c[SHAPES + 1].x.data + 1;
    c[SHAPES + 1].x.size[0] = c[SHAPES + 1].y.size[0] = 300;
    c[SHAPES + 1].arg[1] = md_t(&c[SHAPES + 1].y);
    c[SHAPES + 1].arg[2] = md_t(&c[SHAPES + 1].x);
}

static void call_all(process *p, timed_call c[SHAPES + 2])
{
    for (int i = 0; i < SHAPES + 2; i++) {
        call(p, &c[i]);
        assert_int_equal(timed_incumbent(p->op, &c[i]), 10);
    }
}

static void a_second_process_measures_nothing(void **state)
{
    (void)state;
    timed_call c[SHAPES + 2];
    make_calls(c);
    process p = start_here(MD_SELECT_MEASURE);
    call_all(&p, c);
    assert_int_equal(p.op->count.measured, 3 * (SHAPES + 2));
    assert_true(why(&p, &c[0]) == MD_DS_MEASURED && p.op->count.kept == 0);
    const md_digest128 first = digest_of(&p);
    end(&p);
    static const md_select modes[] = {MD_SELECT_MEASURE, MD_SELECT_MODEL, MD_SELECT_HYBRID};
    for (int i = 0; i < 3; i++) {
        p = start_here(modes[i]);
        memset(timed_now.served, 0, sizeof timed_now.served);
        call_all(&p, c);
        assert_int_equal(p.op->count.measured, 0);
        assert_int_equal(p.op->count.kept, SHAPES + 2);
        assert_int_equal(p.op->count.kept_picks, SHAPES + 2);
        assert_int_equal(timed_now.served[0] + timed_now.served[20], 0);
        for (int k = 0; k < SHAPES + 2; k++)
            assert_int_equal(why(&p, &c[k]), MD_DS_KEPT);
        assert_true(explains(&p, &c[2], false, "beta/v0_w0 (measured, kept from an earlier run), 100.00 us"));
        assert_true(explains(&p, &c[2], true, "\"why\":\"kept\""));
        const md_digest128 again = digest_of(&p);
        assert_memory_equal(&again, &first, sizeof first);
        end(&p);
    }
    p = start_here(MD_SELECT_DISTANCE); /* means the distance and nothing else */
    call(&p, &c[0]);
    assert_int_equal(why(&p, &c[0]), MD_DS_NEAREST);
    end(&p);
}

/* Distinct formulas, dtypes and numeric modes have picks of their own. */
static void other_ops_have_other_picks(void **state)
{
    (void)state;
    timed_call c;
    timed_make(&c, 300);
    process p = start_here(MD_SELECT_MEASURE);
    call(&p, &c);
    end(&p);
    md_ds_op_options o = script_options();
    md_tn_kept *store = open_store(disk->root, NULL, "here");
    o.compile.policy.kept = store;
    o.compile.policy.select = MD_SELECT_MEASURE;
    o.compile.dtype = MD_F64;
    md_ds_op *op = script_op(&timed_now.world, "scalar a; Y[n] = X[n] * a", &o);
    assert_int_equal(op->count.kept_picks, 0);
    md_ds_op_destroy(&op);
    o.compile.dtype = MD_F32;
    o.compile.bounds = MD_BOUNDS_CLAMP;
    op = script_op(&timed_now.world, "scalar a; Y[n] = X[n] * a", &o);
    assert_int_equal(op->count.kept_picks, 0);
    md_ds_op_destroy(&op);
    md_tn_kept_close(&store);
}

static void eviction_loses_nothing(void **state)
{
    (void)state;
    timed_call c[3];
    for (int i = 0; i < 3; i++)
        timed_make(&c[i], 100 + 100 * i);
    set_times();
    process p = start(MD_SELECT_MEASURE, NULL, 1); /* one shape in memory, and no store */
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 3; i++) {
            call(&p, &c[i]);
            assert_int_equal(timed_incumbent(p.op, &c[i]), 10);
            assert_int_equal(why(&p, &c[i]), MD_DS_MEASURED);
        }
    assert_true(p.op->count.evictions >= 6);
    assert_int_equal(p.op->count.measured, 9);
    end(&p);
}

/* Of another driver or compiler: not a fact, so it is measured again; but the model is corrected by it. */
static void another_environment_measures_again(void **state)
{
    (void)state;
    timed_call c;
    timed_make(&c, 300);
    process p = start_here(MD_SELECT_MEASURE);
    call(&p, &c);
    end(&p);
    set_times();
    p = start(MD_SELECT_MEASURE, open_store(disk->root, NULL, "another driver"), 100);
    assert_int_equal(p.op->count.kept_picks, 0);
    assert_int_equal(p.op->count.kept_times, 3);
    timed_now.us_of[20] = 50.0; /* the new driver's compiler likes gamma */
    call(&p, &c);
    assert_int_equal(p.op->count.measured, 3);
    assert_int_equal(timed_incumbent(p.op, &c), 20);
    end(&p);
    p = start(MD_SELECT_MODEL, open_store(disk->root, NULL, "a third driver"), 100);
    call(&p, &c);
    assert_int_equal(why(&p, &c), MD_DS_MODEL);
    assert_int_not_equal(timed_incumbent(p.op, &c), 0); /* what the model alone would pick */
    end(&p);
    p = start_here(MD_SELECT_MEASURE); /* each environment has its own pick */
    call(&p, &c);
    assert_int_equal(timed_incumbent(p.op, &c), 10);
    assert_int_equal(p.op->count.measured, 0);
    end(&p);
}

static void what_was_throttled_is_an_estimate(void **state)
{
    (void)state;
    timed_call c;
    timed_make(&c, 300);
    ops = *timed_now.world.runtime.dev->ops;
    ops.clock_rate = tell_clock;
    clock_now = (md_dev_clock){900, 1980, true};
    process p = start_here(MD_SELECT_MEASURE);
    timed_now.device.base.log = &disk->log;
    call(&p, &c);
    assert_non_null(strstr(disk->message, "throttled to 900 of 1980 MHz"));
    end(&p);
    clock_now = (md_dev_clock){1980, 1980, false};
    timed_now.device.base.mhz = 0; /* a new process has not measured yet */
    p = start_here(MD_SELECT_MEASURE);
    call(&p, &c);
    assert_int_equal(p.op->count.measured, 3);
    end(&p);
    p = start_here(MD_SELECT_MEASURE);
    call(&p, &c);
    assert_int_equal(p.op->count.measured, 0);
    timed_call another;
    timed_make(&another, 400);
    clock_now.mhz = 1200; /* someone locked another clock */
    call(&p, &another);
    assert_non_null(strstr(disk->message, "not locked"));
    end(&p);
    p = start_here(MD_SELECT_MEASURE);
    call(&p, &another);
    assert_int_equal(p.op->count.measured, 0);
    call(&p, &c);
    assert_int_equal(p.op->count.measured, 3);
    end(&p);
}

/* What this process learnt without a pick: its correction. */
static void the_correction_lasts(void **state)
{
    (void)state;
    timed_call c, near;
    timed_make(&c, 300);
    timed_make(&near, 330);
    process p = start_here(MD_SELECT_MODEL);
    call(&p, &near);
    assert_int_equal(timed_incumbent(p.op, &near), 0); /* the model knows no better */
    end(&p);
    p = start_here(MD_SELECT_MEASURE);
    call(&p, &c);
    end(&p);
    p = start_here(MD_SELECT_MODEL);
    assert_int_equal(p.op->count.kept_times, 3);
    call(&p, &near);
    assert_int_equal(timed_incumbent(p.op, &near), 10);
    assert_int_equal(why(&p, &near), MD_DS_MODEL);
    end(&p);
}

/* Nothing waits for the disk: a background thread writes soon after. */
static void picks_are_written_in_the_background(void **state)
{
    (void)state;
    timed_call c;
    timed_make(&c, 300);
    process p = start_here(MD_SELECT_MEASURE);
    call(&p, &c);
    md_tn_kept *other = open_store(disk->root, NULL, "here");
    process q = {0};
    for (int i = 0; i < 3000 && !q.op; i++) { /* up to 30 s on a busy machine */
        q = start(MD_SELECT_MODEL, other, 100);
        if (q.op->count.kept_picks == 0) {
            timed_finish(&q.op);
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        }
    }
    assert_non_null(q.op);
    timed_finish(&q.op);
    md_tn_kept_close(&other);
    end(&p);
}

static void a_store_that_cannot_be_written_is_read(void **state)
{
    (void)state;
    timed_call c, another;
    timed_make(&c, 300);
    timed_make(&another, 400);
    process p = start_here(MD_SELECT_MEASURE);
    call(&p, &c);
    end(&p);
    for (int i = 0; i < 2; i++) { /* the second finds what the first found, and no more */
        set_times();
        p = start(MD_SELECT_MEASURE, open_store("/proc/no/such", disk->root, "here"), 100);
        call(&p, &c);
        assert_int_equal(p.op->count.measured, 0);
        call(&p, &another);
        assert_int_equal(p.op->count.measured, 3);
        end(&p);
    }
}

/* A variant that is not in the pool, or is wrong now, does not serve: the shape is measured again. */
static void picks_of_unknown_variants_are_measured_again(void **state)
{
    (void)state;
    timed_call c;
    timed_make(&c, 300);
    process p = start_here(MD_SELECT_MEASURE);
    call(&p, &c);
    end(&p);
    script_reset();
    script_now.is_text = true;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_GAMMA, 0, 1.2);
    p = start(MD_SELECT_MEASURE, open_store(disk->root, NULL, "here"), 100);
    call(&p, &c);
    assert_int_equal(p.op->count.measured, 2);
    assert_int_equal(timed_incumbent(p.op, &c), 20);
    end(&p);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_second_process_measures_nothing),
        TEST(other_ops_have_other_picks),
        TEST(eviction_loses_nothing),
        TEST(another_environment_measures_again),
        TEST(what_was_throttled_is_an_estimate),
        TEST(the_correction_lasts),
        TEST(picks_are_written_in_the_background),
        TEST(a_store_that_cannot_be_written_is_read),
        TEST(picks_of_unknown_variants_are_measured_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
