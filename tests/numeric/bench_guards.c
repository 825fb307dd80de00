/* What a check at run time costs: each formula whose guard cannot be proved, against the same with one that can.
 * By hand: bench_guards [DEVICE [ROWS [COLUMNS]]]. Calls alternate; the ratio is the median over pairs of samples. */
#include "support/check.h"

#include <time.h>

enum { SAMPLES = 101 };

static const struct {
    const char *what, *guarded, *plain;
} pairs[] = {
    {"proved: d > 0", "Y[b,d] = where(d > 0, X[b,d-1], 0)", "Y[b,d] = where(d > 0, X[b,d], 0)"},
    {"proved: d % 2", "Y[b,d] = where(d % 2 == 0, X[b,d+1], X[b,d-1])", "Y[b,d] = where(d % 2 == 0, X[b,d], -X[b,d])"},
    {"checked: abs", "Y[b,d] = where(abs(d) > 0, X[b,d-1], 0)", "Y[b,d] = where(abs(d) > 0 and d > 0, X[b,d-1], 0)"},
    {"checked: max", "Y[b,d] = where(max(d, 3) > 3, X[b,d-1], 0)",
     "Y[b,d] = where(max(d, 3) > 3 and d > 0, X[b,d-1], 0)"},
    {"checked: a tensor", "Y[b,d] = where(C:bool[d], X[b,d-1], 0)", "Y[b,d] = where(C:bool[d] and d > 0, X[b,d-1], 0)"},
    {"checked: a let", "let C:bool[d] = d > 0; Y[b,d] = where(C[d], X[b,d-1], 0)",
     "let C:bool[d] = d > 0; Y[b,d] = where(C[d] and d > 0, X[b,d-1], 0)"},
    {"checked, exp of it", "Y[b,d] = exp(where(C:bool[d], X[b,d-1], 0))",
     "Y[b,d] = exp(where(C:bool[d] and d > 0, X[b,d-1], 0))"},
};

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

typedef struct bench {
    md_context *context;
    md_op *op;
    md_tensor tensor[3];
    md_arg arg[3];
    void *memory[3];
} bench;

static void make(bench *b, const char *formula, int64_t rows, int64_t columns)
{
    char hint[64];
    snprintf(hint, sizeof hint, "(b=%lld,d=%lld)", (long long)rows, (long long)columns);
    assert_ok(md_op_create(&b->op, b->context, formula, &(md_op_options){.hints = hint}));
    for (int i = 0; i < md_op_n_args(b->op); i++) {
        md_arg_info info;
        assert_ok(md_op_arg(&info, b->op, i));
        const int64_t size[] = {info.rank == 1 ? columns : rows, columns};
        const size_t n = (size_t)(size[0] * (info.rank == 1 ? 1 : columns)) * md_dtype_size(info.dtype);
        assert_ok(md_alloc(&b->memory[i], b->context, n));
        char *data = malloc(n);
        memset(data, info.dtype == MD_BOOL, n);
        if (info.dtype == MD_BOOL)
            data[0] = 0; /* where d - 1 lies outside */
        assert_ok(md_copy(b->context, b->memory[i], data, n));
        free(data);
        b->tensor[i] = md_tensor_make(b->memory[i], info.dtype, info.rank, size);
        b->arg[i] = md_t(&b->tensor[i]);
    }
}

static double sample(bench *b, int repeats)
{
    const double start = now_us();
    for (int i = 0; i < repeats; i++)
        assert_ok(md_call(b->op, NULL, b->arg, md_op_n_args(b->op)));
    assert_ok(md_sync(b->context, NULL));
    return (now_us() - start) / repeats;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x)
{
    qsort(x, SAMPLES, sizeof *x, ascending);
    return x[SAMPLES / 2];
}

int main(int argc, char **argv)
{
    const int64_t rows = argc > 2 ? atoll(argv[2]) : 512, columns = argc > 3 ? atoll(argv[3]) : 1024;
    md_context *context = NULL;
    assert_ok(md_context_create(&context, &(md_context_options){.device = argc > 1 ? argv[1] : "host"}));
    printf("%-20s %10s %10s %7s   [%lld, %lld] f32\n", "guard", "us", "plain us", "ratio", (long long)rows,
           (long long)columns);
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) {
        bench b[2] = {{.context = context}, {.context = context}};
        double us[2][SAMPLES], ratio[SAMPLES];
        make(&b[0], pairs[p].guarded, rows, columns);
        make(&b[1], pairs[p].plain, rows, columns);
        sample(&b[0], 3);
        const int repeats = 1 + (int)(1000 / (sample(&b[1], 3) + 1));
        for (int i = 0; i < SAMPLES; i++) {
            us[i % 2][i] = sample(&b[i % 2], repeats);
            us[1 - i % 2][i] = sample(&b[1 - i % 2], repeats);
            ratio[i] = us[0][i] / us[1][i];
        }
        printf("%-20s %10.2f %10.2f %7.3f\n", pairs[p].what, median(us[0]), median(us[1]), median(ratio));
        for (int k = 0; k < 2; k++) {
            md_op_destroy(&b[k].op);
            for (int i = 0; i < 3; i++)
                md_free(context, b[k].memory[i]);
        }
    }
    md_context_destroy(&context);
    return 0;
}
