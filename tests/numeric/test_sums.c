/* Long sums stay within the bounds of multidispatch(3), "Accuracy": of every family, in every numeric policy. Equal
 * elements show a chain of additions that is too long, since each rounds in the same direction; axes of stride 0 make
 * them long without memory. SUMS_DEVICE is the device; the test skips itself where there is none. */
#include "base/number/sum.h"
#include "support/check.h"

#include <math.h>
#include <stdbool.h>

static md_context *context;

static int open_device(void **state)
{
    (void)state;
    const md_context_options o = {.device = SUMS_DEVICE, .hints = "64,4096"};
    if (md_context_create(&context, &o) == MD_OK)
        return 0;
    print_message("no device %s: %s\n", SUMS_DEVICE, md_last_error());
    exit(77);
}

static int close_device(void **state)
{
    (void)state;
    md_context_destroy(&context);
    return 0;
}

static bool is_host(void)
{
    return strcmp(SUMS_DEVICE, "host") == 0;
}

/* ---- Equal elements */

static double sum_of(double x, double n)
{
    return x * n;
}

static double mean_of(double x, double n)
{
    (void)n;
    return x;
}

static double norm_of(double x, double n)
{
    return fabs(x) * sqrt(n);
}

static double log_sum_of(double x, double n)
{
    return x + log(n);
}

static double variance_of(double x, double n)
{
    (void)n;
    return x * x; /* of elements x and -x in turn */
}

typedef struct sum_case {
    const char *formula; /* of X, n elements of it to each of Y's */
    double (*right)(double x, double n);
    md_dtype dtype;
    float x;
    int64_t n, kept; /* kept: of Y, or 0 where that is one number */
    bool is_repeated; /* axis n has stride 0 */
    const char *pin;
    double most; /* the error allowed, relative; 0: by the length */
} sum_case;

#define ROW "Y[i] = sum[j](X[i,j])"
#define COLUMN "Y[i] = sum[j](X[j,i])"
static const sum_case sums[] = {
    {"Y[] = sum[i](X[i])", sum_of, MD_F32, 1, 1000000000, 0, true, NULL, 1e-12},
    {"Y[] = sum[i](X[i])", sum_of, MD_F32, 0.1f, 100000000, 0, true, NULL, 1e-6},
    {"Y[] = sum[i](X[i])", sum_of, MD_F32, 0.1f, 10000000, 0, false, NULL, 1e-6},
    {ROW, sum_of, MD_F32, 0.1f, 1000003, 3, false, "row_looped", 1e-6},
    {ROW, sum_of, MD_F32, 0.1f, 15001, 3, false, "row_persistent", 1e-6},
    {ROW, sum_of, MD_F32, 0.1f, 4000003, 2, false, "nest", 1e-6},
    {ROW, sum_of, MD_F64, 0.1f, 4000003, 2, false, NULL, 0},
    {ROW, sum_of, MD_BF16, 0.1f, 1000003, 2, false, NULL, 0x1p-8},
    {"Y[i] = mean[j](X[i,j])", mean_of, MD_F32, 1, 20000000, 2, true, NULL, 1e-12},
    {"Y[i] = sqrt(sum[j](X[i,j] * X[i,j]))", norm_of, MD_F32, 0.1f, 10000000, 1, true, NULL, 0},
    {"Y[i] = log(sum[j](exp(X[i,j] - max[k](X[i,k])))) + max[k](X[i,k])", log_sum_of, MD_F32, 0.1f, 3000001, 2, true,
     NULL, 0},
    {"Y[i] = sum[j](X[j,i])", sum_of, MD_F32, 0.1f, 5000000, 2, false, "column", 9e-7},
    {COLUMN, sum_of, MD_F32, 0.1f, 50000, 2, false, NULL, 9e-7},
    {COLUMN, sum_of, MD_F32, 0.1f, 50000, 77, true, "column", 9e-7},
    {COLUMN, sum_of, MD_F64, 0.1f, 4000003, 2, false, "column", 0},
    {"Y[i] = mean[j](X[j,i])", mean_of, MD_F32, 1, 20000000, 2, true, NULL, 1e-12},
    {"Y[i] = log(sum[j](exp(X[j,i] - max[k](X[k,i])))) + max[k](X[k,i])", log_sum_of, MD_F32, 0.1f, 3000001, 2, true,
     NULL, 0},
};

static double allowed(const sum_case *c)
{
    return c->most > 0 ? c->most : (md_sum_additions((double)c->n) + 4) * (c->dtype == MD_F64 ? 0x1p-53 : 0x1p-24);
}

static void fill(char *to, const sum_case *c, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float x = c->right == variance_of && i % 2 != 0 ? -c->x : c->x;
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        if (c->dtype == MD_F64)
            memcpy(to + i * 8, &(double){(double)x}, 8);
        else if (c->dtype == MD_BF16)
            memcpy(to + i * 2, &(uint16_t){(uint16_t)(bits >> 16)}, 2);
        else
            memcpy(to + i * 4, &x, 4);
    }
}

static double value_at(const char *from, md_dtype dtype, int64_t i)
{
    double d;
    float f;
    if (dtype == MD_F64) {
        memcpy(&d, from + i * 8, 8);
        return d;
    }
    memcpy(&f, from + i * 4, 4);
    return (double)f;
}

/* X of a case: a row is along n unless the formula reads X[j,i]. */
static md_tensor input_of(const sum_case *c, void *data)
{
    const bool is_column = strstr(c->formula, "X[j,i]") != NULL;
    const int64_t size[2] = {is_column ? c->n : c->kept, is_column ? c->kept : c->n};
    md_tensor t = c->kept == 0 ? md_tensor_make(data, c->dtype, 1, &c->n) : md_tensor_make(data, c->dtype, 2, size);
    const int axis = c->kept == 0 || is_column ? 0 : 1;
    if (c->is_repeated) {
        t.stride[axis] = 0;
        if (c->kept > 0)
            t.stride[!axis] = 1;
    }
    return t;
}

static void check_sum(const sum_case *c, md_numeric numeric)
{
    const md_dtype out = c->dtype == MD_BF16 ? MD_F32 : c->dtype;
    const int64_t n_in = (c->is_repeated ? 1 : c->n) * (c->kept > 0 ? c->kept : 1), n_out = c->kept > 0 ? c->kept : 1;
    const size_t bytes = (size_t)n_in * md_dtype_size(c->dtype);
    char *image = malloc(bytes), result[1024];
    void *x = NULL, *y = NULL;
    md_op *op = NULL;
    md_choice choice;
    char text[160];
    const char *const equal = strchr(c->formula, '=');
    snprintf(text, sizeof text, "Y:%s%.*s%s", md_dtype_name(out), (int)(equal - c->formula - 1), c->formula + 1, equal);
    const md_op_options o = {.dtype = c->dtype, .numeric = numeric, .pin = is_host() ? c->pin : NULL};
    assert_non_null(image);
    fill(image, c, n_in);
    assert_ok(md_op_create(&op, context, text, &o));
    assert_ok(md_alloc(&x, context, bytes));
    assert_ok(md_alloc(&y, context, sizeof result));
    assert_ok(md_copy(context, x, image, bytes));
    md_tensor tx = input_of(c, x), ty = md_tensor_make(y, out, c->kept > 0, &n_out);
    const md_arg arg[] = {md_t(&ty), md_t(&tx)};
    assert_ok(md_call(op, NULL, arg, 2));
    assert_ok(md_sync(context, NULL));
    assert_ok(md_copy(context, result, y, (size_t)n_out * md_dtype_size(out)));
    assert_ok(md_choice_of(&choice, op, arg, 2));
    const double each = c->dtype == MD_BF16 ? 0.099609375 : (double)c->x, right = c->right(each, (double)c->n);
    for (int64_t i = 0; i < n_out; i++) {
        const double got = value_at(result, out, i), error = fabs(got - right) / fabs(right);
        if (!(error <= allowed(c)))
            fail_msg("%s, n = %lld, policy %d, %s: %.9g, not %.9g: %.2g off, %.2g allowed", text, (long long)c->n,
                     numeric, choice.variant[0], got, right, error, allowed(c));
    }
    md_free(context, x);
    md_free(context, y);
    md_op_destroy(&op);
    free(image);
}

static void equal_elements(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        check_sum(&sums[i], MD_NUMERIC_FAST);
}

static void every_policy(void **state)
{
    static const sum_case few[] = {
        {ROW, sum_of, MD_F32, 0.1f, 3000001, 2, false, NULL, 1e-6},
        {COLUMN, sum_of, MD_F32, 0.1f, 3000001, 2, false, NULL, 9e-7},
        {"Y[i] = mean[j](X[i,j])", mean_of, MD_F32, 1, 20000000, 1, true, NULL, 1e-12},
        {"Y[i] = var[j](X[i,j])", variance_of, MD_F32, 0.1f, 3000000, 2, false, NULL, 0},
        {"Y[i] = var[j](X[j,i])", variance_of, MD_F32, 0.1f, 3000000, 1, false, NULL, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        check_sum(&few[i], MD_NUMERIC_DETERMINISTIC);
        check_sum(&few[i], MD_NUMERIC_BATCH_INVARIANT);
    }
}

/* ---- Scans: every element by the manual's bound, f32 as carried in f64, f64 by its own length */

static const char *const scan_row = "Y[i,j] = cumsum[j](X[i,j])", *const scan_column = "Y[i,j] = cumsum[i](X[i,j])";

/* Equal elements x. An input of stride 0: one element lies in memory. */
static void check_scan(const char *formula, md_dtype dtype, double x, int64_t rows, int64_t columns)
{
    const int64_t size[] = {rows, columns}, bytes = rows * columns * (int64_t)md_dtype_size(dtype);
    const bool is_column = formula == scan_column;
    const double exact = dtype == MD_F64 ? x : (double)(float)x;
    const float narrow = (float)x;
    char *image = malloc((size_t)bytes);
    void *px = NULL, *py = NULL;
    md_op *op = NULL;
    assert_non_null(image);
    assert_ok(md_op_create(&op, context, formula, &(md_op_options){.dtype = dtype}));
    assert_ok(md_alloc(&px, context, 8));
    assert_ok(md_alloc(&py, context, (size_t)bytes));
    assert_ok(md_copy(context, px, dtype == MD_F64 ? (const void *)&x : &narrow, md_dtype_size(dtype)));
    md_tensor tx = md_tensor_make(px, dtype, 2, size), ty = md_tensor_make(py, dtype, 2, size);
    tx.stride[0] = tx.stride[1] = 0;
    assert_ok(md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
    assert_ok(md_sync(context, NULL));
    assert_ok(md_copy(context, image, py, (size_t)bytes));
    for (int64_t i = 0; i < rows * columns; i++) {
        const double n = (double)(is_column ? i / columns + 1 : i % columns + 1), right = exact * n;
        const double most = dtype == MD_F64 ? n * 0x1p-53 : 10.0 * 0x1p-24 + n * 0x1p-53;
        if (!(fabs(value_at(image, dtype, i) - right) <= (most + 2.0 * 0x1p-53) * right))
            fail_msg("%s, %s, %lld x %lld: element %lld is %.17g, not %.17g", formula, md_dtype_name(dtype),
                     (long long)rows, (long long)columns, (long long)i, value_at(image, dtype, i), right);
    }
    md_free(context, px);
    md_free(context, py);
    md_op_destroy(&op);
    free(image);
}

static void scans(void **state)
{
    (void)state;
    static const md_dtype dtypes[] = {MD_F32, MD_F64};
    for (int i = 0; i < 2; i++) {
        check_scan(scan_row, dtypes[i], 0.1, 1, 10000000);
        check_scan(scan_row, dtypes[i], 0.1, 40, 100003);
        check_scan(scan_column, dtypes[i], 0.1, 3000001, 2);
        check_scan(scan_column, dtypes[i], 0.1, 100003, 33);
    }
}

/* ---- Products */

enum { DEPTH = 64000, SIDE = 16 };

/* The error of one product against f64, relative to its largest element. */
static double product_error(const char *formula, const char *pin, int64_t rows, int64_t columns, int64_t depth)
{
    float *a = malloc((size_t)(rows * depth) * 4), *b = malloc((size_t)(columns * depth) * 4), y[SIDE * SIDE];
    const bool b_is_along = strstr(formula, "B[j,k]") != NULL;
    const int64_t size_a[] = {rows, depth}, size_b[] = {b_is_along ? columns : depth, b_is_along ? depth : columns},
                  size_y[] = {rows, columns};
    uint64_t seed = check_seed();
    double worst = 0, most = 0;
    md_op *op = NULL;
    assert_true(a && b);
    for (int64_t i = 0; i < rows * depth; i++)
        a[i] = (float)(check_random(&seed) >> 40) * 0x1p-24f;
    for (int64_t i = 0; i < columns * depth; i++)
        b[i] = (float)(check_random(&seed) >> 40) * 0x1p-24f;
    assert_ok(md_op_create(&op, context, formula, &(md_op_options){.pin = pin}));
    md_tensor ta = md_tensor_make(a, MD_F32, 2, size_a), tb = md_tensor_make(b, MD_F32, 2, size_b),
              ty = md_tensor_make(y, MD_F32, 2, size_y);
    assert_ok(md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&ta), md_t(&tb)}, 3));
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            double sum = 0;
            for (int64_t k = 0; k < depth; k++)
                sum += (double)a[i * depth + k] * (double)b[b_is_along ? j * depth + k : k * columns + j];
            worst = fmax(worst, fabs((double)y[i * columns + j] - sum));
            most = fmax(most, fabs(sum));
        }
    md_op_destroy(&op);
    free(a);
    free(b);
    return worst / most;
}

/* OpenBLAS is off by 4.7e-7 on such data. */
static void long_products(void **state)
{
    static const struct {
        const char *formula, *pin;
        int64_t rows, columns, depth;
    } cases[] = {
        {"Y[i,j] = sum[k](A[i,k] * B[j,k])", "gemm", SIDE, SIDE, DEPTH},
        {"Y[i,j] = sum[k](A[i,k] * B[k,j])", "gemm", SIDE, SIDE, DEPTH},
        {"Y[i,j] = sum[k](A[i,k] * B[j,k])", "gemv", 3, SIDE, DEPTH + 7},
        {"Y[i,j] = sum[k](A[i,k] * B[k,j])", "gemv", 3, SIDE, DEPTH + 7},
        {"Y[i,j] = sum[k](A[i,k] * B[k,j])", "gemm", 2, 3, 1000003},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases && is_host(); i++) {
        const double e = product_error(cases[i].formula, cases[i].pin, cases[i].rows, cases[i].columns, cases[i].depth);
        if (!(e <= 4.7e-7))
            fail_msg("%s by %s, k = %lld: %.2g of the largest", cases[i].formula, cases[i].pin,
                     (long long)cases[i].depth, e);
    }
}

/* ---- Scatters: many updates of few elements, one rounding of f64 sums */

typedef struct scatter_case {
    float x; /* what is added, n times, to each of the bins in turn */
    int64_t n, bins;
    md_dtype dtype;
    double most; /* relative */
} scatter_case;

/* Indices and values of stride 0 where there is one bin. */
static void check_scatter(const scatter_case *c, md_numeric numeric)
{
    const int64_t held = c->bins == 1 ? 1 : c->n, bytes = md_dtype_size(c->dtype);
    int64_t *at = malloc((size_t)held * sizeof *at);
    char text[96], *bins = calloc((size_t)c->bins, 8);
    md_op *op = NULL;
    float x = c->x;
    assert_true(at && bins);
    for (int64_t i = 0; i < held; i++)
        at[i] = i % c->bins;
    snprintf(text, sizeof text, "Y:%s[I:i64[i]] += X:f32[i]", md_dtype_name(c->dtype));
    assert_ok(md_op_create(&op, context, text, &(md_op_options){.numeric = numeric}));
    md_tensor ty = md_tensor_make(bins, c->dtype, 1, &c->bins), ti = md_tensor_make(at, MD_I64, 1, &c->n),
              tx = md_tensor_make(&x, MD_F32, 1, &c->n);
    tx.stride[0] = 0;
    if (c->bins == 1)
        ti.stride[0] = 0;
    const md_arg arg[] = {md_t(&ty), md_t(&ti), md_t(&tx)};
    assert_ok(md_call(op, NULL, arg, 3));
    for (int64_t i = 0; i < c->bins; i++) {
        uint16_t half = 0;
        memcpy(&half, bins + i * bytes, 2);
        const uint32_t bits = (uint32_t)half << 16;
        float wide = 0;
        memcpy(&wide, &bits, sizeof wide);
        const double got = c->dtype == MD_BF16 ? (double)wide : value_at(bins, c->dtype, i),
                     right = (double)c->x * (double)((c->n + c->bins - 1 - i) / c->bins);
        if (!(fabs(got - right) <= c->most * right))
            fail_msg("%s, n = %lld, bins %lld, policy %d: bin %lld is %.9g, not %.9g", text, (long long)c->n,
                     (long long)c->bins, numeric, (long long)i, got, right);
    }
    md_op_destroy(&op);
    free(at);
    free(bins);
}

/* One rounding of the target's type, u, and up to n of f64; a sum that direct updates would leave at 2^24 or 2^8. */
static void scatters(void **state)
{
    static const scatter_case cases[] = {
        {1, 100000000, 1, MD_F32, 0},           {0.1f, 10000000, 1, MD_F32, 0x1p-24 + 1e7 * 0x1p-53},
        {0.1f, 3000001, 7, MD_F32, 0x1.01p-24}, {0.1f, 1000000, 100003, MD_F32, 0x1.01p-24},
        {1, 100000, 3, MD_BF16, 0x1.01p-9},     {0.1f, 3000001, 7, MD_F64, 3e6 * 0x1p-53},
    };
    (void)state;
    if (!is_host())
        skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_scatter(&cases[i], MD_NUMERIC_FAST);
        check_scatter(&cases[i], MD_NUMERIC_DETERMINISTIC);
        check_scatter(&cases[i], MD_NUMERIC_BATCH_INVARIANT);
    }
}

/* ---- A row's bits do not depend on the rows beside it */

static void rows_of_a_batch(void **state)
{
    enum { ROWS = 5, N = 100003 };
    static float x[ROWS * N], all[ROWS], one;
    uint64_t seed = check_seed();
    md_op *op = NULL;
    (void)state;
    if (!is_host())
        skip();
    for (int64_t i = 0; i < ROWS * N; i++)
        x[i] = (float)(check_random(&seed) >> 40) * 0x1p-24f;
    assert_ok(md_op_create(&op, context, ROW, &(md_op_options){.numeric = MD_NUMERIC_BATCH_INVARIANT}));
    for (int64_t i = 0; i <= ROWS; i++) {
        const int64_t rows = i == 0 ? ROWS : 1, size[] = {rows, N};
        md_tensor tx = md_tensor_make(x + (i == 0 ? 0 : (i - 1) * N), MD_F32, 2, size),
                  ty = md_tensor_make(i == 0 ? all : &one, MD_F32, 1, &rows);
        assert_ok(md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
        if (i > 0)
            assert_memory_equal(&one, &all[i - 1], sizeof one);
    }
    md_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_elements), cmocka_unit_test(every_policy),
                                       cmocka_unit_test(long_products),  cmocka_unit_test(rows_of_a_batch),
                                       cmocka_unit_test(scatters),       cmocka_unit_test(scans)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
