/* What is folded, and what must not be. */
#include "front_check.h"

#include "expr/merge_dims.h"

/* The value of Y as simplified, with X:f32, D:f64, N:i32, M:bool on hand, n = 4 static and j dynamic. */
static void check(const char *value, const char *wanted)
{
    md_strbuf b = {0};
    md_strbuf_printf(&b, "Z[i,n] = X[i] + D:f64[i] + N:i32[i] + M:bool[i] + sum[j](W[i,j]); Y[i] = %s", value);
    md_fx_formula *f = front_make(md_strbuf_text(&b), &(md_fx_options){.sizes = "n=4"});
    char *const printed = front_print_node(f, f->stmt[1].value);
    if (strcmp(printed, wanted) != 0)
        fail_msg("%s becomes %s, not %s", value, printed, wanted);
    free(printed);
    md_fx_formula_destroy(&f);
    md_strbuf_finish(&b);
}

static const struct {
    const char *value, *wanted;
} folded[] = {
    /* literals among themselves, in double */
    {"X[i] * (2 * pi / 4)", "X[i] * 1.5707964"},
    {"X[i] + sqrt(4)", "X[i] + 2"},
    {"X[i] + 7 // 2", "X[i] + 3"},
    {"i + -7 // 2 % 3", "i + 2"},
    {"X[i] + 1 / 0", "X[i] + inf"},
    {"X[i] + where(1 < 2, 3, 4)", "X[i] + 3"},
    /* sizes */
    {"size(n) * i", "4 * i"},
    {"X[i] / size(n)", "X[i] / 4"},
    {"mean[n](V[i,n])", "sum[n](V[i,n]) / 4"},
    {"mean[n,j](V[n,j])", "sum[n,j](V[n,j]) / f32(4 * size(j))"},
    {"mean[j](M[i] and W[i,j] > 0)", "f32(sum[j](i64(M[i] and W[i,j] > 0))) / f32(size(j))"},
    {"mean[j](D[i] * W[i,j])", "sum[j](D[i] * f64(W[i,j])) / f64(size(j))"},
    /* exact identities */
    {"X[i] * 1", "X[i]"},
    {"1 * X[i]", "X[i]"},
    {"X[i] / 1", "X[i]"},
    {"X[i] - 0", "X[i]"},
    {"X[i] + -0.0", "X[i]"},
    {"-0.0 + X[i]", "X[i]"},
    {"-(-X[i])", "X[i]"},
    {"pow(X[i], 1)", "X[i]"},
    {"pow(X[i], 2)", "X[i] * X[i]"},
    {"N[i] + 0", "N[i]"},
    {"0 + N[i]", "N[i]"},
    {"N[i] - 0", "N[i]"},
    {"N[i] * 1", "N[i]"},
    {"N[i] // 1", "N[i]"},
    {"floor(N[i])", "N[i]"},
    {"pow(N[i], 2)", "N[i] * N[i]"},
    /* truth */
    {"M[i] and true", "M[i]"},
    {"true and M[i]", "M[i]"},
    {"M[i] or false", "M[i]"},
    {"not (not M[i])", "M[i]"},
    {"i < 3 or true", "true"},
    {"i < 3 and false", "false"},
    {"where(true, X[i], 1)", "X[i]"},
    {"where(1 > 2, 1, X[i])", "X[i]"},
    {"where(not true, i, X[i])", "X[i]"},
    /* casts */
    {"f32(X[i])", "X[i]"},
    {"bf16(bf16(X[i]))", "bf16(X[i])"},
    {"f32(bf16(X[i]))", "bf16(X[i])"},
    {"i32(N[i])", "N[i]"},
    {"i64(N[i])", "N[i]"},
    {"f64(D[i])", "D[i]"},
    {"bool(M[i])", "M[i]"},
    {"X[i] + bf16(0.1)", "X[i] + 0.100097656"},
    {"X[i] + i32(3.7)", "X[i] + 3"},
    {"i + u8(300.0)", "i + 255"},
    {"i + u8(300)", "i + 44"},
    {"f64(f32(D[i]))", "f64(f32(D[i]))"},
    /* constants with a type: only where f32 and f64 arithmetic agree */
    {"X[i] * (f32(0.5) + f32(0.25))", "X[i] * 0.75"},
    {"D[i] * (f64(0.1) + f64(0.2))", "D[i] * 0.30000000000000004"},
    {"sqrt(f32(4)) * X[i]", "2 * X[i]"},
    {"where(f32(2) < f32(3), X[i], 0)", "X[i]"},
};

static void test_folded(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof folded / sizeof folded[0]; ++i)
        check(folded[i].value, folded[i].wanted);
}

/* Each of these would change a bit, an error or an argument. */
static void test_kept(void **state)
{
    (void)state;
    static const char *const values[] = {
        "X[i] + 0", /* -0 + 0 is +0 */
        "0 + X[i]",
        "X[i] - -0.0",
        "X[i] * 0",
        "X[i] - X[i]",
        "X[i] / X[i]",
        "0 - X[i]",
        "X[i] // 1",
        "X[i] + 1 + 2", /* no re-association */
        "X[i] * 2 * 3",
        "X[i] + (1 + X[i])",
        "X[i] / 3 / 3",
        "where(true, X[i], W[i,0])", /* W stays an argument */
        "M[i] and false",
        "pow(X[i], 3)",
        "pow(X[i], 0)",
        "pow(X[i], 0.5)",
        "f32(0.1) + f32(0.2)", /* an f32 sum, not the f64 one */
        "f32(1) / f32(3) * X[i]",
        "exp(f32(1)) * X[i]",
        "where(X[i] > 0, X[i], X[i])",
        "max(X[i], X[i])",
        "var[j](W[i,j])",
        "pow(sum[j](W[i,j]), 2)", /* a reduction is not written twice */
        "bf16(f16(X[i]))",
        "i64(u8(N[i]))",
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; ++i) {
        const bool is_narrowed = strstr(values[i], "i64(u8(N[i]))") != NULL;
        check(values[i], is_narrowed ? "u8(N[i])" : values[i]);
    }
}

/* In a subscript, only constants are folded: `i + 0` asks for an axis that is long enough, `i` for one that fits. */
static void test_subscripts(void **state)
{
    (void)state;
    front_check_prints("Y[i] = X[i + 0]", NULL, "Y:f32[i] = X:f32[i + 0]");
    front_check_prints("Y[i] = X[i * (3 - 2)]", NULL, "Y:f32[i] = X:f32[i * 1]");
    front_check_prints("size n=4; Y[i] = X[i * size(n) + size(n) // 2]; Z[n] = V[n]", NULL,
                       "size n=4; Y:f32[i] = X:f32[i * 4 + 2]; Z:f32[n] = V:f32[n]");
}

/* What dims that stand side by side become, and how many axes each axis of a tensor is made of. NULL: nothing
 * changes. */
static const struct {
    const char *formula, *wanted, *axes;
} merged[] = {
    {"Y[i] = sum[j,k](X[i,j,k])", "Y:f32[i] = sum[j](X:f32[i,j])", "1 12 "},
    {"Y[i] = sum[j,k,l](X[i,j,k,l])", "Y:f32[i] = sum[j](X:f32[i,j])", "1 13 "},
    {"Y[i] = sum[k,j](X[i,j,k])", "Y:f32[i] = sum[j](X:f32[i,j])", "1 12 "},
    {"Y[i] = sum[j](X[i,j])", NULL, NULL},
    {"Y[] = max[i,j](X[i,j])", "Y:f32[] = max[i](X:f32[i])", " 2 "},
    {"Y[i] = mean[j,k](X[i,j,k])", "Y:f32[i] = sum[j](X:f32[i,j]) / f32(size(j))", "1 12 "},
    {"Y[i] = sum[j,k](X[i,j,k] * W[j,k])", "Y:f32[i] = sum[j](X:f32[i,j] * W:f32[j])", "1 12 2 "},
    {"Y[i] = sum[j,k](X[i,j,k] * W[k,j])", NULL, NULL},
    {"Y[i] = sum[j,k](X[i,j,k] * W[j])", NULL, NULL},
    {"Y[i] = sum[j,k](X[i,j,k] * W[k])", NULL, NULL},
    {"Y[i,j] = sum[k,l](A[i,k,l] * B[j,k,l])", "Y:f32[i,j] = sum[k](A:f32[i,k] * B:f32[j,k])", "11 12 12 "},
    {"Y[i,j,k] = X[i,j,k] - max[l,m](X[i,l,m])", "Y:f32[i,j] = X:f32[i,j] - max[l](X[i,l])", "12 12 "},
    {"Y[i,j,k] = X[i,j,k] / sum[j,k](X[i,j,k])", "Y:f32[i,j] = X:f32[i,j] / sum[j](X[i,j])", "12 12 "},
    {"Y[i,k,j] = X[i,j,k] - max[l,m](X[i,l,m])", NULL, NULL},
    {"Y[i] = argmax[j,k](X[i,j,k])", "Y:i64[i] = argmax[j](X:f32[i,j])", "1 12 "},
    {"Y[i] = argmax[k,j](X[i,j,k])", NULL, NULL},
    {"Y[i] = sum[j,k](X[i,j,k] * size(j))", NULL, NULL},
    {"Y[i] = sum[j,k](X[i,j,k]) / (size(j) * size(k))", "Y:f32[i] = sum[j](X:f32[i,j]) / f32(size(j))", "1 12 "},
    {"Y[i] = sum[j,k](X[i,j,k]) / (size(j) * size(j))", NULL, NULL},
    {"Y[i] = sum[j,k](X[i,j,k] * j)", NULL, NULL},
    {"Y[i] = sum[j,k](X[i,j,k] * k)", NULL, NULL},
    {"Y[i] = sum[j,k](X[i,j,k] * size(k))", NULL, NULL},
    {"Y[i] = sum[j,k](X[i,j,k]) / (size(k) * size(j))", "Y:f32[i] = sum[j](X:f32[i,j]) / f32(size(j))", "1 12 "},
    {"Y[i] = sum[j,k](X[i,j + 1,k])", NULL, NULL},
    {"Y[i] = sum[j,k](X[i,j,2 * k])", NULL, NULL},
    {"Y[i] = sum[j,k](X[i,k,k] * W[j])", NULL, NULL},
    {"Y[i] = sum[j,k](E[ids[i],j,k])", NULL, NULL},
    {"Y[i] = sum[j,k](E[ids[j],k])", NULL, NULL},
    {"G[ids[i]] += sum[j,k](X[i,j,k])", NULL, NULL},
    {"size j=4, k=8; Y[i] = sum[j,k](X[i,j,k])", "size j=32; Y:f32[i] = sum[j](X:f32[i,j])", "1 12 "},
    {"size j=4; Y[i] = sum[j,k](X[i,j,k])", "Y:f32[i] = sum[j](X:f32[i,j])", "1 12 "},
    {"Y[i] = cumsum[i](sum[j,k](X[i,j,k]))", "Y:f32[i] = cumsum[i](sum[j](X:f32[i,j]))", "1 12 "},
    {"Y[i] = sum[j,k](X[j,k] * W[j,k]) + b[i]", "Y:f32[i] = sum[j](X:f32[j] * W:f32[j]) + b:f32[i]", "1 2 2 1 "},
    {"Y[] = sum[i,j](X[i,j]); Z[] = sum[i,j](X[j,i])", NULL, NULL},
    {"Y[] = sum[i,j](X[i,j]); Z[i] = sum[j](X[i,j])", NULL, NULL},
    {"let t[i,j,k] = X[i,j,k] * 2; Y[i] = sum[j,k](t[i,j,k])", "let t[i,j] = X:f32[i,j] * 2; Y:f32[i] = sum[j](t[i,j])",
     "12 12 1 "},
    {"Y[i] = sum[j,k](X[i,j,k] * X[i,k,j])", NULL, NULL},
    {"Y[i] = sum[j,k](where(j < k, X[i,j,k], 0))", NULL, NULL},
    {"Y[i,j,k] = sum[l,m](A[i,l,m] * A[j,l,m] * A[k,l,m])", "Y:f32[i,j,k] = sum[l](A:f32[i,l] * A[j,l] * A[k,l])",
     "111 12 "},
    {"Y[i] = sum[j,k](X[j,k,i])", "Y:f32[i] = sum[j](X:f32[j,i])", "1 21 "},
    {"Y[i,j] = sum[k,l](X[i,j,k,l] * W[l])", NULL, NULL},
    {"Y[i,j] = X[i,j] + max[i,j](X[i,j])", "Y:f32[i] = X:f32[i] + max[i](X[i])", "2 2 "},
};

static void test_merged(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof merged / sizeof *merged; ++i) {
        md_fx_formula *f = front_make(merged[i].formula, NULL);
        char *const before = front_print(f), axes[64] = "";
        md_fx_merged_dims dims;
        assert_ok(md_fx_merge_dims(&dims, f));
        for (int32_t t = 0, n = 0; t < f->n_tensors; t++) {
            assert_int_equal(dims.rank[t], f->tensor[t].rank);
            for (int32_t a = 0; a < dims.rank[t]; a++)
                axes[n++] = (char)('0' + dims.count[t][a]);
            axes[n++] = ' ';
        }
        char *const after = front_print(f);
        if (strcmp(after, merged[i].wanted ? merged[i].wanted : before) != 0 ||
            (merged[i].wanted ? strcmp(axes, merged[i].axes) != 0 : dims.n_pairs != 0))
            fail_msg("%s\nbecomes %s, axes %s", merged[i].formula, after, axes);
        if (dims.n_pairs == 0)
            for (int32_t d = 0; d < f->n_dims; d++)
                assert_int_equal(dims.root[d], d);
        free(before);
        free(after);
        md_fx_formula_destroy(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folded),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_subscripts),
        cmocka_unit_test(test_merged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
