/* merge(A, B) = whole: rows cut into chunks of random lengths, 1 .. 37 elements, must give what the reference gives
 * for the whole row, with masks, NaN, infinities and chunks of nothing but -inf. The kernel is host/row_looped.c
 * with MD_CHUNK replaced by a pseudo-random expression. */
#include "support/check.h"

#include "base/dtype.h"
#include "base/status.h"
#include "codegen/row/row.h"
#include "device/open.h"
#include "expr/eval/eval.h"

#include <math.h>

static md_pool *pool;
static md_dev *device;

static int open_device(void **state)
{
    (void)state;
    assert_ok(md_pool_create(&pool, 1));
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

enum { ROWS = 60, MOST = 211 };

typedef struct merge_case {
    md_fx_formula *formula;
    md_st_program *program;
    md_dev_kernel *kernel;
    md_kn_launch_source source;
} merge_case;

/* `from` is where the chunk at hand begins. */
static const char *const chunks[] = {"(1 + (int64_t)((uint64_t)(from + 3) * 2654435761u % 37))", "1",
                                     "(from % 3 == 0 ? 16 : 5)"};

static void build(merge_case *c, const char *text, md_dtype dtype, const char *chunk)
{
    md_strbuf defines = {0}, expr = {0};
    void *binary = NULL;
    size_t n_bytes = 0;
    *c = (merge_case){0};
    assert_ok(md_fx_formula_create(&c->formula, text, &(md_fx_options){.dtype = dtype}));
    assert_ok(md_st_program_create(&c->program, c->formula));
    assert_int_equal(c->program->n_stages, 1);
    assert_int_equal(c->program->stage[0].kind, MD_ST_ROW);
    if (!c->program->stage[0].row.is_online)
        fail_msg("not online: %s", text);
    md_cg_row_options options = {.program = c->program, .dialect = MD_DEV_HOST, .is_online = true};
    md_strbuf_printf(&defines, "#define MD_VL %d\n#define MD_CHUNK %s\n#define MD_DISTANCE 0\n",
                     (int)md_cg_width(&device->facts), chunk);
    assert_ok(md_cg_row_print(&defines, &expr, &options));
    assert_ok(md_cg_assemble(&c->source.text, MD_DEV_HOST, "host/row_looped.c", md_strbuf_text(&defines),
                             md_strbuf_text(&expr)));
    strcpy(c->source.entry, "md_kernel");
    c->source.n_params = md_cg_params(c->source.param, c->program, 0);
    assert_ok(device->ops->compile(&binary, &n_bytes, device, &c->source));
    assert_ok(device->ops->load(&c->kernel, device, binary, n_bytes, &c->source));
    free(binary);
    md_strbuf_finish(&defines);
    md_strbuf_finish(&expr);
}

static void discard(merge_case *c)
{
    device->ops->unload(device, c->kernel);
    md_strbuf_finish(&c->source.text);
    md_st_program_destroy(&c->program);
    md_fx_formula_destroy(&c->formula);
}

/* Kinds of rows: plain, some -inf, mostly -inf, all -inf, some NaN, +inf, huge shifts between parts, constant. */
static double element(uint64_t *seed, int64_t row, int64_t j)
{
    double u = (double)(check_random(seed) >> 11) * 0x1p-53;
    switch (row % 8) {
    case 1:
        return u < 0.3 ? -INFINITY : u;
    case 2:
        return u < 0.97 ? -INFINITY : 10 * u;
    case 3:
        return -INFINITY;
    case 4:
        return u < 0.02 ? NAN : u;
    case 5:
        return u < 0.02 ? INFINITY : -u;
    case 6:
        return (j / 40 % 2 ? 80.0 : -80.0) + u;
    case 7:
        return 3.25;
    default:
        return 4 * u - 2;
    }
}

static void check_output(const md_tensor *got, const md_tensor *want, const char *text, int64_t n)
{
    for (int64_t i = 0; i < ROWS * (got->rank == 2 ? n : 1); i++) {
        double x = md_dtype_load(got->dtype, got->data, i), y = md_dtype_load(want->dtype, want->data, i);
        bool same = x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= 2e-5 * fmax(1, fabs(y));
        if (!same)
            fail_msg("%s: n = %lld, element %lld is %.9g, expected %.9g", text, (long long)n, (long long)i, x, y);
    }
}

/* Inputs first; two sets of outputs, for the kernel and for the reference. */
static void run_length(merge_case *c, const char *text, int64_t n, uint64_t *seed)
{
    const md_fx_formula *f = c->formula;
    md_tensor tensor[2][MD_FX_MAX_TENSORS];
    md_arg arg[2][MD_FX_MAX_ARGS];
    md_fx_binding binding[2];
    md_kn_shape shape = {0};
    md_kn_report report = {0};
    md_kn_word params[MD_KN_MAX_PARAMS];
    md_kn_geometry geometry = {.blocks = ROWS, .grain = 7};
    md_kn_call call = {.shape = &shape, .report = &report, .blocks = ROWS, .threads = 1};
    md_fx_fault fault = {0};
    memset(tensor, 0, sizeof tensor);
    for (int32_t t = 0; t < f->n_tensors; t++)
        for (int32_t side = 0; side < 2; side++) {
            md_tensor *x = &tensor[side][t];
            *x = (md_tensor){.dtype = f->tensor[t].dtype,
                             .rank = f->tensor[t].rank,
                             .size = {ROWS, n},
                             .stride = {f->tensor[t].rank == 2 ? n : 1, 1}};
            x->data = calloc((size_t)(ROWS * MD_MAX(n, 1)), 8);
            assert_non_null(x->data);
        }
    for (int32_t t = 0; t < f->n_tensors; t++) {
        for (int64_t i = 0; f->tensor[t].role == MD_FX_INPUT && i < ROWS * n; i++)
            md_dtype_store(f->tensor[t].dtype, tensor[0][t].data, i, element(seed, i / n, i % n));
        memcpy(tensor[1][t].data, tensor[0][t].data, (size_t)(ROWS * n) * 8);
        call.data[t] = tensor[0][t].data;
        for (int32_t a = 0; a < f->tensor[t].rank; a++) {
            shape.stride[t][a] = tensor[0][t].stride[a];
            shape.extent[t][a] = tensor[0][t].size[a];
        }
    }
    for (int32_t side = 0; side < 2; side++) {
        for (int32_t i = 0; i < f->n_args; i++)
            arg[side][i] = md_t(&tensor[side][f->args[i].id]);
        assert_ok(md_fx_bind(&binding[side], f, arg[side], f->n_args));
    }
    memcpy(shape.size, binding[0].size, sizeof binding[0].size);
    md_kn_pack(params, c->source.param, c->source.n_params, &call);
    assert_ok(
        device->ops->launch(device, NULL, c->kernel, &geometry, (md_dev_params){params, c->source.n_params}, &call));
    assert_ok(md_fx_evaluate(f, &binding[1], &fault));
    for (int32_t t = 0; t < f->n_tensors; t++)
        if (f->tensor[t].role == MD_FX_OUTPUT)
            check_output(&tensor[0][t], &tensor[1][t], text, n);
    for (int32_t t = 0; t < f->n_tensors; t++)
        for (int32_t side = 0; side < 2; side++)
            free(tensor[side][t].data);
}

static const char *const formulas[] = {
    "Y[a,n] = exp(X[a,n] - max[k](X[a,k])) / sum[k](exp(X[a,k] - max[l](X[a,l])))",
    "Y[a] = log(sum[n](exp(X[a,n] - max[k](X[a,k])))) + max[n](X[a,n])",
    "V[a] = var[n](X[a,n]); M[a] = mean[n](X[a,n])",
    "I[a] = argmax[n](X[a,n]); J[a] = argmin[n](X[a,n]); M[a] = max[n](X[a,n]); L[a] = min[n](X[a,n])",
    "N[a] = any[n](X[a,n] > 9); E[a] = all[n](X[a,n] > -100); S[a] = sum[n](X[a,n]); V[a] = var[n](X[a,n] * 0.125)",
    "let m[a] = max[n](X[a,n]); W[a] = sum[n](tanh(n * 0.1) * exp(X[a,n] - m[a])) / sum[n](exp(X[a,n] - m[a]))",
    "let s[a,n] = where(n % 3 > 0, X[a,n], -inf); W[a] = sum[n](exp(s[a,n] - max[k](s[a,k])))",
};

static void test_merge(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    for (int i = 0; i < MD_COUNT(formulas); i++) {
        merge_case c;
        build(&c, formulas[i], i % 3 == 2 ? MD_F64 : MD_F32, chunks[i % 3]);
        run_length(&c, formulas[i], 1, &seed);
        run_length(&c, formulas[i], 16, &seed);
        if (strstr(formulas[i], "any["))
            run_length(&c, formulas[i], 0, &seed); /* no element: what reductions begin with */
        for (int k = 0; k < 6; k++)
            run_length(&c, formulas[i], 2 + (int64_t)(check_random(&seed) % (MOST - 2)), &seed);
        discard(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_merge)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
