/* Reductions over several indices at once, a vector of results at a time, against the reference evaluator. */
#include "family/check_variant.h"
#include "support/check.h"

#define INSIDE(at, size) at " >= 1 and " at " <= size(" size ")"
static const char planes[] = "Y[b,c,i,j] = sum[r,s](where(" INSIDE("i + r", "X.2") " and " INSIDE(
    "j + s", "X.3") ", X[b,c,i + r - 1,j + s - 1], 0) * W[c,r,s])";
static const char pixels[] = "Y[b,i,j,c] = relu(sum[r,s](where(" INSIDE("i + r", "X.1") " and " INSIDE(
    "j + s", "X.2") ", X[b,i + r - 1,j + s - 1,c], 0) * W[r,s,c]) + v[c])";
static const char turned[] = "Y[b,i,j] = sum[r,s](where(size(X.2) > j - s and 0 < j - s + 1 and i < r + 3, "
                             "X[b,i,j - s] * 2, V[b,r]))";
static const char largest[] = "Y[b,i,j] = max[r,s](X[b,2 * i + r,3 * j + s])";
static const char places[] = "Y:i64[b,i,j] = argmax[r,s](X[b,i + r,j + s])";
static const char two[] = "Y[i,j] = sum[r,s](X[i + r,j + s]) / (1 + max[r,s](abs(X[i + r,j + s] * W[r,s])))";
static const char inner[] = "Y[i,j] = sum[r,s](X[i + r,j + s] * sum[k](where(k < r, W[s,k], 0)))";
static const char held[] = "Y[i,j] = where(i > 2, sum[r,s](X[i + r - 2,j + s]), V[j])";
static const char one_row[] = "Y[j] = sum[r,s](X[r,j + s] * W[r,s])";
static const char same[] = "Y[i,j] = V[j] + sum[r,s](Z[i + r,i + s])"; /* a sum that lanes share */
static const char product[] = "Y[i,j] = prod[r,s](X[i + r,j + s])";
static const char any[] = "Y:bool[i,j] = any[r,s](X[i + r,j + s] > W[r,s])";
static const char fixed[] = "size r=2, s=60; Y[i,j] = where(j > 2, sum[r,s](X[N:i32[i] + r,j + s]), V[j])"; /* no cut */
static const char looked_up[] = "Y[i,j] = sum[r,s](X[N:i32[r],j + s] * W[r,s] * V[i])";

static const char folded[] = "Y[b,i,j] = sum[r,s](where(i >= r and i - r < size(X.3) and j >= s and j - s < size(X.4), "
                             "X[b,r,s,i - r,j - s], 0))";

static const struct {
    const char *formula, *dims;
} cases[] = {
    {planes, "b=2, c=3, i=9, j=21, r=3, s=3, X.2=9, X.3=21"},
    {planes, "b=1, c=2, i=7, j=37, r=5, s=2, X.2=9, X.3=36"},
    {planes, "b=1, c=1, i=4, j=16, r=1, s=1, X.2=2, X.3=13"}, /* partly outside */
    {planes, "b=1, c=1, i=5, j=3, r=2, s=2, X.2=0, X.3=0"}, /* wholly */
    {planes, "b=1, c=1, i=6, j=17, r=19, s=23, X.2=23, X.3=38"}, /* runs that are added up */
    {planes, "b=0, c=1, i=6, j=17, r=3, s=3, X.2=6, X.3=17"},
    {planes, "b=1, c=1, i=6, j=17, r=0, s=3, X.2=6, X.3=17"},
    {pixels, "b=2, i=5, j=6, c=33, r=3, s=3, X.1=5, X.2=6"},
    {pixels, "b=1, i=1, j=1, c=1, r=7, s=7, X.1=6, X.2=6"},
    {pixels, "b=1, i=3, j=11, c=70, r=2, s=150, X.1=3, X.2=160"},
    {turned, "b=2, i=6, j=19, r=4, s=3, X.2=19"},
    {largest, "b=2, i=5, j=18, r=3, s=4"},
    {places, "b=2, i=5, j=18, r=3, s=4"},
    {two, "i=7, j=20, r=3, s=3"},
    {inner, "i=6, j=19, r=3, s=2, k=5"},
    {held, "i=9, j=18, r=2, s=3"},
    {one_row, "j=43, r=3, s=5"},
    {same, "i=6, j=19, r=2, s=3"},
    {product, "i=5, j=17, r=2, s=3"},
    {any, "i=5, j=17, r=2, s=3"},
    {looked_up, "i=5, j=17, r=4, s=3, X.0=6"},
    {folded, "b=2, i=9, j=21, r=3, s=3, X.3=7, X.4=19"},
    {folded, "b=1, i=6, j=37, r=2, s=5, X.3=4, X.4=40"},
    {fixed, "i=9, j=18, r=2, s=60, X.0=12, X.1=99"},
};

static void test_layouts(void **state)
{
    const uint64_t seed = check_seed();
    (void)state;
    for (int i = 0; i < MD_COUNT(cases); i++)
        for (int l = VARIANT_PACKED; l <= VARIANT_TURNED; l++)
            check_variant(&(variant_case){.formula = cases[i].formula,
                                          .dims = cases[i].dims,
                                          .tolerance = 2e-5,
                                          .layout = (variant_layout)l,
                                          .seed = seed},
                          l == VARIANT_PACKED || l == VARIANT_PADDED ? "nest_lanes/strided0" : "nest_lanes/strided1");
}

/* Nothing that is left out by a guard counts, and what is not a number does. Products of large numbers overflow, so
 * there are none. */
static void test_specials(void **state)
{
    static const struct {
        const char *formula, *dims;
    } special[] = {
        {"Y[b,i,j] = sum[r,s](where(" INSIDE("i + r", "X.1") " and " INSIDE("j + s",
                                                                            "X.2") ", X[b,i + r - 1,j + s - 1], 0))",
         "b=3, i=9, j=41, r=3, s=3, X.1=9, X.2=41"},
        {largest, "b=2, i=5, j=38, r=3, s=4"},
        {places, "b=2, i=5, j=38, r=3, s=4"},
        {any, "i=5, j=37, r=2, s=3"},
    };
    (void)state;
    for (int i = 0; i < MD_COUNT(special); i++)
        check_variant(
            &(variant_case){
                .formula = special[i].formula, .dims = special[i].dims, .tolerance = 2e-5, .has_specials = true},
            "nest_lanes/strided0");
}

static bool asks(const char *formula, const char *dims)
{
    md_strbuf text = {0};
    assert_ok(variant_text(&text, dev, &(variant_case){.formula = formula, .dims = dims}, "nest_lanes/strided0"));
    const bool is = strstr(md_strbuf_text(&text), "md_ask((const ") != NULL;
    md_strbuf_finish(&text);
    return is;
}

/* Points of a filter that read memory of their own ask for the next rows of it, those that share rows do not. */
static void test_asks(void **state)
{
    (void)state;
    assert_true(asks(folded, "b=2, i=9, j=21, r=3, s=3, X.3=7, X.4=19"));
    assert_false(asks(planes, "b=2, c=3, i=9, j=21, r=3, s=3, X.2=9, X.3=21"));
    assert_false(asks(largest, "b=2, i=5, j=18, r=3, s=4"));
}

/* Narrower vectors: other masks, other ends of rows. */
static void test_widths(void **state)
{
    const int32_t own = dev->facts.vector_bytes;
    (void)state;
    for (int32_t width = 16; width < own; width *= 2) {
        dev->facts.vector_bytes = width;
        for (int i = 0; i < MD_COUNT(cases); i++)
            check_variant(&(variant_case){.formula = cases[i].formula, .dims = cases[i].dims, .tolerance = 2e-5},
                          "nest_lanes/strided0");
    }
    dev->facts.vector_bytes = own;
}

static void test_types(void **state)
{
    static const struct {
        const char *x, *w, *y;
        double tolerance;
    } types[] = {{"f64", "f64", "f64", 1e-12},   {"bf16", "bf16", "bf16", 0.01}, {"f16", "f32", "f16", 0.002},
                 {"i8", "i8", "i32", 0},         {"u8", "i8", "i64", 0},         {"i64", "i32", "i64", 0},
                 {"f8e4m3", "f32", "f32", 1e-5}, {"bool", "i32", "i32", 0}};
    (void)state;
    for (int i = 0; i < MD_COUNT(types); i++) {
        char formula[512];
        snprintf(formula, sizeof formula,
                 "Y:%s[b,c,i,j] = sum[r,s](where(" INSIDE("i + r", "X.2") " and " INSIDE(
                     "j + s", "X.3") ", X:%s[b,c,i + r - 1,j + s - 1], 0) * W:%s[c,r,s])",
                 types[i].y, types[i].x, types[i].w);
        check_variant(&(variant_case){.formula = formula,
                                      .dims = "b=1, c=2, i=7, j=37, r=3, s=2, X.2=9, X.3=36",
                                      .tolerance = types[i].tolerance},
                      "nest_lanes/strided0");
    }
}

/* What a run of integers is compared with lies at and beyond its ends, and beyond 64 bits. */
static void test_limits(void **state)
{
    static const char *const sign[] = {"<", "<=", ">", ">="};
    static const char *const limit[] = {
        "0", "1", "15", "16", "17", "-1", "9223372036854775807", "-9223372036854775807 - 1"};
    (void)state;
    for (int i = 0; i < MD_COUNT(sign); i++)
        for (int k = 0; k < MD_COUNT(limit); k++)
            for (int turn = 0; turn < 4; turn++) {
                char formula[256];
                const char *run = turn & 2 ? "j + 9223372036854775800" : "j - 3";
                snprintf(formula, sizeof formula, "Y[j] = where(%s %s %s, X[j], V[j])", turn & 1 ? limit[k] : run,
                         sign[i], turn & 1 ? run : limit[k]);
                check_variant(&(variant_case){.formula = formula, .dims = "j=37"},
                              "pointwise/flat0_strided0_nontemporal0_transpose0");
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts), cmocka_unit_test(test_specials), cmocka_unit_test(test_widths),
        cmocka_unit_test(test_types),   cmocka_unit_test(test_limits),   cmocka_unit_test(test_asks),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
