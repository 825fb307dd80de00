/* Four llama-like layers without attention as one sequence against the same calls one by one, bf16, one step a token
 * count: us a step, wall, synchronised. Lines of JSON.
 *
 *   bench_sequence STEPS.txt [SCALE]
 *
 * STEPS.txt has a token count a line (1 to 1024). SCALE (default 1) divides all model sizes, for a look on a CPU.
 * MD_DEVICE says where. Each way makes three passes; "host" is the time until the step is enqueued. */
#include "bench_program.h"

#include <md/sequence.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { L = 4, MAX = 1024, MAX_STEPS = 4096, N_OPS = 6 };
static int D = 4096, Q = 6144, H = 11008;

static const char *const formula[] = {"Y[t,d] = X[t,d] * rsqrt(mean[k](X[t,k] * X[t,k]) + 1e-6) * G[d]",
                                      "Y[t,n] = sum[k](X[t,k] * W[n,k])", "Y[t,n] = R[t,n] + sum[k](X[t,k] * W[n,k])",
                                      "Y[t,n] = silu(sum[k](X[t,k] * W[n,k])) * sum[k](X[t,k] * V[n,k])"};

typedef struct layer {
    void *w[5];
} layer;

typedef struct model {
    md_context *context;
    md_op *op[N_OPS];
    layer layer[L];
    void *x, *other, *n, *q, *h, *g; /* other: as large as x */
    md_sequence *sequence;
} model;

/* ---- The model */

static void *make(const model *m, size_t n, const unsigned short *noise)
{
    void *p = NULL;
    bench_ok(md_alloc(&p, m->context, n * 2));
    bench_ok(md_copy(m->context, p, noise, n * 2));
    return p;
}

static void make_ops(model *m)
{
    const int f[N_OPS] = {0, 1, 2, 0, 3, 2}, n[N_OPS] = {D, Q, D, D, H, D}, k[N_OPS] = {0, D, D, 0, D, H};
    for (int i = 0; i < N_OPS; i++) {
        char sizes[64];
        snprintf(sizes, sizeof sizes, k[i] ? "n=%d, k=%d" : "d=%d", n[i], k[i]);
        bench_ok(md_op_create(
            &m->op[i], m->context, formula[f[i]],
            &(md_op_options){.dtype = MD_BF16, .sizes = sizes, .without_library = getenv("LAYER_OWN") != NULL}));
    }
    for (int i = 0; i < N_OPS; i++)
        bench_ok(md_op_wait(m->op[i]));
}

static void make_memory(model *m)
{
    const size_t most = (size_t)(H > MAX ? H : MAX) * (size_t)(D > MAX ? D : MAX) + (size_t)MAX * (size_t)H;
    unsigned short *noise = malloc(most * 2);
    for (size_t i = 0; noise && i < most; i++)
        noise[i] = (unsigned short)(0x3c00 + (rand() & 0x80ff));
    m->x = make(m, (size_t)MAX * D, noise);
    m->other = make(m, (size_t)MAX * D, noise);
    m->n = make(m, (size_t)MAX * D, noise);
    m->q = make(m, (size_t)MAX * Q, noise);
    m->h = make(m, (size_t)MAX * H, noise);
    m->g = make(m, (size_t)D, noise);
    for (int l = 0; l < L; l++) {
        const size_t n[5] = {(size_t)Q * D, (size_t)D * D, (size_t)H * D, (size_t)H * D, (size_t)D * H};
        for (int i = 0; i < 5; i++)
            m->layer[l].w[i] = make(m, n[i], noise);
    }
    free(noise);
}

/* ---- As a sequence */

static int32_t add(md_sequence *s, md_sequence_role role, void *data, int rows, int columns)
{
    char size[48];
    int32_t id;
    if (rows > 0)
        snprintf(size, sizeof size, "%d, %d", rows, columns);
    else
        snprintf(size, sizeof size, rows ? "%s%d" : "%s, %d", rows ? "" : "t", columns);
    bench_ok(md_sequence_add_tensor(&id, s,
                                    &(md_sequence_tensor){.role = role, .dtype = MD_BF16, .size = size, .data = data}));
    return id;
}

static void call(model *m, int op, const int32_t *id, int n)
{
    md_sequence_arg arg[4] = {{0}};
    for (int i = 0; i < n; i++)
        arg[i].id = id[i];
    bench_ok(md_sequence_add_call(m->sequence, m->op[op], arg, n));
}

static void make_sequence(model *m)
{
    md_sequence *s;
    char size[32], stride[32];
    int32_t a;
    bench_ok(md_sequence_create(&m->sequence, m->context,
                                &(md_sequence_options){.name = "layers", .max_graphs = getenv("CHAIN") ? -1 : 0}));
    s = m->sequence;
    bench_ok(md_sequence_add_dim(NULL, s, "t", 1, MAX));
    const int32_t x = add(s, MD_SEQUENCE_OUTPUT, NULL, 0, D), g = add(s, MD_SEQUENCE_CONSTANT, m->g, -1, D);
    for (int l = 0; l < L; l++) {
        void *const *p = m->layer[l].w;
        const int32_t w0 = add(s, MD_SEQUENCE_CONSTANT, p[0], Q, D), w1 = add(s, MD_SEQUENCE_CONSTANT, p[1], D, D),
                      w2 = add(s, MD_SEQUENCE_CONSTANT, p[2], H, D), w3 = add(s, MD_SEQUENCE_CONSTANT, p[3], H, D),
                      w4 = add(s, MD_SEQUENCE_CONSTANT, p[4], D, H);
        const int32_t n = add(s, MD_SEQUENCE_TEMPORARY, NULL, 0, D), q = add(s, MD_SEQUENCE_TEMPORARY, NULL, 0, Q),
                      k = add(s, MD_SEQUENCE_TEMPORARY, NULL, 0, D), h = add(s, MD_SEQUENCE_TEMPORARY, NULL, 0, H);
        snprintf(size, sizeof size, "t, %d", D);
        snprintf(stride, sizeof stride, "%d, 1", Q);
        bench_ok(md_sequence_add_tensor(&a, s, &(md_sequence_tensor){.view_of = q, .size = size, .stride = stride}));
        call(m, 0, (int32_t[]){n, x, g}, 3);
        call(m, 1, (int32_t[]){q, n, w0}, 3);
        call(m, 2, (int32_t[]){x, x, a, w1}, 4);
        call(m, 3, (int32_t[]){k, x, g}, 3);
        call(m, 4, (int32_t[]){h, k, w2, w3}, 4);
        call(m, 5, (int32_t[]){x, x, h, w4}, 4);
    }
    bench_ok(md_sequence_finish(s));
}

static void run_sequence(const model *m, int t)
{
    const int64_t size = t;
    void *data = m->x;
    bench_ok(md_sequence_run(m->sequence, NULL, &size, 1, &data, 1));
}

/* ---- Call by call */

static md_tensor view(void *p, int64_t rows, int64_t columns)
{
    const int64_t size[] = {rows, columns};
    return rows ? md_tensor_make(p, MD_BF16, 2, size) : md_tensor_make(p, MD_BF16, 1, size + 1);
}

static void run_calls(const model *m, int t)
{
    for (int l = 0; l < L; l++) {
        void *const *w = m->layer[l].w;
        md_tensor X = view(m->x, t, D), N = view(m->n, t, D), Y = view(m->q, t, Q), A = view(m->q, t, D),
                  B = view(m->h, t, H), G = view(m->g, 0, D), W0 = view(w[0], Q, D), W1 = view(w[1], D, D),
                  W2 = view(w[2], H, D), W3 = view(w[3], H, D), W4 = view(w[4], D, H);
        A.stride[0] = Q;
        bench_ok(md_call(m->op[0], NULL, (md_arg[]){md_t(&N), md_t(&X), md_t(&G)}, 3));
        bench_ok(md_call(m->op[1], NULL, (md_arg[]){md_t(&Y), md_t(&N), md_t(&W0)}, 3));
        bench_ok(md_call(m->op[2], NULL, (md_arg[]){md_t(&X), md_t(&X), md_t(&A), md_t(&W1)}, 4));
        bench_ok(md_call(m->op[3], NULL, (md_arg[]){md_t(&N), md_t(&X), md_t(&G)}, 3));
        bench_ok(md_call(m->op[4], NULL, (md_arg[]){md_t(&B), md_t(&N), md_t(&W2), md_t(&W3)}, 4));
        bench_ok(md_call(m->op[5], NULL, (md_arg[]){md_t(&X), md_t(&X), md_t(&B), md_t(&W4)}, 4));
    }
}

/* ---- Measuring */

static void passes(const model *m, const char *what, void (*step)(const model *m, int t), const int *steps, int n)
{
    static double us[MAX_STEPS], host[MAX_STEPS];
    for (int pass = 0; pass < 3; pass++) {
        double sum = 0;
        for (int i = 0; i < n; i++) {
            const double start = bench_now();
            step(m, steps[i]);
            host[i] = bench_now() - start;
            bench_ok(md_sync(m->context, NULL));
            us[i] = bench_now() - start;
            sum += us[i];
        }
        qsort(us, (size_t)n, sizeof *us, bench_by_value);
        qsort(host, (size_t)n, sizeof *host, bench_by_value);
        printf("{\"what\":\"%s\",\"pass\":%d,\"total_ms\":%.2f,\"p50\":%.1f,\"p99\":%.1f,\"max\":%.1f,"
               "\"host_p50\":%.2f,\"host_p99\":%.2f}\n",
               what, pass, sum * 1e-3, us[n / 2], us[n * 99 / 100], us[n - 1], host[n / 2], host[n * 99 / 100]);
        fflush(stdout);
    }
}

/* Runs a step on fresh inputs at `x` and reads the result. */
static void once(model *m, void (*step)(const model *m, int t), int t, void *x, unsigned short *out)
{
    const size_t n = (size_t)MAX * (size_t)D;
    void *const before = m->x;
    for (size_t i = 0; i < n; i++)
        out[i] = (unsigned short)(0x3c00 + (i * 2654435761u >> 7 & 0x80ff));
    bench_ok(md_copy(m->context, x, out, n * 2));
    m->x = x;
    step(m, t);
    bench_ok(md_sync(m->context, NULL));
    bench_ok(md_copy(m->context, out, x, n * 2));
    m->x = before;
}

/* Runs by launches, by a new graph, by a known graph, and by one that is updated for another address. */
static void check(model *m)
{
    static const int tokens[] = {1, 5, 33, 200, 700, 1024};
    const size_t n_bytes = (size_t)MAX * (size_t)D * 2;
    unsigned short *expected = malloc(n_bytes), *got = malloc(n_bytes);
    int n_wrong = 0, n = 0;
    for (int i = 0; i < 6 && expected && got; i++) {
        once(m, run_calls, tokens[i], m->x, expected);
        for (int run = 0; run < 8; run++, n++) {
            once(m, run_sequence, tokens[i], run == 3 || run == 4 || run == 5 ? m->other : m->x, got);
            n_wrong += memcmp(got, expected, n_bytes) != 0;
        }
    }
    printf("{\"what\":\"runs that differ from the calls, in any bit\",\"wrong\":%d,\"of\":%d}\n", n_wrong, n);
    free(expected);
    free(got);
}

/* Runs of one size in a row: the first binds, the second makes the graph. */
static void one_size(const model *m, int t)
{
    printf("{\"what\":\"a new token count, us of each run\",\"t\":%d,\"us\":[", t);
    for (int i = 0; i < 8; i++) {
        const double start = bench_now();
        run_sequence(m, t);
        bench_ok(md_sync(m->context, NULL));
        printf("%s%.1f", i ? "," : "", bench_now() - start);
    }
    printf("]}\n");
}

static void print_counters(const model *m)
{
    md_sequence_counters c;
    bench_ok(md_sequence_count(&c, m->sequence));
    printf("{\"what\":\"sequence\",\"sizes\":%lld,\"choices\":%lld,\"launches\":%lld,\"arena_mb\":%.2f,\"sum_mb\":%.2f,"
           "\"graphs\":%lld,\"runs\":%llu,\"graph_runs\":%llu,\"split_runs\":%llu,\"binds\":%llu,\"builds\":%llu,"
           "\"updates\":%llu,"
           "\"failures\":%llu}\n",
           (long long)c.n_sizes, (long long)c.n_choices, (long long)c.n_launches, (double)c.arena_bytes / 1048576,
           (double)c.sum_bytes / 1048576, (long long)c.n_graphs, (unsigned long long)c.n_runs,
           (unsigned long long)c.n_graph_runs, (unsigned long long)c.n_split_runs, (unsigned long long)c.n_binds,
           (unsigned long long)c.n_builds, (unsigned long long)c.n_updates, (unsigned long long)c.n_failures);
}

int main(int argc, char **argv)
{
    static int steps[MAX_STEPS];
    int n = 0;
    model m = {0};
    FILE *in = argc > 1 ? fopen(argv[1], "r") : NULL;
    if (!in) {
        fprintf(stderr, "usage: bench_sequence STEPS.txt [SCALE]\n");
        return 2;
    }
    while (n < MAX_STEPS && fscanf(in, "%d", &steps[n]) == 1)
        n += steps[n] >= 1 && steps[n] <= MAX;
    fclose(in);
    const int scale = argc > 2 ? atoi(argv[2]) : 1;
    D /= scale;
    Q /= scale;
    H /= scale;
    bench_ok(md_context_create(&m.context, NULL));
    const double start = bench_now();
    make_ops(&m);
    printf("{\"what\":\"ops\",\"s\":%.2f}\n", (bench_now() - start) * 1e-6);
    make_memory(&m);
    make_sequence(&m);
    check(&m);
    passes(&m, "sequence", run_sequence, steps, n);
    print_counters(&m);
    one_size(&m, 777);
    one_size(&m, 19);
    passes(&m, "calls", run_calls, steps, n);
    md_sequence_destroy(&m.sequence);
    for (int i = 0; i < N_OPS; i++)
        md_op_destroy(&m.op[i]);
    md_context_destroy(&m.context);
    return 0;
}
