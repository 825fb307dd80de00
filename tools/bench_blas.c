/* Our products against CBLAS on the same data: pairs of bursts, one of each, the ratio of each pair, the median of the
 * ratios. One JSON object a line. See usage below. Built only where the build has CBLAS. */
#include <md/md.h>

#include <cblas.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "usage: md_bench_blas [--no-lib] [--pin VARIANT] [--reps N] [--threads N] [--only TEXT] [--cores A,B,...]\n"
    "  Times f32 products of ours (md_launch_run) and of CBLAS in turns. ratio > 1: ours is faster.\n"
    "  --no-lib    ours must not call the library      --pin    this variant, for example gemm/rows12_vecs2\n"
    "  --reps      pairs per case (15)                 --only   cases whose name holds TEXT, for example 256x256\n"
    "  --threads   of ours (2); set OPENBLAS_NUM_THREADS for the library's\n"
    "  --cores     runs once per OPENBLAS_CORETYPE and prints, per case, the run in which the library was fastest\n";

enum { MAX_REPS = 101, MAX_CASES = 64, IDLE_US = 30000 }; /* idle: threads of the other side stop spinning */

typedef struct options {
    int reps, threads, without_library;
    const char *pin, *only, *cores;
} options;

typedef struct product {
    int m, n, k;
    bool turned; /* B is [n,k] */
    bool has_gelu; /* gelu(.. + bias), fused by us, a pass of its own after the library */
} product;

/* Everything of one case. */
typedef struct bench {
    product p;
    md_op *op, *pass_op;
    md_launch *launch, *pass;
    float *a, *b, *bias, *ours, *theirs;
    bool by_gemv;
} bench;

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int fail(const char *what)
{
    fprintf(stderr, "md_bench_blas: %s: %s\n", what, md_last_error());
    return 1;
}

static void fill(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) * 0x1p-24F - 0.5F;
    }
}

static void name_of(char out[64], const product *p)
{
    snprintf(out, 64, "%dx%dx%d_%s%s", p->m, p->n, p->k, p->turned ? "nt" : "nn", p->has_gelu ? "_bias_gelu" : "");
}

static md_tensor matrix(float *data, int64_t rows, int64_t columns)
{
    return md_tensor_make(data, MD_F32, 2, (int64_t[]){rows, columns});
}

/* ---- The two sides */
static void run_theirs(const bench *b)
{
    const product *p = &b->p;
    if (b->by_gemv)
        cblas_sgemv(CblasRowMajor, p->turned ? CblasNoTrans : CblasTrans, p->turned ? p->n : p->k,
                    p->turned ? p->k : p->n, 1.0F, b->b, p->turned ? p->k : p->n, b->a, 1, 0.0F, b->theirs, 1);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, p->turned ? CblasTrans : CblasNoTrans, p->m, p->n, p->k, 1.0F, b->a,
                    p->k, b->b, p->turned ? p->k : p->n, 0.0F, b->theirs, p->n);
    if (b->pass)
        md_launch_run(b->pass, NULL, NULL, 0);
}

static void run_ours(const bench *b)
{
    md_launch_run(b->launch, NULL, NULL, 0);
}

/* One burst after an idle time: warmed up, then `calls` of them. Microseconds a call. */
static double burst(const bench *b, void (*run)(const bench *b), int calls)
{
    usleep(IDLE_US);
    run(b);
    run(b);
    double begin = now_us();
    for (int i = 0; i < calls; i++)
        run(b);
    return (now_us() - begin) / calls;
}

/* A matrix with one row goes by whichever call of the library is faster. */
static void choose_call(bench *b)
{
    double us[2] = {1e30, 1e30};
    for (int i = 0; b->p.m == 1 && i < 6; i++) {
        b->by_gemv = i % 2;
        us[i % 2] = fmin(us[i % 2], burst(b, run_theirs, 3));
    }
    b->by_gemv = us[1] < us[0];
}

static double largest_error(const bench *b)
{
    double error = 0, scale = 1e-30;
    for (size_t i = 0; i < (size_t)b->p.m * (size_t)b->p.n; i++) {
        error = fmax(error, fabs((double)b->ours[i] - (double)b->theirs[i]));
        scale = fmax(scale, fabs((double)b->theirs[i]));
    }
    return error / scale;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double middle(const double *x, int n)
{
    double sorted[MAX_REPS];
    memcpy(sorted, x, (size_t)n * sizeof *x);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    return sorted[n / 2];
}

static void report(const bench *b, const double *ours, const double *theirs, int reps)
{
    char name[64];
    double ratio[MAX_REPS], flops = 2.0 * b->p.m * b->p.n * b->p.k;
    md_choice choice;
    name_of(name, &b->p);
    for (int i = 0; i < reps; i++)
        ratio[i] = theirs[i] / ours[i];
    qsort(ratio, (size_t)reps, sizeof *ratio, by_value);
    const char *variant = md_launch_choice(&choice, b->launch) == MD_OK ? choice.variant[0] : "?";
    printf("{\"case\": \"%s\", \"ratio\": %.3f, \"lo\": %.3f, \"hi\": %.3f, \"md_us\": %.1f, \"blas_us\": %.1f, "
           "\"md_gflops\": %.1f, "
           "\"blas_gflops\": %.1f, \"variant\": \"%s\", \"blas\": \"%s\", \"core\": \"%s\", \"blas_threads\": %d, "
           "\"error\": %.2g}\n",
           name, ratio[reps / 2], ratio[reps / 4], ratio[reps - 1 - reps / 4], middle(ours, reps), middle(theirs, reps),
           flops / middle(ours, reps) * 1e-3, flops / middle(theirs, reps) * 1e-3, variant,
           b->by_gemv ? "sgemv" : "sgemm", openblas_get_corename(), openblas_get_num_threads(), largest_error(b));
    fflush(stdout);
}

static void measure(bench *b, const options *o)
{
    double ours[MAX_REPS], theirs[MAX_REPS];
    choose_call(b);
    int calls = 1 + (int)(3000 / burst(b, run_theirs, 1));
    if (calls > 40)
        calls = 40;
    for (int i = 0; i < o->reps; i++) { /* the order changes, so that a drift favours neither */
        if (i % 2)
            ours[i] = burst(b, run_ours, calls);
        theirs[i] = burst(b, run_theirs, calls);
        if (i % 2 == 0)
            ours[i] = burst(b, run_ours, calls);
    }
    report(b, ours, theirs, o->reps);
}

/* ---- One case */
static int make_launches(bench *b, md_context *ctx, const options *o)
{
    const product *p = &b->p;
    char formula[128], sizes[64];
    md_tensor y = matrix(b->ours, p->m, p->n), x = matrix(b->a, p->m, p->k), z = matrix(b->theirs, p->m, p->n);
    md_tensor w = p->turned ? matrix(b->b, p->n, p->k) : matrix(b->b, p->k, p->n),
              bias = md_tensor_make(b->bias, MD_F32, 1, (int64_t[]){p->n});
    const char *sum = p->turned ? "sum[k](X[m,k] * W[n,k])" : "sum[k](X[m,k] * W[k,n])";
    snprintf(formula, sizeof formula, p->has_gelu ? "Y[m,n] = gelu(%s + bias[n])" : "Y[m,n] = %s", sum);
    snprintf(sizes, sizeof sizes, "(m=%d)", p->m);
    char statics[64];
    snprintf(statics, sizeof statics, "n=%d, k=%d", p->n, p->k);
    md_op_options op_options = {.sizes = statics, .hints = sizes, .pin = o->pin, .without_library = o->without_library};
    if (md_op_create(&b->op, ctx, formula, &op_options) != MD_OK || md_op_wait(b->op) != MD_OK)
        return fail(formula);
    if (md_resolve(&b->launch, b->op, (md_arg[]){md_t(&y), md_t(&x), md_t(&w), md_t(&bias)}, p->has_gelu ? 4 : 3) !=
        MD_OK)
        return fail("resolve");
    if (!p->has_gelu)
        return 0;
    if (md_op_create(&b->pass_op, ctx, "Y[m,n] = gelu(P[m,n] + bias[n])", NULL) != MD_OK ||
        md_op_wait(b->pass_op) != MD_OK ||
        md_resolve(&b->pass, b->pass_op, (md_arg[]){md_t(&z), md_t(&z), md_t(&bias)}, 3) != MD_OK)
        return fail("pass");
    return 0;
}

static float *floats(size_t n, uint32_t seed)
{
    float *x = aligned_alloc(64, (n * sizeof *x + 63) / 64 * 64);
    if (x)
        fill(x, n, seed);
    return x;
}

static int run_case(const product *p, md_context *ctx, const options *o)
{
    bench b = {.p = *p};
    size_t m = (size_t)p->m, n = (size_t)p->n, k = (size_t)p->k;
    b.a = floats(m * k, 1);
    b.b = floats(n * k, 2);
    b.bias = floats(n, 3);
    b.ours = floats(m * n, 4);
    b.theirs = floats(m * n, 5);
    int status = b.a && b.b && b.bias && b.ours && b.theirs ? make_launches(&b, ctx, o) : 1;
    if (status == 0)
        measure(&b, o);
    md_launch_destroy(&b.launch);
    md_launch_destroy(&b.pass);
    md_op_destroy(&b.op);
    md_op_destroy(&b.pass_op);
    free(b.a);
    free(b.b);
    free(b.bias);
    free(b.ours);
    free(b.theirs);
    return status;
}

static int list_cases(product out[MAX_CASES])
{
    static const int squares[] = {256, 512, 1024, 2048}, batches[] = {1, 2, 4, 8, 16, 32, 64, 128, 256};
    int n = 0;
    for (int turned = 0; turned < 2; turned++) {
        for (int i = 0; i < 4; i++)
            out[n++] = (product){squares[i], squares[i], squares[i], turned, false};
        for (int i = 0; i < 9; i++)
            out[n++] = (product){batches[i], 4096, 1024, turned, false};
        for (int i = 4; i < 9; i += 2)
            out[n++] = (product){batches[i], 4096, 1024, turned, true};
    }
    return n;
}

static int run_cases(const options *o)
{
    product all[MAX_CASES];
    md_context *ctx = NULL;
    int n = list_cases(all), status = 0;
    if (md_context_create(&ctx, &(md_context_options){.device = "host", .threads = o->threads}) != MD_OK)
        return fail("context");
    for (int i = 0; i < n && status == 0; i++) {
        char name[64];
        name_of(name, &all[i]);
        if (!o->only || strstr(name, o->only))
            status = run_case(&all[i], ctx, o);
    }
    md_context_destroy(&ctx);
    return status;
}

/* ---- One run per core type of the library: the one in which it was fastest counts */
typedef struct best {
    char line[1024], name[64];
    double us;
} best;

static void keep_best(best *all, int *n, const char *line)
{
    char name[64] = "";
    double us = 0;
    const char *at = strstr(line, "\"blas_us\": ");
    if (sscanf(line, "{\"case\": \"%63[^\"]", name) != 1 || !at || sscanf(at, "\"blas_us\": %lf", &us) != 1)
        return;
    int i = 0;
    while (i < *n && strcmp(all[i].name, name) != 0)
        i++;
    if (i == *n && *n < MAX_CASES)
        all[(*n)++] = (best){.us = 1e30};
    if (i < *n && us < all[i].us) {
        snprintf(all[i].line, sizeof all[i].line, "%s", line);
        snprintf(all[i].name, sizeof all[i].name, "%s", name);
        all[i].us = us;
    }
}

static int run_core(const char *core, char **argv, best *all, int *n)
{
    int ends[2], status = 1;
    char line[1024];
    if (pipe(ends) != 0)
        return 1;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        setenv("OPENBLAS_CORETYPE", core, 1);
        setenv("MD_BENCH_CHILD", "1", 1);
        execv("/proc/self/exe", argv);
        _exit(127);
    }
    close(ends[1]);
    FILE *from = fdopen(ends[0], "r");
    while (from && fgets(line, sizeof line, from))
        keep_best(all, n, line);
    if (from)
        fclose(from);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

static int run_cores(const options *o, char **argv)
{
    static best all[MAX_CASES];
    int n = 0, status = 0;
    char *names = strdup(o->cores), *rest = NULL;
    for (char *core = names ? strtok_r(names, ",", &rest) : NULL; core && status == 0;
         core = strtok_r(NULL, ",", &rest))
        status = run_core(core, argv, all, &n);
    for (int i = 0; i < n; i++)
        fputs(all[i].line, stdout);
    free(names);
    return status;
}

int main(int argc, char **argv)
{
    options o = {.reps = 15, .threads = 2};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool takes = true;
        if (strcmp(argv[i], "--no-lib") == 0) {
            o.without_library = 1;
            takes = false;
        } else if (value && strcmp(argv[i], "--pin") == 0)
            o.pin = value;
        else if (value && strcmp(argv[i], "--only") == 0)
            o.only = value;
        else if (value && strcmp(argv[i], "--cores") == 0)
            o.cores = value;
        else if (value && strcmp(argv[i], "--reps") == 0 && atoi(value) >= 1 && atoi(value) <= MAX_REPS)
            o.reps = atoi(value);
        else if (value && strcmp(argv[i], "--threads") == 0 && atoi(value) >= 1)
            o.threads = atoi(value);
        else {
            fputs(usage, strcmp(argv[i], "--help") == 0 ? stdout : stderr);
            return strcmp(argv[i], "--help") == 0 ? 0 : 2;
        }
        i += takes;
    }
    return o.cores && !getenv("MD_BENCH_CHILD") ? run_cores(&o, argv) : run_cases(&o);
}
