/* Narrow types on the CPU: how near each op comes to the speed of its bytes. Lines of JSON; `of_f32` is the rate of the
 * op's bytes over that of the same op of f32 with as many bytes, in turns, the best of a few. MD_CPU, MD_CC and
 * MD_THREADS say how.
 *
 *   bench_narrow [MEGABYTES]      of each input; default 4 */
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
    int takes, is_elementwise, is_from_f32, is_product;
} kinds[] = {{"relu", "Y:%s[i] = relu(X:%s[i])", "Y[i] = relu(X[i])", NUMBERS, 1, 0, 0},
             {"to f32", "Y[i] = X:%s[i] * 0.5", "Y[i] = X[i] * 0.5", BOTH, 1, 0, 0},
             {"from f32", "Y:%s[i] = X:f32[i]", "Y[i] = X[i] * 0.5", BOTH, 1, 1, 0},
             {"sum", "Y[] = sum[i](X:%s[i])", "Y[] = sum[i](X[i])", NUMBERS, 0, 0, 0},
             {"any", "Y[] = any[i](X:%s[i])", "Y[] = sum[i](X[i])", BOOLS, 0, 0, 0},
             {"product", "Y[j] = sum[k](A[k] * W:%s[j,k])", "Y[j] = sum[k](A[k] * W[j,k])", NUMBERS, 0, 0, 1}};
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
static const char *sizes_of(char out[64], int is_product, double megabytes, double item)
{
    const long n = (long)(megabytes * 1e6 / item);
    if (is_product)
        snprintf(out, 64, "j=%ld, k=1024", n / 1024);
    else
        snprintf(out, 64, "i=%ld", n);
    return out;
}

static void compare(md_context *context, int kind, int type, double megabytes)
{
    char formula[96], sizes[64];
    const double item = kinds[kind].is_from_f32 ? 4 : types[type].bytes;
    timed narrow, wide;
    snprintf(formula, sizeof formula, kinds[kind].formula, types[type].name, types[type].name);
    prepare(&narrow, context, formula, sizes_of(sizes, kinds[kind].is_product, megabytes, item));
    /* as many bytes in all: elementwise ops of f32 read and write 8 an element, others read 4 */
    const double per_element = kinds[kind].is_elementwise ? 8 : 4;
    prepare(&wide, context, kinds[kind].f32, sizes_of(sizes, kinds[kind].is_product, narrow.bytes * 1e-6, per_element));
    for (int i = 0; i < ROUNDS; i++) {
        repeat(&narrow);
        repeat(&wide);
    }
    printf("{\"op\": \"%s\", \"type\": \"%s\", \"us\": %.1f, \"gbps\": %.1f, \"f32_us\": %.1f, \"f32_gbps\": %.1f, "
           "\"of_f32\": %.2f}\n",
           kinds[kind].name, types[type].name, narrow.us, narrow.bytes / narrow.us * 1e-3, wide.us,
           wide.bytes / wide.us * 1e-3, narrow.bytes / narrow.us / (wide.bytes / wide.us));
    fflush(stdout);
    finish(&narrow);
    finish(&wide);
}

int main(int argc, char **argv)
{
    const double megabytes = argc > 1 ? atof(argv[1]) : 4;
    md_context *context;
    bench_ok(md_context_create(&context, NULL));
    for (int kind = 0; kind < (int)(sizeof kinds / sizeof kinds[0]); kind++)
        for (int type = 0; type < (int)(sizeof types / sizeof types[0]); type++)
            if (kinds[kind].takes == BOTH || (kinds[kind].takes == BOOLS) == !strcmp(types[type].name, "bool"))
                compare(context, kind, type, megabytes);
    md_context_destroy(&context);
    return 0;
}
