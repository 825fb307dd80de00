/* Products on a GPU beside cuBLASLt on the same data: no greatest error against f64 is above 1.5 times cuBLASLt's;
 * products of small whole numbers have no error at all. Where results are f32, more slices of K make smaller errors,
 * and cuBLASLt may have more of them than a variant that is asked for by name: such variants are also right up to
 * four times the error of one f32 sum from first to last, or what tensor cores may cut off where they add to one sum
 * at each step; what is picked is not. Variants of every family are picked by MD_TEST_SEED, MD_TEST_EFFORT (2) of
 * each with each product. Skips itself where there is no GPU. */
#include "device/suite_call.h"

#include "api/context.h"
#include "base/dtype.h"
#include "base/status.h"
#include "support/check.h"

#include <math.h>
#include <unistd.h>

static const double ALLOWED = 1.5, ALLOWED_PLAIN = 4;
enum { STEP = 16 }; /* products of an instruction's step along K */

typedef struct problem {
    const char *text;
    md_dtype in, out;
    bool tf32;
    int64_t m, n, k;
    /* a bias, an activation: the library has them, too, and what it makes of them is held to f64 and to what f32
     * sums may be off */
    bool has_end;
} problem;

static const problem list[] = {
    {"Y[i,j] = sum[k](X[i,k] * W[j,k])", MD_BF16, MD_BF16, false, 256, 192, 512},
    {"Y[i,j] = sum[k](X[i,k] * W[j,k])", MD_BF16, MD_BF16, false, 77, 111, 1333},
    {"Y:f32[i,j] = sum[k](X[i,k] * W[j,k])", MD_BF16, MD_F32, false, 200, 264, 1024},
    {"Y:f32[i,j] = sum[k](X[i,k] * W[j,k])", MD_BF16, MD_F32, false, 8, 512, 8192},
    {"Y[i,j] = sum[k](X[i,k] * W[k,j])", MD_BF16, MD_BF16, false, 131, 77, 1001},
    {"Y[i,j] = sum[k](X[k,i] * W[k,j])", MD_F16, MD_F16, false, 136, 200, 640},
    {"Y[i,j] = sum[k](X[i,k] * W[j,k])", MD_F16, MD_F16, false, 2, 333, 4096},
    {"Y:f32[i,j] = sum[k](X[i,k] * W[k,j])", MD_F16, MD_F32, false, 128, 136, 2048},
    {"Y[i,j] = sum[k](X[i,k] * W[j,k])", MD_F32, MD_F32, true, 256, 192, 1024},
    {"Y[i,j] = sum[k](X[i,k] * W[j,k])", MD_F32, MD_F32, true, 100, 132, 4096},
    {"Y[i,j] = sum[k](X[i,k] * W[j,k])", MD_F32, MD_F32, true, 33, 520, 264},
    {"Y[i,j] = sum[k](X[i,k] * W[j,k])", MD_F32, MD_F32, false, 128, 192, 1024},
    {"Y[i,j] = sum[k](X[i,k] * W[k,j])", MD_F32, MD_F32, false, 77, 131, 999},
    {"Y[i,j] = sum[k](X[i,k] * W[k,j])", MD_F64, MD_F64, false, 77, 131, 999},
    {"Y[i,j] = sum[k](X[i,k] * W[j,k]) + C[j]", MD_BF16, MD_BF16, false, 130, 264, 520, true},
    {"Y[i,j] = sum[k](X[i,k] * W[k,j]) + C[j]", MD_F32, MD_F32, false, 77, 131, 999, true},
    {"Y[i,j] = gelu_tanh(sum[k](X[i,k] * W[j,k]) + C[j])", MD_BF16, MD_BF16, false, 200, 192, 512, true},
    {"Y[i,j] = gelu_tanh(sum[k](X[i,k] * W[j,k]) + C[j])", MD_F16, MD_F16, false, 77, 111, 333, true},
    {"Y[i,j] = relu(sum[k](X[i,k] * W[j,k]) + C[j])", MD_F16, MD_F16, false, 130, 264, 520, true},
    {"Y[i,j] = gelu_tanh(sum[k](X[i,k] * W[j,k]))", MD_F32, MD_F32, false, 128, 136, 264, true},
};

/* A problem with its data: which operand's indices are in the other order follows from the text. */
typedef struct work {
    suite *s;
    const problem *p;
    double *want;
    void *image[2], *result; /* of X and W; of Y, on the host */
    md_tensor x, w, y, c; /* c: a bias; no data where there is none */
    bool is_whole; /* whole numbers */
    double lib, plain; /* cuBLASLt's greatest error; that of sums from first to last in f32 */
    double most; /* the greatest result */
    /* what tensor cores may cut off the greatest sum: a unit in the last place at each step of STEP products */
    double cut;
    int effort;
    uint64_t seed;
} work;

static bool is_transposed(const problem *p, char operand)
{
    return strchr(p->text, operand)[2] == 'k';
}

static double value(work *w)
{
    const uint64_t r = check_random(&w->seed);
    return w->is_whole ? (double)(r % 3) - 1 : md_dtype_round(w->p->in, (double)(int64_t)r * 0x1p-63);
}

static bool make_operand(work *w, md_tensor *t, void **image, int64_t rows, bool turned, double *values)
{
    const problem *p = w->p;
    const int64_t size[2] = {turned ? p->k : rows, turned ? rows : p->k};
    const size_t item = md_dtype_size(p->in), n = (size_t)(rows * p->k);
    *t = md_tensor_make(NULL, p->in, 2, size);
    *image = malloc(n * item);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < p->k; k++) {
            values[r * p->k + k] = value(w);
            md_dtype_store(p->in, *image, turned ? k * rows + r : r * p->k + k, values[r * p->k + k]);
        }
    return md_alloc(&t->data, w->s->context, n * item) == MD_OK &&
           md_copy(w->s->context, t->data, *image, n * item) == MD_OK;
}

/* A bias is zeros but for what is added to *want. */
static bool make_bias(work *w, double *bias)
{
    const problem *p = w->p;
    const size_t bytes = (size_t)p->n * md_dtype_size(p->in);
    w->c = md_tensor_make(NULL, p->in, 1, &p->n);
    if (!strchr(p->text, 'C'))
        return true;
    for (int64_t j = 0; j < p->n; j++) {
        bias[j] = value(w);
        md_dtype_store(p->in, w->result, j, bias[j]); /* there is room */
    }
    return md_alloc(&w->c.data, w->s->context, bytes) == MD_OK &&
           md_copy(w->s->context, w->c.data, w->result, bytes) == MD_OK;
}

static double epsilon(md_dtype dtype)
{
    return dtype == MD_BF16 ? 0x1p-7 : dtype == MD_F16 ? 0x1p-10 : dtype == MD_F32 ? 0x1p-23 : 0x1p-52;
}

static double end_of(const problem *p, double sum)
{
    if (strstr(p->text, "relu"))
        return fmax(sum, 0);
    return strstr(p->text, "gelu_tanh")
               ? 0.5 * sum * (1 + tanh(0.7978845608028654 * (sum + 0.044715 * sum * sum * sum)))
               : sum;
}

static bool begin(work *o)
{
    const problem *p = o->p;
    double *x = malloc((size_t)(p->m * p->k) * sizeof *x), *w = malloc((size_t)(p->n * p->k) * sizeof *w),
           *bias = calloc((size_t)p->n, sizeof *bias);
    const int64_t size[2] = {p->m, p->n};
    const size_t n = (size_t)(p->m * p->n);
    o->want = malloc(n * sizeof *o->want);
    o->result = malloc(n * md_dtype_size(p->out));
    o->y = md_tensor_make(NULL, p->out, 2, size);
    bool ok = make_operand(o, &o->x, &o->image[0], p->m, is_transposed(p, 'X'), x) &&
              make_operand(o, &o->w, &o->image[1], p->n, is_transposed(p, 'W'), w) &&
              md_alloc(&o->y.data, o->s->context, n * md_dtype_size(p->out)) == MD_OK && make_bias(o, bias);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = 0, most = 0;
            float plain = 0;
            for (int64_t k = 0; k < p->k; k++) {
                sum += x[i * p->k + k] * w[j * p->k + k];
                most = fmax(most, fabs(sum));
                plain = fmaf((float)x[i * p->k + k], (float)w[j * p->k + k], plain);
            }
            o->want[i * p->n + j] = end_of(p, sum + bias[j]);
            o->most = fmax(o->most, fabs(o->want[i * p->n + j]));
            o->plain = fmax(o->plain, fabs(sum - (double)plain));
            o->cut = fmax(o->cut, most * 0x1p-23 * (double)(p->k / STEP + 1));
        }
    free(x);
    free(w);
    free(bias);
    return ok;
}

static void end(work *w)
{
    md_free(w->s->context, w->x.data);
    md_free(w->s->context, w->w.data);
    md_free(w->s->context, w->y.data);
    md_free(w->s->context, w->c.data);
    free(w->want);
    free(w->result);
    free(w->image[0]);
    free(w->image[1]);
}

static void complain(work *w, const char *variant, const char *what, double error)
{
    w->s->n_failed++;
    print_error("%s %s m=%lld n=%lld k=%lld, %s%s%s: %s %g (cuBLASLt's %g)\n", w->p->text, md_dtype_name(w->p->in),
                (long long)w->p->m, (long long)w->p->n, (long long)w->p->k, w->p->tf32 ? "tf32, " : "",
                w->is_whole ? "whole numbers, " : "", variant, what, error, w->lib);
}

/* The greatest error of a variant, or of whole numbers the number of results that are not exact; -1 where there is
 * no such variant. */
static double error_of(work *w, const char *variant)
{
    const problem *p = w->p;
    const int64_t n = p->m * p->n;
    md_op *op = NULL;
    double error = 0;
    memset(w->result, 0xff, (size_t)n * md_dtype_size(p->out)); /* NaN */
    md_status status = md_op_create(
        &op, w->s->context, p->text,
        &(md_op_options){.dtype = p->in, .pin = variant, .hints = variant ? "256" : "64,1024", .tf32 = p->tf32});
    if (status != MD_OK)
        return status == MD_COMPILE && !strstr(md_last_error(), "does not fit the registers") ? INFINITY : -1;
    status = md_copy(w->s->context, w->y.data, w->result, (size_t)n * md_dtype_size(p->out));
    if (status == MD_OK)
        status = md_call(op, NULL, (md_arg[]){md_t(&w->y), md_t(&w->x), md_t(&w->w), md_t(&w->c)}, w->c.data ? 4 : 3);
    const bool ran = status == MD_OK && md_sync(w->s->context, NULL) == MD_OK &&
                     md_copy(w->s->context, w->result, w->y.data, (size_t)n * md_dtype_size(p->out)) == MD_OK;
    md_op_destroy(&op);
    if (!ran)
        return status == MD_UNSUPPORTED ? -1 : INFINITY;
    for (int64_t i = 0; i < n; i++) {
        const double y = md_dtype_load(p->out, w->result, i), off = fabs(y - w->want[i]);
        if (w->is_whole)
            error += y != md_dtype_round(p->out, w->want[i]);
        else
            error = isnan(off) || off > error ? off : error;
        if (isnan(error))
            return INFINITY;
    }
    return error;
}

/* NULL: what is picked. */
static void check_variant(work *w, const char *variant)
{
    /* Kernels of our own, named or picked, sum as many slices of K as their names say, one often. */
    const bool may_sum_in_order = w->p->out == MD_F32 && !w->p->tf32;
    const double error = error_of(w, variant), plain = may_sum_in_order ? ALLOWED_PLAIN * w->plain : 0,
                 cut = may_sum_in_order && w->p->in != MD_F32 ? w->cut : 0;
    if (error < 0)
        w->s->n_skipped++;
    else if (w->is_whole ? error > 0 : error > fmax(ALLOWED * w->lib, fmax(plain, cut)))
        complain(w, variant ? variant : "what is picked",
                 w->is_whole ? "results that are not exact:" : "greatest error", error);
    w->s->n_variants++;
}

typedef struct picker {
    uint64_t *seed;
    int32_t n;
    md_fa_config config;
} picker;

static bool pick(void *user, const md_fa_config *config)
{
    picker *p = user;
    if (check_random(p->seed) % (uint64_t)++p->n == 0)
        p->config = *config;
    return true;
}

static void check_families(work *w, const md_fx_formula *formula, const md_st_program *program)
{
    const md_fa_target target = {.program = program, .facts = &w->s->context->dev->facts, .allows_tf32 = w->p->tf32};
    int64_t size[MD_FX_MAX_DIMS] = {0};
    for (int32_t d = 0; d < formula->n_dims; d++)
        size[d] = strcmp(formula->dim[d].name, "i") == 0   ? w->p->m
                  : strcmp(formula->dim[d].name, "j") == 0 ? w->p->n
                                                           : w->p->k;
    for (const md_fa_family *const *f = md_fa_families(MD_DEV_CUDA); *f; f++)
        for (int i = 0; i < w->effort && strncmp((*f)->name, "gem", 3) == 0 && strcmp((*f)->name, "gemm_lib") != 0 &&
                        md_fa_applies(*f, &target);
             i++) {
            picker p = {.seed = &w->seed};
            char name[MD_FA_NAME];
            md_fa_each(&target, *f, size, pick, &p);
            if (p.n == 0)
                break;
            md_fa_name(name, *f, &p.config);
            check_variant(w, name);
        }
}

typedef struct run {
    int effort;
    uint64_t seed;
} run;

static void check_problem(suite *s, int64_t i, void *user)
{
    const run *r = user;
    md_fx_formula *formula = NULL;
    md_st_program *program = NULL;
    if (i % 2 && strstr(list[i / 2].text, "gelu")) /* results are no whole numbers */
        return;
    work w = {
        .s = s, .p = &list[i / 2], .is_whole = i % 2, .effort = r->effort, .seed = (uint64_t)(i + 1) * 7919 + r->seed};
    const md_fx_options options = {.dtype = w.p->in};
    if (begin(&w) && md_fx_formula_create(&formula, w.p->text, &options) == MD_OK && md_st_split(formula) == MD_OK &&
        md_st_program_create(&program, formula) == MD_OK) {
        const double bound = w.most * epsilon(w.p->out) / 2 + ALLOWED_PLAIN * w.plain;
        w.lib = error_of(&w, "gemm_lib/rank0");
        if (w.lib < 0 && w.p->has_end)
            w.lib = w.is_whole ? 0 : bound; /* it takes no odd lines with an epilogue of its own */
        if (w.lib < 0 && !w.is_whole)
            complain(&w, "gemm_lib/rank0", "does not run", w.lib);
        if (w.p->has_end && (w.is_whole ? w.lib > 0 : w.lib > ALLOWED * bound))
            complain(&w, "gemm_lib/rank0", "with an epilogue of its own has the error", w.lib);
        check_families(&w, formula, program);
        check_variant(&w, NULL);
    } else {
        complain(&w, "-", md_last_error(), 0);
    }
    md_st_program_destroy(&program);
    md_fx_formula_destroy(&formula);
    end(&w);
}

static void test_errors(void **state)
{
    (void)state;
    const char *text = getenv("MD_TEST_EFFORT");
    run r = {.effort = text ? MD_MAX(atoi(text), 1) : 2, .seed = check_seed()};
    suite_options options = {.device = "cuda", .n_threads = (int)sysconf(_SC_NPROCESSORS_ONLN)};
    suite s = {.options = &options};
    suite_each(&s, 2 * MD_COUNT(list), check_problem, &r);
    print_message("%lld variants beside cuBLASLt or exact, %lld did not fit\n", (long long)s.n_variants,
                  (long long)s.n_skipped);
    assert_int_equal(s.n_failed, 0);
    assert_true(s.n_variants > s.n_skipped);
}

int main(void)
{
    md_context *context = NULL;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_errors)};
    if (md_context_create(&context, &(md_context_options){.device = "cuda"}) != MD_OK) {
        print_message("NOT RUN ON A GPU: %s\n", md_last_error());
        return 77;
    }
    md_context_destroy(&context);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
