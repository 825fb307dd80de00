/* Matrix products against the reference evaluator: every layout, type, size class, epilogue and vector width. */
#include "family/check_variant.h"
#include "support/check.h"

#include "base/task/pool.h"
#include "base/status.h"
#include "device/open.h"

static char text[1024];

/* As many sizes as there are ways to go wrong at an edge: one, primes, exact multiples of tiles, one beyond; blocks of
 * K and regions beyond one. */
static const char *const sizes[] = {"i=1, j=1, k=1",     "i=1, j=17, k=3",    "i=13, j=1, k=16",  "i=12, j=32, k=256",
                                    "i=13, j=33, k=257", "i=24, j=64, k=31",  "i=97, j=101, k=7", "i=500, j=5, k=11",
                                    "i=3, j=2100, k=5",  "i=29, j=75, k=515", "i=0, j=4, k=3",    "i=4, j=0, k=3",
                                    "i=4, j=5, k=0"};
static const char *const few_sizes[] = {"i=1, j=1, k=1",     "i=1, j=130, k=64", "i=2, j=513, k=33",
                                        "i=3, j=31, k=4100", "i=4, j=64, k=8",   "i=5, j=3, k=100",
                                        "i=6, j=66, k=17",   "i=7, j=19, k=48",  "i=8, j=1025, k=65",
                                        "i=8, j=5, k=0",     "i=0, j=4, k=3"};
static const char *const orders[] = {"Y[i,j] = sum[k](A[i,k] * B[k,j])", "Y[i,j] = sum[k](A[i,k] * B[j,k])",
                                     "Y[i,j] = sum[k](A[k,i] * B[k,j])", "Y[i,j] = sum[k](A[k,i] * B[j,k])"};

static void test_orders_and_sizes(void **state)
{
    (void)state;
    for (int o = 0; o < MD_COUNT(orders); o++)
        for (int s = 0; s < MD_COUNT(sizes); s++)
            check_gemm(
                &(variant_case){.formula = orders[o], .dims = sizes[s], .scale = 1, .tolerance = 1e-5, .seed = 7},
                "gemm/block120");
}

static void test_few_rows(void **state)
{
    (void)state;
    for (int o = 0; o < MD_COUNT(orders); o++)
        for (int s = 0; s < MD_COUNT(few_sizes); s++)
            check_gemm(
                &(variant_case){.formula = orders[o], .dims = few_sizes[s], .scale = 1, .tolerance = 1e-4, .seed = 8},
                "gemv/columns64");
}

/* The few are the columns of the result. */
static void test_few_columns(void **state)
{
    (void)state;
    check_gemm(
        &(variant_case){.formula = "Y[i,j] = sum[k](A[i,k] * B[k,j])", .dims = "i=70, j=3, k=50", .tolerance = 2e-5},
        "gemv/swap_ab1");
    check_gemm(
        &(variant_case){.formula = "Y[i,j] = sum[k](A[k,i] * B[j,k])", .dims = "i=70, j=8, k=50", .tolerance = 2e-5},
        "gemv/swap_ab1");
}

static void test_strides(void **state)
{
    static const variant_layout layouts[] = {VARIANT_PADDED, VARIANT_SPREAD, VARIANT_TURNED};
    (void)state;
    for (int o = 0; o < MD_COUNT(orders); o++)
        for (int l = 0; l < MD_COUNT(layouts); l++) {
            variant_case c = {
                .formula = orders[o], .dims = "i=30, j=70, k=40", .scale = 1, .tolerance = 1e-5, .layout = layouts[l]};
            check_gemm(&c, "gemm");
            c.dims = "i=5, j=70, k=300";
            if (layouts[l] == VARIANT_PADDED)
                check_gemm(&c, "gemv");
        }
}

static void test_types(void **state)
{
    static const struct {
        const char *formula;
        double tolerance;
    } cases[] = {
        {"Y[i,j] = sum[k](A:f64[i,k] * B:f64[k,j])", 1e-12},
        {"Y[i,j] = sum[k](A:f64[k,i] * B:f64[j,k])", 1e-12},
        {"Y[i,j] = sum[k](A:f32[i,k] * B:f64[k,j])", 1e-12},
        {"Y[i,j] = sum[k](A:bf16[i,k] * B:bf16[j,k])", 0.01},
        {"Y:f32[i,j] = sum[k](A:f16[k,i] * B:bf16[k,j])", 1e-5},
        {"Y:f16[i,j] = sum[k](A:f16[i,k] * B:f32[k,j])", 0.002},
        {"Y[i,j] = sum[k](A:i32[i,k] * B:i32[j,k])", 0},
        {"Y[i,j] = sum[k](A:i64[k,i] * B:u8[k,j])", 0},
        {"Y:f32[i,j] = sum[k](f32(A:i32[i,k]) * f32(B:i32[j,k]))", 1e-30}, /* small integers: no rounding at all */
        {"Y:f32[i,j] = sum[k](f32(A:u8[k,i]) * f32(B:i32[k,j]))", 1e-30},
    };
    (void)state;
    for (int i = 0; i < MD_COUNT(cases); i++) {
        variant_case c = {
            .formula = cases[i].formula, .dims = "i=45, j=77, k=290", .scale = 1, .tolerance = cases[i].tolerance};
        check_gemm(&c, "gemm");
        c.dims = "i=7, j=77, k=290";
        check_gemm(&c, "gemv");
    }
}

static void test_epilogues(void **state)
{
    static const char *const cases[] = {
        "Y[i,j] = sum[k](A[i,k] * B[k,j]) + bias[j]",
        "Y[i,j] = gelu(sum[k](A[i,k] * B[j,k]) + bias[j])",
        "Y[i,j] = R[i,j] + 0.5 * sum[k](A[i,k] * B[j,k]) * s[i] * t[j]",
        "P[i,j] = sum[k](A[i,k] * B[j,k]); Y[i,j] = relu(P[i,j]) + j",
        "scalar c; Y[i,j] = where(i < j, c * sum[k](A[i,k] * B[k,j]), 0)",
        "Y[j,i] = tanh(sum[k](A[i,k] * B[k,j]) + R[i,j])",
        "Y[i,j] = silu(sum[k](A[i,k] * B[j,k])) * sum[k](A[i,k] * C[j,k])",
        "Y[i,j] = sum[k](A[i,k] * B[k,j]) * sigmoid(sum[k](A[i,k] * C[k,j]) + bias[j])",
        "Y[p[i]+4*i,j] = sum[k](A[i,k] * B[j,k]) + bias[j]", /* no two rows at one place */
        "Y:bf16[i,j] = sum[k](A:bf16[i,k] * B:bf16[j,k]) + R:f32[i,j]",
    };
    (void)state;
    for (int i = 0; i < MD_COUNT(cases); i++)
        for (int l = VARIANT_PACKED; l <= VARIANT_SPREAD; l++) {
            variant_case c = {.formula = cases[i],
                              .dims = "i=29, j=70, k=40",
                              .high = 4,
                              .scale = 1,
                              .tolerance = i + 1 == MD_COUNT(cases) ? 0.01 : 2e-5,
                              .layout = (variant_layout)l};
            check_gemm(&c, "gemm");
            c.dims = "i=6, j=70, k=40";
            if (l == VARIANT_PACKED && i != 5)
                check_gemm(&c, "gemv");
        }
}

static void test_groups_and_batches(void **state)
{
    static const struct {
        const char *formula, *dims;
    } cases[] = {
        {"Y[b,i,j] = sum[k](A[b,i,k] * B[b,k,j])", "b=5, i=13, j=33, k=20"},
        {"Y[b,h,i,j] = sum[d](Q[b,i,h,d] * K[b,j,h,d])", "b=2, h=3, i=17, j=19, d=16"},
        {"Y[b,s,n] = sum[k](X[b,s,k] * W[n,k])", "b=3, s=7, n=40, k=30"},
        {"Y[b,s,o] = sum[h,d](X[b,s,h,d] * W[o,h,d])", "b=2, s=5, o=24, h=3, d=10"},
        {"Y[b,s,h,d] = sum[k](X[b,s,k] * W[h,d,k]) + bias[h,d]", "b=2, s=5, h=3, d=10, k=33"},
        {"Y[b,i,j] = sum[k](A[b,i,k] * B[k,j])", "b=1, i=40, j=9, k=5"},
    };
    static const variant_layout layouts[] = {VARIANT_PACKED, VARIANT_PADDED, VARIANT_TURNED};
    (void)state;
    for (int i = 0; i < MD_COUNT(cases); i++)
        for (int l = 0; l < MD_COUNT(layouts); l++)
            check_gemm(&(variant_case){.formula = cases[i].formula,
                                       .dims = cases[i].dims,
                                       .scale = 1,
                                       .tolerance = 1e-5,
                                       .layout = layouts[l]},
                       "gemm");
    check_gemm(
        &(variant_case){.formula = cases[0].formula, .dims = "b=5, i=3, j=33, k=20", .scale = 1, .tolerance = 1e-5},
        "gemv");
    check_gemm(
        &(variant_case){
            .formula = cases[1].formula, .dims = "b=2, h=3, i=1, j=19, d=16", .scale = 1, .tolerance = 1e-5},
        "gemv");
    check_gemm(
        &(variant_case){
            .formula = cases[4].formula, .dims = "b=2, s=4, h=3, d=10, k=33", .scale = 1, .tolerance = 1e-5},
        "gemv");
}

/* A share of a batch index moves an operand as a whole: heads in groups, one after the other or in turn. */
static void test_shares(void **state)
{
    static const struct {
        const char *formula, *dims, *one_row;
    } cases[] = {
        {"Y[b,h,i,j] = sum[d](Q[b,h,i,d] * K[b,h//4,j,d])", "b=2, h=8, i=13, j=33, d=20, K.1=2",
         "b=2, h=8, i=1, j=33, d=20, K.1=2"},
        {"Y[b,h,i,e] = sum[j](P[b,h,i,j] * V[b,j,h//3,e])", "b=2, h=7, i=14, j=19, e=40, V.2=3",
         "b=2, h=7, i=2, j=19, e=40, V.2=3"},
        {"Y[h,i,j] = sum[d](Q[h//2,i,d] * K[h%3,j,d])", "h=5, i=13, j=40, d=11, Q.0=3, K.0=3",
         "h=5, i=3, j=40, d=11, Q.0=3, K.0=3"},
    };
    static const variant_layout layouts[] = {VARIANT_PACKED, VARIANT_PADDED, VARIANT_TURNED};
    (void)state;
    for (int i = 0; i < MD_COUNT(cases); i++)
        for (int l = 0; l < MD_COUNT(layouts); l++) {
            variant_case c = {.formula = cases[i].formula,
                              .dims = cases[i].dims,
                              .scale = 1,
                              .tolerance = 1e-5,
                              .layout = layouts[l]};
            check_gemm(&c, "gemm");
            c.dims = cases[i].one_row;
            if (layouts[l] != VARIANT_TURNED)
                check_gemm(&c, "gemv");
            if (dev->facts.has_blas && layouts[l] == VARIANT_PACKED)
                check_gemm(&c, "gemm_lib");
        }
}

/* Operands that are no plain loads: lanes along K, along columns, and one by one. */
static void test_expressions(void **state)
{
    static const char *const cases[] = {
        "Y[i,j] = sum[k](A[i,k] * (f32(W:i32[j,k]) * s[j,k//8]))",
        "Y[i,j] = sum[k](exp(A[i,k]) * relu(W[k,j] + b[j]))",
        "Y[i,j] = sum[k]((A[i,k] + k) * W[t:i32[j],k])",
        "Y[i,j] = sum[k](where(k <= i, A[i,k], 0) * B[k,j])",
        "Y[i,j] = sum[k](A[i,k] * B[k,2*j+1])",
    };
    (void)state;
    for (int i = 0; i < MD_COUNT(cases); i++)
        for (int l = VARIANT_PACKED; l <= VARIANT_SPREAD; l++) {
            variant_case c = {.formula = cases[i],
                              .dims = "i=29, j=37, k=40",
                              .scale = 1,
                              .tolerance = 3e-5,
                              .low = 0,
                              .high = 9,
                              .layout = (variant_layout)l};
            check_gemm(&c, "gemm");
        }
    check_gemm(
        &(variant_case){
            .formula = "Y[i,j] = sum[k](A[i,k] * A[j,k])", .dims = "i=37, k=40", .scale = 1, .tolerance = 1e-5},
        "gemm");
}

/* K with bounds by batch, which may be empty, fall, overlap, and lie outside. What is not finite outside them does not
 * matter. */
static void test_spans(void **state)
{
    static const struct {
        const char *formula;
        double tolerance;
    } cases[] = {
        {"D[e,i,j] = sum[t](where(o:i32[e] <= t and t < o[e+1], A[t,i] * B[t,j], 0))", 1e-4},
        {"D[e,i,j] = sum[t](where(o:i64[e] < t and o[e+1] >= t, A[i,t] * B[j,t], 0)) + c[e,j]", 1e-4},
        {"D[e,j,i] = sum[t](where(o:i32[e] <= t, A[i,t] * B[t,j], 0))", 1e-4},
        {"D[e,i,j] = sum[t](where(t < o:i32[e] and t >= where(e > 0, o[e-1], 0), A[t,i] * B[t,j], 0))", 1e-4},
        {"D[b,e,i,j] = sum[t](where(o:i32[b,e] <= t and t < o[b,e+1], A[b,t,i] * B[b,t,j], 0))", 1e-4},
        {"D:bf16[e,i,j] = sum[t](where(o:i32[e] <= t and t < o[e+1], A:bf16[t,i] * B:bf16[t,j], 0))", 0.01},
        {"D:i32[e,i,j] = sum[t](where(o:i32[e] <= t and t < o[e+1], i32(A:i8[t,i]) * i32(B:i8[t,j]), 0))", 1e-30},
        {"D[e,i,j] = sum[t](where(o:i64[e] <= t and t <= o[e] + 9223372036854775700, A:f64[t,i] * B:f64[t,j], 0))",
         1e-12},
    };
    static const char *const dims[] = {"b=2, e=5, i=13, j=33, t=90", "b=1, e=40, i=3, j=5, t=30",
                                       "b=3, e=1, i=97, j=2, t=0", "b=2, e=3, i=17, j=35, t=900"};
    (void)state;
    for (int i = 0; i < MD_COUNT(cases); i++)
        for (int d = 0; d < MD_COUNT(dims); d++)
            for (int l = VARIANT_PACKED; l <= VARIANT_TURNED; l++) {
                variant_case c = {.formula = cases[i].formula,
                                  .dims = dims[d],
                                  .low = -9,
                                  .high = d == 3 ? 127 : 100,
                                  .scale = 1,
                                  .has_specials = strstr(cases[i].formula, "f64") != NULL,
                                  .tolerance = cases[i].tolerance,
                                  .layout = (variant_layout)l};
                check_gemm(&c, "gemm/block120");
                check_variant(&c, "nest");
            }
}

/* CBLAS, where the build has it: into the output, or followed by an epilogue. */
static void test_library(void **state)
{
    static const char *const cases[] = {
        "Y[i,j] = sum[k](A[i,k] * B[k,j])",
        "Y[i,j] = sum[k](A[i,k] * B[j,k])",
        "Y[i,j] = sum[k](A[k,i] * B[k,j])",
        "Y[i,j] = sum[k](A[k,i] * B[j,k])",
        "Y[j,i] = sum[k](A[i,k] * B[k,j])",
        "Y[i,j] = sum[k](A:f64[i,k] * B:f64[k,j])",
        "Y[i,j] = gelu(sum[k](A[i,k] * B[j,k]) + bias[j])",
        "Y:bf16[i,j] = sum[k](A:f32[i,k] * B:f32[j,k])",
        "Y[i,j] = silu(sum[k](A[i,k] * B[j,k])) * sum[k](A[i,k] * C[j,k])",
    };
    static const char *const sizes_of_it[] = {"i=37, j=45, k=70", "i=1, j=1, k=1", "i=3, j=5, k=0", "i=0, j=3, k=2"};
    (void)state;
    if (!dev->facts.has_blas)
        skip();
    for (int i = 0; i < MD_COUNT(cases); i++)
        for (int l = VARIANT_PACKED; l <= VARIANT_PADDED; l++)
            for (int s = 0; s < MD_COUNT(sizes_of_it); s++)
                check_gemm(&(variant_case){.formula = cases[i],
                                           .dims = sizes_of_it[s],
                                           .scale = 1,
                                           .tolerance = i == 7 ? 0.01 : 2e-5,
                                           .layout = (variant_layout)l},
                           "gemm_lib");
    check_gemm(&(variant_case){.formula = "Y[b,h,i,j] = sum[d](Q[b,i,h,d] * K[b,j,h,d])",
                               .dims = "b=2, h=3, i=17, j=19, d=16",
                               .scale = 1,
                               .tolerance = 2e-5},
               "gemm_lib");
    check_gemm(&(variant_case){.formula = "Y[b,s,o] = relu(sum[h,d](X[b,s,h,d] * W[o,h,d]))",
                               .dims = "b=2, s=5, o=24, h=3, d=10",
                               .scale = 1,
                               .tolerance = 2e-5},
               "gemm_lib");
    for (int i = 0; i < 2; i++) /* blocks of the epilogue have 4,096 columns: one is full, or another has a rest */
        check_gemm(&(variant_case){.formula = "Y[i,j] = relu(sum[k](A[i,k] * B[j,k]) + bias[j])",
                                   .dims = i ? "i=3, j=4099, k=2" : "i=3, j=4096, k=2",
                                   .scale = 1,
                                   .is_sure = true,
                                   .tolerance = 2e-5},
                   "gemm_lib");
}

/* Every tile that some processor uses, on narrower vectors too. */
static void test_tiles_and_widths(void **state)
{
    static const int32_t widths[] = {64, 32, 16};
    static const char *const cases[] = {"Y[i,j] = sum[k](A[i,k] * B[k,j])",
                                        "Y[i,j] = silu(sum[k](A[k,i] * B[j,k])) * sum[k](A[k,i] * C[j,k])",
                                        "Y[i,j] = sum[k](A:f64[i,k] * B:f64[j,k])"};
    int32_t own = dev->facts.vector_bytes;
    (void)state;
    for (int w = 0; w < MD_COUNT(widths); w++) {
        if (widths[w] > own)
            continue;
        dev->facts.vector_bytes = widths[w];
        for (int i = 0; i < MD_COUNT(cases); i++) {
            variant_case c = {.formula = cases[i], .dims = "i=47, j=67, k=35", .scale = 1, .tolerance = 1e-5};
            for (int rows = 4; rows <= 12; rows += rows == 4 || rows == 6 ? 2 : 4)
                for (int vecs = 1; vecs <= 4; vecs++) {
                    char name[64];
                    bool skipped = false;
                    snprintf(name, sizeof name, "gemm/rows%d_vecs%d", rows, vecs);
                    const bool is_used = !strcmp(name + 5, host_tile());
                    if (i > 0 ? vecs != 2 || rows % 6 != 0 : w > 0 && (rows / 2 + vecs + w) % 2 && !is_used)
                        continue; /* the other cases need not see every tile, nor narrow vectors those between */
                    if (!variant_check(text, sizeof text, &skipped, dev, &c, name))
                        fail_msg("%s", text);
                }
            c.dims = "i=6, j=67, k=35";
            check_gemm(&c, "gemv");
        }
    }
    dev->facts.vector_bytes = own;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders_and_sizes),
        cmocka_unit_test(test_few_rows),
        cmocka_unit_test(test_few_columns),
        cmocka_unit_test(test_strides),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_epilogues),
        cmocka_unit_test(test_groups_and_batches),
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_expressions),
        cmocka_unit_test(test_tiles_and_widths),
        cmocka_unit_test(test_spans),
        cmocka_unit_test(test_library),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
