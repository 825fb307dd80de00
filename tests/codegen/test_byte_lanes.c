/* Lanes of one byte or two: which programs have them, and every variant against the evaluator. */
#include "codegen/host.h"
#include "support/check.h"
#include "support/variant.h"

#include "codegen/codegen.h"

static bool is_full;

static md_cg_bytes bytes_of(const variant_case *c)
{
    md_fx_formula *formula = NULL;
    md_st_program *program = NULL;
    assert_ok(md_fx_formula_create(&formula, c->formula, NULL));
    assert_ok(md_st_program_create(&program, formula));
    const md_cg_bytes bytes = md_cg_byte_lanes(program, 0);
    md_st_program_destroy(&program);
    md_fx_formula_destroy(&formula);
    return bytes;
}

/* Lanes of one byte or two, or not where a value may not fit. */
static const struct {
    const char *formula;
    int64_t low, high;
    md_cg_bytes bytes; /* what is expected of the first stage */
} programs[] = {{"Y:i8[i,j] = relu(X:i8[i,j])", -128, 127, MD_CG_SIGNED_BYTES},
                {"Y:u8[i,j] = max(X:u8[i,j], Z:u8[i,j])", 0, 255, MD_CG_UNSIGNED_BYTES},
                {"Y:u8[i,j] = max(X:u8[i,j], Z:i8[i,j])", -128, 127, MD_CG_NO_BYTES},
                {"Y:u8[i,j] = X:u8[i,j] * Z:i8[i,j] + 300", -128, 255, MD_CG_SIGNED_BYTES},
                {"Y:i8[i,j] = X:i8[i,j] - Z:i8[i,j] * b:i8[j]", -128, 127, MD_CG_SIGNED_BYTES},
                {"Y:i8[i,j] = relu(X:i8[i,j] + Z:i8[i,j])", -128, 127, MD_CG_NO_BYTES},
                {"Y:i8[i,j] = abs(X:i8[i,j]) - i", -128, 127, MD_CG_NO_BYTES},
                {"Y:i16[i,j] = X:i8[i,j] + Z:i8[i,j]", -128, 127, MD_CG_NO_BYTES},
                {"Y:i16[i,j] = relu(X:i16[i,j])", INT16_MIN, INT16_MAX, MD_CG_SIGNED_WORDS},
                {"Y:u16[i,j] = max(X:u16[i,j], Z:u16[i,j])", 0, UINT16_MAX, MD_CG_UNSIGNED_WORDS},
                {"Y:u16[i,j] = max(X:u16[i,j], Z:i16[i,j])", INT16_MIN, INT16_MAX, MD_CG_NO_BYTES},
                {"Y:i16[i,j] = X:i16[i,j] - Z:u16[i,j] * b:i8[i]", -128, 127, MD_CG_SIGNED_WORDS},
                {"Y:i16[i,j] = X:i16[i,j] - Z:i8[i,j]", -128, 127, MD_CG_NO_BYTES},
                {"Y:i16[i,j] = X:i16[i,j] + i8(Z:i16[i,j])", INT16_MIN, INT16_MAX, MD_CG_SIGNED_WORDS},
                {"Y:bool[i,j] = X:i16[i,j] > Z:i16[i,j]", -3, 3, MD_CG_SIGNED_WORDS},
                {"Y:i16[i,j] = where(X:i16[i,j] > Z:i16[i,j], clamp(X[i,j], -5, 1000), 7)", INT16_MIN, INT16_MAX,
                 MD_CG_SIGNED_WORDS},
                {"Y[i] = sum[j](X:i16[i,j])", INT16_MIN, INT16_MAX, MD_CG_SIGNED_WORDS},
                {"Y[i] = mean[j](X:u16[i,j])", 0, UINT16_MAX, MD_CG_UNSIGNED_WORDS},
                {"Y:i16[i] = min[j](X:i16[i,j]); Z:i16[i] = max[j](X[i,j])", INT16_MIN, INT16_MAX, MD_CG_SIGNED_WORDS},
                {"Y:u16[i] = min[j](X:u16[i,j]); Z:bool[i] = all[j](X[i,j] > 7)", 0, UINT16_MAX, MD_CG_UNSIGNED_WORDS},
                {"Y:i4[i,j] = X:i4[i,j] * Z:u4[i,j]", -8, 15, MD_CG_SIGNED_BYTES},
                {"Y:bool[i,j] = X:i8[i,j] > Z:i8[i,j] and not M:bool[i,j]", -128, 127, MD_CG_SIGNED_BYTES},
                {"Y:i8[i,j] = where(X:i8[i,j] == Z:i8[i,j], clamp(X[i,j], -5, 100), 7)", -3, 3, MD_CG_SIGNED_BYTES},
                {"Y:i8[i,j] = X:i8[j,i]", -128, 127, MD_CG_NO_BYTES},
                {"Y[i] = sum[j](X:i8[i,j])", -128, 127, MD_CG_SIGNED_BYTES},
                {"Y[i] = sum[j](X:u8[i,j])", 0, 255, MD_CG_UNSIGNED_BYTES},
                {"Y[i] = mean[j](X:i4[i,j])", -8, 7, MD_CG_SIGNED_HALVES},
                {"Y:i4[i,j] = relu(X:i4[i,j]) - min(Z:i4[i,j], b:i4[i])", -8, 7, MD_CG_SIGNED_HALVES},
                {"Y:u4[i,j] = where(X:u4[i,j] > 3, clamp(Z:u4[i,j], 2, 9), ~X[i,j])", 0, 15, MD_CG_UNSIGNED_HALVES},
                {"Y:i4[i,j] = -X:i4[i,j] + i8(Z:i4[i,j])", -8, 7, MD_CG_SIGNED_HALVES},
                {"Y:i4[i,j] = abs(X:i4[i,j])", -8, 7, MD_CG_SIGNED_BYTES},
                {"Y:i4[i,j] = where(M:bool[i,j], X:i4[i,j], 0)", -8, 7, MD_CG_SIGNED_BYTES},
                {"Y[i] = sum[j](X:u4[i,j]); Z:u4[i] = max[j](X[i,j])", 0, 15, MD_CG_UNSIGNED_HALVES},
                {"Y:i4[i] = min[j](X:i4[i,j]); Z:bool[i] = any[j](X[i,j] != 3)", -8, 7, MD_CG_SIGNED_HALVES},
                {"Y[i] = sum[j](X:i8[i,j] * Z:i8[i,j])", -128, 127, MD_CG_NO_BYTES},
                {"Y:i8[i] = min[j](X:i8[i,j]); Z:i8[i] = max[j](X[i,j])", -128, 127, MD_CG_SIGNED_BYTES},
                {"Y:u8[i] = min[j](X:u8[i,j]); Z:f16[i] = max[j](X[i,j]) * 0.5", 0, 255, MD_CG_UNSIGNED_BYTES},
                {"Y:bool[i] = any[j](X:u8[i,j] == 7); Z:bool[i] = all[j](X[i,j] > 0)", 0, 9, MD_CG_UNSIGNED_BYTES},
                {"Y:i8[i,j] = X:i8[i,j] - max[k](X[i,k])", -128, 127, MD_CG_NO_BYTES},
                {"Y:bf16[i,j] = relu(X:bf16[i,j])", -9, 9, MD_CG_BF16_BITS},
                {"Y:f16[i,j] = -abs(X:f16[i,j])", -9, 9, MD_CG_F16_BITS},
                {"Y:f8e4m3[i,j] = max(X:f8e4m3[i,j], Z:f8e4m3[i,j])", -9, 9, MD_CG_F8E4M3_BITS},
                {"Y:f8e5m2[i,j] = clamp(X:f8e5m2[i,j], -1.5, 1)", -9, 9, MD_CG_F8E5M2_BITS},
                {"Y:f16[i,j] = where(M:bool[i,j], X:f16[i,j], -inf)", -9, 9, MD_CG_F16_BITS},
                {"Y:bf16[i,j] = where(X:bf16[i,j] > b:bf16[j], b[j], min(X[i,j], c:bf16[i]))", -3, 3, MD_CG_BF16_BITS},
                {"Y:bool[i,j] = X:f8e5m2[i,j] >= Z:f8e5m2[i,j] or isnan(X[i,j])", -3, 3, MD_CG_F8E5M2_BITS},
                {"Y:bool[i,j] = X:bf16[i,j] == Z:bf16[i,j] and not isinf(X[i,j])", -2, 2, MD_CG_BF16_BITS},
                {"Y:bf16[i,j] = max(X:bf16[i,j], 0.1)", -9, 9, MD_CG_NO_BYTES},
                {"Y:f8e4m3[i,j] = max(X:f8e4m3[i,j], -inf)", -9, 9, MD_CG_NO_BYTES},
                {"Y:f16[i,j] = relu(X:bf16[i,j])", -9, 9, MD_CG_NO_BYTES},
                {"Y:bf16[i,j] = X:bf16[i,j] + 1", -9, 9, MD_CG_NO_BYTES},
                {"Y:bf16[i,j] = max(X:bf16[i,j], c:f16[i])", -9, 9, MD_CG_NO_BYTES},
                {"Y:bf16[i,j] = relu(X:bf16[j,i])", -9, 9, MD_CG_NO_BYTES},
                {"Y[i] = sum[j](X:bf16[i,j])", -9, 9, MD_CG_BF16_BITS},
                {"Y[i] = mean[j](abs(X:f16[i,j]))", -9, 9, MD_CG_NO_BYTES},
                {"Y[i] = mean[j](abs(X:bf16[i,j]))", -9, 9, MD_CG_BF16_BITS},
                {"Y[i] = sum[j](X:f8e4m3[i,j]); Z[i] = sum[j](-X[i,j])", -9, 9, MD_CG_F8E4M3_BITS},
                {"Y[i] = sum[j](X:f8e5m2[i,j])", -9, 9, MD_CG_F8E5M2_BITS},
                {"Y:f16[i] = max[j](X:f16[i,j]); Z:f16[i] = min[j](X[i,j])", -9, -1, MD_CG_F16_BITS},
                {"Y[i] = max[j](X:f8e4m3[i,j]); Z[i] = min[j](X[i,j])", -9, 9, MD_CG_F8E4M3_BITS},
                {"Y:bool[i] = any[j](X:bf16[i,j] > 8.5); Z:bool[i] = all[j](X[i,j] < 8.5)", -9, 9, MD_CG_BF16_BITS},
                {"Y:bf16[i,j] = where(X:bf16[i,j] == max[k](X[i,k]), X[i,j], 0)", -9, 9, MD_CG_NO_BYTES},
                {"Y[i] = sum[j](X:bf16[i,j] * X[i,j])", -9, 9, MD_CG_NO_BYTES}};

/* Every variant of those that have such lanes, at the ends of what they hold. */
static void test_bytes(void **state)
{
    fixture *f = *state;
    const int32_t widest = f->dev->facts.vector_bytes;
    const int32_t widths = is_full ? 3 : 1; /* of vectors, for each formula */
    for (int32_t i = 0; i < MD_COUNT(programs) * widths; i++) {
        char text[512];
        variant_case c = {.formula = programs[i / widths].formula,
                          .dims = "i=5, j=301",
                          .low = programs[i / widths].low,
                          .high = programs[i / widths].high,
                          .layout = i % 2 ? VARIANT_PADDED : VARIANT_PACKED};
        if (bytes_of(&c) != programs[i / widths].bytes)
            fail_msg("%s: lanes of kind %d, not %d", c.formula, (int)bytes_of(&c), (int)programs[i / widths].bytes);
        if (programs[i / widths].bytes == MD_CG_NO_BYTES && !is_full)
            continue;
        f->dev->facts.vector_bytes = MD_MIN(16 << i % 3, widest);
        if (variant_check_all(text, sizeof text, f->dev, &c, NULL) < 0)
            fail_msg("%s, vectors of %d bytes: %s", c.formula, (int)f->dev->facts.vector_bytes, text);
    }
    f->dev->facts.vector_bytes = widest;
}

/* A table has a result for each value of one narrow element, so nothing else may reach the result. */
static void test_tables(void **state)
{
    static const struct {
        const char *formula;
        int32_t bits; /* 0: no table */
    } row[] = {{"Y:u8[i,j] = X:u8[i,j] * 3 + 1", 8},
               {"Y:i8[i,j] = max(X:u8[i,j], 7) - X[i,j]", 8},
               {"scalar k; Y:i4[i,j] = where(X:u4[i,j] > 3, k, X[i,j])", 4},
               {"Y:u8[i,j] = X:u8[i,j] + Z:u8[i,j]", 0},
               {"Y:u8[i,j] = where(X:u8[i,j] > 3, Z:u8[i,j], 1)", 0},
               {"Y:u8[i,j] = X:u8[i,j] + b:u8[j]", 0},
               {"Y:u8[i,j] = b:u8[i] * 3", 0},
               {"Y:u8[i,j] = X:u8[j,i]", 0},
               {"Y:u8[i,j] = X:u8[i,j] + i", 0},
               {"Y:u8[i,j] = 7", 0},
               {"Y:i16[i,j] = X:i8[i,j] * 3", 0},
               {"Y:i16[i,j] = X:i16[i,j] * 3", 0},
               {"Y:u8[i,j] += X:u8[i,j]", 0},
               {"Y:u8[i] = max[j](X:u8[i,j])", 0},
               {"Y:u8[i,j] = X:u8[i,j]; Z:u8[i,j] = X[i,j] + 1", 0}};
    (void)state;
    for (int32_t i = 0; i < MD_COUNT(row); i++) {
        md_fx_formula *formula = NULL;
        md_st_program *program = NULL;
        int32_t from = -1;
        assert_ok(md_fx_formula_create(&formula, row[i].formula, NULL));
        assert_ok(md_st_program_create(&program, formula));
        const int32_t bits = md_cg_tabled(&from, program, 0);
        if (bits != row[i].bits || (bits > 0 && strcmp(formula->tensor[from].name, "X") != 0))
            fail_msg("%s: %d bits of tensor %d", row[i].formula, (int)bits, (int)from);
        md_st_program_destroy(&program);
        md_fx_formula_destroy(&formula);
    }
}

int main(int argc, char **argv)
{
    is_full = argc > 1 && strcmp(argv[1], "--full") == 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes), cmocka_unit_test(test_tables)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
