/* The row families against the reference: what users write along rows, in all layouts, with odd, prime, single and
 * missing elements, NaN and infinities; rows longer than several chunks, so that results are merged. */
#include "support/check.h"
#include "support/variant.h"
#include "device/open.h"

static md_pool *pool;
static md_dev *device;

static int open_device(void **state)
{
    (void)state;
    assert_ok(md_pool_create(&pool, 2));
    assert_ok(md_dev_open(&device, &(md_dev_options){.device = "host", .cc = getenv("MD_CC"), .pool = pool}));
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    md_dev_close(&device);
    md_pool_destroy(&pool);
    return 0;
}

#define PERSISTENT "row_persistent/cap4096_prefetch1_strided0_nontemporal0"
#define LOOPED "row_looped/chunk512_prefetch1_strided0_nontemporal0"
#define COLUMN "column/tile16_strided0_nontemporal0"

static void run(const char *variant, variant_case c)
{
    char text[1024] = "";
    bool skipped = false;
    c.seed = 20260801;
    bool ok = variant_check(text, sizeof text, &skipped, device, &c, variant);
    if (ok && skipped && strncmp(variant, "row_looped/", 11) == 0) { /* a program that is not merged has one config */
        char only[96];
        snprintf(only, sizeof only, "row_looped/chunk2048_prefetch1%s", strstr(variant, "_strided"));
        ok = variant_check(text, sizeof text, &skipped, device, &c, only);
    }
    if (!ok)
        fail_msg("%s", text);
    if (skipped)
        fail_msg("%s does not serve %s", variant, c.formula);
}

/* Every family and access on one formula: `a` rows, `n` the axis. */
static void run_all(variant_case c)
{
    run(PERSISTENT, c);
    c.dims = "a=3, n=1300";
    run(PERSISTENT, c);
    run(LOOPED, c);
    c.dims = "a=37, n=65";
    c.layout = VARIANT_PADDED;
    run(COLUMN, c);
    run(LOOPED, c);
    c.layout = VARIANT_SPREAD;
    run("row_persistent/cap4096_prefetch0_strided1_nontemporal0", c);
    c.layout = VARIANT_TURNED;
    run("row_looped/chunk1024_prefetch0_strided1_nontemporal0", c);
    run("column/tile4_strided1_nontemporal0", c);
}

#define SOFTMAX "Y[a,n] = exp(X[a,n] - max[k](X[a,k])) / sum[k](exp(X[a,k] - max[l](X[a,l])))"
#define LAYER_NORM "Y[a,n] = (X[a,n] - mean[k](X[a,k])) * rsqrt(var[k](X[a,k]) + 1e-5) * G[n] + B[n]"
#define LOG_SUM_EXP "Y[a] = log(sum[n](exp(X[a,n] - max[k](X[a,k])))) + max[n](X[a,n])"

static void test_softmax(void **state)
{
    (void)state;
    run_all((variant_case){.formula = SOFTMAX, .dims = "a=5, n=77"});
}

static void test_norms(void **state)
{
    (void)state;
    run_all((variant_case){.formula = LAYER_NORM, .dims = "a=1, n=17"});
    run(PERSISTENT, (variant_case){.formula = "Y[a,n] = X[a,n] * rsqrt(mean[k](X[a,k] * X[a,k]) + 1e-6) * G[n]",
                                   .dims = "a=7, n=256"});
    run(LOOPED, (variant_case){.formula = "Y[a,n] = X[a,n] * rsqrt(mean[k](X[a,k] * X[a,k]) + 1e-6) * G[n]",
                               .dims = "a=7, n=1001"});
    run(LOOPED, (variant_case){.formula = "R[a,n] = X[a,n] + D[a,n]; Y[a,n] = (X[a,n] + D[a,n]) * "
                                          "rsqrt(mean[k]((X[a,k] + D[a,k]) * (X[a,k] + D[a,k])) + 1e-6)",
                               .dims = "a=7, n=1001"});
}

static void test_reductions(void **state)
{
    (void)state;
    run_all((variant_case){.formula = LOG_SUM_EXP, .dims = "a=4, n=1"});
    run_all((variant_case){
        .formula = "S[a] = sum[n](X[a,n]); V[a] = var[n](X[a,n]); M[a] = max[n](X[a,n]); L[a] = min[n](X[a,n])",
        .dims = "a=11, n=31"});
    run_all((variant_case){.formula = "I[a] = argmax[n](X[a,n]); J[a] = argmin[n](X[a,n]); N[a] = any[n](X[a,n] > "
                                      "1.9); E[a] = all[n](X[a,n] < 1.99)",
                           .dims = "a=11, n=47"});
}

/* Short rows, so that some have no NaN and some have. */
static void test_special_values(void **state)
{
    (void)state;
    const char *const formulas[] = {
        SOFTMAX,
        LOG_SUM_EXP,
        ("S[a] = sum[n](X[a,n]); M[a] = max[n](X[a,n]); L[a] = min[n](X[a,n]); I[a] = argmax[n](X[a,n]); J[a] = "
         "argmin[n](X[a,n])"),
    };
    for (int i = 0; i < 3; i++) {
        variant_case c = {.formula = formulas[i], .dims = "a=200, n=5", .has_specials = true};
        run(PERSISTENT, c);
        run(LOOPED, c);
        run(COLUMN, c);
    }
}

/* A chunk of nothing but -inf must not make the row NaN; a row of nothing else is NaN. */
static void test_masked_rows(void **state)
{
    (void)state;
    const char *const masked = "Y[a,n] = exp(where(n >= 1100 and a > 0 or n == 3 and a == 2, X[a,n], -inf) - "
                               "max[k](where(k >= 1100 and a > 0 or k == 3 and a == 2, X[a,k], -inf)))"
                               " / sum[k](exp(where(k >= 1100 and a > 0 or k == 3 and a == 2, X[a,k], -inf) - "
                               "max[l](where(l >= 1100 and a > 0 or l == 3 and a == 2, X[a,l], -inf))))";
    const char *const causal = "Y[b,i,j] = exp(where(j <= i, X[b,i,j], -inf) - max[k](where(k <= i, X[b,i,k], -inf)))"
                               " / sum[k](exp(where(k <= i, X[b,i,k], -inf) - max[l](where(l <= i, X[b,i,l], -inf))))";
    const char *const lazy = "Y[a] = sum[n](where(n < 100, X[a,n+3], 0)) + max[n](where(n > 0, X[a,n-1], X[a,n]))";
    run(PERSISTENT, (variant_case){.formula = masked, .dims = "a=3, n=1300"});
    run(LOOPED, (variant_case){.formula = masked, .dims = "a=3, n=1300"});
    run(COLUMN, (variant_case){.formula = masked, .dims = "a=3, n=1300"});
    run(PERSISTENT, (variant_case){.formula = causal, .dims = "b=2, i=35, j=35"});
    run(LOOPED, (variant_case){.formula = causal, .dims = "b=1, i=9, j=700"});
    run(COLUMN, (variant_case){.formula = causal, .dims = "b=2, i=35, j=35"});
    run(PERSISTENT, (variant_case){.formula = lazy, .dims = "a=3, n=110"});
    run(LOOPED, (variant_case){.formula = lazy, .dims = "a=3, n=900"});
    run(COLUMN, (variant_case){.formula = lazy, .dims = "a=33, n=110"});
}

/* Loads that do not run over the axis, gathers, scalars, sizes, a level that cannot be merged. */
static void test_row_values(void **state)
{
    (void)state;
    const char *const cross_entropy = "L[a] = log(sum[n](exp(X[a,n] - max[k](X[a,k])))) + max[n](X[a,n]) - X[a,t[a]]";
    const char *const gathered = "scalar s; Y[a,n] = E[i:i32[a],n] * s / sum[k](abs(E[i[a],k]) + w[a])";
    const char *const staged =
        "let m[a] = mean[n](X[a,n]); Y[a,n] = X[a,n] - sum[k](abs(X[a,k] - m[a]) * g[k]) / size(n)";
    const char *const shared = "let m[a] = max[n](X[a,n]); Y[a,n] = where(X[a,n] > m[a] - 1, exp(X[a,n] - m[a]), 0) / "
                               "sum[k](where(X[a,k] > m[a] - 1, exp(X[a,k] - m[a]), 0))";
    variant_case c = {.formula = cross_entropy, .dims = "a=9, n=40", .high = 40};
    run(PERSISTENT, c);
    run(LOOPED, c);
    run(COLUMN, c);
    c.high = 60; /* out of range: reported */
    run(PERSISTENT, c);
    run(COLUMN, c);
    run(PERSISTENT, (variant_case){.formula = gathered, .dims = "a=9, n=40", .high = 6});
    run(LOOPED, (variant_case){.formula = gathered, .dims = "a=9, n=1040", .high = 6});
    run(COLUMN, (variant_case){.formula = gathered, .dims = "a=20, n=40", .high = 6});
    run_all((variant_case){.formula = staged, .dims = "a=5, n=33"});
    run_all((variant_case){.formula = shared, .dims = "a=5, n=33"});
}

static void test_dtypes(void **state)
{
    (void)state;
    const md_dtype dtypes[] = {MD_F64, MD_BF16, MD_F16};
    for (int i = 0; i < 3; i++) {
        run(PERSISTENT, (variant_case){.formula = SOFTMAX, .dims = "a=3, n=203", .dtype = dtypes[i]});
        run(LOOPED, (variant_case){
                        .formula = LAYER_NORM, .dims = "a=3, n=1203", .dtype = dtypes[i], .tolerance = i ? 0.02 : 0});
        run(COLUMN, (variant_case){.formula = SOFTMAX, .dims = "a=41, n=20", .dtype = dtypes[i]});
    }
    const char *const whole = "S[a] = sum[n](X[a,n]); P[a] = prod[n](X[a,n]); M[a] = max[n](X[a,n]); L[a] = "
                              "min[n](X[a,n]); I[a] = argmax[n](X[a,n]); N[a] = any[n](X[a,n] == 3)";
    const md_dtype integers[] = {MD_I32, MD_I64, MD_U8, MD_BOOL};
    for (int i = 0; i < 4; i++) {
        variant_case c = {.formula = whole, .dims = "a=19, n=37", .dtype = integers[i]};
        run(i % 2 ? PERSISTENT : LOOPED, c);
        run(COLUMN, c);
    }
}

static void test_few_elements(void **state)
{
    (void)state;
    const char *const sums =
        "S[a] = sum[n](X[a,n]); P[a] = prod[n](X[a,n]); N[a] = any[n](X[a,n] > 0); E[a] = all[n](X[a,n] > 0)";
    const char *const dims[] = {"a=3, n=0", "a=0, n=4", "a=1, n=1"};
    for (int i = 0; i < 3; i++) {
        run(PERSISTENT, (variant_case){.formula = sums, .dims = dims[i]});
        run(LOOPED, (variant_case){.formula = sums, .dims = dims[i]});
        run(COLUMN, (variant_case){.formula = sums, .dims = dims[i]});
    }
    run(PERSISTENT, (variant_case){.formula = "Y[] = sum[n](X[n]*X[n])", .dims = "n=1000"});
    run(LOOPED, (variant_case){.formula = "Y[n] = X[n] / sum[k](X[k])", .dims = "n=1"});
    run(LOOPED, (variant_case){.formula = "Y[n] = X[n] / sum[k](abs(X[k]))", .sizes = "n=1000"});
}

/* The axis across memory, where columns belong, and outer indices around it. */
static void test_columns(void **state)
{
    (void)state;
    run(COLUMN, (variant_case){.formula = "Y[j] = sum[i](X[i,j])", .dims = "i=100, j=300"});
    run("column/tile4_strided0_nontemporal0",
        (variant_case){.formula = "Y[j] = var[i](X[i,j])", .dims = "i=33, j=129"});
    run("column/tile1_strided0_nontemporal0",
        (variant_case){.formula =
                           "Y[b,i,j] = exp(X[b,i,j] - max[k](X[b,k,j])) / sum[k](exp(X[b,k,j] - max[l](X[b,l,j])))",
                       .dims = "b=3, i=10, j=67"});
    run(PERSISTENT,
        (variant_case){.formula =
                           "Y[b,i,j] = exp(X[b,i,j] - max[k](X[b,k,j])) / sum[k](exp(X[b,k,j] - max[l](X[b,l,j])))",
                       .dims = "b=3, i=10, j=7"});
}

static void test_streaming(void **state)
{
    (void)state;
    const char *const dims = "a=300, n=4099";
    run("row_looped/chunk2048_prefetch1_strided0_nontemporal1", (variant_case){.formula = SOFTMAX, .dims = dims});
    run("row_persistent/cap16384_prefetch1_strided0_nontemporal1",
        (variant_case){.formula = SOFTMAX, .dims = dims, .layout = VARIANT_PADDED});
    run("column/tile16_strided0_nontemporal1",
        (variant_case){.formula = "Y[i,j] = X[i,j] / sum[k](abs(X[k,j]))", .dims = "i=300, j=4099"});
}

/* Rows of which a condition leaves a part: bounds of every kind, on either side, exchanged, with a shift; several
 * reductions under one condition; conditions of which only a part is a bound. Pointers lie outside the row too, and
 * cross each other. The second column says what the text keeps to the range: rows, columns (whose lanes are d). */
static const struct {
    const char *formula;
    bool is_ranged, is_column_ranged;
} ranges[] = {
    {"Y[a] = sum[n](where(P:i64[a] <= n and n < P[a+1], X[n], 0))", true, false},
    {"Y[a] = sum[n](where(n > P:i64[a] and P[a+1] >= n, X[n], 0))", true, false},
    {"Y[a] = sum[n](where(n + P:i64[a] < Q:i64[a], X[n], 0))", true, false},
    {"Y[a] = sum[n](where(P:i64[a] < n - Q:i64[a], X[n], 0))", true, false},
    {"Y[a] = prod[n](where(n < P:i64[a], X[n], 1)); Z[a] = max[n](where(n < P[a], W[a,n], -inf))", true, false},
    {"Y[a] = min[n](where(n >= P:i64[a], X[n], inf)); Z:i64[a] = sum[n](where(n >= P[a], 1, 0))", true, false},
    {"Y:bool[a] = any[n](P:i64[a] <= n and n < P[a+1] and X[n] > 0)", true, false},
    {"Y[a] = sum[n](where(P:i64[a] <= n and n < P[a+1] and X[n] > 0, X[n], 0))", true, false},
    {"Y[a] = mean[n](where(n < P:i64[a], W[a,n], 0)); V[a] = var[n](where(n < P[a], W[a,n], 0))", false, false},
    {"Y[a] = sum[n](where(P:i64[a] <= n and n < P[a+1], V[n] * X[C:i64[n]], 0))", true, false},
    {"Y[a,d] = sum[n](where(P:i64[a] <= n and n < P[a+1], B[n,d], 0))", true, true},
    {"Y[a,d] = sum[n](where(P:i64[a] <= n and n < P[a+1], V[n] * B[C:i64[n],d], 0))", true, true},
    {"Y[a,d] = max[n](where(n < P:i64[d], B[n,d], -inf))", true, false},
    {"Y[a] = sum[n](where(n < P:i64[a], X[n], 1))", false, false},
    {"Y[a] = sum[n](where(n < P:i64[a] or n > 7, X[n], 0))", false, false},
    {"Y[a] = sum[n](where(n < P:i64[a], X[n], 0)); Z[a] = sum[n](where(n <= P[a], X[n], 0))", false, false},
    {"Y[a,n] = W[a,n] / sum[k](where(k < P:i64[a], W[a,k], 0))", false, false},
    {"Y:i64[a] = argmax[n](where(n < P:i64[a], X[n], -inf))", false, false},
};

static bool has_range(const char *formula, const char *variant)
{
    md_strbuf text = {0};
    const variant_case c = {.formula = formula};
    assert_ok(variant_text(&text, device, &c, variant));
    const bool has = strstr(md_strbuf_text(&text), "#define MD_RANGED 1") != NULL;
    md_strbuf_finish(&text);
    return has;
}

static void test_ranges(void **state)
{
    (void)state;
    for (int i = 0; i < MD_COUNT(ranges); i++) {
        variant_case c = {
            .formula = ranges[i].formula, .dims = "a=7, n=150, d=21", .low = -20, .high = 170, .tolerance = 1e-4};
        run(PERSISTENT, c);
        run(COLUMN, c);
        run(LOOPED, c);
        c.dims = "a=300, n=2000, d=3", c.low = 0, c.high = 40;
        run(PERSISTENT, c);
        c.dims = "a=3, n=9000, d=40", c.low = -100, c.high = 9100;
        run("row_looped/chunk2048_prefetch1_strided0_nontemporal0", c);
        c.dims = "a=2, n=0, d=3";
        if (!strstr(c.formula, "max") && !strstr(c.formula, "min"))
            run(PERSISTENT, c);
        assert_int_equal(has_range(c.formula, PERSISTENT), ranges[i].is_ranged);
        assert_int_equal(has_range(c.formula, COLUMN), ranges[i].is_column_ranged);
    }
}

/* One of two equal conditions marks P[a] as a length, which is reported where it is above the row's. */
static void test_lengths_of_ranges(void **state)
{
    (void)state;
    static const char *const formulas[] = {
        "Y[a] = prod[n](where(n < P:i64[a], X[n], 1)); Z[a] = max[n](where(n < P[a], W[a,n], -inf))",
        "Z[a] = max[n](where(n < P:i64[a], W[a,n], -inf)); Y[a] = sum[n](where(n < P[a], W[a,n], 0))"};
    for (int i = 0; i < MD_COUNT(formulas); i++) {
        md_strbuf text = {0};
        assert_ok(variant_text(&text, device, &(variant_case){.formula = formulas[i]}, PERSISTENT));
        assert_non_null(strstr(md_strbuf_text(&text), "md_report(p->report, "));
        md_strbuf_finish(&text);
    }
}

/* P[a] + j moves by one with j: vectors from a place that memory says, also beyond an axis' end, from any stride. */
static void test_places_in_memory(void **state)
{
    (void)state;
    static const char *const formulas[] = {
        "size j=40; Y[a] = sum[j](where(j < P:i64[a+1] - P[a], V[P[a] + j] * X[C:i64[P[a] + j]], 0))",
        "size j=40; Y[a] = sum[j](where(P:i64[a] + j < P[a+1], V[P[a] + j], 0))",
        "scalar s:i64; Y[a] = max[j](W[a, j + s]); Z[a] = sum[j](B[a,j])",
        "size j=20; Y[a] = sum[j](where(j < N:i64[a], B[a, 2, P:i64[a] + j] * M:f64[P[a] + j, 1], 0))",
    };
    for (int i = 0; i < MD_COUNT(formulas); i++)
        for (int32_t layout = VARIANT_PACKED; layout <= VARIANT_TURNED; layout++) {
            variant_case c = {.formula = formulas[i], .dims = "a=29, j=40", .low = 0, .high = 60, .layout = layout};
            c.bounds = i % 2 ? MD_BOUNDS_CLAMP : MD_BOUNDS_REPORT;
            run(layout == VARIANT_PACKED ? PERSISTENT : "row_persistent/cap4096_prefetch0_strided1_nontemporal0", c);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax),          cmocka_unit_test(test_norms),
        cmocka_unit_test(test_reductions),       cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_masked_rows),      cmocka_unit_test(test_row_values),
        cmocka_unit_test(test_dtypes),           cmocka_unit_test(test_few_elements),
        cmocka_unit_test(test_columns),          cmocka_unit_test(test_streaming),
        cmocka_unit_test(test_ranges),           cmocka_unit_test(test_lengths_of_ranges),
        cmocka_unit_test(test_places_in_memory),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
