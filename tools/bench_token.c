/* One token through the layers of a 1B Llama without attention, as a sequence: how much of the rate of a plain read of
 * memory it reaches. bf16; hidden 2048, 32 heads and 8 key heads of 64, feed-forward 8192. Lines of JSON.
 *
 *   bench_token [SCALE]
 *
 * SCALE (default 1) divides all sizes, for a look on a CPU. MD_DEVICE says where. Each layer has its own weights, so
 * that none of them is still in a cache. "alone": steps that are waited for; "row": steps one behind the other. */
#include "bench_program.h"

#include <md/sequence.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_OPS = 5, N_STEPS = 200, READ_ROWS = 8192, READ_COLUMNS = 131072 };
static int D = 2048, Q = 3072, H = 8192, L = 16;

static md_context *context;
static md_op *op[N_OPS];
static md_sequence *sequence;
static double weight_bytes;

static double middle(double *us, int n)
{
    qsort(us, (size_t)n, sizeof *us, bench_by_value);
    return us[n / 2];
}

static void make_ops(void)
{
    static const char *const formula[N_OPS] = {
        "Y[t,d] = X[t,d] * rsqrt(mean[k](X[t,k] * X[t,k]) + 1e-6) * G[d]", "Y[t,n] = sum[k](X[t,k] * W[n,k])",
        "Y[t,n] = R[t,n] + sum[k](X[t,k] * W[n,k])", "Y[t,n] = silu(sum[k](X[t,k] * W[n,k])) * sum[k](X[t,k] * V[n,k])",
        "Y[t,n] = R[t,n] + sum[k](X[t,k] * W[n,k])"};
    const int n[N_OPS] = {D, Q, D, H, D}, k[N_OPS] = {0, D, D, D, H};
    for (int i = 0; i < N_OPS; i++) {
        char sizes[64];
        snprintf(sizes, sizeof sizes, k[i] ? "n=%d, k=%d" : "d=%d", n[i], k[i]);
        bench_ok(md_op_create(&op[i], context, formula[i], &(md_op_options){.dtype = MD_BF16, .sizes = sizes}));
    }
    for (int i = 0; i < N_OPS; i++)
        bench_ok(md_op_wait(op[i]));
}

static int32_t add(md_sequence_role role, const char *size, void *data)
{
    int32_t id;
    bench_ok(md_sequence_add_tensor(&id, sequence,
                                    &(md_sequence_tensor){.role = role, .dtype = MD_BF16, .size = size, .data = data}));
    return id;
}

static int32_t weight(int rows, int columns)
{
    const size_t n = (size_t)rows * (size_t)columns;
    unsigned short *noise = malloc(n * 2);
    char size[48];
    void *p = NULL;
    for (size_t i = 0; noise && i < n; i++)
        noise[i] = (unsigned short)(0x3a00 + (i * 2654435761u >> 9 & 0x80ff));
    bench_ok(md_alloc(&p, context, n * 2));
    bench_ok(md_copy(context, p, noise, n * 2));
    free(noise);
    weight_bytes += (double)n * 2;
    snprintf(size, sizeof size, rows == 1 ? "%d" : "%d, %d", rows == 1 ? columns : rows, columns);
    return add(MD_SEQUENCE_CONSTANT, size, p);
}

static void call(int i, const int32_t *id, int n)
{
    md_sequence_arg arg[4] = {{0}};
    for (int k = 0; k < n; k++)
        arg[k].id = id[k];
    bench_ok(md_sequence_add_call(sequence, op[i], arg, n));
}

static void make_sequence(void)
{
    char hidden[32], qkv[32], wide[32], stride[32];
    snprintf(hidden, sizeof hidden, "t, %d", D);
    snprintf(qkv, sizeof qkv, "t, %d", Q);
    snprintf(wide, sizeof wide, "t, %d", H);
    snprintf(stride, sizeof stride, "%d, 1", Q);
    bench_ok(md_sequence_create(&sequence, context, &(md_sequence_options){.name = "token"}));
    bench_ok(md_sequence_add_dim(NULL, sequence, "t", 1, 64));
    const int32_t x = add(MD_SEQUENCE_OUTPUT, hidden, NULL);
    for (int l = 0; l < L; l++) {
        int32_t a;
        const int32_t g = weight(1, D), w0 = weight(Q, D), w1 = weight(D, D), w2 = weight(H, D), w3 = weight(H, D),
                      w4 = weight(D, H), n = add(MD_SEQUENCE_TEMPORARY, hidden, NULL),
                      q = add(MD_SEQUENCE_TEMPORARY, qkv, NULL), m = add(MD_SEQUENCE_TEMPORARY, hidden, NULL),
                      h = add(MD_SEQUENCE_TEMPORARY, wide, NULL);
        bench_ok(md_sequence_add_tensor(&a, sequence,
                                        &(md_sequence_tensor){.view_of = q, .size = hidden, .stride = stride}));
        call(0, (int32_t[]){n, x, g}, 3);
        call(1, (int32_t[]){q, n, w0}, 3);
        call(2, (int32_t[]){x, x, a, w1}, 4);
        call(0, (int32_t[]){m, x, g}, 3);
        call(3, (int32_t[]){h, m, w2, w3}, 4);
        call(4, (int32_t[]){x, x, h, w4}, 4);
    }
    bench_ok(md_sequence_finish(sequence));
}

/* Bytes a us of a sum over the rows of a large matrix. */
static double read_rate(int scale)
{
    md_op *sum = NULL;
    const int64_t rows = READ_ROWS / scale, columns = READ_COLUMNS / scale, size_x[] = {rows, columns};
    void *x = NULL, *y = NULL;
    double us[20];
    bench_ok(md_op_create(&sum, context, "Y[i] = sum[j](X[i,j])", &(md_op_options){.dtype = MD_BF16}));
    bench_ok(md_alloc(&x, context, (size_t)(rows * columns) * 2));
    bench_ok(md_alloc(&y, context, (size_t)rows * 2));
    const md_tensor X = md_tensor_make(x, MD_BF16, 2, size_x), Y = md_tensor_make(y, MD_BF16, 1, size_x);
    for (int i = 0; i < 20; i++) {
        const double start = bench_now();
        bench_ok(md_call(sum, NULL, (md_arg[]){md_t(&Y), md_t(&X)}, 2));
        bench_ok(md_sync(context, NULL));
        us[i] = bench_now() - start;
    }
    md_free(context, x);
    md_free(context, y);
    md_op_destroy(&sum);
    return (double)(rows * columns) * 2 / middle(us, 20);
}

static void report(const char *what, double us, double rate)
{
    printf("{\"what\":\"%s\",\"us_a_layer\":%.2f,\"mb_a_layer\":%.1f,\"tb_s\":%.3f,\"read_tb_s\":%.3f,"
           "\"share\":%.3f}\n",
           what, us / L, weight_bytes / L * 1e-6, weight_bytes / us * 1e-6, rate * 1e-6, weight_bytes / us / rate);
    fflush(stdout);
}

static void measure(double rate)
{
    static double us[N_STEPS];
    const int64_t t = 1;
    void *x = NULL;
    bench_ok(md_alloc(&x, context, (size_t)D * 2 * 64));
    bench_ok(md_sequence_prepare(sequence, &t, 1, &x, 1));
    for (int i = 0; i < N_STEPS; i++) {
        const double start = bench_now();
        bench_ok(md_sequence_run(sequence, NULL, &t, 1, &x, 1));
        bench_ok(md_sync(context, NULL));
        us[i] = bench_now() - start;
    }
    report("alone", middle(us, N_STEPS), rate);
    const double start = bench_now();
    for (int i = 0; i < N_STEPS; i++)
        bench_ok(md_sequence_run(sequence, NULL, &t, 1, &x, 1));
    bench_ok(md_sync(context, NULL));
    report("row", (bench_now() - start) / N_STEPS, rate);
    md_free(context, x);
}

static int print(void *user, const char *text, size_t n)
{
    return fwrite(text, 1, n, user) == n ? 0 : 1;
}

int main(int argc, char **argv)
{
    const int scale = argc > 1 && atoi(argv[1]) > 0 ? atoi(argv[1]) : 1;
    D /= scale;
    Q /= scale;
    H /= scale;
    L = scale > 1 ? 2 : L;
    bench_ok(md_context_create(&context, NULL));
    make_ops();
    make_sequence();
    measure(read_rate(scale));
    if (getenv("EXPLAIN"))
        bench_ok(md_sequence_explain(sequence, 0, print, stdout));
    md_sequence_destroy(&sequence);
    for (int i = 0; i < N_OPS; i++)
        md_op_destroy(&op[i]);
    md_context_destroy(&context);
    return 0;
}
