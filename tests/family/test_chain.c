/* Chains against the reference evaluator: masks, biases, layouts, grouped heads, sizes at edges, few rows and many. */
#include "family/host_device.h"
#include "support/check.h"
#include "support/variant.h"

#include "base/status.h"
#include "base/task/pool.h"
#include "device/open.h"

static char text[1024];

#define SOFTMAX(rows)                                                                                                  \
    "let P[" rows "j] = exp(S[" rows "j] - max[k](S[" rows "k])) / sum[k](exp(S[" rows "k] - max[l](S[" rows "l])));"

static const char *const formulas[] = {
    "let S[i,j] = sum[d](Q[i,d] * K[j,d]) * 0.3;" SOFTMAX("i,") "Y[i,e] = sum[j](P[i,j] * V[j,e])",
    "let S[h,i,j] = where(j <= i, sum[d](Q[i,h,d] * K[j,h,d]) * 0.3, -inf);" SOFTMAX(
        "h,i,") "Y[i,h,e] = sum[j](P[h,i,j] * V[j,h,e])",
    "let S[h,i,j] = where(j <= i and j > i - 5, sum[d](Q[h,i,d] * K[h,j,d]) + w[h] * (j - i), -inf);" SOFTMAX(
        "h,i,") "Y[h,i,e] = sum[j](P[h,i,j] * V[h,j,e])",
    "let S[h,i,j] = tanh(sum[d](Q[h,i,d] * K[j,d]) / 5) * 5 + B[h,i,j];" SOFTMAX(
        "h,i,") "Y[h,i,e] = sum[j](P[h,i,j] * V[j,e])",
    "let S[h,i,j] = where(M:bool[i,j], sum[d](Q[h,i,d] * K[h,j,d]), -inf);" SOFTMAX(
        "h,i,") "Y[h,i,e] = sum[j](P[h,i,j] * V[h,j,e])",
    /* a mask that adds the least finite number, also to all keys of a row */
    "let S[h,i,j] = sum[d](Q[h,i,d] * K[h,j,d]) * 0.3 + where(j < i, 0, -3.3895314e38);" SOFTMAX(
        "h,i,") "Y[h,i,e] = sum[j](P[h,i,j] * V[h,j,e])",
    "let S[h,i,j] = sum[d](Q[h,i,d] * K[h,j,d]); let m[h,i] = max(max[j](S[h,i,j]), z[h]);"
    "let x[h,i,j] = exp(S[h,i,j] - m[h,i]); let s[h,i] = sum[j](x[h,i,j]) + exp(z[h] - m[h,i]);"
    "Y[h,i,e] = sum[j](x[h,i,j] * V[h,j,e]) / s[h,i]; L[h,i] = m[h,i] + log(s[h,i])",
    "let S[h,i,j] = where(j < n:i64[h], sum[d](Q[h,i,d] * K[h,j,d]), -inf);" SOFTMAX(
        "h,i,") "Y[h,i,e] = sum[j](P[h,i,j] * V[h,j,e])",
    /* rows behind the end of their sequence have no keys */
    "let S[h,i,j] = where(j <= i and i < n:i64[h], sum[d](Q[h,i,d] * K[h,j,d]), -inf);" SOFTMAX(
        "h,i,") "Y[h,i,e] = sum[j](P[h,i,j] * V[h,j,e])",
    "let S[h,i,j] = where(j < m:i64[h] and 3 * i > n:i64[h] - 2, sum[d](Q[h,i,d] * K[h,j,d]), -inf);" SOFTMAX(
        "h,i,") "Y[h,i,e] = sum[j](P[h,i,j] * V[h,j,e])",
    /* packed sequences: the bounds of each row are looked up */
    "let S[h,i,j] = where(j >= n:i64[m:i64[i]] and j < o:i64[m[i]], sum[d](Q[h,i,d] * K[h,j,d]), -inf);" SOFTMAX(
        "h,i,") "Y[h,i,e] = sum[j](P[h,i,j] * V[h,j,e])",
    "let S[h,i,j] = sigmoid(sum[d](Q[h,i,d] * K[h,j,d])); Y[h,i,e] = sum[j](S[h,i,j] * V[h,j,e])",
    ("let x[h,i,j] = exp(sum[d](Q[h,i,d] * K[h,j,d]) * 0.1);"
     "Y[h,i,e] = sum[j](x[h,i,j] * V[h,j,e]) / sum[j](x[h,i,j])"),
};

/* One, primes, a block of keys and one beyond, nothing. */
static const char *const sizes[] = {"h=1, i=1, j=1, d=1, e=1",     "h=2, i=3, j=7, d=5, e=3",
                                    "h=3, i=37, j=61, d=17, e=35", "h=1, i=13, j=64, d=16, e=16",
                                    "h=2, i=33, j=65, d=33, e=8",  "h=1, i=5, j=700, d=20, e=70",
                                    "h=2, i=4, j=0, d=3, e=5",     "h=2, i=0, j=4, d=3, e=5",
                                    "h=0, i=3, j=4, d=3, e=5",     "h=2, i=3, j=4, d=0, e=5"};
static const char *const variants[] = {"chain/few0_rows32_keys64", "chain/few1_rows4_keys64",
                                       "chain/few1_rows8_keys128", "chain/few1_rows4_keys64_split512"};

static const char *dims_of(char out[64], const char *formula, const char *dims)
{
    snprintf(out, 64, "%s", strstr(formula, "h,") ? dims : strchr(dims, ' ') + 1);
    return out;
}

static void test_formulas(void **state)
{
    char dims[64];
    bool skipped = false;
    (void)state;
    for (int f = 0; f < MD_COUNT(formulas); f++)
        for (int s = 0; s < MD_COUNT(sizes); s++)
            for (int v = 0; v < MD_COUNT(variants); v++) {
                variant_case c = {.formula = formulas[f],
                                  .dims = dims_of(dims, formulas[f], sizes[s]),
                                  .scale = 1,
                                  .tolerance = 3e-5,
                                  .layout = (variant_layout)(s % 2 ? VARIANT_SPREAD : VARIANT_PACKED),
                                  .low = strstr(formulas[f], "m:i64") ? 0 : -9,
                                  .high = strstr(formulas[f], "m:i64") ? 60 : 10,
                                  .seed = 11};
                if (strstr(c.formula, "log(s") && strstr(c.dims, "j=0"))
                    continue; /* the largest of nothing has no value */
                if (!variant_check(text, sizeof text, &skipped, dev, &c, variants[v]))
                    fail_msg("%s, %s: %s", variants[v], c.dims, text);
            }
}

static void test_grouped_heads(void **state)
{
    static const char formula[] = "let S[h,i,j] = sum[d](Q[h,i,d] * K[h // 2,j,d]);" SOFTMAX(
        "h,i,") "Y[h,i,e] = sum[j](P[h,i,j] * V[h // 2,j,e])";
    static const char *const dims[] = {"h=4, i=5, j=70, d=16, e=8, K.0=2, V.0=2",
                                       "h=3, i=5, j=70, d=16, e=8, K.0=2, V.0=2"};
    bool skipped = false;
    (void)state;
    for (int s = 0; s < 2; s++)
        for (int v = 0; v < MD_COUNT(variants); v++) {
            variant_case c = {.formula = formula, .dims = dims[s], .scale = 1, .tolerance = 3e-5, .seed = 12};
            if (!variant_check(text, sizeof text, &skipped, dev, &c, variants[v]))
                fail_msg("%s, %s: %s", variants[v], c.dims, text);
        }
}

/* A weight that is rounded, but relative to a maximum so far and before it is divided, may be off by half an ulp there
 * and half an ulp that the formula's rounding has: the bounds say what comes of it, also in results of f32 and in the
 * logarithm of a sum of rounded terms. */
static void test_narrow_types(void **state)
{
    static const char *const formula[] = {
        "let S[h,i,j] = where(j <= i, sum[d](Q:bf16[h,i,d] * K:bf16[h,j,d]) * 0.2, -inf);"
        "let P:bf16[h,i,j] = exp(S[h,i,j] - max[k](S[h,i,k])) / sum[k](exp(S[h,i,k] - max[l](S[h,i,l])));"
        "Y:bf16[h,i,e] = sum[j](P[h,i,j] * V:bf16[h,j,e])",
        "let S[h,i,j] = sum[d](Q:bf16[h,i,d] * K:bf16[h,j,d]) * 0.2;"
        "let P:bf16[h,i,j] = exp(S[h,i,j] - max[k](S[h,i,k])) / sum[k](exp(S[h,i,k] - max[l](S[h,i,l])));"
        "Y:f32[h,i,e] = sum[j](P[h,i,j] * V:bf16[h,j,e])",
        "let S[h,i,j] = sum[d](Q:f16[h,i,d] * K:f16[h,j,d]) * 0.2; let m[h,i] = max[j](S[h,i,j]);"
        "let x:f16[h,i,j] = exp(S[h,i,j] - m[h,i]); let s[h,i] = sum[j](x[h,i,j]);"
        "Y:f32[h,i,e] = sum[j](x[h,i,j] * V:f16[h,j,e]) / s[h,i]; L:f32[h,i] = m[h,i] + log(s[h,i])",
    };
    bool skipped = false;
    (void)state;
    for (int f = 0; f < MD_COUNT(formula); f++)
        for (int v = 0; v < MD_COUNT(variants); v++)
            for (int s = 0; s < 2; s++) {
                variant_case c = {.formula = formula[f],
                                  .dims = s ? "h=2, i=4, j=700, d=16, e=24" : "h=2, i=40, j=40, d=16, e=24",
                                  .scale = 1,
                                  .moves_rounding = true,
                                  .seed = 13};
                if (!variant_check(text, sizeof text, &skipped, dev, &c, variants[v]))
                    fail_msg("%s: %s", variants[v], text);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formulas),
        cmocka_unit_test(test_grouped_heads),
        cmocka_unit_test(test_narrow_types),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
