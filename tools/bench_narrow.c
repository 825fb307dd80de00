/* Narrow types on the CPU: how near each op comes to the speed of its bytes. Lines of JSON; `of_f32` is the rate of the
 * op's bytes over that of the same op of f32 with as many bytes, in turns, the best of a few. MD_CPU, MD_CC and
 * MD_THREADS say how.
 *
 *   bench_narrow [MEGABYTES [OP]]      of each input, default 4; one op, default all */
#include "bench_program.h"

#include <string.h>

enum { MOST_ARGS = 3, ROUNDS = 9, REPEATS = 7 };

typedef struct timed {
    md_op *op;
    void *data[MOST_ARGS];
    md_tensor tensor[MOST_ARGS];
    md_arg arg[MOST_ARGS];
    double bytes, us;
} timed;

enum { NUMBERS, BOOLS, BOTH };
static const struct {
    const char *name, *formula, *f32; /* %s: the type */
    double f32_bytes; /* of f32, for an element that the sizes count */
    int takes, is_from_f32, n_rows; /* n_rows: of a product or of row programs; 0: one axis */
} kinds[] = {{"relu", "Y:%s[i] = relu(X:%s[i])", "Y[i] = relu(X[i])", 8, NUMBERS, 0, 0},
             {"add", "Y:%s[i] = X:%s[i] + Z:%s[i]", "Y[i] = X[i] + Z[i]", 12, NUMBERS, 0, 0},
             {"or", "Y:%s[i] = X:%s[i] or Z:%s[i]", "Y[i] = X[i] + Z[i]", 12, BOOLS, 0, 0},
             {"scale", "Y:%s[i] = X:%s[i] * 0.37", "Y[i] = X[i] * 0.37", 8, NUMBERS, 0, 0},
             {"to f32", "Y[i] = X:%s[i] * 0.5", "Y[i] = X[i] * 0.5", 8, BOTH, 0, 0},
             {"from f32", "Y:%s[i] = X:f32[i]", "Y[i] = X[i] * 0.5", 8, BOTH, 1, 0},
             {"sum", "Y[] = sum[i](X:%s[i])", "Y[] = sum[i](X[i])", 4, NUMBERS, 0, 0},
             {"any", "Y[] = any[i](X:%s[i])", "Y[] = sum[i](X[i])", 4, BOOLS, 0, 0},
             {"max", "Y[] = max[i](X:%s[i])", "Y[] = max[i](X[i])", 4, NUMBERS, 0, 0},
             {"mean", "Y[] = mean[i](X:%s[i])", "Y[] = mean[i](X[i])", 4, NUMBERS, 0, 0},
             {"softmax", "let e[i,j] = exp(f32(X:%s[i,j]) - max[k](f32(X[i,k]))); Y[i,j] = e[i,j] / sum[j](e[i,j])",
              "let e[i,j] = exp(X[i,j] - max[k](X[i,k])); Y[i,j] = e[i,j] / sum[j](e[i,j])", 8, NUMBERS, 0, -1},
             {"1 row", "Y[b,j] = sum[k](A[b,k] * W:%s[j,k])", "Y[b,j] = sum[k](A[b,k] * W[j,k])", 4, NUMBERS, 0, 1},
             {"16 rows", "Y[b,j] = sum[k](A[b,k] * W:%s[j,k])", "Y[b,j] = sum[k](A[b,k] * W[j,k])", 4, NUMBERS, 0, 16}};
static const struct {
    const char *name;
    double bytes;
} types[] = {{"i4", 0.5}, {"i8", 1},  {"u8", 1},     {"i16", 2},   {"bool", 1},
             {"bf16", 2}, {"f16", 2}, {"f8e4m3", 1}, {"f8e5m2", 1}};

static void prepare(timed *t, md_context *context, const char *formula, const char *sizes)
{
    *t = (timed){.us = 1e30};
    bench_ok(md_op_create(&t->op, context, formula, NULL));
    double flops;
    bench_ok(md_op_work(&flops, &t->bytes, t->op, sizes));
    for (int i = 0; i < md_op_n_args(t->op); i++) {
        bench_ok(md_op_tensor(&t->tensor[i], t->op, i, sizes));
        size_t n = 64;
        for (int a = 0; a < t->tensor[i].rank; a++)
            n *= (size_t)t->tensor[i].size[a];
        n = t->tensor[i].rank ? n / 64 * 8 + 64 : 64; /* bytes of the widest type */
        t->data[i] = aligned_alloc(64, (n + 63) / 64 * 64);
        if (!t->data[i])
            exit(1);
        memset(t->data[i], 0, n); /* a zero of all types; any() reads everything */
        t->tensor[i].data = t->data[i];
        t->arg[i] = md_t(&t->tensor[i]);
    }
    for (int i = 0; i < 3; i++)
        bench_ok(md_call(t->op, NULL, t->arg, md_op_n_args(t->op)));
    bench_ok(md_op_wait(t->op));
}

static void repeat(timed *t)
{
    for (int i = 0; i < REPEATS; i++) {
        const double start = bench_now();
        bench_ok(md_call(t->op, NULL, t->arg, md_op_n_args(t->op)));
        const double us = bench_now() - start;
        t->us = us < t->us ? us : t->us;
    }
}

static void finish(timed *t)
{
    for (int i = 0; i < md_op_n_args(t->op); i++)
        free(t->data[i]);
    md_op_destroy(&t->op);
}

/* Sizes with so many bytes of an input. */
static const char *sizes_of(char out[64], int n_rows, double megabytes, double item)
{
    const long n = (long)(megabytes * 1e6 / item);
    if (n_rows > 0)
        snprintf(out, 64, "b=%d, j=%ld, k=1024", n_rows, n / 1024 + 1);
    else if (n_rows < 0)
        snprintf(out, 64, "i=%ld, j=1024", n / 1024 + 1);
    else
        snprintf(out, 64, "i=%ld", n);
    return out;
}

static void compare(md_context *context, int kind, int type, double megabytes)
{
    char formula[160], sizes[64];
    const char *name = types[type].name;
    const double item = kinds[kind].is_from_f32 ? 4 : types[type].bytes;
    timed narrow, wide;
    snprintf(formula, sizeof formula, kinds[kind].formula, name, name, name);
    prepare(&narrow, context, formula, sizes_of(sizes, kinds[kind].n_rows, megabytes, item));
    sizes_of(sizes, kinds[kind].n_rows, narrow.bytes * 1e-6, kinds[kind].f32_bytes); /* as many bytes in all */
    prepare(&wide, context, kinds[kind].f32, sizes);
    for (int i = 0; i < ROUNDS; i++) {
        repeat(&narrow);
        repeat(&wide);
    }
    printf("{\"op\": \"%s\", \"type\": \"%s\", \"us\": %.1f, \"gbps\": %.1f, \"f32_us\": %.1f, \"f32_gbps\": %.1f, "
           "\"of_f32\": %.2f}\n",
           kinds[kind].name, name, narrow.us, narrow.bytes / narrow.us * 1e-3, wide.us, wide.bytes / wide.us * 1e-3,
           narrow.bytes / narrow.us / (wide.bytes / wide.us));
    fflush(stdout);
    finish(&narrow);
    finish(&wide);
}

int main(int argc, char **argv)
{
    const double megabytes = argc > 1 ? atof(argv[1]) : 4;
    const char *only = argc > 2 ? argv[2] : NULL;
    md_context *context;
    bench_ok(md_context_create(&context, NULL));
    for (int kind = 0; kind < (int)(sizeof kinds / sizeof kinds[0]); kind++)
        for (int type = 0; type < (int)(sizeof types / sizeof types[0]); type++)
            if ((!only || !strcmp(only, kinds[kind].name)) &&
                (kinds[kind].takes == BOTH || (kinds[kind].takes == BOOLS) == !strcmp(types[type].name, "bool")))
                compare(context, kind, type, megabytes);
    md_context_destroy(&context);
    return 0;
}
