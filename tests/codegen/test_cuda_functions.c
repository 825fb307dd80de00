/* Every function of the table of operations on a GPU, in f32 and f64, against its reference within the error that the
 * table states. Skips itself where there is no GPU. */
#include "support/check.h"

#include "base/strbuf.h"
#include "expr/scalar.h"

#include <float.h>
#include <math.h>

enum { N = 1 << 15, PER_OP = 5, SKIPPED = 77 };

static md_context *context;

/* Operands of all magnitudes, denser where functions bend; every 64th is special. */
static double operand(uint64_t *seed, int i)
{
    static const double reach[] = {1e-6, 0.01, 1, 2, 10, 100, 1e5, 1e9};
    static const double special[] = {0.0, -0.0, (double)INFINITY, -(double)INFINITY, (double)NAN, 1, -1, 0.5};
    const double u = (double)(check_random(seed) >> 11) * 0x1p-52 - 1;
    return i % 64 == 0 ? special[i / 64 % 8] : u * (i % 32 == 8 ? 1e30 : reach[i % 8]);
}

static double element(const void *data, md_dtype dtype, int i)
{
    return dtype == MD_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* What one unit in the last place is worth at w. */
static double unit(double w, md_dtype dtype)
{
    int e = 0;
    (void)frexp(w, &e);
    return dtype == MD_F64 ? ldexp(1, (e < -1000 ? -1000 : e) - 53) : ldexp(1, (e < -125 ? -125 : e) - 24);
}

static void check_value(md_fx_op op, md_dtype dtype, double a, double b, double got)
{
    const md_fx_op_row *row = md_fx_op_info(op);
    const double want = md_scalar_real(op)(a, b, 0), u = unit(want, dtype);
    const double largest = dtype == MD_F64 ? DBL_MAX : (double)FLT_MAX;
    double limit = dtype == MD_F64 ? 4 : row->rounding == MD_FX_APPROXIMATE ? row->gpu_ulps : 0.5;
    if (row->cancels)
        limit += 4 * (dtype == MD_F64 ? 0x1p-53 : 0x1p-24) * fmin(fabs(a), 16) / u;
    if ((isnan(got) && isnan(want)) || got == want || (dtype == MD_F32 && got == (double)(float)want))
        return;
    if (got == 0 && fabs(want) < 0x1p-119)
        return; /* flushed */
    if (isinf(got) && fabs(want) > largest * (1 - 0x1p-20) && (got > 0) == (want > 0))
        return;
    if (!(fabs(got - want) <= limit * u))
        fail_msg("%s(%.17g, %.17g) of %s is %.17g, expected %.17g: off by %.2f units", row->name, a, b,
                 md_dtype_name(dtype), got, want, fabs(got - want) / u);
}

/* X, Z, an output for each function and the sum; on the host and on the device. */
typedef struct data {
    md_dtype dtype;
    int32_t n;
    void *host[3 + PER_OP];
    md_tensor tensor[3 + PER_OP];
    md_arg arg[3 + PER_OP];
} data;

static void make_data(data *d, int n_functions, md_dtype dtype)
{
    const size_t n_bytes = N * md_dtype_size(dtype);
    uint64_t seed = 20261122;
    *d = (data){.dtype = dtype, .n = 3 + n_functions};
    for (int32_t t = 0; t < d->n; t++) {
        void *memory = NULL;
        d->host[t] = calloc(1, n_bytes);
        assert_ok(md_alloc(&memory, context, n_bytes));
        for (int i = 0; t < 2 && i < N; i++) {
            const double x = operand(&seed, t ? i / 8 + i : i);
            if (dtype == MD_F64)
                ((double *)d->host[t])[i] = x;
            else
                ((float *)d->host[t])[i] = (float)x;
        }
        assert_ok(md_copy(context, memory, d->host[t], n_bytes));
        d->tensor[t] = md_tensor_make(memory, dtype, 1, (const int64_t[]){N});
        d->arg[t] = (md_arg){.kind = MD_ARG_TENSOR, .tensor = &d->tensor[t]};
    }
}

static void free_data(data *d)
{
    for (int32_t t = 0; t < d->n; t++) {
        md_free(context, d->tensor[t].data);
        free(d->host[t]);
    }
}

static void call(md_op *op, data *d)
{
    md_arg arg[3 + PER_OP];
    for (int32_t i = 0; i < d->n; i++) {
        md_arg_info info;
        assert_ok(md_op_arg(&info, op, i));
        const int k = atoi(info.name + 1);
        arg[i] = d->arg[info.name[0] == 'X' ? 0 : info.name[0] == 'Z' ? 1 : k == 9 ? d->n - 1 : 2 + k];
    }
    assert_ok(md_call(op, NULL, arg, d->n));
    assert_ok(md_sync(context, NULL));
    for (int32_t t = 2; t < d->n; t++)
        assert_ok(md_copy(context, d->host[t], d->tensor[t].data, N * md_dtype_size(d->dtype)));
}

static void check_functions(int n, const md_fx_op *op, md_dtype dtype)
{
    md_strbuf formula = {0};
    md_op *made = NULL;
    data d;
    for (int k = 0; k < n; k++)
        md_strbuf_printf(&formula, "F%d[i] = %s(%s); ", k, md_fx_op_info(op[k])->name,
                         md_fx_op_info(op[k])->arity == 2 ? "X[i], Z[i]" : "X[i]");
    md_strbuf_add(&formula, "F9[i] = X[i] + Z[i]"); /* so that both are read */
    assert_ok(
        md_op_create(&made, context, md_strbuf_text(&formula), &(md_op_options){.dtype = dtype, .max_variants = 1}));
    make_data(&d, n, dtype);
    assert_int_equal(md_op_n_args(made), d.n);
    call(made, &d);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < N; i++)
            check_value(op[k], dtype, element(d.host[0], dtype, i), element(d.host[1], dtype, i),
                        element(d.host[2 + k], dtype, i));
    free_data(&d);
    md_op_destroy(&made);
    md_strbuf_finish(&formula);
}

static void check_all(md_dtype dtype)
{
    md_fx_op group[PER_OP];
    int n = 0;
    for (md_fx_op op = MD_FX_NO_OP; op < MD_FX_N_OPS; op++) {
        const md_fx_op_row *row = md_fx_op_info(op);
        if (md_fx_op_is_function(op) && row->is_math && row->rule != MD_FX_RULE_INTEGER)
            group[n++] = op;
        if (n == PER_OP || (n > 0 && op == MD_FX_N_OPS - 1)) {
            check_functions(n, group, dtype);
            n = 0;
        }
    }
}

static void test_f32(void **state)
{
    (void)state;
    check_all(MD_F32);
}

static void test_f64(void **state)
{
    (void)state;
    check_all(MD_F64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_f32), cmocka_unit_test(test_f64)};
    const md_status s = md_context_create(
        &context, &(md_context_options){.device = getenv("MD_TEST_DEVICE") ? getenv("MD_TEST_DEVICE") : "cuda"});
    if (s == MD_UNSUPPORTED) {
        printf("skipped: %s\n", md_last_error());
        return SKIPPED;
    }
    const int failed = s == MD_OK ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    md_context_destroy(&context);
    return failed;
}
