/* Products of narrow operands on the host: pairs of integers and of bf16, weights of four bits. */
#include "family/check_variant.h"
#include "support/check.h"

#include "base/status.h"

/* Two steps of K in a lane: every layout, odd and even depths, sums of several spans, ends of what bytes hold. */
static void test_pairs(void **state)
{
    static const struct {
        const char *formula;
        int32_t low, high;
    } cases[] = {
        {"Y:i32[i,j] = sum[k](A:i8[i,k] * B:i8[j,k])", -128, -126},
        {"Y:i32[i,j] = sum[k](A:u8[k,i] * B:i8[k,j])", 1, 127},
        {"Y[i,j] = sum[k](A:i4[i,k] * B:u8[j,k])", 0, 7},
        {"Y[i,j] = f32(sum[k](A:u4[i,k] * B:u4[k,j])) * a[i]", 0, 15},
        {"Y:f32[i,j] = sum[k](f32(A:i8[k,i]) * f32(B:i4[j,k]))", -8, 7},
        {"Y:i32[i,j] = sum[k](A:u8[i,k] * B:u8[j,k]) + sum[k](A:u8[i,k] * C:i8[j,k])", 120, 127},
    };
    static const char *const shapes[][2] = {{"gemm", "i=37, j=77, k=291"}, {"gemm", "i=3, j=5, k=32769"},
                                            {"gemm", "i=13, j=1, k=1"},    {"gemm", "i=31, j=17, k=16384"},
                                            {"gemv", "i=7, j=77, k=290"},  {"gemv", "i=1, j=33, k=65"},
                                            {"gemv", "i=2, j=3, k=70001"}};
    (void)state;
    for (int i = 0; i < MD_COUNT(cases); i++)
        for (int s = 0; s < MD_COUNT(shapes); s++) {
            if (strcmp(shapes[s][0], "gemv") == 0 && strstr(cases[i].formula, "[k,j]"))
                continue; /* gemm's, with any number of rows */
            check_gemm(&(variant_case){.formula = cases[i].formula,
                                       .dims = shapes[s][1],
                                       .low = cases[i].low,
                                       .high = cases[i].high,
                                       .tolerance = strstr(cases[i].formula, "f32") ? 1e-6 : 0},
                       shapes[s][0]);
        }
}

/* The same of bf16, where the processor multiplies pairs: layouts, odd depths, spans, two products, special values. */
static void test_bf16_pairs(void **state)
{
    static const char *const formulas[] = {
        "Y:f32[i,j] = sum[k](A:bf16[i,k] * B:bf16[j,k])", "Y:f32[i,j] = sum[k](A:bf16[k,i] * B:bf16[k,j])",
        "Y:f32[b,i,j] = sum[k](A:bf16[b,i,k] * B:bf16[b,k,j])",
        "Y:f32[i,j] = sum[k,h](A:bf16[h,i,k] * B:bf16[j,h,k]) + R:f32[i,j]",
        "Y:f32[i,j] = silu(sum[k](A:bf16[i,k] * B:bf16[j,k])) + sum[k](A:bf16[i,k] * C:bf16[j,k])"};
    static const char *const shapes[] = {"b=3, h=3, i=37, j=77, k=291", "b=1, h=1, i=13, j=1, k=1",
                                         "b=2, h=2, i=12, j=64, k=256", "b=1, h=1, i=3, j=5, k=32769",
                                         "b=2, h=5, i=25, j=33, k=1030"};
    static const variant_layout layouts[] = {VARIANT_PACKED, VARIANT_PADDED, VARIANT_SPREAD, VARIANT_TURNED};
    (void)state;
    for (int i = 0; i < MD_COUNT(formulas); i++)
        for (int s = 0; s < MD_COUNT(shapes); s++)
            for (int l = 0; l < MD_COUNT(layouts); l++)
                check_gemm(&(variant_case){.formula = formulas[i],
                                           .dims = shapes[s],
                                           .scale = 1,
                                           .tolerance = 2e-5,
                                           .has_specials = (s + l) % 3 == 2,
                                           .layout = layouts[l]},
                           "gemm");
}

static bool has_pairs(const char *formula)
{
    md_strbuf out = {0};
    assert_ok(variant_text(&out, dev, &(variant_case){.formula = formula, .dims = "i=3, j=4, k=5"}, "gemm"));
    const bool has = strstr(md_strbuf_text(&out), "#define MD_PAIRED 1") != NULL;
    md_strbuf_finish(&out);
    return has;
}

/* Both operands must be bf16, and the processor must have the instruction, and vectors of 64 bytes. Texts alone, so
 * that any processor may do. */
static void test_what_is_paired(void **state)
{
    static const char *const pairs[] = {"Y[i,j] = sum[k](A:bf16[i,k] * B:bf16[j,k])",
                                        "Y:bf16[i,j] = gelu(sum[k](A:bf16[i,k] * B:bf16[k,j]))"},
                             *const others[] = {"Y[i,j] = sum[k](A:bf16[i,k] * B:f32[j,k])",
                                                "Y[i,j] = sum[k](A:f16[i,k] * B:bf16[j,k])",
                                                "Y[i,j] = sum[k](A:bf16[i,k] * relu(B:bf16[j,k]))"};
    const md_dev_facts own = dev->facts;
    (void)state;
    for (int can = 0; can < 3; can++) { /* neither; the instruction, in vectors of 32 bytes; both */
        snprintf(dev->facts.flags, sizeof dev->facts.flags, "%s", can ? "-mavx512f -mavx512bf16" : "-mavx512f");
        dev->facts.vector_bytes = can == 1 ? 32 : 64;
        for (int i = 0; i < MD_COUNT(pairs); i++)
            assert_int_equal(has_pairs(pairs[i]), can == 2);
        for (int i = 0; i < MD_COUNT(others); i++)
            assert_false(has_pairs(others[i]));
    }
    dev->facts = own;
}

/* Weights of four bits by tables, where rows begin at whole bytes: groups of 128, of 32, none; tails; two products. */
static void test_halves(void **state)
{
    static const char *const cases[] = {
        "Y[i,j] = sum[k](A[i,k] * f32(W:i4[j,k]) * s[j,k//128])",
        "Y[i,j] = sum[k](A[i,k] * (f32(W:u4[j,k]) - z[j,k//256]) * s[j,k//128])",
        "Y[i,j] = sum[k](A[i,k] * (f32(W:i4[j,k]) - z[j,k//32]) * s[j,k//32])",
        "Y[i,j] = sum[k](A[i,k] * f32(W:i4[j,k]))",
        "Y[b,i,j] = sum[k](A[b,i,k] * f32(W:u4[b,j,k]) * s[b,j])",
        "Y[i,j] = silu(sum[k](A[i,k] * f32(W:i4[j,k]) * s[j])) + sum[k](A[i,k] * f32(V:i4[j,k]) * t[j,k//128])",
    };
    static const char *const shapes[] = {"b=2, i=8, j=133, k=1096", "b=3, i=1, j=2, k=387", "b=1, i=5, j=1, k=128",
                                         "b=1, i=2, j=3, k=5001"};
    (void)state;
    for (int i = 0; i < MD_COUNT(cases); i++)
        for (int s = 0; s < MD_COUNT(shapes); s++)
            check_gemm(&(variant_case){.formula = cases[i],
                                       .dims = strstr(cases[i], "b") ? shapes[s] : strstr(shapes[s], "i="),
                                       .scale = 1,
                                       .tolerance = 1e-4},
                       "gemv");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_bf16_pairs),
        cmocka_unit_test(test_what_is_paired),
        cmocka_unit_test(test_halves),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
