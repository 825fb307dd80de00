/* Pairs against the reference evaluator: the gradients of attention in all forms, sums in one direction alone, layouts,
 * sizes at edges, keys in one part and in several. */
#include "family/host_device.h"
#include "support/variant.h"

#include <string.h>

static char text[1024];

#define SCORES(x) "let x[h,i,j] = sum[d](Q[h,i,d] * K[h,j,d]) * 0.3; let p[h,i,j] = " x ";"
#define SUMS                                                                                                           \
    "let s[h,i,j] = p[h,i,j] * (sum[e](G[h,i,e] * V[h,j,e]) - w[h,i]) * 0.3; A[h,i,d] = sum[j](s[h,i,j] * "            \
    "K[h,j,d]); B[h,j,d] = sum[i](s[h,i,j] * Q[h,i,d]); C[h,j,e] = sum[i](p[h,i,j] * G[h,i,e])"

static const char *const formulas[] = {
    SCORES("exp(x[h,i,j] - L[h,i])") SUMS, /* plain */
    SCORES("where(j <= i, exp(x[h,i,j] - L[h,i]), 0)") SUMS, /* causal */
    /* as the Python package writes it: rows that are masked as a whole have -inf */
    SCORES("where(L[h,i] == -inf, 0, exp(where(j <= i and j > i - 5, x[h,i,j], -inf) - L[h,i]))") SUMS, /* a window */
    SCORES("where(j < n:i64[h], exp(x[h,i,j] + B0[h] * (j - i) * 0.02 - L[h,i]), 0)") SUMS, /* lengths, ALiBi */
    SCORES("exp(tanh(x[h,i,j] / 5) * 5 + U[i,j] - L[h,i])") SUMS, /* a soft cap and a bias */
    SCORES("where(M:bool[h,i,j], exp(x[h,i,j] - L[h,i]), 0)") SUMS, /* a mask */
    SCORES("where(j >= n:i64[m:i64[i]] and j < o:i64[m[i]], exp(x[h,i,j] - L[h,i]), 0)") SUMS, /* packed sequences */
    /* keys that heads share; sums over all of their rows */
    "let p[h,r,i,j] = where(j <= i, exp(sum[d](Q[h,r,i,d] * K[h,j,d]) * 0.3 - L[h,r,i]), 0);"
    "let s[h,r,i,j] = p[h,r,i,j] * (sum[e](G[h,r,i,e] * V[h,j,e]) - w[h,r,i]);"
    "A[h,r,i,d] = sum[j](s[h,r,i,j] * K[h,j,d]); B[h,j,d] = sum[r,i](s[h,r,i,j] * Q[h,r,i,d]);"
    "C[h,j,e] = sum[r,i](p[h,r,i,j] * G[h,r,i,e])",
    /* without gradients of some operands; results that are more than the sums; heads behind rows */
    "let x[h,i,j] = sum[d](Q[i,h,d] * K[j,h,d]); let p[h,i,j] = exp(x[h,i,j] - L[h,i]);"
    "let s[h,i,j] = p[h,i,j] * (sum[e](G[i,h,e] * V[j,h,e]) - w[h,i]);"
    "B[j,h,d] = 2 * sum[i](s[h,i,j] * Q[i,h,d]); C[j,h,e] = C0[j,h,e] + sum[i](p[h,i,j] * G[i,h,e])",
    ("let p[h,i,j] = sigmoid(sum[d](Q[h,i,d] * K[h,j,d])); A[h,i,d] = sum[j](p[h,i,j] * K[h,j,d]);"
     "B[h,j,d] = sum[i](p[h,i,j] * Q[h,i,d])"),
};

/* One, primes, a block and one beyond, nothing. */
static const char *const sizes[] = {
    "h=1, i=1, j=1, d=1, e=1, r=1",      "h=2, i=3, j=7, d=5, e=3, r=2",     "h=3, i=37, j=161, d=17, e=35, r=3",
    "h=1, i=140, j=64, d=16, e=16, r=2", "h=2, i=65, j=129, d=33, e=8, r=1", "h=2, i=4, j=0, d=3, e=5, r=2",
    "h=2, i=0, j=4, d=3, e=5, r=2",      "h=0, i=3, j=4, d=3, e=5, r=2",     "h=2, i=3, j=4, d=0, e=5, r=2",
};

static const char *const variants[] = {"pairs/rows128_keys128_split1", "pairs/rows64_keys64_split1",
                                       "pairs/rows64_keys64_split2"};

static void gradients(void **state)
{
    bool skipped = false;
    int n = 0;
    (void)state;
    for (int f = 0; f < MD_COUNT(formulas); f++)
        for (int v = 0; v < MD_COUNT(variants); v++) {
            int n_served = 0;
            for (int s = 0; s < MD_COUNT(sizes); s++) {
                const bool looks_up = strstr(formulas[f], "m:i64");
                variant_case c = {.formula = formulas[f],
                                  .dims = sizes[s],
                                  .scale = 1,
                                  .moves_rounding = true, /* the bounds follow from the arithmetic */
                                  .layout = (variant_layout)(s % 2 ? VARIANT_SPREAD : VARIANT_PACKED),
                                  .low = looks_up ? 0 : -9,
                                  .high = looks_up ? 60 : 170,
                                  .seed = 11};
                if (!variant_check(text, sizeof text, &skipped, dev, &c, variants[v]))
                    fail_msg("%s, %s: %s", variants[v], c.dims, text);
                n_served += !skipped;
            }
            if (n_served == 0)
                fail_msg("%s did not serve %s", variants[v], formulas[f]);
            n += n_served;
        }
    printf("%d runs\n", n);
}

/* What is rounded to the data's type, as the catalogue has it. */
static void narrow_types(void **state)
{
    static const char *const formula[] = {
        "let p:bf16[h,i,j] = exp(sum[d](Q:bf16[h,i,d] * K:bf16[h,j,d]) * 0.2 - L:f32[h,i]);"
        "let s:bf16[h,i,j] = p[h,i,j] * (sum[e](G:bf16[h,i,e] * V:bf16[h,j,e]) - w:f32[h,i]) * 0.2;"
        "A:bf16[h,i,d] = sum[j](s[h,i,j] * K[h,j,d]); B:bf16[h,j,d] = sum[i](s[h,i,j] * Q[h,i,d]);"
        "C:bf16[h,j,e] = sum[i](p[h,i,j] * G[h,i,e])",
        "let p:f16[h,i,j] = where(j <= i, exp(sum[d](Q:f16[h,i,d] * K:f16[h,j,d]) * 0.2 - L:f32[h,i]), 0);"
        "let s:f16[h,i,j] = p[h,i,j] * (sum[e](G:f16[h,i,e] * V:f16[h,j,e]) - w:f32[h,i]) * 0.2;"
        "A:f16[h,i,d] = sum[j](s[h,i,j] * K[h,j,d]); B:f16[h,j,d] = sum[i](s[h,i,j] * Q[h,i,d]);"
        "C:f32[h,j,e] = sum[i](p[h,i,j] * G[h,i,e])",
    };
    bool skipped = false;
    (void)state;
    for (int f = 0; f < MD_COUNT(formula); f++)
        for (int v = 0; v < MD_COUNT(variants); v++) {
            variant_case c = {.formula = formula[f],
                              .dims = "h=2, i=40, j=150, d=16, e=24",
                              .scale = 1,
                              .moves_rounding = true,
                              .seed = 13};
            if (!variant_check(text, sizeof text, &skipped, dev, &c, variants[v]))
                fail_msg("%s: %s", variants[v], text);
            assert_false(skipped);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gradients), cmocka_unit_test(narrow_types)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
