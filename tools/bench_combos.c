/* Lists of many items as combos, against a call for each item. Lines of JSON, us a run.
 *
 *   bench_combos [SCALE]
 *
 * MD_DEVICE says where. SCALE (default 1) divides the first size of each item, for a look on a CPU. "gpu_us": a graph
 * of ten runs, a tenth of it, median of seven; "call_us": wall time of a run, twenty in a row; "each_us": as gpu_us,
 * for calls of the items one by one. On a CPU all are wall times. tools/combo_board.py draws random lists. */
#include "bench_program.h"

#include <md/combo.h>
#include <md/list.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#ifdef BENCH_CUDA
#include <cuda_runtime_api.h>
#endif

enum { MOST_ITEMS = 10000, RUNS = 10, SAMPLES = 7, WALL_RUNS = 20, MOST_CALLS = 400, TRIES = 100 };

typedef struct item_size {
    int64_t size[2];
} item_size;

typedef struct bench {
    md_context *context;
    bool is_gpu;
    md_op *op;
    int32_t n_args;
    int64_t n;
    md_tensor *tensor; /* [n][n_args]; of a list [n_args][n] */
    md_arg *arg; /* [n][n_args]; of a list [n_args] */
    md_combo *combo;
    md_list *list; /* NULL: a combo */
    double bytes;
} bench;

/* ---- Tensors */

/* No element is 0: roots and quotients of zeros take longer. Every half of a word is a bf16 of 0.5 to 2. */
static void *make_memory(const bench *b, size_t n_bytes)
{
    enum { CHUNK = 1 << 20 };
    static uint16_t some[CHUNK / 2];
    void *p = NULL;
    bench_ok(md_alloc(&p, b->context, n_bytes > 0 ? n_bytes : 1));
    for (int i = 0; i < CHUNK / 2 && some[0] == 0; i++)
        some[CHUNK / 2 - 1 - i] = (uint16_t)(0x3f00 + rand() % 256);
    for (size_t at = 0; at < n_bytes; at += CHUNK)
        bench_ok(md_copy(b->context, (char *)p + at, some, n_bytes - at < CHUNK ? n_bytes - at : CHUNK));
    return p;
}

/* An output named as an input with a 1 behind it updates that one in place: M1 is M. */
static int32_t input_of(md_op *op, int32_t arg)
{
    md_arg_info own, other;
    bench_ok(md_op_arg(&own, op, arg));
    for (int32_t i = 0; own.is_output && i < md_op_n_args(op); i++) {
        bench_ok(md_op_arg(&other, op, i));
        const size_t n = strlen(other.name);
        if (!strncmp(own.name, other.name, n) && !strcmp(own.name + n, "1"))
            return i;
    }
    return -1;
}

static void make_item(bench *b, int64_t item, const item_size *s)
{
    md_arg_info info;
    for (int32_t pass = 0; pass < 2; pass++) /* those that share another's memory come second */
        for (int32_t a = 0; a < b->n_args; a++) {
            md_tensor *t = &b->tensor[item * b->n_args + a];
            const int32_t shared = input_of(b->op, a);
            bench_ok(md_op_arg(&info, b->op, a));
            if (info.is_scalar || (shared >= 0) != (pass == 1)) {
                if (info.is_scalar)
                    b->arg[item * b->n_args + a] = md_s(0.25);
                continue;
            }
            int64_t own[2] = {1, 1};
            for (int32_t axis = 0; axis < info.rank; axis++)
                own[axis] = s->size[info.dim[axis][0] == 'j'];
            const size_t n_bytes = (size_t)(own[0] * own[1]) * md_dtype_size(info.dtype);
            void *data = shared < 0 ? make_memory(b, n_bytes) : b->tensor[item * b->n_args + shared].data;
            *t = md_tensor_make(data, info.dtype, info.rank, own);
            b->arg[item * b->n_args + a] = md_t(t);
            b->bytes += (double)n_bytes;
        }
}

static void make_combo(bench *b, const char *formula, const item_size *size, int64_t n)
{
    bench_ok(md_op_create(&b->op, b->context, formula, NULL));
    bench_ok(md_op_wait(b->op));
    b->n = n;
    b->n_args = md_op_n_args(b->op);
    b->tensor = calloc((size_t)(n * b->n_args), sizeof *b->tensor);
    b->arg = calloc((size_t)(n * b->n_args), sizeof *b->arg);
    for (int64_t i = 0; i < n; i++)
        make_item(b, i, &size[i]);
    bench_ok(md_combo_bind(&b->combo, b->context, &(md_combo_part){b->op, b->arg, b->n_args, n}, 1));
}

static void make_list(bench *b, const char *formula, const item_size *size, int64_t n)
{
    md_list_info info;
    bench_ok(md_list_create(&b->list, b->context, formula, NULL));
    b->n = n;
    b->n_args = md_list_n_args(b->list);
    b->tensor = calloc((size_t)(n * b->n_args), sizeof *b->tensor);
    b->arg = calloc((size_t)b->n_args, sizeof *b->arg);
    for (int32_t a = 0; a < b->n_args; a++) {
        bench_ok(md_list_arg(&info, b->list, a));
        b->arg[a] = info.is_scalar ? md_s(0.25) : md_ts(&b->tensor[a * n], n);
        for (int64_t i = 0; !info.is_scalar && i < n; i++) {
            const size_t n_bytes = (size_t)size[i].size[0] * 4;
            b->tensor[a * n + i] = md_tensor_make(make_memory(b, n_bytes), MD_F32, 1, size[i].size);
            b->bytes += (double)n_bytes * (info.is_input + info.is_output);
        }
    }
}

static void finish(bench *b)
{
    for (int64_t i = 0; i < b->n * b->n_args; i++) {
        const bool is_shared = b->op && input_of(b->op, (int32_t)(i % b->n_args)) >= 0;
        if (b->tensor[i].data && !is_shared)
            md_free(b->context, b->tensor[i].data);
    }
    md_combo_destroy(&b->combo);
    md_list_destroy(&b->list);
    md_op_destroy(&b->op);
    free(b->tensor);
    free(b->arg);
}

/* ---- Runs */

static void run_all(const bench *b, md_stream stream)
{
    bench_ok(b->list ? md_list_call(b->list, stream, b->arg, b->n_args) : md_combo_run(b->combo, stream, NULL, 0));
}

static void run_each(const bench *b, md_stream stream)
{
    for (int64_t i = 0; i < b->n; i++)
        bench_ok(md_call(b->op, stream, b->arg + i * b->n_args, b->n_args));
}

static int add_text(void *user, const char *text, size_t n)
{
    char *to = user;
    if (strlen(to) + n < 65536)
        strncat(to, text, n);
    return 0;
}

/* Runs until no kernel is being built. A list does not say so: it has some seconds. */
static void settle(const bench *b)
{
    static char text[65536];
    for (int i = 0; i < TRIES; i++) {
        run_all(b, NULL);
        bench_ok(md_sync(b->context, NULL));
        text[0] = 0;
        if (b->combo)
            bench_ok(md_combo_explain(b->combo, 1, add_text, text));
        if (!b->is_gpu || (b->combo && !strstr(text, "being built")))
            break;
        usleep(50000);
    }
    for (int i = 0; i < 3; i++)
        run_all(b, NULL);
    bench_ok(md_sync(b->context, NULL));
}

static double wall(const bench *b, void (*run)(const bench *, md_stream), int n)
{
    run(b, NULL);
    bench_ok(md_sync(b->context, NULL));
    const double start = bench_now();
    for (int i = 0; i < n; i++)
        run(b, NULL);
    bench_ok(md_sync(b->context, NULL));
    return (bench_now() - start) / n;
}

/* ---- Times */

#ifdef BENCH_CUDA
static void cuda_ok(cudaError_t error)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
    exit(1);
}

static double replay(const bench *b, void (*run)(const bench *, md_stream), int n)
{
    double us[SAMPLES];
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaEvent_t from, to;
    float ms = 0.0F;
    cuda_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cuda_ok(cudaEventCreate(&from));
    cuda_ok(cudaEventCreate(&to));
    run(b, (md_stream)stream); /* memory of the stream */
    cuda_ok(cudaStreamSynchronize(stream));
    cuda_ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < n; i++)
        run(b, (md_stream)stream);
    cuda_ok(cudaStreamEndCapture(stream, &graph));
    cuda_ok(cudaGraphInstantiate(&exec, graph, 0));
    cuda_ok(cudaGraphLaunch(exec, stream));
    for (int i = 0; i < SAMPLES; i++) {
        cuda_ok(cudaEventRecord(from, stream));
        cuda_ok(cudaGraphLaunch(exec, stream));
        cuda_ok(cudaEventRecord(to, stream));
        cuda_ok(cudaEventSynchronize(to));
        cuda_ok(cudaEventElapsedTime(&ms, from, to));
        us[i] = (double)ms * 1e3 / n;
    }
    cuda_ok(cudaGraphExecDestroy(exec));
    cuda_ok(cudaGraphDestroy(graph));
    cuda_ok(cudaStreamDestroy(stream));
    cuda_ok(cudaEventDestroy(from));
    cuda_ok(cudaEventDestroy(to));
    qsort(us, SAMPLES, sizeof *us, bench_by_value);
    return us[SAMPLES / 2];
}

static bool is_memory_of_gpu(const void *p)
{
    struct cudaPointerAttributes about = {0};
    return cudaPointerGetAttributes(&about, p) == cudaSuccess && about.type == cudaMemoryTypeDevice;
}
#else
static bool is_memory_of_gpu(const void *p)
{
    (void)p;
    return false;
}

static double replay(const bench *b, void (*run)(const bench *, md_stream), int n)
{
    return wall(b, run, n);
}
#endif

static void report(bench *b, const char *what)
{
    settle(b);
    const double us = b->is_gpu ? replay(b, run_all, RUNS) : wall(b, run_all, RUNS), call = wall(b, run_all, WALL_RUNS);
    printf("{\"what\":\"%s\",\"items\":%lld,\"gpu_us\":%.2f,\"call_us\":%.2f,\"gb_s\":%.0f", what, (long long)b->n, us,
           call, b->bytes / us * 1e-3);
    if (b->op && b->n <= MOST_CALLS)
        printf(",\"each_us\":%.2f", b->is_gpu ? replay(b, run_each, 1) : wall(b, run_each, RUNS));
    printf("}\n");
    fflush(stdout);
    finish(b);
}

/* ---- Cases */

static int64_t all_equal(item_size *s, int64_t n, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < n; i++)
        s[i] = (item_size){{rows, columns}};
    return n;
}

static int64_t gpt2(item_size *s)
{
    static const int64_t layer[] = {768, 768, 768 * 2304, 2304, 768 * 768,  768,
                                    768, 768, 768 * 3072, 3072, 3072 * 768, 768};
    int64_t n = 0;
    s[n++].size[0] = 50257 * 768;
    s[n++].size[0] = 1024 * 768;
    for (int l = 0; l < 12; l++)
        for (int i = 0; i < 12; i++)
            s[n++].size[0] = layer[i];
    s[n++].size[0] = 768;
    s[n++].size[0] = 768;
    return n;
}

static int64_t tiny(item_size *s)
{
    for (int64_t i = 0; i < MOST_ITEMS; i++)
        s[i].size[0] = 1 + i % 64;
    return MOST_ITEMS;
}

static int64_t mixed(item_size *s)
{
    static const item_size some[] = {{{7, 4096}},  {{1000, 64}},  {{33, 777}},   {{1, 50257}},
                                     {{512, 512}}, {{4096, 128}}, {{64, 12289}}, {{256, 1024}}};
    memcpy(s, some, sizeof some);
    return (int64_t)(sizeof some / sizeof *some);
}

static int64_t norms(item_size *s)
{
    for (int64_t i = 0; i < 30; i++)
        s[i] = (item_size){{16 + 7 * i, 256 + 32 * (i % 5)}};
    return 30;
}

static int64_t eight(item_size *s)
{
    return all_equal(s, 8, 1024, 1024);
}

static int64_t small(item_size *s)
{
    return all_equal(s, 300, 6144, 1);
}

static const struct {
    const char *what, *formula;
    int64_t (*sizes)(item_size *s);
    bool is_list;
} cases[] = {
    {"add, 10,000 of 1 to 64", "Y[i] = A[i] + B[i]", tiny, false},
    {"softmax, 8 of [1024,1024]", "softmax", eight, false},
    {"softmax, 8 mixed", "softmax", mixed, false},
    {"layer_norm, 30 small", "layer_norm", norms, false},
    {"AdamW, GPT-2", "adamw", gpt2, false},
    {"AdamW, 300 of 6,144", "adamw", small, false},
    {"AdamW, GPT-2, bf16 with f32 masters", "adamw_master", gpt2, false},
    {"clip + AdamW, GPT-2", "adamw_clipped", gpt2, true},
};

int main(int argc, char **argv)
{
    static item_size size[MOST_ITEMS];
    const int64_t scale = argc > 1 ? atoll(argv[1]) : 1;
    md_context *context = NULL;
    if (scale < 1) {
        fprintf(stderr, "usage: bench_combos [SCALE]\n");
        return 2;
    }
    bench_ok(md_context_create(&context, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bench b = {.context = context};
        const int64_t n = cases[i].sizes(size);
        for (int64_t k = 0; k < n; k++)
            size[k].size[0] = 1 + (size[k].size[0] - 1) / scale;
        if (cases[i].is_list)
            make_list(&b, cases[i].formula, size, n);
        else
            make_combo(&b, cases[i].formula, size, n);
        for (int64_t k = 0; k < b.n * b.n_args; k++)
            b.is_gpu |= b.tensor[k].data && is_memory_of_gpu(b.tensor[k].data);
        report(&b, cases[i].what);
    }
    md_context_destroy(&context);
    return 0;
}
