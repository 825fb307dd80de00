/* Scans against the reference: every operation, direction and type, along the axis, across it and in pieces. */
#include "support/check.h"
#include "support/variant.h"
#include "device/open.h"

static md_pool *pool;
static md_dev *device;

static int open_device(void **state)
{
    (void)state;
    assert_ok(md_pool_create(&pool, 2));
    assert_ok(md_dev_open(&device, &(md_dev_options){.device = "host", .cc = getenv("MD_CC"), .pool = pool}));
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    md_dev_close(&device);
    md_pool_destroy(&pool);
    return 0;
}

/* A small sum among large ones is off by their rounding: hence the tolerances of long rows. */
#define ROWS "scan/column0_split0_strided0_nontemporal0"
#define COLUMNS "scan/column16_split0_strided0_nontemporal0"
#define PIECES "scan/column0_split1_strided0_nontemporal0"

static void run(const char *variant, variant_case c)
{
    char text[1024] = "";
    bool skipped = false;
    c.seed = 20260801;
    if (!variant_check(text, sizeof text, &skipped, device, &c, variant))
        fail_msg("%s", text);
    if (skipped)
        fail_msg("%s does not serve %s", variant, c.formula);
}

static void test_operations(void **state)
{
    (void)state;
    const char *const formulas[] = {
        "Y[a,n] = cumsum[n](X[a,n])",
        "Y[a,n] = cumsum[n](X[a,n], exclusive)",
        "Y[a,n] = cumsum[n](X[a,n], reverse)",
        "Y[a,n] = cumprod[n](X[a,n], exclusive, reverse)",
        "Y[a,n] = cummax[n](X[a,n])",
        "Y[a,n] = cummin[n](X[a,n], reverse)",
        "Y[a,n] = cummax[n](X[a,n], exclusive)",
    };
    const char *const dims[] = {"a=3, n=77",  "a=5, n=16", "a=2, n=1",  "a=3, n=0",
                                "a=37, n=33", "a=1, n=15", "a=20, n=48"};
    for (int i = 0; i < 7; i++) {
        run(ROWS, (variant_case){.formula = formulas[i], .dims = dims[i]});
        run(COLUMNS, (variant_case){.formula = formulas[i], .dims = dims[(i + 3) % 7]});
        /* Products of huge and tiny elements depend on the order. */
        run(ROWS,
            (variant_case){
                .formula = formulas[i], .dims = dims[(i + 4) % 7], .has_specials = i != 3, .layout = VARIANT_PADDED});
    }
}

static void test_types(void **state)
{
    (void)state;
    const md_dtype dtypes[] = {MD_F64, MD_I64, MD_I32, MD_BF16, MD_U8};
    for (int i = 0; i < 5; i++) {
        variant_case c = {.formula = "S[a,n] = cumsum[n](X[a,n], reverse)", .dims = "a=3, n=45", .dtype = dtypes[i]};
        run(ROWS, c);
        c.formula = "M[a,n] = cummax[n](X[a,n], exclusive)";
        run(ROWS, c);
        run(COLUMNS, c);
    }
    run(ROWS, (variant_case){.formula = "P[a,n] = cumprod[n](X:f64[a,n], exclusive)", .dims = "a=3, n=45"});
    run(ROWS, (variant_case){.formula = "P[a,n] = cummin[n](X:f64[a,n], exclusive, reverse)",
                             .dims = "a=3, n=45",
                             .has_specials = true});
    run(ROWS, (variant_case){.formula = "P[a,n] = cummax[n](X[a,n] > 1.5)", .dims = "a=9, n=45"});
}

static void test_layouts(void **state)
{
    (void)state;
    const char *const fused = "Y[a,n] = cumsum[n](exp(X[a,n]) * w[n]) / (1 + n) + X[a,n]";
    run(ROWS, (variant_case){.formula = fused, .dims = "a=7, n=50"});
    run(COLUMNS, (variant_case){.formula = "Y[i,j] = cumsum[i](X[i,j])", .dims = "i=20, j=85"});
    run("scan/column0_split0_strided1_nontemporal0",
        (variant_case){.formula = fused, .dims = "a=7, n=50", .layout = VARIANT_SPREAD});
    run("scan/column16_split0_strided1_nontemporal0",
        (variant_case){.formula = fused, .dims = "a=7, n=50", .layout = VARIANT_TURNED});
    run("scan/column0_split0_strided0_nontemporal1", (variant_case){.formula = "Y[a,n] = cumsum[n](X[a,n], reverse)",
                                                                    .dims = "a=301, n=4099",
                                                                    .layout = VARIANT_PADDED,
                                                                    .tolerance = 4e-5});
    run(ROWS, (variant_case){.formula = "Y[n] = cumsum[n](X[n])", .dims = "n=100000", .tolerance = 4e-5});
}

static void test_pieces(void **state)
{
    (void)state;
    const char *const formulas[] = {
        "Y[a,n] = cumsum[n](X[a,n])",
        "Y[a,n] = cumsum[n](X:i64[a,n], exclusive, reverse)",
        "Y[a,n] = cummax[n](X[a,n], reverse)",
        "Y[a,n] = cumsum[n](X:f64[a,n], exclusive)",
    };
    const char *const dims[] = {"a=2, n=50000", "a=3, n=32769", "a=1, n=16385", "a=1, n=65536"};
    for (int i = 0; i < 4; i++)
        run(PIECES, (variant_case){.formula = formulas[i], .dims = dims[i], .tolerance = 4e-5});
    run("scan/column0_split1_strided1_nontemporal0",
        (variant_case){.formula = formulas[0], .dims = dims[1], .layout = VARIANT_SPREAD, .tolerance = 4e-5});
}

/* Recurrences in every direction and type, with a factor that is a tensor, a constant, a scalar, or 0. */
static void test_recurrences(void **state)
{
    (void)state;
    const char *const formulas[] = {
        "H[a,n] = A[a,n] * H[a,n-1] + B[a,n]",
        "scalar s; H[a,n] = s * 0.25 * H[a,n+1] + X[a,n]",
        "H[a,n] = (X[a,n] + A[a,n] * H[a,n-1]) * w[n]",
        "H[a,n] = where(n == 0, S[a], A[a,n] * H[a,n-1])",
        "H[a,n] = where(S[a,n] > 1, X[a,n], A[a,n] * H[a,n-1] - X[a,n])",
        "Y[a,n] = recur[n](A[a,n], X[a,n], exclusive) + recur[n](A[a,n], X[a,n], exclusive)",
        "H:i64[a,n] = A:i32[a,n] * H[a,n-1] + B:i32[a,n]",
        "H:f64[a,n] = A:f64[a,n] * H[a,n-1] + B:f64[a,n]",
        "H[a,n] = A:bf16[a,n] * H[a,n+1] + B:bf16[a,n]",
        "H[a,n] = where(A[a,n] > 1, H[a,n-1] / (1 + A[a,n]), H[a,n-1]) + n",
        "H[a,n] = max(A[a,n] + H[a,n-1], B[a,n])",
        "H[a,n] = min(H[a,n+1] - A[a,n], max(B[a,n], w[n]))",
        "H:f64[a,n] = max(A:f64[a,n] + H[a,n-1], B:f64[a,n])",
        "H[a,n] = where(n == 0, S[a], max(max(A[a,n-1] + H[a,n-1], B[a,n]), 1))",
        "Y[a,n] = recur_min[n](A[a,n], X[a,n], exclusive) + recur_min[n](A[a,n], X[a,n], exclusive)",
    };
    const char *const dims[] = {"a=3, n=77", "a=5, n=16", "a=2, n=1", "a=3, n=0", "a=37, n=33", "a=1, n=15"};
    for (int i = 0; i < (int)(sizeof formulas / sizeof *formulas); i++) {
        for (int k = 0; k < 3; k++) {
            const char *const at = dims[(i + k * 2) % 6];
            run(ROWS, (variant_case){.formula = formulas[i], .dims = at});
            run(COLUMNS, (variant_case){.formula = formulas[i], .dims = at});
        }
        run("nest", (variant_case){.formula = formulas[i], .dims = dims[0]});
        run(PIECES, (variant_case){.formula = formulas[i], .dims = "a=2, n=32771"});
        run("scan/column0_split0_strided1_nontemporal0",
            (variant_case){.formula = formulas[i], .dims = dims[0], .layout = VARIANT_SPREAD});
    }
}

/* NaN and infinities among factors and terms: a NaN stays to the end of the row or to the next restart, an infinity
 * meets a factor of 0, another sign, or goes on. */
static void test_special_recurrences(void **state)
{
    (void)state;
    const char *const formulas[] = {
        "H[a,n] = A[a,n] * H[a,n-1] + B[a,n]",
        "H[a,n] = 0.5 * H[a,n+1] + X[a,n]",
        "H[a,n] = where(S[a,n] > 1, X[a,n], (A[a,n] / 4 + 0.7) * H[a,n-1] - X[a,n])", /* a factor of 0 would restart */
        "Y[a,n] = recur[n](A[a,n], X[a,n], exclusive, reverse)",
        "H[a,n] = H[a,n-1] + X[a,n]",
        "H[a,n] = max(H[a,n-1], X[a,n])",
        "H[a,n] = max(A[a,n] + H[a,n-1], B[a,n])",
    };
    const char *const dims[] = {"a=3, n=77", "a=5, n=16", "a=37, n=33"};
    for (int i = 0; i < (int)(sizeof formulas / sizeof *formulas); i++) {
        for (int k = 0; k < 3; k++) {
            run(ROWS, (variant_case){.formula = formulas[i], .dims = dims[k], .has_specials = true});
            run(COLUMNS, (variant_case){.formula = formulas[i], .dims = dims[k], .has_specials = true});
        }
        run("nest", (variant_case){.formula = formulas[i], .dims = dims[0], .has_specials = true});
        if (i > 3) /* totals of pieces with factors may be NaN in place of inf */
            run(PIECES, (variant_case){.formula = formulas[i], .dims = "a=2, n=32771", .has_specials = true});
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations),  cmocka_unit_test(test_types),
        cmocka_unit_test(test_layouts),     cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_recurrences), cmocka_unit_test(test_special_recurrences),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
