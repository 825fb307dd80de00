/* Narrow types on the CPU: how near each op comes to the speed of its bytes. Lines of JSON; `share` is the time that a
 * copy of f32 takes that moves as many bytes, over the op's time: in turns, the best of a few. MD_CPU, MD_CC and
 * MD_THREADS say how.
 *
 *   bench_narrow [MEGABYTES [OP [TYPE]]]      of each input, default 4; one op, one type; default all */
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
    const char *name, *formula; /* %s: the type */
    int takes, n_rows; /* n_rows: of a product; -1: a matrix; 0: one axis */
} kinds[] = {{"relu", "Y:%s[i] = relu(X:%s[i])", NUMBERS, 0},
             {"copy", "Y:%s[i] = X:%s[i]", BOTH, 0},
             {"add", "Y:%s[i] = X:%s[i] + Z:%s[i]", NUMBERS, 0},
             {"or", "Y:%s[i] = X:%s[i] or Z:%s[i]", BOOLS, 0},
             {"scale", "Y:%s[i] = X:%s[i] * 0.37", NUMBERS, 0},
             {"to f32", "Y[i] = X:%s[i] * 0.5", BOTH, 0},
             {"row sum", "Y[i] = sum[j](X:%s[i,j])", NUMBERS, -1},
             {"row max", "Y[i] = max[j](X:%s[i,j])", NUMBERS, -1},
             {"row any", "Y:bool[i] = any[j](X:%s[i,j])", BOOLS, -1},
             {"column sum", "Y[j] = sum[i](X:%s[i,j])", NUMBERS, -1},
             {"sum", "Y[] = sum[i](X:%s[i])", NUMBERS, 0},
             {"1 row", "Y[b,j] = sum[k](A[b,k] * W:%s[j,k])", NUMBERS, 1},
             {"8 rows", "Y[b,j] = sum[k](A[b,k] * W:%s[j,k])", NUMBERS, 8}};
static const struct {
    const char *name;
    double bytes;
} types[] = {{"f32", 4},  {"i4", 0.5}, {"i8", 1},  {"u8", 1},     {"i16", 2},
             {"bool", 1}, {"bf16", 2}, {"f16", 2}, {"f8e4m3", 1}, {"f8e5m2", 1}};

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
        snprintf(out, 64, "i=%ld, j=4096", n / 4096 + 1);
    else
        snprintf(out, 64, "i=%ld", n);
    return out;
}

static void compare(md_context *context, int kind, int type, double megabytes)
{
    char formula[160], sizes[64];
    const char *name = types[type].name;
    timed op, copy;
    snprintf(formula, sizeof formula, kinds[kind].formula, name, name, name);
    prepare(&op, context, formula, sizes_of(sizes, kinds[kind].n_rows, megabytes, types[type].bytes));
    prepare(&copy, context, "Y[i] = X[i]", sizes_of(sizes, 0, op.bytes * 1e-6, 8)); /* as many bytes in all */
    for (int i = 0; i < ROUNDS; i++) {
        repeat(&op);
        repeat(&copy);
    }
    printf("{\"op\": \"%s\", \"type\": \"%s\", \"us\": %.1f, \"gbps\": %.1f, \"copy_us\": %.1f, \"share\": %.2f}\n",
           kinds[kind].name, name, op.us, op.bytes / op.us * 1e-3, copy.us, copy.us / op.us);
    fflush(stdout);
    finish(&op);
    finish(&copy);
}

static int is_wanted(int kind, int type, int n, char **word)
{
    return (n < 3 || !strcmp(word[2], kinds[kind].name)) && (n < 4 || !strcmp(word[3], types[type].name)) &&
           (kinds[kind].takes == BOTH || (kinds[kind].takes == BOOLS) == !strcmp(types[type].name, "bool"));
}

int main(int argc, char **argv)
{
    const double megabytes = argc > 1 ? atof(argv[1]) : 4;
    md_context *context;
    bench_ok(md_context_create(&context, NULL));
    for (int kind = 0; kind < (int)(sizeof kinds / sizeof kinds[0]); kind++)
        for (int type = 0; type < (int)(sizeof types / sizeof types[0]); type++)
            if (is_wanted(kind, type, argc, argv))
                compare(context, kind, type, megabytes);
    md_context_destroy(&context);
    return 0;
}
