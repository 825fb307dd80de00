/* A kernel of one's own in an op's pool, for the CPU and for a GPU: y = a * x + y by chunks (host), or by blocks
 * (cuda), with a tunable each.
 *
 *     custom_kernel [host|cuda]
 *
 * The op's formula says what is right; the library verifies both kernels against it, chooses among them and its own,
 * and reports.
 * Prints on the host:
 *     in the pool: custom/chunks/chunk16384
 *     in the pool: custom/chunks/chunk4096
 *     in the pool: custom/chunks/chunk65536
 *     ... and its choices */
#include <md/md.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A block takes `chunk` elements. */
static const char host_source[] =
    "static void saxpy(const md_params *p, int64_t block, void *scratch)\n"
    "{\n"
    "    const int64_t from = block * chunk, to = from + chunk < p->n ? from + chunk : p->n;\n"
    "    const float a = (float)p->a;\n"
    "    (void)scratch;\n"
    "    for (int64_t i = from; i < to; i++)\n"
    "        p->Z[i] = a * p->X[i] + p->Y[i];\n"
    "}\n";

/* A thread takes `items` elements, a block's width apart. */
static const char cuda_source[] =
    "__device__ void saxpy(const md_params &p)\n"
    "{\n"
    "    const int64_t first = (int64_t)blockIdx.x * (threads * items) + threadIdx.x;\n"
    "    const float a = (float)p.a;\n"
    "    MD_UNROLL for (int k = 0; k < items; k++)\n"
    "        if (first + k * threads < p.n)\n"
    "            p.Z[first + k * threads] = a * p.X[first + k * threads] + p.Y[first + k * threads];\n"
    "}\n";

static const md_tunable host_tunable[] = {{"chunk", 3, {16384, 4096, 65536}}};
static const md_tunable cuda_tunable[] = {{"threads", 2, {256, 512}}, {"items", 3, {4, 1, 8}}};

static const md_custom kernels[] = {
    {.name = "chunks",
     .device = "host",
     .source = host_source,
     .entry = "saxpy",
     .tunable = host_tunable,
     .n_tunables = 1,
     .grid = "(n + chunk - 1) // chunk",
     .numeric = MD_NUMERIC_BATCH_INVARIANT},
    {.name = "blocks",
     .device = "cuda",
     .source = cuda_source,
     .entry = "saxpy",
     .tunable = cuda_tunable,
     .n_tunables = 2,
     .grid = "(n + threads * items - 1) // (threads * items)",
     .block = "threads",
     .envelope = "n < 2147483647 * threads",
     .numeric = MD_NUMERIC_BATCH_INVARIANT},
};

static void check(md_status status, const char *what)
{
    if (status == MD_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, md_status_name(status), md_last_error());
    exit(1);
}

/* Calls with n elements, twice, and looks at the results. */
static void run(md_context *context, md_op *op, int64_t n)
{
    size_t n_bytes = (size_t)n * sizeof(float);
    float *x = malloc(n_bytes), *z = malloc(n_bytes);
    void *device[3];
    if (!x || !z)
        exit(1);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(i % 1000);
    md_tensor t[3];
    for (int i = 0; i < 3; i++) {
        check(md_alloc(&device[i], context, n_bytes), "md_alloc");
        check(md_copy(context, device[i], x, n_bytes), "md_copy");
        t[i] = md_tensor_make(device[i], MD_F32, 1, &n);
    }
    /* in order of first appearance: a, Z, X, Y */
    const md_arg args[] = {md_s(2.0), md_t(&t[0]), md_t(&t[1]), md_t(&t[2])};
    for (int i = 0; i < 2; i++)
        check(md_call(op, NULL, args, 4), "md_call");
    check(md_sync(context, NULL), "md_sync");
    check(md_copy(context, z, device[0], n_bytes), "md_copy");
    for (int64_t i = 0; i < n; i++)
        if (z[i] != 3.0f * x[i]) {
            fprintf(stderr, "element %lld is %g, not %g\n", (long long)i, (double)z[i], 3.0 * (double)x[i]);
            exit(1);
        }
    for (int i = 0; i < 3; i++)
        md_free(context, device[i]);
    free(x);
    free(z);
}

int main(int argc, char **argv)
{
    md_context *context = NULL;
    md_op *op = NULL;
    check(md_context_create(&context,
                            &(md_context_options){.device = argc > 1 ? argv[1] : NULL, .select = MD_SELECT_MEASURE}),
          "md_context_create");
    check(md_op_create(&op, context, "scalar a; Z[n] = a * X[n] + Y[n]",
                       &(md_op_options){.name = "saxpy",
                                        .hints = "4096, 1048576",
                                        .custom = kernels,
                                        .n_custom = sizeof kernels / sizeof *kernels}),
          "md_op_create");
    for (int32_t i = 0; i < md_op_n_variants(op, 0); i++)
        if (!strncmp(md_op_variant(op, 0, i), "custom/", 7))
            printf("in the pool: %s\n", md_op_variant(op, 0, i));
    run(context, op, 1000);
    run(context, op, 3000001);
    check(md_stats_print(context, stdout), "md_stats_print");
    md_op_destroy(&op);
    md_context_destroy(&context);
    return 0;
}
