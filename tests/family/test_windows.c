/* Products whose operands are windows of a tensor, as convolutions are, against the reference evaluator. */
#include "family/check_variant.h"
#include "support/check.h"

#include "base/status.h"
#include "base/task/pool.h"
#include "device/open.h"

/* 3 x 3 with one row and column of zeros around, every second result, by planes and by pixels. */
#define INSIDE(at, size) at " >= 0 and " at " < size(" size ")"
static const char planes[] = "Y[n,o,y,x] = sum[c,r,s](where(" INSIDE("y+r-1", "X.2") " and " INSIDE(
    "x+s-1", "X.3") ", X[n,c,y+r-1,x+s-1], 0) * W[o,c,r,s])";
static const char second[] = "Y[n,o,y,x] = sum[c,r,s](where(" INSIDE("2*y+r-1", "X.2") " and " INSIDE(
    "2*x+s-1", "X.3") ", X[n,c,2*y+r-1,2*x+s-1], 0) * W[o,c,r,s]) + b[o]";
static const char third[] = "Y[n,o,y,x] = sum[c,r,s](where(" INSIDE("3*y+2*r-2", "X.2") " and " INSIDE(
    "3*x+2*s-2", "X.3") ", X[n,c,3*y+2*r-2,3*x+2*s-2], 0) * W[o,c,r,s])";
static const char pixels[] = "Y[n,y,x,o] = relu(sum[r,s,c](where(" INSIDE("y+r-1", "X.1") " and " INSIDE(
    "x+s-1", "X.2") ", X[n,y+r-1,x+s-1,c], 0) * W[o,r,s,c]) + R[n,y,x,o])";
static const char groups[] = "Y[n,g,o,y,x] = sum[c,r,s](where(" INSIDE("y+r-1", "X.3") " and " INSIDE(
    "x+s-1", "X.4") ", X[n,g,c,y+r-1,x+s-1], 0) * W[g,o,c,r,s])";
static const char line[] = "Y[n,o,x] = sum[c,s](where(" INSIDE("x+s-2", "X.2") ", X[n,c,x+s-2], 0) * W[o,c,s])";
static const char cube[] = "Y[n,o,z,y,x] = sum[c,q,r,s](where(" INSIDE("z+q-1", "X.2") " and " INSIDE(
    "y+r-1", "X.3") " and " INSIDE("x+s-1", "X.4") ", X[n,c,z+q-1,y+r-1,x+s-1], 0) * W[o,c,q,r,s])";
static const char filter[] = "size r=3, s=3; D[o,c,r,s] = sum[n,y,x](G[n,o,y,x] * where(" INSIDE(
    "2*y+r-1", "X.2") " and " INSIDE("2*x+s-1", "X.3") ", X[n,c,2*y+r-1,2*x+s-1], 0))";
static const char input[] = "D[n,c,y,x] = sum[o,r,s](where(" INSIDE("y+1-r", "G.2") " and " INSIDE(
    "x+1-s", "G.3") ", G[n,o,y+1-r,x+1-s], 0) * W[o,c,r,s])";
/* Every second row and column of the result comes from each half of the filter. */
static const char transposed[] = "D[n,c,y,x] = sum[o,r,s](where((y+1-r) % 2 == 0 and (x+1-s) % 2 == 0 and " INSIDE(
    "(y+1-r)//2", "G.2") " and " INSIDE("(x+1-s)//2", "G.3") ", G[n,o,(y+1-r)//2,(x+1-s)//2], 0) * W[o,c,r,s])";
static const char valid[] = "Y[n,o,y,x] = sum[c,r,s](X[n,c,y+r,x+s] * W[o,c,r,s])";
static const char flipped[] = "Y[n,o,y,x] = sum[c,r,s](X[n,c,y+r,size(x)+size(s)-2-x-s] * W[o,c,r,s])";
static const char apart[] = "Y[n,o,z] = sum[c](X[n,c,z] * W[o,c])";
static const char before[] = "Y[n,o,y,x] = sum[c,r,s](where(" INSIDE("y+r-1", "X.2") " and " INSIDE(
    "x+s-1", "X.3") ", relu(X[n,c,y+r-1,x+s-1] * a[c]), 0) * W[o,c,r,s])";

static const struct {
    const char *formula, *dims;
} cases[] = {
    {planes, "n=2, o=13, y=9, x=7, c=5, r=3, s=3, X.2=9, X.3=7"},
    {planes, "n=1, o=5, y=3, x=70, c=90, r=3, s=3, X.2=3, X.3=70"}, /* two blocks of K, runs over several strips */
    {planes, "n=3, o=1, y=1, x=1, c=1, r=3, s=3, X.2=1, X.3=1"},
    {planes, "n=2, o=4, y=5, x=4, c=3, r=2, s=4, X.2=1, X.3=2"}, /* windows wholly outside */
    {planes, "n=0, o=4, y=5, x=4, c=3, r=2, s=4, X.2=5, X.3=4"},
    {planes, "n=2, o=4, y=5, x=4, c=0, r=3, s=3, X.2=5, X.3=4"},
    {planes, "n=2, o=4, y=5, x=4, c=3, r=3, s=3, X.2=0, X.3=4"},
    {planes, "n=2, o=4, y=5, x=4, c=3, r=3, s=0, X.2=5, X.3=4"},
    {planes, "n=5, o=2, y=17, x=1, c=3, r=3, s=1, X.2=17, X.3=2"}, /* runs of one */
    {second, "n=3, o=14, y=5, x=37, c=4, r=3, s=3, X.2=9, X.3=73"},
    {second, "n=1, o=3, y=4, x=6, c=7, r=2, s=6, X.2=7, X.3=11"}, /* even filters */
    {third, "n=2, o=3, y=4, x=23, c=6, r=3, s=2, X.2=11, X.3=68"},
    {pixels, "n=2, o=20, y=6, x=5, c=37, r=3, s=3, X.1=6, X.2=5"},
    {pixels, "n=1, o=3, y=4, x=9, c=3, r=3, s=3, X.1=4, X.2=9"},
    {pixels, "n=1, o=40, y=2, x=11, c=64, r=3, s=3, X.1=2, X.2=11"},
    {groups, "n=2, g=3, o=4, y=6, x=19, c=5, r=3, s=3, X.3=6, X.4=19"},
    {line, "n=3, o=7, x=41, c=6, s=5, X.2=41"},
    {line, "n=1, o=7, x=300, c=2, s=4, X.2=299"},
    {cube, "n=2, o=3, z=4, y=3, x=5, c=2, q=3, r=3, s=3, X.2=4, X.3=3, X.4=5"},
    {filter, "n=2, o=7, c=5, y=6, x=19, X.2=12, X.3=38"},
    {input, "n=2, o=6, y=7, x=21, c=5, r=3, s=3, G.2=7, G.3=21"},
    {transposed, "n=2, o=6, y=8, x=22, c=5, r=3, s=3, G.2=4, G.3=11"},
    {valid, "n=2, o=6, y=7, x=33, c=5, r=3, s=2, X.2=9, X.3=34"},
    {flipped, "n=2, o=3, y=7, x=18, c=2, r=3, s=2, X.2=9, X.3=19"},
    {apart, "n=7, o=19, z=49, c=33"},
    {before, "n=2, o=7, y=9, x=18, c=5, r=3, s=3, X.2=9, X.3=18"},
};

/* By parts that move axes, those of the epilogue's operand too. */
static const char residual[] = "Y[n,o,y,x] = relu(sum[c,r,s](where(" INSIDE("y+r-1", "X.2") " and " INSIDE(
    "x+s-1", "X.3") ", X[n,c,y+r-1,x+s-1], 0) * W[o,c,r,s]) + b[o] + R[n,o,y,x])";

static const struct {
    const char *formula, *dims;
} turned[] = {
    {planes, "n=2, o=13, y=9, x=7, c=5, r=3, s=3, X.2=9, X.3=7"},
    {planes, "n=1, o=5, y=3, x=70, c=90, r=3, s=3, X.2=3, X.3=70"},
    {planes, "n=2, o=4, y=5, x=4, c=3, r=2, s=4, X.2=1, X.3=2"},
    {planes, "n=2, o=4, y=5, x=4, c=3, r=3, s=3, X.2=0, X.3=4"},
    {second, "n=3, o=14, y=5, x=37, c=4, r=3, s=3, X.2=9, X.3=73"},
    {residual, "n=2, o=20, y=6, x=5, c=37, r=3, s=3, X.2=6, X.3=5"},
    {groups, "n=2, g=3, o=4, y=6, x=19, c=5, r=3, s=3, X.3=6, X.4=19"},
    {line, "n=3, o=7, x=41, c=6, s=5, X.2=41"},
    {cube, "n=2, o=3, z=4, y=3, x=5, c=2, q=3, r=3, s=3, X.2=4, X.3=3, X.4=5"},
    {input, "n=2, o=6, y=7, x=21, c=5, r=3, s=3, G.2=7, G.3=21"},
    {valid, "n=2, o=6, y=7, x=33, c=5, r=3, s=2, X.2=9, X.3=34"},
    {apart, "n=7, o=19, z=49, c=33"},
};

static void test_moved_axes(void **state)
{
    static const char *const variants[] = {"gemm", "pointwise/flat0_strided0_nontemporal0_transpose1",
                                           "pointwise/flat0_strided1_nontemporal0_transpose0"};
    const uint64_t seed = check_seed();
    (void)state;
    for (int i = 0; i < MD_COUNT(turned); i++)
        for (int l = VARIANT_PACKED; l <= VARIANT_TURNED; l++)
            for (int v = 0; v < MD_COUNT(variants); v++) {
                if (v == 1 && l > VARIANT_PADDED) /* tiles of tensors whose last axis is dense */
                    continue;
                check_gemm(&(variant_case){.formula = turned[i].formula,
                                           .dims = turned[i].dims,
                                           .scale = 1,
                                           .tolerance = 2e-5,
                                           .turns = true,
                                           .layout = (variant_layout)l,
                                           .seed = seed},
                           variants[v]);
            }
}

static void test_layouts(void **state)
{
    const uint64_t seed = check_seed();
    (void)state;
    for (int i = 0; i < MD_COUNT(cases); i++)
        for (int l = VARIANT_PACKED; l <= VARIANT_TURNED; l++)
            check_gemm(&(variant_case){.formula = cases[i].formula,
                                       .dims = cases[i].dims,
                                       .scale = 1,
                                       .tolerance = 2e-5,
                                       .layout = (variant_layout)l,
                                       .seed = seed},
                       "gemm");
}

/* Narrower vectors, with a tile of each. */
static void test_widths(void **state)
{
    const int32_t own = dev->facts.vector_bytes;
    (void)state;
    for (int32_t width = 16; width < own; width *= 2) {
        dev->facts.vector_bytes = width;
        for (int i = 0; i < MD_COUNT(cases); i++)
            check_gemm(
                &(variant_case){.formula = cases[i].formula, .dims = cases[i].dims, .scale = 1, .tolerance = 2e-5},
                "gemm");
    }
    dev->facts.vector_bytes = own;
}

static void test_types(void **state)
{
    static const struct {
        const char *x, *w, *y;
        double tolerance;
    } types[] = {{"f64", "f64", "f64", 1e-12}, {"bf16", "bf16", "f32", 1e-5}, {"f16", "f32", "f16", 0.002},
                 {"i8", "i8", "i32", 0},       {"u8", "i8", "i64", 0},        {"i64", "i32", "i64", 0}};
    (void)state;
    for (int i = 0; i < MD_COUNT(types); i++) {
        char formula[512];
        snprintf(formula, sizeof formula,
                 "Y:%s[n,o,y,x] = sum[c,r,s](where(2*y+r >= 1 and 2*y+r-1 < size(X.2) and 2*x+s >= 1 and 2*x+s-1 < "
                 "size(X.3), X:%s[n,c,2*y+r-1,2*x+s-1], 0) * W:%s[o,c,r,s])",
                 types[i].y, types[i].x, types[i].w);
        check_gemm(&(variant_case){.formula = formula,
                                   .dims = "n=2, o=7, y=5, x=21, c=6, r=3, s=3, X.2=10, X.3=42",
                                   .scale = 1,
                                   .tolerance = types[i].tolerance},
                   "gemm");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_moved_axes),
        cmocka_unit_test(test_widths),
        cmocka_unit_test(test_types),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
