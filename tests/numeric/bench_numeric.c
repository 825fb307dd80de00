/* What numeric policies cost: time of each over that of `fast`, with kernels made for the shape, medians of the
 * ratios of neighbouring runs. bench_numeric [host|cuda [first row, step [lock file]]] writes one JSON line an op
 * and shape. */
#include "base/sort.h"
#include "support/check.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/file.h>
#include <unistd.h>

enum { POLICIES = 3, RUNS = 15, MAX_ARGS = 8 };

typedef struct row {
    const char *formula;
    md_dtype dtype;
    const char *host, *cuda; /* sizes; NULL: not there */
} row;

#define SOFTMAX "Y[b,n] = exp(X[b,n] - max[k](X[b,k])) / sum[k](exp(X[b,k] - max[l](X[b,l])))"
#define LAYER_NORM "Y[b,n] = (X[b,n] - mean[k](X[b,k])) * rsqrt(var[k](X[b,k]) + 1e-5) * G[n] + B[n]"
#define LINEAR "Y[b,n] = sum[k](X[b,k] * W[n,k])"

static const row board[] = {
    {SOFTMAX, MD_BF16, "b=512, n=1024", "b=8192, n=4096"},
    {SOFTMAX, MD_F32, "b=4, n=262144", "b=8, n=262144"},
    {SOFTMAX, MD_BF16, "b=257, n=12289", "b=4097, n=12289"},
    {LAYER_NORM, MD_BF16, "b=2048, n=1024", "b=16384, n=1024"},
    {"Y[b] = sum[n](X[b,n])", MD_F32, "b=1, n=4194304", "b=1, n=16777216"},
    {"Y[b] = sum[n](X[b,n])", MD_F32, "b=4096, n=256", "b=262144, n=64"},
    {"Y[n] = sum[b](X[b,n])", MD_F32, "b=4096, n=1024", "b=65536, n=1024"},
    {"Y[b,n] = cumsum[n](X[b,n])", MD_F32, "b=64, n=16384", "b=16384, n=1024"},
    {"Y[b,n] = cumsum[n](X[b,n])", MD_F32, "b=1, n=1048576", "b=1, n=16777216"},
    {LINEAR, MD_F32, "b=1, n=2048, k=2048", "b=64, n=1024, k=1024"},
    {LINEAR, MD_F32, "b=16, n=2048, k=2048", "b=2048, n=2048, k=2048"},
    {LINEAR, MD_F32, "b=512, n=512, k=512", NULL},
    {LINEAR, MD_BF16, NULL, "b=1, n=4096, k=4096"},
    {LINEAR, MD_BF16, NULL, "b=16, n=4096, k=4096"},
    {LINEAR, MD_BF16, NULL, "b=256, n=4096, k=4096"},
    {LINEAR, MD_BF16, NULL, "b=4096, n=4096, k=4096"},
    {"G[ids[t],d] += D[t,d]", MD_F32, "t=4096, d=256, G.0=1000", "t=65536, d=256, G.0=50000"},
};

typedef struct contender {
    md_op *op;
    md_launch *launch;
    md_choice choice;
    double us[RUNS];
} contender;

static const char *lock_path; /* several processes make their ops at a time, and measure one after the other */

static void check(md_status status, const char *what)
{
    if (status == MD_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, md_last_error());
    exit(1);
}

/* Reals of 0.5 to 1, indices of up to 999. */
static void fill(char *to, md_dtype type, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        uint32_t h = (uint32_t)k * 2654435761u >> 12;
        if (type == MD_F32)
            memcpy(to + k * 4, &(float){0.5f + (float)(h % 1000) / 2000}, 4);
        else if (type == MD_BF16)
            memcpy(to + k * 2, &(uint16_t){(uint16_t)(0x3f00 | (h & 127))}, 2);
        else
            memcpy(to + k * 8, &(int64_t){h % 1000}, 8);
    }
}

static int32_t make_args(md_arg *arg, md_tensor *tensor, md_context *context, md_op *op, const char *sizes)
{
    int32_t n = md_op_n_args(op);
    for (int32_t i = 0; i < n; i++) {
        size_t n_bytes = 1;
        check(md_op_tensor(&tensor[i], op, i, sizes), sizes);
        for (int32_t a = 0; a < tensor[i].rank; a++)
            n_bytes *= (size_t)tensor[i].size[a];
        n_bytes *= md_dtype_size(tensor[i].dtype);
        char *image = malloc(n_bytes);
        check(image ? md_alloc(&tensor[i].data, context, n_bytes) : MD_OUT_OF_MEMORY, "memory");
        fill(image, tensor[i].dtype, n_bytes / md_dtype_size(tensor[i].dtype));
        check(md_copy(context, tensor[i].data, image, n_bytes), "md_copy");
        free(image);
        arg[i] = md_t(&tensor[i]);
    }
    return n;
}

static void run(md_context *context, const row *r, const char *sizes)
{
    static const char *const name[] = {"fast", "deterministic", "batch_invariant"};
    contender c[POLICIES] = {{0}};
    md_arg arg[MAX_ARGS];
    md_tensor tensor[MAX_ARGS];
    int32_t n = 0;
    for (int32_t p = 0; p < POLICIES; p++) {
        char hint[128];
        const char *other = strstr(sizes, ", G.0"); /* no index runs over it */
        snprintf(hint, sizeof hint, "(%.*s)", (int)(other ? other - sizes : (ptrdiff_t)strlen(sizes)), sizes);
        md_op_options o = {.dtype = r->dtype, .numeric = (md_numeric)(MD_NUMERIC_FAST + p), .hints = hint};
        check(md_op_create(&c[p].op, context, r->formula, &o), r->formula);
    }
    int lock = lock_path ? open(lock_path, O_RDWR | O_CREAT, 0600) : -1;
    if (lock >= 0)
        (void)flock(lock, LOCK_EX);
    for (int32_t p = 0; p < POLICIES; p++) {
        if (p == 0)
            n = make_args(arg, tensor, context, c[p].op, sizes);
        check(md_resolve(&c[p].launch, c[p].op, arg, n), r->formula);
        check(md_launch_choice(&c[p].choice, c[p].launch), "md_launch_choice");
    }
    for (int32_t k = -2; k < RUNS; k++)
        for (int32_t i = 0; i < POLICIES; i++) {
            int32_t p = k & 1 ? POLICIES - 1 - i : i;
            double us = 0;
            check(md_launch_time(&us, c[p].launch, NULL), "md_launch_time");
            if (k >= 0)
                c[p].us[k] = us;
        }
    printf("{\"formula\": \"%s\", \"dtype\": \"%s\", \"sizes\": \"%s\"", r->formula, md_dtype_name(r->dtype), sizes);
    double ratio[POLICIES][RUNS];
    for (int32_t p = 0; p < POLICIES; p++) {
        for (int32_t k = 0; k < RUNS; k++)
            ratio[p][k] = c[p].us[k] / c[0].us[k];
        md_sort_doubles(ratio[p], RUNS);
    }
    for (int32_t p = 0; p < POLICIES; p++) {
        md_sort_doubles(c[p].us, RUNS);
        printf(", \"%s\": {\"us\": %.2f, \"ratio\": %.3f, \"variant\": \"%s\"}", name[p], c[p].us[RUNS / 2],
               ratio[p][RUNS / 2], c[p].choice.variant[0]);
    }
    printf("}\n");
    fflush(stdout);
    if (lock >= 0)
        close(lock);
    for (int32_t p = 0; p < POLICIES; p++) {
        md_launch_destroy(&c[p].launch);
        md_op_destroy(&c[p].op);
    }
    for (int32_t i = 0; i < n; i++)
        md_free(context, tensor[i].data);
}

int main(int argc, char **argv)
{
    md_context *context = NULL;
    const char *device = argc > 1 ? argv[1] : "host";
    lock_path = argc > 4 ? argv[4] : NULL;
    check(md_context_create(&context, &(md_context_options){.device = device}), "md_context_create");
    for (size_t i = 0; i < sizeof board / sizeof *board; i++) {
        const char *sizes = strcmp(device, "host") ? board[i].cuda : board[i].host;
        if (sizes && (argc < 4 || (int)i % atoi(argv[3]) == atoi(argv[2])))
            run(context, &board[i], sizes);
    }
    md_context_destroy(&context);
    return 0;
}
