/* A measured search where kernels fail, give no times, are very slow or do not fit into memory. On a simulated
 * device. */
#include "tune/search_world.h"

#include "base/status.h"
#include "store/scratch.h"
#include "support/find_family.h"
#include "tune/wisdom/internal.h"

#include <math.h>

static bool has_verdict(const md_tn_record *r, const char *part, md_tn_verdict verdict)
{
    for (int32_t i = 0; i < r->n_candidates; i++)
        if (strstr(r->candidate[i].name, part) && r->candidate[i].verdict == verdict)
            return true;
    return false;
}

static void run_gelu(md_tn_record *r, search_world *w)
{
    const md_tn_point p = search_point(1024, 1024);
    const md_tn_job job = search_job(w, &p, 1, MD_TUNE_EXHAUSTIVE);
    assert_ok(md_tn_tune(&job));
    assert_true(search_found(r, w, &p, MD_TUNE_EXHAUSTIVE) > 0);
}

static void bad_times_are_no_times(void **state)
{
    (void)state;
    md_tn_record r;
    search_world w;
    search_world_open(&w, SEARCH_GELU, MD_F32, 10, 0.0, 1.0);
    w.fails = "unroll1";
    w.zero = "unroll2_threads128";
    w.nan = "unroll2_threads256";
    run_gelu(&r, &w);
    assert_true(has_verdict(&r, w.fails, MD_TN_FAILED));
    assert_true(has_verdict(&r, w.zero, MD_TN_FAILED));
    assert_true(has_verdict(&r, w.nan, MD_TN_FAILED));
    assert_false(has_verdict(&r, w.zero, MD_TN_TIMED));
    assert_null(strstr(r.variant, w.fails));
    assert_null(strstr(r.variant, w.zero));
    assert_null(strstr(r.variant, w.nan));
    assert_true(r.us > 0.0 && isfinite(r.us));
    md_tn_record_finish(&r);
    search_world_close(&w);
}

static void a_slow_one_runs_once(void **state)
{
    (void)state;
    md_tn_record r;
    search_world w;
    search_world_open(&w, SEARCH_GELU, MD_F32, 11, 0.0, 1.0);
    w.slow = "unroll1_threads512";
    run_gelu(&r, &w);
    assert_true(has_verdict(&r, w.slow, MD_TN_SLOW));
    assert_null(strstr(r.variant, w.slow));
    int32_t n = 0;
    for (int32_t i = 0; i < r.n_candidates; i++)
        n += strstr(r.candidate[i].name, w.slow) != NULL;
    assert_true(w.n_slow <= 2 * n);
    md_tn_record_finish(&r);
    search_world_close(&w);
}

static void nothing_that_runs_is_no_disaster(void **state)
{
    (void)state;
    search_world w;
    md_tn_record r;
    search_world_open(&w, SEARCH_GELU, MD_F32, 12, 0.0, 1.0);
    w.fails = "pointwise";
    const md_tn_point p = search_point(1024, 1024);
    const md_tn_job job = search_job(&w, &p, 1, MD_TUNE_MEASURE);
    assert_ok(md_tn_tune(&job));
    (void)search_found(&r, &w, &p, MD_TUNE_MEASURE);
    assert_null(r.key); /* nothing measured */
    assert_true(atomic_load(&w.count.failed) > 0);
    search_world_close(&w);
}

/* What a first process learned, also that nothing of a family runs or is worth a try, keeps a second one from
 * measuring and building. */
static void what_runs_nowhere_is_not_tried_by_every_process(void **state)
{
    scratch *s = *state;
    static const char *const fails[] = {"column", "row_persistent", "row", NULL};
    for (int k = 0; k < MD_COUNT(fails); k++) {
        uint64_t timed[2], built[2];
        scratch_shell("rm -rf '%s'", s->root);
        for (int process = 0; process < 2; process++) {
            search_world w;
            search_world_open(&w, SEARCH_SOFTMAX, MD_F32, 12, 0.0, 1.0);
            w.fails = fails[k];
            const md_tn_point p[2] = {search_point(4096, 64), search_point(1, 65536)};
            const md_tn_job job = search_job(&w, p, 2, MD_TUNE_MEASURE);
            md_sr *store = scratch_open(s, "here");
            md_tn_wisdom_use_store(w.wisdom, store, "device");
            assert_ok(md_tn_tune(&job));
            timed[process] = atomic_load(&w.count.timed);
            built[process] = search_compiles(&w);
            assert_int_equal(atomic_load(&w.count.found), process ? 2 : 0);
            assert_int_equal(w.wisdom->count.unreadable, 0);
            search_world_close(&w);
            md_sr_close(&store);
        }
        assert_true(timed[0] > 0 && built[0] > 0);
        assert_int_equal(timed[1], 0);
        assert_int_equal(built[1], 0);
    }
}

/* Who has tuned a point lets go of it: while it goes on another process that asks for more finds the point free. */
static void leases_are_given_back(void **state)
{
    scratch *s = *state;
    search_world first, second;
    const md_tn_point p[2] = {search_point(64, 64), search_point(1 << 14, 1 << 14)}; /* the second does not fit */
    md_sr *store = scratch_open(s, "here"), *other = scratch_open(s, "here");
    search_world_open(&first, SEARCH_GELU, MD_F32, 12, 0.0, 1.0);
    search_world_open(&second, SEARCH_GELU, MD_F32, 12, 0.0, 1.0);
    md_tn_wisdom_use_store(first.wisdom, store, "device");
    md_tn_wisdom_use_store(second.wisdom, other, "device");
    md_tn_job job = search_job(&first, p, 2, MD_TUNE_MEASURE);
    assert_ok(md_tn_tune(&job));
    assert_int_equal(atomic_load(&first.count.found), 0);
    for (int i = 0; i < MD_TN_MAX_LEASES; i++)
        assert_null(first.wisdom->lease[i]);
    job = search_job(&second, p, 2, MD_TUNE_EXHAUSTIVE);
    assert_ok(md_tn_tune(&job));
    assert_int_equal(atomic_load(&second.count.busy), 0);
    assert_int_equal(atomic_load(&second.count.out_of_memory), 1);
    assert_true(atomic_load(&second.count.timed) > 0);
    search_world_close(&second);
    search_world_close(&first);
    md_sr_close(&other);
    md_sr_close(&store);
}

static void what_does_not_fit_keeps_the_estimate(void **state)
{
    (void)state;
    search_world w;
    md_tn_record r;
    search_world_open(&w, SEARCH_GELU, MD_F32, 13, 0.0, 1.0);
    const md_tn_point p[2] = {search_point(1 << 14, 1 << 14), search_point(64, 64)};
    const md_tn_job job = search_job(&w, p, 2, MD_TUNE_MEASURE);
    assert_ok(md_tn_tune(&job));
    assert_int_equal(atomic_load(&w.count.out_of_memory), 1);
    assert_int_equal(search_found(&r, &w, &p[0], MD_TUNE_MEASURE), 0);
    assert_true(search_found(&r, &w, &p[1], MD_TUNE_MEASURE) > 0);
    md_tn_record_finish(&r);
    search_world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_times_are_no_times),
        cmocka_unit_test(a_slow_one_runs_once),
        cmocka_unit_test(nothing_that_runs_is_no_disaster),
        cmocka_unit_test_setup_teardown(what_runs_nowhere_is_not_tried_by_every_process, scratch_setup,
                                        scratch_teardown),
        cmocka_unit_test(what_does_not_fit_keeps_the_estimate),
        cmocka_unit_test_setup_teardown(leases_are_given_back, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
