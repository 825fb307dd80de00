/* Places along rows that are planned once for all rows, against the reference evaluator. */
#include "family/check_variant.h"
#include "support/check.h"

static const struct {
    const char *formula, *dims;
} cases[] = {
    {"Y[i,j] = X[i,abs(j - 2)]", "i=9, j=37, X.1=40"},
    {"Y[i,j] = X[i,clamp(j - 3, 0, size(X.1) - 1)]", "i=9, j=70, X.1=60"},
    {"Y[i,j] = X[i,j // 2]", "i=7, j=65, X.1=33"},
    {"Y[i,j] = X[i,j // 5] + X[i,j // 3 * 2]", "i=7, j=50, X.1=50"}, /* one window, and two */
    {"Y[i,j] = X[i,size(X.1) - 1 - j // 1 % 64]", "i=5, j=40, X.1=48"}, /* backwards */
    {"Y[i,j] = X[i,j * 5 % 61]", "i=5, j=33, X.1=61"}, /* farther than two windows */
    {"Y[i,j] = X[j % 2,i + j // 2]", "i=6, j=47, X.0=2, X.1=40"}, /* a sum of what lanes share and what not */
    {"Y[i,j] = X[3 * i + 1 - j % 2,j // 2]", "i=6, j=31, X.0=20, X.1=16"},
    {"Y[i,j] = f32(j % 3) * X[i,j // 2] + where(j % 2 == 0, 1.5, X[i,(j + 1) // 2])", "i=6, j=45, X.1=24"},
    {"Y[i,j] = X[i,j // 2]", "i=1, j=1, X.1=1"},
    {"Y[i,j] = X[i,j // 2]", "i=0, j=5, X.1=3"},
    {"Y[i,j] = X[i,j // 2]", "i=3, j=1024, X.1=512"}, /* the longest row of a plan */
    {"Y[b,i,j] = X[b,i // 2,j // 2] + X[b,i // 2,clamp((j + 1) // 2, 0, size(X.2) - 1)]",
     "b=3, i=8, j=22, X.1=4, X.2=11"},
    {"Y[i,j] = X[2 * i,j // 2] * 3 + X[2 * i + 1,j // 2] - X[i,(j + 1) // 2]",
     "i=6, j=45, X.0=13, X.1=24"}, /* shared */
    {"Y[i,j] = X[i,j // 2] - Z[i,j // 2]", "i=6, j=45, X.1=24, Z.1=23"},
};

static const char plain[] = "gather/strided2_nontemporal0";

static void test_layouts(void **state)
{
    const uint64_t seed = check_seed();
    (void)state;
    for (int i = 0; i < MD_COUNT(cases); i++)
        for (int l = VARIANT_PACKED; l <= VARIANT_PADDED; l++)
            check_variant(&(variant_case){.formula = cases[i].formula,
                                          .dims = cases[i].dims,
                                          .tolerance = 1e-6,
                                          .layout = (variant_layout)l,
                                          .has_specials = i % 2 == 0 && i != 8,
                                          .seed = seed},
                          plain);
}

static void test_types(void **state)
{
    static const char *const types[] = {"f64", "bf16", "f16", "i32", "i16", "u8", "i64", "bool", "f8e4m3"};
    char formula[160];
    (void)state;
    for (int i = 0; i < MD_COUNT(types); i++) {
        snprintf(formula, sizeof formula, "Y:%s[i,j] = X:%s[i,j %% 2 * 20 + j // 2]", types[i], types[i]);
        check_variant(&(variant_case){.formula = formula, .dims = "i=5, j=37, X.1=40"}, plain);
    }
}

static int32_t windows_of(const char *formula, const char *dims)
{
    md_strbuf text = {0};
    int32_t n = 0;
    assert_ok(variant_text(&text, dev, &(variant_case){.formula = formula, .dims = dims}, plain));
    for (const char *at = md_strbuf_text(&text); (at = strstr(at, "md_window_make(&places")); at++)
        n++;
    md_strbuf_finish(&text);
    return n;
}

/* Loads of a tensor that differ only in what lanes share have one window; two tensors may have other strides. */
static void test_shared_windows(void **state)
{
    (void)state;
    assert_int_equal(windows_of(cases[13].formula, cases[13].dims), 2);
    assert_int_equal(windows_of(cases[14].formula, cases[14].dims), 2);
}

/* More than the caches hold: rows that begin at lines, and rows that do not. */
static void test_around_the_caches(void **state)
{
    static const char *const dims[] = {"i=2600, j=512, X.1=256", "i=2600, j=509, X.1=256"};
    (void)state;
    for (int i = 0; i < MD_COUNT(dims); i++)
        check_variant(&(variant_case){.formula = "Y[i,j] = X[i,j // 2]", .dims = dims[i]},
                      "gather/strided2_nontemporal1");
}

/* Narrower vectors: other windows. */
static void test_widths(void **state)
{
    const int32_t own = dev->facts.vector_bytes;
    (void)state;
    for (int32_t width = 16; width < own; width *= 2) {
        dev->facts.vector_bytes = width;
        for (int i = 0; i < MD_COUNT(cases); i += 3)
            check_variant(&(variant_case){.formula = cases[i].formula, .dims = cases[i].dims, .tolerance = 1e-6},
                          plain);
    }
    dev->facts.vector_bytes = own;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_layouts), cmocka_unit_test(test_types),
                                       cmocka_unit_test(test_around_the_caches), cmocka_unit_test(test_shared_windows),
                                       cmocka_unit_test(test_widths)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
