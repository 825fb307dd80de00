/* What the tuner accepts on the host device: kernels whose results are right, and no others. */
#include "tune/host_search.h"

#include "base/status.h"
#include "tune/tune.h"
#include "tune/verify/internal.h"

#include <math.h>

static int32_t count_verdicts(const md_tn_record *r, const char *part, md_tn_verdict v)
{
    int32_t n = 0;
    for (int32_t i = 0; i < r->n_candidates; i++)
        n += strstr(r->candidate[i].name, part) && r->candidate[i].verdict == v;
    return n;
}

static void right_kernels_are_accepted(void **state)
{
    (void)state;
    static const char *const formulas[] = {
        "Y[i,j] = silu(X[i,j]) * X[i,j]",
        "Y[i] = sum[j](X[i,j] * X[i,j])",
        "Y[i] = argmax[j](X[i,j])",
        "Y[i,j] = cumsum[j](X[i,j])",
        "Y[i,j] = X[j,i]",
        "Y[i,j] = log(X[i,j]) + sqrt(X[i,j])",
        "let m[i] = max[j](X[i,j]); Y[i,j] = X[i,j] - m[i]",
    };
    for (int32_t i = 0; i < MD_COUNT(formulas); i++) {
        host_search search;
        host_search_open(&search, formulas[i], 40, 200, BEND_NOTHING, NULL);
        search.job.rigor = MD_TUNE_MEASURE;
        search.job.max_builds = 4;
        assert_ok(md_tn_tune(&search.job));
        if (atomic_load(&search.count.wrong) || atomic_load(&search.count.failed) || !atomic_load(&search.count.timed))
            fail_msg("%s: %d wrong, %d failed, %d timed", formulas[i], (int)search.count.wrong,
                     (int)search.count.failed, (int)search.count.timed);
        host_search_close(&search);
    }
}

/* All variants of one value are bent: none of them may win, and the ones that would have are quarantined. */
static void check_refused(bend how)
{
    host_search search;
    md_tn_record r, again;
    host_search_open(&search, HOST_SEARCH_SILU, 64, 256, how, "flat1");
    assert_ok(md_tn_tune(&search.job));
    assert_true(host_search_find(&r, &search, "pointwise"));
    assert_true(r.count > 0);
    assert_null(strstr(r.variant, "flat1"));
    const int32_t n_wrong = count_verdicts(&r, "flat1", MD_TN_WRONG);
    /* It is not run again by a later search, also of another point. */
    search.point.size[1] = 300;
    host_search_bent.n_bent = 0;
    const uint64_t wrong = atomic_load(&search.count.wrong);
    assert_ok(md_tn_tune(&search.job));
    assert_true(host_search_find(&again, &search, "pointwise"));
    assert_null(strstr(again.variant, "flat1"));
    assert_int_equal(wrong, n_wrong);
    assert_true(count_verdicts(&again, "flat1", MD_TN_WRONG) >= n_wrong);
    md_tn_record_finish(&r);
    md_tn_record_finish(&again);
    host_search_close(&search);
}

/* Nothing is left where all are bent: the model's word stays. */
static void check_all_refused(bend how)
{
    host_search search;
    md_tn_record r;
    host_search_open(&search, HOST_SEARCH_SILU, 64, 256, how, "pointwise");
    assert_ok(md_tn_tune(&search.job));
    assert_true(host_search_find(&r, &search, "pointwise"));
    assert_int_equal(r.count, 0);
    assert_true(r.n_candidates > 0);
    assert_int_equal(count_verdicts(&r, "pointwise", MD_TN_WRONG), r.n_candidates);
    md_tn_record_finish(&r);
    host_search_close(&search);
}

static void wrong_results_are_refused(void **state)
{
    (void)state;
    check_refused(BEND_RESULT);
    check_refused(BEND_SMALL_RESULT);
    check_refused(BEND_LARGE_RESULT);
    check_all_refused(BEND_RESULT);
}

/* How far a result may be off, by dtype: what is refused and what is not, at values below and above 1. */
static void tolerances(void **state)
{
    (void)state;
    static const struct {
        md_dtype dtype;
        double is_close, is_off; /* parts of max(1, |value|) */
    } row[] = {{MD_F64, 9e-11, 2e-10}, {MD_F32, 9e-5, 2e-4},    {MD_BF16, 0.015, 0.03}, {MD_F16, 0.003, 0.006},
               {MD_I32, 0.0, 1e-9},    {MD_F8E4M3, 0.12, 0.25}, {MD_U8, 0.0, 0.01},     {MD_I64, 0.0, 1e-9},
               {MD_BOOL, 0.0, 0.01},   {MD_F8E5M2, 0.25, 0.5}};
    static const double values[] = {0.0, 0.01, -0.5, 1.0, -3.0, 100.0};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const md_dtype t = row[i].dtype;
        for (size_t k = 0; k < sizeof values / sizeof *values; k++)
            for (int sign = -1; sign <= 1; sign += 2) {
                const double v = values[k], one = sign * fmax(1.0, fabs(v));
                assert_true(md_tn_is_close(t, 0.0, 0.0, v + one * row[i].is_close, v));
                assert_false(md_tn_is_close(t, 0.0, 0.0, v + one * row[i].is_off, v));
            }
        assert_true(md_tn_is_close(t, 0.0, 0.0, NAN, NAN) && md_tn_is_close(t, 0.0, 0.0, INFINITY, INFINITY));
        assert_false(md_tn_is_close(t, 0.0, 0.0, NAN, 0.0) || md_tn_is_close(t, 0.0, 0.0, 0.0, NAN) ||
                     md_tn_is_close(t, 0.0, 0.0, INFINITY, NAN));
        assert_false(md_tn_is_close(t, 0.0, 0.0, INFINITY, -INFINITY) || md_tn_is_close(t, 0.0, 0.0, 3e38, INFINITY));
        assert_false(md_tn_is_close(t, 0.0, 0.0, -INFINITY, -300.0));
    }
    assert_true(md_tn_is_close(MD_F32, 0.0, 0.01, 1.01, 1.0));
    assert_false(md_tn_is_close(MD_F32, 0.0, 0.01, 1.011, 1.0));
}

/* What is too large for a dtype: infinity, or for f8 its largest value; nothing else, and not of the other sign. */
static void overflows(void **state)
{
    (void)state;
    static const struct {
        md_dtype dtype;
        double want, got;
    } row[] = {{MD_F32, 6e42, INFINITY},  {MD_F32, 3.4028e38, INFINITY}, {MD_F64, 1.7976931348e308, INFINITY},
               {MD_BF16, 6e42, INFINITY}, {MD_F16, 7e4, INFINITY},       {MD_F16, 65504.0, INFINITY},
               {MD_F8E5M2, 1e6, 57344.0}, {MD_F8E4M3, 1e6, 448.0},       {MD_F32, 3.4028e38, 3.4027e38}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_true(md_tn_is_close(row[i].dtype, 0.0, 0.0, row[i].got, row[i].want));
        assert_true(md_tn_is_close(row[i].dtype, 0.0, 0.0, -row[i].got, -row[i].want));
        assert_false(md_tn_is_close(row[i].dtype, 0.0, 0.0, 1.0, row[i].want));
        assert_false(md_tn_is_close(row[i].dtype, 0.0, 0.0, -INFINITY, row[i].want));
    }
    assert_false(md_tn_is_close(MD_F32, 0.0, 0.0, INFINITY, 3e38) || md_tn_is_close(MD_F32, 0.0, 0.0, NAN, 6e42));
    assert_false(md_tn_is_close(MD_F16, 0.0, 0.0, INFINITY, 6e4) ||
                 md_tn_is_close(MD_I32, 0.0, 0.0, 2147483647.0, 1e10));
}

/* A chain rounds weights before they are divided, which a result in f32 shows: it is right, and another result is not.
 */
#define ROUNDED_WEIGHTS(scale)                                                                                         \
    "let S[i,j] = sum[d](Q:bf16[i,d] * K:bf16[j,d]) * " scale ";"                                                      \
    "let P:bf16[i,j] = exp(S[i,j] - max[k](S[i,k])) / sum[k](exp(S[i,k] - max[l](S[i,l])));"                           \
    "Y:f32[i,e] = sum[j](P[i,j] * V:bf16[j,e])"
static void rounded_weights_are_accepted(void **state)
{
    (void)state;
    for (int32_t is_bent = 0; is_bent < 2; is_bent++) {
        host_search search;
        host_search_open(&search, ROUNDED_WEIGHTS("0.2"), 0, 0, is_bent ? BEND_RESULT : BEND_NOTHING,
                         is_bent ? "chain" : NULL);
        for (int32_t d = 0; d < search.formula->n_dims; d++)
            search.point.size[d] = search.formula->dim[d].name[0] == 'j' ? 90 : 40;
        search.job.target.stage = search.program->n_stages - 1;
        assert_int_equal(search.program->stage[search.job.target.stage].kind, MD_ST_CHAIN);
        search.job.rigor = MD_TUNE_MEASURE;
        search.job.max_builds = 3;
        assert_ok(md_tn_tune(&search.job));
        assert_true(atomic_load(&search.count.timed) > 0 || is_bent);
        assert_int_equal(atomic_load(&search.count.wrong) > 0, is_bent);
        host_search_close(&search);
    }
}

/* Sums of millions: kernels that cut them are right, one accumulator stops growing. */
static void long_sums_are_told_apart(void **state)
{
    (void)state;
    enum { LENGTH = 4000000 };
    for (int32_t is_bent = 0; is_bent < 2; is_bent++) {
        host_search search;
        host_search_open(&search, "Y[i] = sum[j](X[i,j])", 2, LENGTH, is_bent ? BEND_LONG_SUM : BEND_NOTHING,
                         "row_looped");
        search.job.rigor = MD_TUNE_MEASURE;
        search.job.max_builds = 2;
        assert_ok(md_tn_tune(&search.job));
        md_tn_record r;
        assert_true(host_search_find(&r, &search, "row_looped"));
        assert_true(r.n_candidates > 0);
        assert_int_equal(count_verdicts(&r, "row_looped", MD_TN_WRONG) > 0, is_bent);
        assert_int_equal(r.count > 0, !is_bent);
        md_tn_record_finish(&r);
        host_search_close(&search);
    }
}

/* Blocks of keys of other lengths round the weights by other maxima. */
static void rounded_weights_agree(void **state)
{
    static const char *const names[] = {"chain/few0_rows32_keys64", "chain/few0_rows32_keys128",
                                        "chain/few0_rows64_keys256", "chain/few1_rows8_keys64"};
    md_bd_variant *variant[MD_COUNT(names)];
    md_tn_agreement found[MD_COUNT(names)];
    int64_t size[MD_FX_MAX_DIMS] = {0};
    md_kn_shape shape;
    host_search search;
    (void)state;
    host_search_open(&search, ROUNDED_WEIGHTS("1"), 0, 0, BEND_NOTHING, NULL);
    for (int32_t d = 0; d < search.formula->n_dims; d++)
        size[d] = search.formula->dim[d].name[0] == 'j' ? 700 : 48;
    search.job.target.stage = search.program->n_stages - 1;
    md_tn_shape(&shape, search.program, size);
    for (int32_t i = 0; i < MD_COUNT(names); i++) {
        const md_fa_family *family;
        md_fa_config config;
        assert_ok(md_fa_parse(&family, &config, MD_DEV_HOST, names[i]));
        assert_ok(md_bd_variant_create(&variant[i], search.builder, &search.job.target, family, &config));
        assert_ok(md_bd_variant_wait(variant[i]));
    }
    assert_ok(md_tn_agree(found, variant, MD_COUNT(names), &shape));
    for (int32_t i = 0; i < MD_COUNT(names); i++) {
        if (found[i] != MD_TN_AGREES)
            fail_msg("%s: %d", names[i], (int)found[i]);
        md_bd_variant_destroy(&variant[i]);
    }
    host_search_close(&search);
}

static void writing_beside_outputs_is_refused(void **state)
{
    (void)state;
    check_refused(BEND_NEIGHBOUR);
    check_all_refused(BEND_NEIGHBOUR);
}

static void what_writes_nothing_is_refused(void **state)
{
    (void)state;
    host_search search;
    md_tn_record r;
    host_search_open(&search, HOST_SEARCH_SILU, 64, 256, BEND_NOTHING_WRITTEN, "flat1"); /* the fastest of all */
    assert_ok(md_tn_tune(&search.job));
    assert_true(host_search_find(&r, &search, "pointwise"));
    assert_null(strstr(r.variant, "flat1"));
    assert_true(count_verdicts(&r, "flat1", MD_TN_WRONG) > 0);
    md_tn_record_finish(&r);
    host_search_close(&search);
}

static void what_does_not_launch_is_passed_over(void **state)
{
    (void)state;
    host_search search;
    md_tn_record r;
    host_search_open(&search, HOST_SEARCH_SILU, 64, 256, BEND_LAUNCH, "flat1");
    assert_ok(md_tn_tune(&search.job));
    assert_true(host_search_find(&r, &search, "pointwise"));
    assert_null(strstr(r.variant, "flat1"));
    assert_true(count_verdicts(&r, "flat1", MD_TN_FAILED) > 0);
    assert_int_equal(host_search_bent.n_bent, count_verdicts(&r, "flat1", MD_TN_FAILED)); /* once each */
    md_tn_record_finish(&r);
    host_search_close(&search);
}

static void what_does_not_compile_is_passed_over(void **state)
{
    (void)state;
    host_search search;
    md_tn_record r;
    host_search_open(&search, HOST_SEARCH_SILU, 64, 256, BEND_COMPILE, NULL);
    assert_ok(md_tn_tune(&search.job));
    assert_true(host_search_find(&r, &search, "pointwise"));
    assert_true(r.count > 0);
    assert_true(count_verdicts(&r, "pointwise", MD_TN_UNBUILT) > 0);
    assert_true(count_verdicts(&r, r.variant, MD_TN_UNBUILT) == 0);
    md_tn_record_finish(&r);
    host_search_close(&search);
}

static void excluded_names_are_quarantined(void **state)
{
    (void)state;
    host_search search;
    md_tn_record r;
    host_search_open(&search, HOST_SEARCH_SILU, 64, 256, BEND_NOTHING, NULL);
    assert_ok(md_tn_tune(&search.job));
    assert_true(host_search_find(&r, &search, "pointwise"));
    char winner[MD_FA_NAME];
    memcpy(winner, r.variant, sizeof winner);
    md_tn_record_finish(&r);
    host_search_close(&search);
    host_search_open(&search, HOST_SEARCH_SILU, 64, 256, BEND_NOTHING, winner);
    search.job.exclude = winner;
    assert_ok(md_tn_tune(&search.job));
    assert_true(host_search_find(&r, &search, "pointwise"));
    assert_string_not_equal(r.variant, winner);
    assert_int_equal(count_verdicts(&r, winner, MD_TN_ENDLESS), 1);
    assert_int_equal(host_search_bent.n_bent, 0); /* it never ran */
    md_tn_record_finish(&r);
    host_search_close(&search);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_kernels_are_accepted),
        cmocka_unit_test(wrong_results_are_refused),
        cmocka_unit_test(writing_beside_outputs_is_refused),
        cmocka_unit_test(what_writes_nothing_is_refused),
        cmocka_unit_test(what_does_not_launch_is_passed_over),
        cmocka_unit_test(what_does_not_compile_is_passed_over),
        cmocka_unit_test(excluded_names_are_quarantined),
        cmocka_unit_test(tolerances),
        cmocka_unit_test(overflows),
        cmocka_unit_test(rounded_weights_are_accepted),
        cmocka_unit_test(rounded_weights_agree),
        cmocka_unit_test(long_sums_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
