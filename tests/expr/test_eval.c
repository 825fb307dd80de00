/* The reference evaluator beyond single values: cost, memory, places, precision. Values are in test_conformance. */
#include "base/dtype.h"
#include "expr/catalogue.h"
#include "expr/eval/eval.h"
#include "support/check.h"
#include "support/fault.h"

#include <math.h>
#include <time.h>

/* Of this process: other work on the machine does not count. */
static uint64_t cpu_ns(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Makes the formula and evaluates it with tensors in order of appearance. */
static md_status evaluate(const char *text, const char *sizes, md_tensor *tensor, int32_t n, md_fx_fault *fault)
{
    md_fx_formula *f = NULL;
    md_fx_binding b;
    md_arg arg[8];
    const md_fx_options options = {.sizes = sizes};
    for (int32_t i = 0; i < n; i++)
        arg[i] = md_t(&tensor[i]);
    md_status status = md_fx_formula_create(&f, text, &options);
    if (status == MD_OK)
        status = md_fx_bind(&b, f, arg, n);
    if (status == MD_OK)
        status = md_fx_evaluate(f, &b, fault);
    md_fx_formula_destroy(&f);
    return status;
}

static md_tensor make(md_dtype dtype, int32_t rank, const int64_t *size, uint64_t seed)
{
    md_tensor t = md_tensor_make(NULL, dtype, rank, size);
    int64_t n = 1;
    for (int32_t i = 0; i < rank; i++)
        n *= size[i];
    t.data = calloc((size_t)n + 1, md_dtype_size(dtype));
    assert_non_null(t.data);
    for (int64_t i = 0; i < n && seed; i++)
        md_dtype_store(dtype, t.data, i, (double)(int64_t)check_random(&seed) * 0x1p-63);
    return t;
}

/* Quadratic ways would take minutes. The limits leave room for sanitizers. */
static void test_cost(void **state)
{
    (void)state;
    int64_t n = 50000, rows[2] = {2, n}, cube[2] = {128, 128};
    md_tensor y = make(MD_F32, 2, rows, 0), x = make(MD_F32, 2, rows, 1);
    static const char *const texts[] = {
        "Y[i,j] = exp(X[i,j] - max[k](X[i,k])) / sum[k](exp(X[i,k] - max[l](X[i,l])))",
        "let m[i] = max[k](X[i,k]); let e[i,j] = exp(X[i,j] - m[i]); Y[i,j] = e[i,j] / sum[k](e[i,k])",
        "Y[i,j] = cumsum[j](X[i,j]) - mean[k](X[i,k])",
        "Y[i,j] = (X[i,j] - mean[k](X[i,k])) * rsqrt(var[k](X[i,k]) + 1e-5)",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        uint64_t start = cpu_ns();
        assert_ok(evaluate(texts[i], NULL, (md_tensor[]){y, x}, 2, NULL));
        assert_true(cpu_ns() - start < UINT64_C(10000000000));
    }
    md_tensor c = make(MD_F32, 2, cube, 0), a = make(MD_F32, 2, cube, 2), b = make(MD_BF16, 2, cube, 3);
    uint64_t start = cpu_ns();
    assert_ok(evaluate("C[m,n] = sum[k](A[m,k] * B:bf16[n,k])", NULL, (md_tensor[]){c, a, b}, 3, NULL));
    const double ns = (double)(cpu_ns() - start) / (128.0 * 128 * 128);
    print_message("product: %.1f ns a multiply-add\n", ns);
    assert_true(ns < 2000.0);
    free(y.data), free(x.data), free(a.data), free(b.data), free(c.data);
}

/* One element of a softmax through temps costs one row, not a row for each element of the row. */
static void test_cost_at(void **state)
{
    (void)state;
    md_fx_formula *f = NULL;
    md_fx_binding b;
    int64_t size[2] = {3, 30000}, at[2] = {1, 77};
    md_tensor y = make(MD_F32, 2, size, 0), x = make(MD_F32, 2, size, 1);
    double value, sum = 0.0, max = -INFINITY;
    const float *row = (const float *)x.data + 30000;
    assert_ok(md_fx_formula_create(
        &f,
        "let m[i] = max[k](X[i,k]); let e[i,j] = exp(X[i,j] - m[i]); let s[i] = sum[k](e[i,k]); Y[i,j] = e[i,j] / s[i]",
        NULL));
    assert_ok(md_fx_bind(&b, f, (md_arg[]){md_t(&x), md_t(&y)}, 2));
    int32_t t = 0;
    while (strcmp(f->tensor[t].name, "Y") != 0)
        t++;
    uint64_t start = cpu_ns();
    assert_ok(md_fx_evaluate_at(&value, f, &b, t, at));
    assert_true(cpu_ns() - start < UINT64_C(5000000000));
    for (int j = 0; j < 30000; j++)
        max = fmax(max, (double)row[j]);
    for (int j = 0; j < 30000; j++)
        sum += exp((double)row[j] - max);
    assert_true(fabs(value - exp((double)row[77] - max) / sum) < 1e-12);
    md_fx_formula_destroy(&f);
    free(y.data), free(x.data);
}

/* 1e16 + 1 + .. + 1 - 1e16: a plain sum in double loses every 1. */
static void test_precision(void **state)
{
    (void)state;
    int64_t n = 1000, none = 1;
    md_tensor y = make(MD_F64, 0, &none, 0), x = make(MD_F64, 1, &n, 0);
    double *v = x.data;
    v[0] = 1e16;
    for (int i = 1; i < 999; i++)
        v[i] = 1.0;
    v[999] = -1e16;
    assert_ok(evaluate("Y:f64[] = sum[k](X:f64[k])", NULL, (md_tensor[]){y, x}, 2, NULL));
    assert_true(*(double *)y.data == 998.0);
    for (int i = 0; i < 1000; i++)
        v[i] = 1e9 + i % 2;
    assert_ok(evaluate("Y:f64[] = var[k](X:f64[k])", NULL, (md_tensor[]){y, x}, 2, NULL));
    assert_true(*(double *)y.data == 0.25);
    free(y.data), free(x.data);
}

/* Results are as if outputs lay elsewhere, wherever they lie. */
static void test_in_place(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "Y[i] = X[i] / sum[k](X[k])",
        "Y[i] = X[size(i) - 1 - i]",
        "let t[i] = X[i] * 2; Y[i] = t[i] + X[0]",
    };
    for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++) {
        float apart[4], x[4] = {1, 2, 4, 8}, together[4] = {1, 2, 4, 8};
        int64_t n = 4;
        md_tensor from = md_tensor_make(x, MD_F32, 1, &n), to = md_tensor_make(apart, MD_F32, 1, &n);
        md_tensor same = md_tensor_make(together, MD_F32, 1, &n);
        const bool x_first = strncmp(texts[k], "let", 3) == 0;
        assert_ok(evaluate(texts[k], NULL, x_first ? (md_tensor[]){from, to} : (md_tensor[]){to, from}, 2, NULL));
        assert_ok(evaluate(texts[k], NULL, (md_tensor[]){same, same}, 2, NULL));
        assert_memory_equal(apart, together, sizeof(apart));
        assert_true(x[0] == 1 && x[3] == 8);
    }
}

/* Strided views: what lies between their elements is not touched. */
static void test_strides(void **state)
{
    (void)state;
    float x[24], y[24];
    int64_t size[2] = {3, 2};
    for (int i = 0; i < 24; i++)
        x[i] = (float)i, y[i] = -1.0f;
    md_tensor from = md_tensor_make(x + 1, MD_F32, 2, size), to = md_tensor_make(y + 2, MD_F32, 2, size);
    from.stride[0] = 2, from.stride[1] = 7;
    to.stride[0] = 1, to.stride[1] = 9;
    assert_ok(evaluate("Y[i,j] = X[i,j] + 0.5", NULL, (md_tensor[]){to, from}, 2, NULL));
    int n_written = 0;
    for (int i = 0; i < 24; i++)
        n_written += y[i] != -1.0f;
    assert_int_equal(n_written, 6);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 2; j++)
            assert_true(y[2 + i + 9 * j] == x[1 + 2 * i + 7 * j] + 0.5f);
    from.stride[0] = from.stride[1] = 0; /* one element, repeated */
    assert_ok(evaluate("Y[i,j] = X[i,j]", NULL, (md_tensor[]){to, from}, 2, NULL));
    assert_true(y[2] == 1.0f && y[2 + 2 + 9] == 1.0f);
}

/* A scatter target's sums are rounded once: 256 + 1 + .. + 1 in bf16 would stay 256. */
static void test_scatter_rounds_once(void **state)
{
    (void)state;
    int64_t n = 64, one = 1;
    md_tensor g = make(MD_BF16, 1, &one, 0), ids = make(MD_I64, 1, &n, 0), x = make(MD_F32, 1, &n, 0);
    md_dtype_store(MD_BF16, g.data, 0, 256.0);
    for (int i = 0; i < 64; i++)
        ((float *)x.data)[i] = 1.0f;
    assert_ok(evaluate("G:bf16[ids[i]] += X[i]", NULL, (md_tensor[]){g, ids, x}, 3, NULL));
    assert_true(md_dtype_load(MD_BF16, g.data, 0) == 320.0);
    free(g.data), free(ids.data), free(x.data);
}

static void test_elements_refused(void **state)
{
    (void)state;
    md_fx_formula *f = NULL;
    md_fx_binding b;
    int64_t n = 4, at[1] = {4};
    double value = 7.0;
    md_tensor g = make(MD_F32, 1, &n, 1), ids = make(MD_I64, 1, &n, 0), x = make(MD_F32, 1, &n, 2),
              z = make(MD_F32, 1, &n, 3);
    assert_ok(md_fx_formula_create(&f, "G[ids[i]] += X[i]; Z[i] = G[i] + X[i]", NULL));
    assert_ok(md_fx_bind(&b, f, (md_arg[]){md_t(&g), md_t(&ids), md_t(&x), md_t(&z)}, 4));
    assert_fails(md_fx_evaluate_at(&value, f, &b, 0, at), MD_UNSUPPORTED, "'G' cannot be evaluated element by element");
    assert_fails(md_fx_evaluate_at(&value, f, &b, 1, at), MD_INVALID_ARGUMENT, "'ids' is an input");
    assert_fails(md_fx_evaluate_at(&value, f, &b, 3, at), MD_INVALID_ARGUMENT, "no element at 4");
    at[0] = 1;
    assert_fails(md_fx_evaluate_at(&value, f, &b, 3, at), MD_UNSUPPORTED, "'G' cannot be evaluated element by element");
    assert_true(value == 7.0); /* written only on success */
    md_fx_formula_destroy(&f);
    free(g.data), free(ids.data), free(x.data), free(z.data);
}

/* Every allocation may fail: then the call does, with memory to blame, and outputs that it could not compute stay. */
static void test_memory(void **state)
{
    (void)state;
    md_fx_formula *f = NULL;
    md_fx_binding b;
    int64_t size[2] = {2, 3};
    md_tensor y = make(MD_F32, 2, size, 0), x = make(MD_F32, 2, size, 1);
    assert_ok(md_fx_formula_create(
        &f, "let m[i] = max[k](X[i,k]); Y[i,j] = cumsum[j](exp(X[i,j] - m[i])) / sum[k](X[i,k])", NULL));
    assert_ok(md_fx_bind(&b, f, (md_arg[]){md_t(&x), md_t(&y)}, 2));
    int64_t n = 0;
    for (md_status status = MD_INTERNAL; status != MD_OK;) {
        md_fx_fault fault = {0};
        fault_after(++n);
        status = md_fx_evaluate(f, &b, &fault);
        const int happened = fault_happened();
        fault_after(0);
        assert_int_equal(status, happened ? MD_OUT_OF_MEMORY : MD_OK);
        assert_true(n < 200);
    }
    assert_true(n > 3);
    md_fx_formula_destroy(&f);
    free(y.data), free(x.data);
}

static size_t bytes_of(const char *text)
{
    md_fx_formula *f = NULL;
    md_fx_binding b;
    int64_t size[] = {50, 200};
    md_tensor y = make(MD_F32, 2, size, 0), x = make(MD_F32, 2, size, 1);
    assert_ok(md_fx_formula_create(&f, text, NULL));
    assert_ok(md_fx_bind(&b, f, (md_arg[]){md_t(&x), md_t(&y)}, 2));
    fault_after(0);
    assert_ok(md_fx_evaluate(f, &b, NULL));
    const size_t n = fault_bytes();
    md_fx_formula_destroy(&f);
    free(y.data), free(x.data);
    return n;
}

/* A scan keeps lines of values only where another index moves inside its own. */
static void test_lines_of_scans(void **state)
{
    (void)state;
    enum { ALL = 50 * 200 * 8 };
    const size_t plain = bytes_of("Y[i,j] = X[i,j]");
    assert_true(bytes_of("Y[i,j] = cumsum[j](X[i,j])") < plain + ALL / 4);
    assert_true(bytes_of("Y[i,j] = cumsum[i](X[i,j])") >= plain + ALL);
    assert_true(bytes_of("Y[j,i] = cumsum[i](X[j,i])") < plain + ALL / 4);
    assert_true(bytes_of("Y[i,j] = sum[k](cumsum[j](X[i,j] * X[i,k]))") >= plain + 200 * 200 * 8);
}

/* Comparisons of i64 and u64 are of the numbers, on either side, beyond 2^63 and below 0. */
static void test_comparisons_of_signs(void **state)
{
    (void)state;
    static const char *const op[] = {"<", "<=", ">", ">=", "==", "!="};
    static int64_t signed_[] = {INT64_MIN, -2, -1, 0, 1, 5, INT64_MAX};
    static uint64_t unsigned_[] = {0, 1, 5, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX - 1, UINT64_MAX};
    enum { N = 7 };
    const int64_t size[] = {N, N};
    bool y[N][N];
    const md_tensor ty = md_tensor_make(y, MD_BOOL, 2, size), ta = md_tensor_make(signed_, MD_I64, 1, size),
                    tb = md_tensor_make(unsigned_, MD_U64, 1, size);
    for (int k = 0; k < 12; k++) {
        char text[80];
        const bool is_first = k < 6; /* the signed one */
        snprintf(text, sizeof text,
                 is_first ? "Y:bool[i,j] = A:i64[i] %s B:u64[j]" : "Y:bool[i,j] = B:u64[j] %s A:i64[i]", op[k % 6]);
        assert_ok(evaluate(text, NULL, is_first ? (md_tensor[]){ty, ta, tb} : (md_tensor[]){ty, tb, ta}, 3, NULL));
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++) {
                const int of_pair = signed_[i] < 0 || (uint64_t)signed_[i] < unsigned_[j] ? -1
                                    : (uint64_t)signed_[i] > unsigned_[j]                 ? 1
                                                                                          : 0;
                const int order = is_first ? of_pair : -of_pair; /* below 0: the left number is smaller */
                const bool want[] = {order<0, order <= 0, order> 0, order >= 0, order == 0, order != 0};
                if (y[i][j] != want[k % 6])
                    fail_msg("%s at %d, %d", text, i, j);
            }
    }
}

/* ---- The gradient of attention against differences */

typedef struct attention {
    md_tensor q, k, v, y, l, dy;
} attention;

static void run_op(const char *name, md_dtype dtype, const md_tensor *const *tensor, int32_t n)
{
    md_fx_formula *f = NULL;
    md_fx_binding b;
    md_fx_fault fault = {0};
    md_arg arg[9];
    for (int32_t i = 0; i < n; i++)
        arg[i] = md_t((md_tensor *)(uintptr_t)tensor[i]);
    assert_ok(md_fx_formula_create(&f, md_catalogue_find(name)->formula, &(md_fx_options){.dtype = dtype}));
    assert_ok(md_fx_bind(&b, f, arg, n));
    assert_ok(md_fx_evaluate(f, &b, &fault));
    md_fx_formula_destroy(&f);
}

/* The sum of the results times dY. */
static double loss_of(const attention *a, int64_t n)
{
    run_op("attention_lse", MD_F64, (const md_tensor *const[]){&a->q, &a->k, &a->y, &a->v, &a->l}, 5);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += ((const double *)a->y.data)[i] * ((const double *)a->dy.data)[i];
    return sum;
}

static void check_differences(const attention *a, const md_tensor *x, const md_tensor *dx, int64_t n, int64_t n_y)
{
    const double step = 1e-4;
    double *at = x->data;
    for (int64_t i = 0; i < n; i++) {
        const double value = at[i];
        at[i] = value + step;
        const double above = loss_of(a, n_y);
        at[i] = value - step;
        const double below = loss_of(a, n_y), want = (above - below) / (2 * step), got = ((const double *)dx->data)[i];
        at[i] = value;
        if (!(fabs(got - want) < 1e-6 + 1e-5 * fabs(want))) /* L has 24 bits */
            fail_msg("element %d: %.9g, by differences %.9g", (int)i, got, want);
    }
}

static void test_gradient_of_attention(void **state)
{
    const int64_t rows[] = {1, 2, 3, 2}, keys[] = {1, 2, 5, 2}, values[] = {1, 2, 5, 3}, results[] = {1, 2, 3, 3};
    (void)state;
    attention a = {make(MD_F64, 4, rows, 5),    make(MD_F64, 4, keys, 6), make(MD_F64, 4, values, 7),
                   make(MD_F64, 4, results, 0), make(MD_F32, 3, rows, 0), make(MD_F64, 4, results, 8)};
    md_tensor dq = make(MD_F64, 4, rows, 0), dk = make(MD_F64, 4, keys, 0), dv = make(MD_F64, 4, values, 0);
    (void)loss_of(&a, 18);
    run_op("attention_backward", MD_F64, (const md_tensor *const[]){&a.q, &a.k, &a.l, &a.dy, &a.y, &a.v, &dq, &dk, &dv},
           9);
    check_differences(&a, &a.q, &dq, 12, 18);
    check_differences(&a, &a.k, &dk, 20, 18);
    check_differences(&a, &a.v, &dv, 30, 18);
    md_tensor *const all[] = {&a.q, &a.k, &a.v, &a.y, &a.l, &a.dy, &dq, &dk, &dv};
    for (int i = 0; i < MD_COUNT(all); i++)
        free(all[i]->data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_cost_at),
        cmocka_unit_test(test_precision),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_strides),
        cmocka_unit_test(test_scatter_rounds_once),
        cmocka_unit_test(test_elements_refused),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_lines_of_scans),
        cmocka_unit_test(test_comparisons_of_signs),
        cmocka_unit_test(test_gradient_of_attention),
    };
    return cmocka_run_group_tests_name("eval", tests, NULL, NULL);
}
