/* Ranks that measure while they run, each with noise of its own: between agreements no pick changes, after each all are
 * equal. MD_TEST_EFFORT=10: 200 runs. */
#include "dispatch/support/timed.h"
#include "stats/agree.h"
#include "stats/report.h"
#include "support/check.h"
#include "support/ranks.h"

enum { RANKS = 3, PHASES = 3, SHAPES = 2, RUNS = 20, CALLS = 500 };

/* The same for all ranks of a run. */
typedef struct plan {
    uint64_t seed;
    md_select select;
    bool agrees; /* else picks change whenever something is found */
} plan;

static void make_call(timed_call *c, md_ds_op *op, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        assert_ok(md_ds_call(op, NULL, c->arg, 3));
        if (timed_now.is_async && i % 3 == 0)
            assert_ok(timed_now.device.base.ops->sync(&timed_now.device.base, NULL));
    }
}

static void digest(uint64_t out[2], md_ds_op *op)
{
    md_ss_choices choices = {0};
    md_digest128 found;
    md_ss_choices_add(&choices, op);
    assert_ok(md_ss_choices_digest(&found, &choices));
    out[0] = found.lo;
    out[1] = found.hi;
}

static void agree(ranks *r, md_ds_op *op)
{
    md_agreement found;
    const md_exchange x = ranks_exchange(r, 120.0);
    assert_ok(md_ss_agree(
        &found,
        &(md_ss_agree_request){
            .op = &op, .n_ops = 1, .library = "1", .device = "scripted", .environment = "none", .exchange = &x}));
    r->shared->result[r->rank][0] += (int32_t)found.n_changed;
}

/* Families whose model says little of their times. */
static void write_script(const plan *p, int32_t rank)
{
    uint64_t state = p->seed;
    timed_set_up(NULL);
    if (p->select == MD_SELECT_HYBRID) {
        timed_tear_down(NULL);
        timed_set_up_async(NULL);
    }
    for (int32_t family = 0; family < 3; family++)
        for (int32_t v = 0; v < 2; v++) {
            script_allow(family, v, 1.0 + 0.02 * (double)(check_random(&state) % 10));
            timed_now.us_of[10 * family + v] = 80.0 + (double)(check_random(&state) % 40);
        }
    timed_now.noise = 0.2;
    timed_now.seed = (uint32_t)(p->seed * 31 + (uint64_t)rank * 7919 + 1);
    timed_now.agrees = p->agrees;
}

static void work(ranks *r, void *user)
{
    const plan *p = user;
    timed_call c[SHAPES];
    write_script(p, r->rank);
    md_ds_op *op = timed_op(p->select, 0.05);
    for (int i = 0; i < SHAPES; i++) {
        timed_make(&c[i], TIMED_N + 64 * i);
        make_call(&c[i], op, 1);
    }
    for (int phase = 0; phase < PHASES; phase++) {
        uint64_t before[2], after[2];
        digest(before, op);
        for (int i = 0; i < SHAPES; i++) {
            if (p->select == MD_SELECT_HYBRID)
                timed_wait_for_trial(op, &c[i]);
            make_call(&c[i], op, CALLS);
        }
        digest(after, op);
        r->shared->result[r->rank][1] += memcmp(before, after, sizeof before) != 0;
        if (p->agrees)
            assert_memory_equal(before, after, sizeof before);
        agree(r, op);
    }
    digest(r->shared->digest[r->rank], op);
    timed_finish(&op);
    timed_tear_down(NULL);
}

/* How often picks changed at agreements, and between them. */
static void run(int32_t changed[2], plan p)
{
    ranks r;
    ranks_open(&r, RANKS);
    ranks_run(&r, work, &p);
    assert_int_equal(ranks_wait(&r), 0);
    for (int32_t i = 0; i < RANKS; i++) {
        assert_memory_equal(r.shared->digest[i], r.shared->digest[0], sizeof r.shared->digest[0]);
        changed[0] += r.shared->result[i][0];
        changed[1] += r.shared->result[i][1];
    }
    ranks_close(&r);
}

static void picks_change_at_agreements_alone(void **state)
{
    (void)state;
    const char *effort = getenv("MD_TEST_EFFORT");
    const int32_t runs = (int32_t)(RUNS * (effort ? atof(effort) : 1.0));
    const uint64_t seed = check_seed();
    static const md_select select[] = {MD_SELECT_MEASURE, MD_SELECT_HYBRID};
    for (int k = 0; k < 2; k++) {
        int32_t changed[2] = {0, 0};
        for (int32_t i = 0; i < runs / 2; i++)
            run(changed, (plan){seed + (uint64_t)i, select[k], true});
        printf("%s: %d runs of %d ranks: %d picks changed at agreements, %d between\n", k ? "hybrid" : "measure",
               (int)(runs / 2), RANKS, (int)changed[0], (int)changed[1]);
        assert_true(changed[0] > 0); /* what was measured is put into use */
        assert_int_equal(changed[1], 0);
    }
}

/* Without the option picks change at once, and agreements make them equal again. */
static void else_they_change_between(void **state)
{
    (void)state;
    int32_t changed[2] = {0, 0};
    for (int32_t i = 0; i < 3; i++)
        run(changed, (plan){77 + (uint64_t)i, MD_SELECT_HYBRID, false});
    assert_true(changed[1] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(picks_change_at_agreements_alone),
        cmocka_unit_test(else_they_change_between),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
