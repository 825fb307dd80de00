/* Grouped products, whose rows look up which matrix they are multiplied by, and products whose rows lie apart, against
 * the reference evaluator: layouts, types, sizes of groups, look-ups out of range. */
#include "family/check_variant.h"
#include "support/check.h"

#include "base/task/pool.h"
#include "base/status.h"
#include "device/open.h"

static char text[1024];

static void check_as(const variant_case *c, const char *family, int least)
{
    const int n = variant_check_all(text, sizeof text, dev, c, family);
    if (n < 0)
        fail_msg("%s", text);
    if (n < least)
        fail_msg("%s: %d variants of %s, not %d", c->formula, n, family, least);
}

static const char *tile(const char *rest)
{
    static char name[64];
    snprintf(name, sizeof name, "gemm_grouped/%s%s", host_tile(), rest);
    return name;
}

static bool is_long(const char *sizes)
{
    return strtol(strstr(sizes, "k=") + 2, NULL, 10) > 5000;
}

/* `high` is how many groups there are: one for all rows, about as many as rows, far more than rows (of the longest K,
 * of which there are few rows, less is enough). */
static void test_sizes(void **state)
{
    static const char *const orders[] = {
        "Y[i,j] = sum[k](A[i,k] * B[e[i],j,k])", "Y[i,j] = sum[k](A[i,k] * B[e[i],k,j])",
        "Y[i,j] = sum[k](A[k,i] * B[e[i],j,k])", "Y[j,i] = sum[k](A[i,k] * B[e[i],k,j])"};
    static const char *const sizes[] = {"i=1, j=1, k=1",     "i=1, j=17, k=3",    "i=13, j=1, k=16",
                                        "i=13, j=33, k=257", "i=97, j=101, k=7",  "i=500, j=70, k=11",
                                        "i=29, j=75, k=515", "i=9, j=5, k=16700", "i=30, j=40, k=9000",
                                        "i=0, j=4, k=3",     "i=4, j=0, k=3",     "i=4, j=5, k=0"};
    static const int64_t groups[] = {1, 7, 300};
    (void)state;
    for (int o = 0; o < MD_COUNT(orders); o++)
        for (int s = 0; s < MD_COUNT(sizes); s++)
            for (int g = 0; g < MD_COUNT(groups); g++) {
                variant_case c = {.formula = orders[o],
                                  .dims = sizes[s],
                                  .low = 0,
                                  .high = is_long(sizes[s]) ? MD_MIN(groups[g], 60) : groups[g],
                                  .scale = 1,
                                  .tolerance = 1e-4,
                                  .seed = 3};
                check_variant(&c, tile(g == 1 ? "_few0" : "_few8"));
            }
}

static void test_every_config(void **state)
{
    (void)state;
    check_as(&(variant_case){.formula = "Y[i,j] = sum[k](A[i,k] * B[e[i],j,k])",
                             .dims = "i=80, j=70, k=300",
                             .high = 5,
                             .scale = 1,
                             .tolerance = 1e-4},
             "gemm_grouped", 4);
}

static void test_kinds(void **state)
{
    static const struct {
        const char *formula;
        const char *dims;
        double tolerance;
    } cases[] = {
        {"Y[i,s,j] = sum[k](A[i,k] * B[e[i,s],j,k])", "i=20, s=3, j=35, k=50", 1e-4},
        {"Y[i,s,j] = sum[k](A[i,k] * B[e[i,s],j,k]) + c[e[i,s],j]", "i=20, s=3, j=35, k=50", 1e-4},
        {"Y[i,j] = silu(sum[k](A[i,k] * B[e[i],j,k])) * sum[k](A[i,k] * D[e[i],j,k])", "i=50, j=35, k=50", 1e-3},
        {"Y[i,j] = sum[k](A[r[i],k] * B[e[i],j,k])", "i=50, j=35, k=50", 1e-4},
        {"Y[i,j] = sum[k](A[i//2,k] * B[e[i],k,j])", "i=50, j=35, k=50", 1e-4},
        {"Y[p[i]+6*i,j] = sum[k](A[i,k] * B[e[i],j,k])", "i=50, j=35, k=50", 1e-4}, /* no two rows at one place */
        {"Y[i,j] = sum[k](silu(A[i,k]) * C[i,k] * B[e[i],j,k])", "i=50, j=35, k=50", 1e-3},
        {"Y[i,j] = w[i] * sum[k](A[i,k] * B[e[i],j,k])", "i=50, j=35, k=50", 1e-4},
        {"Y[i,j] = sum[k,l](A[i,k,l] * B[e[i],j,k,l])", "i=50, j=35, k=5, l=9", 1e-4},
        {"Y[i,p,q] = sum[k](A[i,k] * B[e[i],p,q,k])", "i=50, p=5, q=9, k=40", 1e-4},
        {"Y[i,j] = sum[k](A[i,k] * f32(B:i8[e[i],j,k]) * s[e[i],j,k//16])", "i=50, j=35, k=64", 1e-3},
        {"Y[i,j] = sum[k](A[i,k] * (f32(B:i4[e[i],j,k]) - z[e[i],j,k//16]) * s[e[i],j,k//16])", "i=50, j=35, k=64",
         1e-3},
        {"Y:bf16[i,j] = sum[k](A:bf16[i,k] * B:bf16[e[i],j,k])", "i=50, j=35, k=64", 0.02},
        {"Y[i,j] = sum[k](A:f64[i,k] * B:f64[e[i],j,k])", "i=50, j=35, k=64", 1e-12},
        {"Y:i32[i,j] = sum[k](A:i8[i,k] * B:i8[e[i],j,k])", "i=50, j=35, k=64", 1e-30},
        {"Y[i,j] = sum[k](A:i64[i,k] * B:i64[e[i],j,k])", "i=50, j=35, k=64", 1e-30},
    };
    static const variant_layout layouts[] = {VARIANT_PACKED, VARIANT_PADDED, VARIANT_SPREAD, VARIANT_TURNED};
    (void)state;
    for (int i = 0; i < MD_COUNT(cases); i++)
        for (int l = 0; l < MD_COUNT(layouts); l++) {
            const bool is_swiglu = i == 2;
            variant_case c = {.formula = cases[i].formula,
                              .dims = cases[i].dims,
                              .high = 6,
                              .scale = 1,
                              .tolerance = cases[i].tolerance,
                              .layout = layouts[l],
                              .seed = (uint64_t)i};
            if (!strstr(c.formula, "i4") || layouts[l] == VARIANT_PACKED)
                check_variant(&c,
                              is_swiglu && dev->facts.vector_bytes == 16 ? tile("") : tile(l % 2 ? "_few8" : "_few0"));
        }
}

/* Look-ups beyond the groups: such rows have no terms, or those of the nearest group. */
static void test_out_of_range(void **state)
{
    (void)state;
    for (int bounds = MD_BOUNDS_CLAMP; bounds <= MD_BOUNDS_ZERO; bounds++)
        for (int few = 0; few < 2; few++)
            check_variant(&(variant_case){.formula = "Y[i,j] = sum[k](A[i,k] * B[e[i],j,k]) + 1",
                                          .dims = "i=60, j=40, k=30",
                                          .low = -3,
                                          .high = 4,
                                          .bounds = (md_bounds)bounds,
                                          .scale = 1,
                                          .is_sure = true,
                                          .tolerance = 1e-4},
                          tile(few ? "_few8" : "_few0"));
}

/* Tensors with different numbers of groups: a row may be in one and not in the other. */
static void test_lengths(void **state)
{
    bool skipped = false;
    (void)state;
    variant_case c = {.formula = "Y[i,j] = sum[k](A[i,k] * B[e[i],j,k] * s[e[i],k])",
                      .sizes = "B.0=4, s.0=7",
                      .dims = "i=60, j=40, k=30",
                      .high = 4,
                      .bounds = MD_BOUNDS_ZERO,
                      .scale = 1,
                      .is_sure = true,
                      .tolerance = 1e-4};
    if (!variant_check(text, sizeof text, &skipped, dev, &c, tile("")))
        fail_msg("%s", text);
    assert_true(skipped);
    c.sizes = "B.0=4, s.0=3"; /* the least lengths: both are 4 */
    check_variant(&c, tile(""));
}

/* Rows of plain products that lie apart. */
static void test_rows_apart(void **state)
{
    static const char *const formulas[] = {
        "Y[i,j] = sum[k](A[r[i],k] * B[j,k])",       "Y[i,j] = sum[k](A[i,k] * B[r[j],k])",
        "Y[i,j] = sum[k](A[r[i],k] * B[r[j],k])",    "Y[i,j] = sum[k](A[i//3,k] * B[k,j])",
        "Y[i,j] = sum[k,l](A[r[i],k,l] * B[j,k,l])", "Y[i,j] = sum[k](A[k,r[i]] * B[j,k])",
        "Y[b,i,j] = sum[k](A[r[b],i,k] * B[b,j,k])"};
    static const char *const dims[] = {"b=2, i=40, j=35, k=50, l=7", "b=3, i=5, j=33, k=300, l=2"};
    (void)state;
    for (int i = 0; i < MD_COUNT(formulas); i++)
        for (int d = 0; d < MD_COUNT(dims); d++)
            for (int l = VARIANT_PACKED; l <= VARIANT_TURNED; l++) {
                variant_case c = {.formula = formulas[i],
                                  .dims = dims[d],
                                  .high = 30,
                                  .scale = 1,
                                  .tolerance = 1e-4,
                                  .layout = (variant_layout)l};
                check_variant(&c, dev->facts.vector_bytes == 64 ? "gemm/rows12_vecs2" : "gemm/rows4_vecs2");
            }
}

/* Weights with a scale and a zero point for each group along K, which lanes share if the group's length allows it. */
static void test_groups_of_weights(void **state)
{
    static const char *const formulas[] = {
        "Y[i,j] = sum[k](A[i,k] * (f32(B:i4[j,k]) - z[j,k//32]) * s[j,k//32])",
        "Y[i,j] = sum[k](A[i,k] * f32(B:i8[j,k]) * s[j//4,k//16])",
        "Y[i,j] = sum[k](A[i,k] * f32(B:i8[j,k]) * s[k//8,j])",
        "Y[i,j] = sum[k](A[i,k] * f32(B:i8[k,j]) * s[k//32,j])",
    };
    static const char *const dims[] = {"i=3, j=37, k=64", "i=5, j=9, k=4321", "i=40, j=70, k=600"};
    (void)state;
    for (int i = 0; i < MD_COUNT(formulas); i++)
        for (int d = 0; d < MD_COUNT(dims); d++) {
            variant_case c = {.formula = formulas[i], .dims = dims[d], .scale = 1, .tolerance = 2e-3, .seed = 5};
            check_variant(&c, dev->facts.vector_bytes == 64 ? "gemm/rows12_vecs2" : "gemm/rows4_vecs2");
            if (d < 2)
                check_variant(&c, "gemv");
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths),           cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_every_config),      cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_out_of_range),      cmocka_unit_test(test_rows_apart),
        cmocka_unit_test(test_groups_of_weights),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
