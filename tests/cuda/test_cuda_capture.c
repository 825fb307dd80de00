/* Captures of CUDA streams in the global mode, in which any call of any thread that might wait would end them:
 * shapes that were met and shapes that were not, while other threads build and measure; the graphs are replayed with
 * other contents after their ops, and the thread that captured, are gone. Skips itself where there is no GPU. */
#include "md_build_config.h"
#include "support/check.h"

#include "api/context.h"
#include "base/dtype.h"

#if MD_HAVE_CUDA
#include <cuda_runtime_api.h>
#include <math.h>
#include <pthread.h>

enum { MOST_ARGS = 3 };

typedef struct capture_case {
    const char *text;
    md_dtype dtype;
    int64_t size[MOST_ARGS][2]; /* of the arguments, the result first; 0: no such axis */
    bool is_met; /* before the capture */
    bool is_async;
} capture_case;

static const capture_case list[] = {
    {"Y[i,j] = exp(X[i,j]) / sum[k](exp(X[i,k]))", MD_F32, {{300, 777}, {300, 777}}, true, false},
    {"Y[i,j] = exp(X[i,j]) / sum[k](exp(X[i,k]))", MD_F32, {{5, 100001}, {5, 100001}}, false, false},
    {"Y[i,j] = exp(X[i,j]) / sum[k](exp(X[i,k])) + 1", MD_F32, {{129, 1000}, {129, 1000}}, false, true},
    {"Y[i,j] = sum[k](X[i,k] * W[k,j])", MD_BF16, {{256, 512}, {256, 384}, {384, 512}}, true, false},
    {"Y[i,j] = sum[k](X[i,k] * W[k,j])", MD_BF16, {{131, 77}, {131, 201}, {201, 77}}, false, false},
    {"Y[i] = sum[j](X[i,j])", MD_F32, {{1, 0}, {1, 1000000}}, true, false},
    {"Y[n] = cumsum[n](X[n])", MD_F32, {{1000003, 0}, {1000003, 0}}, false, false},
    {"Y[i,j] = X[j,i] + 1", MD_F32, {{300, 77}, {77, 300}}, false, false},
};

typedef struct item {
    const capture_case *c;
    md_op *op;
    int32_t n_args;
    md_tensor tensor[MOST_ARGS];
    md_arg arg[MOST_ARGS];
    int64_t n[MOST_ARGS];
    void *want; /* of the second contents, f64 on the host, rounded to the result's type */
} item;

static md_context *context;
static cudaStream_t stream;

static void fill(item *x, int32_t i, int64_t salt)
{
    const md_dtype dtype = x->c->dtype;
    void *host = malloc((size_t)x->n[i] * md_dtype_size(dtype));
    assert_non_null(host);
    for (int64_t k = 0; k < x->n[i]; k++)
        md_dtype_store(dtype, host, k, (double)((k * 7 + k / 11 + salt) % 3) - 1.0);
    assert_ok(md_copy(context, x->tensor[i].data, host, (size_t)x->n[i] * md_dtype_size(dtype)));
    free(host);
}

static void make(item *x, const capture_case *c)
{
    x->c = c;
    x->n_args = c->size[2][0] ? 3 : 2;
    for (int32_t i = 0; i < x->n_args; i++) {
        x->tensor[i] = md_tensor_make(NULL, c->dtype, c->size[i][1] ? 2 : 1, c->size[i]);
        x->n[i] = c->size[i][0] * (c->size[i][1] ? c->size[i][1] : 1);
        assert_ok(md_alloc(&x->tensor[i].data, context, (size_t)x->n[i] * md_dtype_size(c->dtype)));
        x->arg[i] = md_t(&x->tensor[i]);
        fill(x, i, 1);
    }
    assert_ok(md_op_create(&x->op, context, c->text,
                           &(md_op_options){.dtype = c->dtype, .hints = "64,1024", .async = c->is_async}));
    x->want = malloc((size_t)x->n[0] * md_dtype_size(c->dtype));
    assert_non_null(x->want);
    assert_ok(md_reference(x->op, x->arg, x->n_args));
    assert_ok(md_copy(context, x->want, x->tensor[0].data, (size_t)x->n[0] * md_dtype_size(c->dtype)));
    for (int32_t i = 0; i < x->n_args; i++)
        fill(x, i, 0);
    for (int k = 0; k < 3 && c->is_met; k++)
        assert_ok(md_call(x->op, stream, x->arg, x->n_args));
    assert_ok(md_sync(context, stream));
}

static bool is_right(const item *x)
{
    const md_dtype dtype = x->c->dtype;
    const double epsilon = dtype == MD_BF16 ? 1.0 / 64 : 1e-4;
    void *got = malloc((size_t)x->n[0] * md_dtype_size(dtype));
    bool is = got != NULL;
    assert_ok(md_copy(context, got, x->tensor[0].data, (size_t)x->n[0] * md_dtype_size(dtype)));
    for (int64_t k = 0; k < x->n[0] && is; k++) {
        double a = md_dtype_load(dtype, got, k), b = md_dtype_load(dtype, x->want, k);
        is = fabs(a - b) <= epsilon * (1.0 + fabs(b));
        if (!is)
            print_error("%s: element %lld is %g, not %g\n", x->c->text, (long long)k, a, b);
    }
    free(got);
    return is;
}

/* Builds, and measures, while somebody else captures. */
static _Atomic bool is_captured;
static void *disturb(void *user)
{
    md_status *status = user;
    md_op *op = NULL;
    while (!is_captured)
        ;
    *status = md_op_create(&op, context, "Y[i,j] = X[i,j] * 3 + sum[k](X[i,k])",
                           &(md_op_options){.hints = "64,1024", .select = MD_SELECT_MEASURE, .max_variants = 4});
    if (*status == MD_OK)
        *status = md_prepare(op, "i=100, j=100; i=3, j=5000");
    md_op_destroy(&op);
    return NULL;
}

typedef struct capture {
    item *items;
    int32_t n;
    cudaGraph_t graph;
    cudaError_t error;
    md_status status;
} capture;

static int take_text(void *user, const char *text, size_t n_bytes)
{
    snprintf(user, 8000, "%.*s", (int)n_bytes, text);
    return 0;
}

static void *capture_all(void *user)
{
    capture *c = user;
    static char text[8000];
    pthread_t other;
    md_status disturbed = MD_OK;
    assert_int_equal(pthread_create(&other, NULL, disturb, &disturbed), 0);
    c->error = cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    is_captured = true;
    for (int32_t i = 0; i < c->n && c->error == cudaSuccess; i++) {
        md_status s = md_call(c->items[i].op, stream, c->items[i].arg, c->items[i].n_args);
        if (s != MD_OK)
            print_error("%s, captured: %s\n", c->items[i].c->text, md_last_error());
        c->status = c->status == MD_OK ? s : c->status;
    }
    pthread_join(other, NULL); /* all that it did lies inside the capture */
    if (disturbed != MD_OK)
        print_error("beside the capture: %s\n", md_status_name(disturbed));
    c->status = c->status == MD_OK ? disturbed : c->status;
    md_status s = md_capture_list(context, stream, NULL, 0, take_text, text);
    c->error = cudaStreamEndCapture(stream, &c->graph);
    print_message("%s", s == MD_OK ? text : md_last_error());
    c->status = c->status == MD_OK ? s : c->status;
    return NULL;
}

static void test_capture(void **state)
{
    (void)state;
    enum { N = sizeof list / sizeof *list };
    static item items[N];
    static char text[8000];
    cudaGraphExec_t exec = NULL;
    capture c = {.items = items, .n = N};
    pthread_t thread;
    if (md_context_create(&context, &(md_context_options){.device = "cuda"}) != MD_OK) {
        print_message("skipped: %s\n", md_last_error());
        skip();
    }
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    for (int i = 0; i < N; i++)
        make(&items[i], &list[i]);
    assert_int_equal(pthread_create(&thread, NULL, capture_all, &c), 0);
    pthread_join(thread, NULL);
    assert_ok(c.status);
    assert_int_equal(c.error, cudaSuccess);
    assert_ok(md_capture_list(context, NULL, c.graph, 1, take_text, text));
    assert_non_null(strstr(text, "i=300 j=777"));
    assert_non_null(strstr(text, "\"kernels\""));
    assert_non_null(strstr(text, "\"md_"));
    for (int i = 0; i < N; i++) {
        md_op_destroy(&items[i].op);
        for (int32_t k = 0; k < items[i].n_args; k++)
            fill(&items[i], k, 1);
    }
    assert_int_equal(cudaGraphInstantiate(&exec, c.graph, 0), cudaSuccess);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < N; i++)
            fill(&items[i], 0, 5); /* the results are written anew */
        assert_int_equal(cudaGraphLaunch(exec, stream), cudaSuccess);
        assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
        for (int i = 0; i < N; i++)
            assert_true(is_right(&items[i]));
    }
    assert_int_equal(cudaGraphExecDestroy(exec), cudaSuccess);
    assert_int_equal(cudaGraphDestroy(c.graph), cudaSuccess);
    for (int i = 0; i < N; i++) {
        for (int32_t k = 0; k < items[i].n_args; k++)
            md_free(context, items[i].tensor[k].data);
        free(items[i].want);
    }
    assert_int_equal(cudaStreamDestroy(stream), cudaSuccess);
    md_context_destroy(&context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_capture)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void)
{
    return 0; /* built without CUDA */
}
#endif
