/* Lengths that masks look up, in the kernels of every family of the host and at every width of vectors (MD_CPU): one
 * above the size is reported, as the evaluator says, and changes no result. Lengths are shared by lanes, differ from
 * lane to lane, and stand in arms that only some lanes take. */
#include "family/host_device.h"
#include "support/variant.h"

#include "base/env.h"

#include <string.h>

#define SOFTMAX(of) "exp(" of " - max[k](S[a,k])) / sum[k](exp(S[a,k] - max[l](S[a,l])))"

static const struct {
    bool differs; /* lengths differ from lane to lane */
    const char *text;
} formulas[] = {
    {false, "Y[a,n] = where(n < P:i32[a], X[a,n], -inf)"},
    {true, "Y[n,a] = where(n <= P:i32[a] - 1 and X[n,a] > 0, X[n,a], -inf)"},
    {false, "Y[a,n] = where(X[a,n] > 0, where(n < P:i32[a], X[a,n], -inf), 0)"},
    {true, "Y[n,a] = where(X[n,a] > 0, exp(where(n < P:i64[a], X[n,a], -inf)), 0)"},
    {false, "let S[a,n] = where(n < P:i32[a], X[a,n], -inf); Y[a,n] = " SOFTMAX("S[a,n]")},
    {true,
     "Y[a,b] = max[n](where(n < P:i32[b], X[a,n,b], -inf)); Z[a,b] = sum[n](exp(where(n < P[b], X[a,n,b], -inf)))"},
    {false, "Y[a,n] = cummax[n](where(n < P:i16[a], X[a,n], -inf))"},
    {true, "Y[n,a] = cumsum[n](exp(where(n < P:i32[a], X[n,a], -inf)))"},
    {false, "Y[a,n] = where(n < P:i32[a], sum[k](X[a,k] * W[n,k]), -inf)"},
    {false, "Y[a,b] = sum[n](exp(where(n < P:i32[a], X[a,n], -inf)) * W[b,n])"},
    {true, "Y[a,b] = sum[n](exp(where(n < P:i32[b], X[b,n], -inf)) * W[a,n])"},
    {false, "Y[a,n] = where(n < P:i32[a], X[I:i32[a],n], -inf)"},
    {false, "let S[a,i,n] = where(n < P:i32[a], sum[d](X[a,i,d] * K[a,n,d]), -inf); let E[a,i,n] = exp(S[a,i,n] - "
            "max[k](S[a,i,k])); Y[a,i,e] = sum[n](E[a,i,n] * V[a,n,e]) / sum[n](E[a,i,n])"},
    {false, "let S[a,i,n] = where(n <= P:i32[a] - size(i) + i, sum[d](X[a,i,d] * K[a,n,d]), -inf); let E[a,i,n] = "
            "exp(S[a,i,n] - max[k](S[a,i,k])); Y[a,i,e] = sum[n](E[a,i,n] * V[a,n,e]) / sum[n](E[a,i,n])"},
};

/* Families that masks reach; what is scattered, grouped or the library's has none. */
static const char *const wanted[] = {"pointwise", "gather", "row_persistent", "row_looped", "column",
                                     "scan",      "gemm",   "gemv",           "chain",      "nest"};

static const char *const few_keys[] = {"chain/few1_rows4_keys64", "chain/few1_rows4_keys64_split512"};

static int n_checked;

/* With lengths up to the size, and beyond it. */
static bool check(const char *formula, const char *variant)
{
    char text[1024] = "";
    bool skipped = true;
    for (int k = 0; k < 4; k++) {
        variant_case c = {.formula = formula,
                          .dims =
                              k & 1 ? "a=3, n=601, b=5, k=9, i=3, d=8, e=8" : "a=19, n=21, b=18, k=7, i=9, d=8, e=8",
                          .low = 1,
                          .high = (k & 1 ? 602 : 22) + (k & 2 ? 9 : 0),
                          .tolerance = 1e-4,
                          .seed = 7};
        if (strstr(formula, "I:i32"))
            c.low = 0;
        bool is_skipped = false;
        if (!variant_check(text, sizeof text, &is_skipped, dev, &c, variant))
            fail_msg("%s: %s", variant, text);
        n_checked += !is_skipped;
        skipped &= is_skipped;
    }
    return !skipped;
}

static void lengths(void **state)
{
    /* narrower vectors take only the formulas whose lanes have lengths of their own */
    const bool is_all = md_env_widest() == 0;
    bool is_served[MD_COUNT(wanted)] = {false};
    (void)state;
    for (int f = 0; f < MD_COUNT(formulas); f++) {
        if (!formulas[f].differs && !is_all)
            continue;
        for (int v = 0; v < MD_COUNT(wanted); v++)
            is_served[v] |= check(formulas[f].text, wanted[v]);
        for (int v = 0; v < MD_COUNT(few_keys) && strstr(formulas[f].text, "K[a,n,d]"); v++)
            assert_true(check(formulas[f].text, few_keys[v]));
    }
    for (int v = 0; v < MD_COUNT(wanted); v++)
        if (!is_served[v] && is_all)
            fail_msg("%s served none", wanted[v]);
    printf("%d runs\n", n_checked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lengths)};
    setenv("MD_TEST_EFFORT", "1", 1);
    return cmocka_run_group_tests(tests, open_device, close_device);
}
