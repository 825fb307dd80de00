/* Picks that were measured last: an evicted shape and a later process measure nothing again. */
#include "dispatch/select/stored.h"

#include "base/status.h"
#include "dispatch/support/process.h"
#include "stats/report.h"
#include "support/check.h"

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
        process_call(p, &c[i]);
        assert_int_equal(timed_incumbent(p->op, &c[i]), 10);
    }
}

static void a_second_process_measures_nothing(void **state)
{
    (void)state;
    timed_call c[SHAPES + 2];
    make_calls(c);
    process p = process_start_here(MD_SELECT_MEASURE);
    call_all(&p, c);
    assert_int_equal(p.op->count.measured, 3 * (SHAPES + 2));
    assert_true(process_why(&p, &c[0]) == MD_DS_MEASURED && p.op->count.stored == 0);
    const md_digest128 first = digest_of(&p);
    process_end(&p);
    static const md_select modes[] = {MD_SELECT_MEASURE, MD_SELECT_MODEL, MD_SELECT_HYBRID};
    for (int i = 0; i < 3; i++) {
        p = process_start_here(modes[i]);
        memset(timed_now.served, 0, sizeof timed_now.served);
        call_all(&p, c);
        assert_int_equal(p.op->count.measured, 0);
        assert_int_equal(p.op->count.stored, SHAPES + 2);
        assert_int_equal(p.op->count.stored_picks, SHAPES + 2);
        assert_int_equal(timed_now.served[0] + timed_now.served[20], 0);
        for (int k = 0; k < SHAPES + 2; k++)
            assert_int_equal(process_why(&p, &c[k]), MD_DS_STORED);
        assert_true(explains(&p, &c[2], false, "beta/v0_w0 (measured, stored by an earlier run), 100.00 us"));
        assert_true(explains(&p, &c[2], true, "\"why\":\"stored\""));
        const md_digest128 again = digest_of(&p);
        assert_memory_equal(&again, &first, sizeof first);
        process_end(&p);
    }
    p = process_start_here(MD_SELECT_DISTANCE); /* means the distance and nothing else */
    process_call(&p, &c[0]);
    assert_int_equal(process_why(&p, &c[0]), MD_DS_NEAREST);
    process_end(&p);
}

/* Distinct formulas, dtypes and numeric modes have picks of their own. */
static void other_ops_have_other_picks(void **state)
{
    (void)state;
    timed_call c;
    timed_make(&c, 300);
    process p = process_start_here(MD_SELECT_MEASURE);
    process_call(&p, &c);
    process_end(&p);
    md_ds_op_options o = script_options();
    md_tn_stored *store = process_store(process_disk->root, NULL, "here");
    o.compile.policy.stored = store;
    o.compile.policy.select = MD_SELECT_MEASURE;
    o.compile.dtype = MD_F64;
    md_ds_op *op = script_op(&timed_now.world, "scalar a; Y[n] = X[n] * a", &o);
    assert_int_equal(op->count.stored_picks, 0);
    md_ds_op_destroy(&op);
    o.compile.dtype = MD_F32;
    o.compile.bounds = MD_BOUNDS_CLAMP;
    op = script_op(&timed_now.world, "scalar a; Y[n] = X[n] * a", &o);
    assert_int_equal(op->count.stored_picks, 0);
    md_ds_op_destroy(&op);
    md_tn_stored_close(&store);
}

/* A record may name a variant that the shape is outside of, or that there is no more: nothing of it is taken. */
static void picks_outside_their_envelope_are_not_taken(void **state)
{
    (void)state;
    timed_call c;
    timed_make(&c, 300);
    for (int i = 0; i < 3; i++) {
        process p = process_start_here(MD_SELECT_MEASURE);
        process_call(&p, &c);
        assert_int_equal(timed_incumbent(p.op, &c), 10);
        process_end(&p);
        process_set_times();
        script_row *beta = &script_now.row[SCRIPT_BETA][0];
        beta->hi = i == 0 ? 299 : 0;
        beta->lo = i == 1 ? 301 : 0;
        beta->is_legal = i != 2;
        p = process_start(MD_SELECT_MODEL, process_store(process_disk->root, NULL, "here"), 100);
        assert_int_equal(p.op->count.stored_picks, 1);
        process_call(&p, &c);
        assert_int_not_equal(timed_incumbent(p.op, &c), 10);
        assert_int_equal(process_why(&p, &c), MD_DS_MODEL);
        assert_int_equal(p.op->count.stored, 0);
        process_end(&p);
        beta->hi = beta->lo = 0;
    }
}

/* A pick that an earlier version of the library stored, under names that its family's fields have no more, is left out;
 * the log says so. */
static void picks_of_other_versions_are_named(void **state)
{
    (void)state;
    timed_call c;
    md_tn_stored_list list = {0};
    timed_make(&c, 300);
    process p = process_start_here(MD_SELECT_MEASURE);
    process_call(&p, &c);
    char *key = strdup(md_ds_stored_key(p.op));
    process_end(&p);
    md_tn_stored *store = process_store(process_disk->root, NULL, "here");
    md_tn_stored_load(&list, store, key);
    assert_int_equal(list.n_picks, 1);
    snprintf(list.pick[0].variant, sizeof list.pick[0].variant, "beta/via1");
    list.pick[0].at.date += 10; /* the newest stays */
    assert_ok(md_tn_stored_save(store, key, &list));
    md_tn_stored_list_finish(&list);
    md_tn_stored_close(&store);
    free(key);
    p = process_start_here(MD_SELECT_MODEL);
    assert_int_equal(p.op->count.stored_picks, 0);
    assert_non_null(strstr(timed_now.world.warning, "are of another version of this library, and left out: it has no "
                                                    "variant 'beta/via1'"));
    process_end(&p);
}

static void eviction_loses_nothing(void **state)
{
    (void)state;
    timed_call c[3];
    for (int i = 0; i < 3; i++)
        timed_make(&c[i], 100 + 100 * i);
    process_set_times();
    process p = process_start(MD_SELECT_MEASURE, NULL, 1); /* one shape in memory, and no store */
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 3; i++) {
            process_call(&p, &c[i]);
            assert_int_equal(timed_incumbent(p.op, &c[i]), 10);
            assert_int_equal(process_why(&p, &c[i]), MD_DS_MEASURED);
        }
    assert_true(p.op->count.evictions >= 6);
    assert_int_equal(p.op->count.measured, 9);
    process_end(&p);
}

static void count_facts(void *user, const md_tn_observation *o)
{
    *(int32_t *)user += o->clock != MD_TN_CLOCK_ESTIMATE;
}

static int32_t facts_of(const process *p)
{
    int32_t n = 0;
    md_tn_correction_each(p->op->stage[0].correction, count_facts, &n);
    return n;
}

/* Of another driver or compiler: not a fact, so it is measured again; but the model is corrected by it. */
static void another_environment_measures_again(void **state)
{
    (void)state;
    timed_call c;
    timed_make(&c, 300);
    process p = process_start_here(MD_SELECT_MEASURE);
    process_call(&p, &c);
    process_end(&p);
    process_set_times();
    p = process_start(MD_SELECT_MEASURE, process_store(process_disk->root, NULL, "another driver"), 100);
    assert_int_equal(p.op->count.stored_picks, 0);
    assert_int_equal(p.op->count.stored_times, 3);
    assert_int_equal(facts_of(&p), 0);
    timed_now.us_of[20] = 50.0; /* the new driver's compiler likes gamma */
    process_call(&p, &c);
    assert_int_equal(p.op->count.measured, 3);
    assert_int_equal(timed_incumbent(p.op, &c), 20);
    process_end(&p);
    p = process_start(MD_SELECT_MODEL, process_store(process_disk->root, NULL, "a third driver"), 100);
    process_call(&p, &c);
    assert_int_equal(process_why(&p, &c), MD_DS_MODEL);
    assert_int_not_equal(timed_incumbent(p.op, &c), 0); /* what the model alone would pick */
    process_end(&p);
    p = process_start_here(MD_SELECT_MEASURE); /* each environment has its own pick */
    process_call(&p, &c);
    assert_int_equal(timed_incumbent(p.op, &c), 10);
    assert_int_equal(p.op->count.measured, 0);
    assert_int_equal(facts_of(&p), 3);
    process_end(&p);
}

static md_status tell_clock(md_dev_clock *out, md_dev *dev)
{
    (void)dev;
    *out = process_clock;
    return MD_OK;
}

static void what_was_throttled_is_an_estimate(void **state)
{
    (void)state;
    timed_call c;
    timed_make(&c, 300);
    process_ops.clock_rate = tell_clock;
    process_clock = (md_dev_clock){900, 1980, true};
    process p = process_start_here(MD_SELECT_MEASURE);
    timed_now.device.base.log = &process_disk->log;
    process_call(&p, &c);
    assert_non_null(strstr(process_disk->message, "throttled to 900 of 1980 MHz"));
    process_end(&p);
    process_clock = (md_dev_clock){1980, 1980, false};
    timed_now.device.base.mhz = 0; /* a new process has not measured yet */
    p = process_start_here(MD_SELECT_MEASURE);
    process_call(&p, &c);
    assert_int_equal(p.op->count.measured, 3);
    process_end(&p);
    p = process_start_here(MD_SELECT_MEASURE);
    process_call(&p, &c);
    assert_int_equal(p.op->count.measured, 0);
    timed_call another;
    timed_make(&another, 400);
    process_clock.mhz = 1200; /* someone locked another clock */
    process_call(&p, &another);
    assert_non_null(strstr(process_disk->message, "not locked"));
    process_end(&p);
    p = process_start_here(MD_SELECT_MEASURE);
    process_call(&p, &another);
    assert_int_equal(p.op->count.measured, 0);
    process_call(&p, &c);
    assert_int_equal(p.op->count.measured, 3);
    process_end(&p);
}

/* What this process learnt without a pick: its correction. */
static void the_correction_lasts(void **state)
{
    (void)state;
    timed_call c, near;
    timed_make(&c, 300);
    timed_make(&near, 330);
    process p = process_start_here(MD_SELECT_MODEL);
    process_call(&p, &near);
    assert_int_equal(timed_incumbent(p.op, &near), 0); /* the model knows no better */
    process_end(&p);
    p = process_start_here(MD_SELECT_MEASURE);
    process_call(&p, &c);
    process_end(&p);
    p = process_start_here(MD_SELECT_MODEL);
    assert_int_equal(p.op->count.stored_times, 3);
    process_call(&p, &near);
    assert_int_equal(timed_incumbent(p.op, &near), 10);
    assert_int_equal(process_why(&p, &near), MD_DS_MODEL);
    process_end(&p);
}

/* Nothing waits for the process_disk: a background thread writes soon after. */
static void be_chip(const char *arch, const char *name)
{
    md_dev_facts *f = &timed_now.world.runtime.dev->facts;
    snprintf(f->arch, sizeof f->arch, "%s", arch);
    snprintf(f->name, sizeof f->name, "%s", name);
}

/* What one chip measured corrects the model of its sibling, which says whose times they are and what they are worth.
 * Its own times count more, and its absolute times are its own. */
static void times_of_a_sibling_correct_the_model(void **state)
{
    (void)state;
    timed_call c, near;
    timed_make(&c, 300);
    timed_make(&near, 330);
    be_chip("sm_90a", "chip A");
    process p = process_start_here(MD_SELECT_MEASURE);
    process_call(&p, &c);
    assert_int_equal(timed_incumbent(p.op, &c), 10);
    assert_false(explains(&p, &c, false, "corrected by"));
    process_end(&p);
    static const char *const other[][2] = {{"sm_90a", "chip B"}, {"sm_80", "chip C"}, {"", "chip D"}};
    for (int i = 0; i < 3; i++) {
        be_chip(other[i][0], other[i][1]);
        p = process_start_here(MD_SELECT_MODEL);
        process_call(&p, &c);
        process_call(&p, &near);
        assert_int_equal(timed_incumbent(p.op, &c), i == 0 ? 10 : 0);
        assert_int_equal(timed_incumbent(p.op, &near), i == 0 ? 10 : 0);
        assert_int_equal(process_why(&p, &c), MD_DS_MODEL);
        assert_true(explains(&p, &c, false, "corrected by 3 times of chip A; expected error 11%") == (i == 0));
        assert_true(explains(&p, &c, true, "\"chip A\"") == (i == 0));
        /* 100 us were measured there: here the model's 1 us stands, corrected by how variants compare */
        md_ds_bound bound;
        md_ds_shape_entry *entry = NULL;
        assert_ok(md_ds_bind(&bound, p.op, c.arg, 3));
        assert_ok(md_ds_find(&entry, p.op, NULL, &bound));
        assert_true(md_ds_plan_of(entry)->stage[0].pick.us < 3.0);
        md_ds_shape_entry_release(entry);
        process_end(&p);
    }
    be_chip("sm_90a", "chip B");
    timed_now.us_of[10] = 900.0; /* on this one gamma is the fastest */
    p = process_start(MD_SELECT_MEASURE, process_store(process_disk->root, NULL, "here"), 100);
    process_call(&p, &c);
    assert_int_equal(timed_incumbent(p.op, &c), 20);
    process_end(&p);
    p = process_start(MD_SELECT_MODEL, process_store(process_disk->root, NULL, "here"), 100);
    process_call(&p, &near);
    assert_int_equal(timed_incumbent(p.op, &near), 20);
    process_end(&p);
}

static void picks_are_written_in_the_background(void **state)
{
    (void)state;
    timed_call c;
    timed_make(&c, 300);
    process p = process_start_here(MD_SELECT_MEASURE);
    process_call(&p, &c);
    md_tn_stored *other = process_store(process_disk->root, NULL, "here");
    process q = {0};
    for (int i = 0; i < 3000 && !q.op; i++) { /* up to 30 s on a busy machine */
        q = process_start(MD_SELECT_MODEL, other, 100);
        if (q.op->count.stored_picks == 0) {
            timed_finish(&q.op);
            nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        }
    }
    assert_non_null(q.op);
    timed_finish(&q.op);
    md_tn_stored_close(&other);
    process_end(&p);
}

static void a_store_that_cannot_be_written_is_read(void **state)
{
    (void)state;
    timed_call c, another;
    timed_make(&c, 300);
    timed_make(&another, 400);
    process p = process_start_here(MD_SELECT_MEASURE);
    process_call(&p, &c);
    process_end(&p);
    for (int i = 0; i < 2; i++) { /* the second finds what the first found, and no more */
        process_set_times();
        p = process_start(MD_SELECT_MEASURE, process_store("/proc/no/such", process_disk->root, "here"), 100);
        process_call(&p, &c);
        assert_int_equal(p.op->count.measured, 0);
        process_call(&p, &another);
        assert_int_equal(p.op->count.measured, 3);
        process_end(&p);
    }
}

/* A variant that is not in the pool, or is wrong now, does not serve: the shape is measured again. */
static void picks_of_unknown_variants_are_measured_again(void **state)
{
    (void)state;
    timed_call c;
    timed_make(&c, 300);
    process p = process_start_here(MD_SELECT_MEASURE);
    process_call(&p, &c);
    process_end(&p);
    script_reset();
    script_now.is_text = true;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_GAMMA, 0, 1.2);
    p = process_start(MD_SELECT_MEASURE, process_store(process_disk->root, NULL, "here"), 100);
    process_call(&p, &c);
    assert_int_equal(p.op->count.measured, 2);
    assert_int_equal(timed_incumbent(p.op, &c), 20);
    process_end(&p);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, process_set_up, process_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_second_process_measures_nothing),
        TEST(other_ops_have_other_picks),
        TEST(eviction_loses_nothing),
        TEST(picks_outside_their_envelope_are_not_taken),
        TEST(picks_of_other_versions_are_named),
        TEST(another_environment_measures_again),
        TEST(what_was_throttled_is_an_estimate),
        TEST(the_correction_lasts),
        TEST(picks_are_written_in_the_background),
        TEST(times_of_a_sibling_correct_the_model),
        TEST(a_store_that_cannot_be_written_is_read),
        TEST(picks_of_unknown_variants_are_measured_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
