/* What a new size of a sequence costs on the host, without a GPU: bench_new_sizes [SIZES [LAYERS]]. A JSON line. Not a
 * test. The sequence is a language model's: each layer has 19 calls of 13 kinds of ops, some of which are called again
 * at the same size. */
#include "dispatch/bench/new_shapes.h"

#include "base/clock.h"
#include "base/sort.h"
#include "sequence/sequence.h"

enum { MODEL = 1024, HIDDEN = 2816, HEADS = 16, MOST_TOKENS = 4096 };

static new_shapes shapes;
static md_sq *sq;

/* Texts say to the fake device what happens; these are no scripts. */
static md_status launch_nothing(md_dev *dev, md_stream stream, const md_dev_kernel *kernel,
                                const md_kn_geometry *geometry, md_dev_params params, const md_kn_call *call)
{
    (void)dev, (void)stream, (void)kernel, (void)geometry, (void)params, (void)call;
    return MD_OK;
}

/* It makes the device asynchronous: a new size is launched call by call. */
static md_status no_workspace(void **out, md_dev *dev, md_stream stream, size_t n_bytes)
{
    (void)dev, (void)stream, (void)n_bytes;
    *out = NULL;
    return MD_OK;
}

/* Sizes are texts with the dim n. */
static int32_t tensor(md_sequence_role role, const char *size)
{
    int32_t id = 0;
    CHECK(md_sq_add_tensor(&id, sq, &(md_sequence_tensor){.role = role, .dtype = MD_BF16, .size = size}));
    return id;
}

static int32_t weights(const char *size, void *data)
{
    int32_t id = 0;
    CHECK(md_sq_add_tensor(
        &id, sq, &(md_sequence_tensor){.role = MD_SEQUENCE_CONSTANT, .dtype = MD_BF16, .size = size, .data = data}));
    return id;
}

static void add_call(md_ds_op *op, const int32_t *id, int32_t n)
{
    md_sequence_arg arg[8] = {{0}};
    for (int32_t i = 0; i < n; i++)
        arg[i].id = id[i];
    CHECK(md_sq_add_call(sq, op, arg, n));
}
#define CALL(op, ...)                                                                                                  \
    add_call(op, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

static md_ds_op *op_of(const char *name, const char *formula)
{
    return new_shapes_op(&shapes, name, formula, MD_BF16, NULL, MD_SELECT_MODEL);
}

static void measure(long n, int32_t calls)
{
    double *us = malloc((size_t)n * sizeof *us);
    void *in = calloc((size_t)MOST_TOKENS * MODEL, 2), *out = calloc((size_t)MOST_TOKENS * MODEL, 2);
    for (long k = 0; k <= n; k++) {
        const int64_t size = k == 0 ? MOST_TOKENS : 1 + k * 7 % (MOST_TOKENS - 1);
        const uint64_t start = md_clock_ns();
        CHECK(md_sq_run(sq, NULL, &size, (void *const[]){in, out}));
        if (k > 0)
            us[k - 1] = (double)(md_clock_ns() - start) / 1e3;
    }
    md_sort_doubles(us, (size_t)n);
    printf("{\"case\": \"new size of %d calls\", \"n\": %ld, \"us_p50\": %.1f, \"p90\": %.1f, \"max\": %.1f}\n",
           (int)calls, n, us[n / 2], us[n * 9 / 10], us[n - 1]);
}

int main(int argc, char **argv)
{
    const long n = argc > 1 ? atol(argv[1]) : 200;
    const int layers = argc > 2 ? atoi(argv[2]) : 6;
    new_shapes_open(&shapes, 90);
    md_dev_ops ops = *shapes.device.base.ops;
    ops.launch = launch_nothing;
    ops.workspace = no_workspace;
    shapes.device.base.ops = &ops;
    md_ds_op *norm = op_of("rms_norm", "Y[i,j] = X[i,j] * rsqrt(mean[k](X[i,k] * X[i,k]) + 1e-6) * G[j]"),
             *linear = op_of("linear", "Y[b,n] = sum[k](X[b,k] * W[n,k])"),
             *swiglu = op_of("swiglu", "Y[b,n] = silu(sum[k](X[b,k] * W[n,k])) * sum[k](X[b,k] * V[n,k])"),
             *add = op_of("add", "Y[i,j] = A[i,j] + B[i,j]"), *gelu = op_of("gelu", "Y[i,j] = gelu(X[i,j])"),
             *softmax =
                 op_of("softmax", "Y[i,j] = exp(X[i,j] - max[k](X[i,k])) / sum[k](exp(X[i,k] - max[l](X[i,l])))"),
             *scale = op_of("scale", "Y[i,j] = X[i,j] * G[j]"), *bias = op_of("bias", "Y[i,j] = X[i,j] + G[j]"),
             *linear_gelu = op_of("linear_gelu", "Y[b,n] = gelu(sum[k](X[b,k] * W[n,k]))");
    CHECK(md_sq_create(&sq, &shapes.runtime, NULL));
    CHECK(md_sq_add_dim(NULL, sq, "n", 0, MOST_TOKENS));
    void *data = calloc((size_t)MODEL * HIDDEN, 2);
    const int32_t g = weights("1024", data), square = weights("1024, 1024", data), up = weights("2816, 1024", data),
                  down = weights("1024, 2816", data);
    int32_t x = tensor(MD_SEQUENCE_INPUT, "n, 1024");
    int32_t calls = 0;
    for (int l = 0; l < layers; l++) {
        int32_t t[16];
        for (int i = 0; i < 16; i++)
            t[i] = tensor(MD_SEQUENCE_TEMPORARY, "n, 1024");
        const int32_t h = tensor(MD_SEQUENCE_TEMPORARY, "n, 2816"), h2 = tensor(MD_SEQUENCE_TEMPORARY, "n, 2816"),
                      y = tensor(l + 1 == layers ? MD_SEQUENCE_OUTPUT : MD_SEQUENCE_TEMPORARY, "n, 1024");
        CALL(norm, t[0], x, g);
        CALL(linear, t[1], t[0], square);
        CALL(linear, t[2], t[0], square);
        CALL(linear, t[3], t[0], square);
        CALL(scale, t[4], t[1], g);
        CALL(scale, t[5], t[2], g);
        CALL(softmax, t[6], t[4]);
        CALL(add, t[7], t[6], t[5]);
        CALL(add, t[8], t[7], t[3]);
        CALL(linear, t[9], t[8], square);
        CALL(add, t[10], t[9], x);
        CALL(norm, t[11], t[10], g);
        CALL(swiglu, h, t[11], up, up);
        CALL(gelu, h2, h);
        CALL(linear, t[12], h2, down);
        CALL(bias, t[13], t[12], g);
        CALL(linear_gelu, t[14], t[13], square);
        CALL(add, t[15], t[14], t[12]);
        CALL(add, y, t[15], t[10]);
        x = y;
        calls += 19;
    }
    CHECK(md_sq_finish(sq));
    measure(n, calls);
    return 0;
}
