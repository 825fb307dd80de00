/* Sequences on a real GPU: by launches, by graphs, by graphs whose nodes were changed, in a capture, and from two
 * threads give the same bits. Skips itself where there is no GPU. */
#include "cuda/gpu_sequence.h"

#if MD_HAVE_CUDA
#include <cuda_runtime_api.h>
#include <pthread.h>

static md_op *norm, *up, *down;

static md_op *make(const char *formula, const char *sizes)
{
    md_op *op = NULL;
    assert_ok(
        md_op_create(&op, context, formula, &(md_op_options){.dtype = MD_BF16, .sizes = sizes, .without_library = 1}));
    assert_ok(md_op_wait(op));
    return op;
}

static int set_up(void **state)
{
    (void)state;
    if (!open_gpu())
        return 0;
    norm = make("Y[t,d] = X[t,d] * rsqrt(mean[k](X[t,k] * X[t,k]) + 1e-6) * G[d]", "d=256");
    up = make("Y[t,n] = silu(sum[k](X[t,k] * W[n,k]))", "n=512, k=256");
    down = make("Y[t,n] = R[t,n] + sum[k](X[t,k] * W[n,k])", "n=256, k=512");
    return 0;
}

/* y = x + down(up(norm(x))), twice. */
static md_sequence *layers(const md_sequence_options *options)
{
    md_sequence *s = NULL;
    assert_ok(md_sequence_create(&s, context, options));
    assert_ok(md_sequence_add_dim(NULL, s, "t", 1, MOST));
    const int32_t g = tensor(s, MD_SEQUENCE_CONSTANT, "256", gain),
                  wu = tensor(s, MD_SEQUENCE_CONSTANT, "512, 256", w_up),
                  wd = tensor(s, MD_SEQUENCE_CONSTANT, "256, 512", w_down),
                  x = tensor(s, MD_SEQUENCE_INPUT, "t, 256", NULL), y = tensor(s, MD_SEQUENCE_OUTPUT, "t, 256", NULL),
                  m = tensor(s, MD_SEQUENCE_TEMPORARY, "t, 256", NULL);
    for (int l = 0; l < 2; l++) {
        const int32_t n = tensor(s, MD_SEQUENCE_TEMPORARY, "t, 256", NULL),
                      h = tensor(s, MD_SEQUENCE_TEMPORARY, "t, 512", NULL), from = l ? m : x, to = l ? y : m;
        assert_ok(md_sequence_add_call(s, norm, (md_sequence_arg[]){{.id = n}, {.id = from}, {.id = g}}, 3));
        assert_ok(md_sequence_add_call(s, up, (md_sequence_arg[]){{.id = h}, {.id = n}, {.id = wu}}, 3));
        assert_ok(
            md_sequence_add_call(s, down, (md_sequence_arg[]){{.id = to}, {.id = from}, {.id = h}, {.id = wd}}, 4));
    }
    assert_ok(md_sequence_finish(s));
    return s;
}

static void graphs_give_the_same_bits(void **state)
{
    static uint16_t want[N], got[N];
    static const int64_t size[] = {128, 1, 5, 100, 17, 33};
    (void)state;
    if (!context)
        skip();
    void *x = noise(N), *y = noise(N), *z = noise(N);
    md_sequence *by_launches = layers(&(md_sequence_options){.max_graphs = -1}),
                *s = layers(&(md_sequence_options){.max_graphs = 3});
    for (int i = 0; i < 12; i++) {
        const int64_t t = size[i % 6];
        clear(y);
        run(by_launches, NULL, t, x, y);
        read_back(want, y);
        for (int k = 0; k < 6; k++) { /* bound, launches, a graph, a changed node, the graph changed back */
            void *to = k == 3 ? z : y;
            clear(to);
            run(s, NULL, t, x, to);
            read_back(got, to);
            assert_memory_equal(got, want, sizeof got);
        }
    }
    const md_sequence_counters c = counters(s);
    assert_int_equal(counters(by_launches).n_graph_runs, 0);
    assert_int_equal(c.n_failures, 0);
    assert_true(c.n_graph_runs >= 30);
    assert_true(c.n_updates >= 12); /* nodes were changed */
    assert_int_equal(c.n_graphs, 3);
    md_sequence_destroy(&s);
    md_sequence_destroy(&by_launches);
    md_free(context, x);
    md_free(context, y);
    md_free(context, z);
}

/* Kernels that may begin before their predecessor ends do so in graphs, too. */
static void launches_overlap_in_graphs(void **state)
{
    int kernels = 0, early = 0;
    (void)state;
    if (!context)
        skip();
    void *x = noise(N), *y = noise(N);
    md_sequence *s = layers(NULL);
    for (int i = 0; i < 3; i++)
        run(s, NULL, 64, x, y);
    assert_ok(md_sync(context, NULL));
    assert_int_equal(counters(s).n_graph_runs, 1);
    text[0] = 0;
    assert_ok(md_sequence_explain(s, 1, take, NULL));
    const char *at = strstr(text, "\"graph_kernels\":");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "\"graph_kernels\":%d,\"graph_early\":%d", &kernels, &early), 2);
    assert_true(kernels >= 6);
    assert_true(early >= 1 && early < kernels);
    print_message("%d of %d kernels begin early\n", early, kernels);
    md_sequence_destroy(&s);
    md_free(context, x);
    md_free(context, y);
}

/* The caller captures two runs, the second at sizes that are new; the graph stays right. */
static void in_a_capture(void **state)
{
    static uint16_t want[N], got[N];
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    (void)state;
    if (!context)
        skip();
    void *x = noise(N), *y = noise(N);
    md_sequence *s = layers(NULL);
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    for (int i = 0; i < 3; i++) /* it has a graph of its own */
        run(s, stream, 40, x, y);
    assert_ok(md_sync(context, stream));
    assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    run(s, stream, 40, x, y);
    run(s, stream, 41, x, y);
    assert_int_equal(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    assert_int_equal(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
    clear(y);
    run(s, stream, 41, x, y);
    assert_ok(md_sync(context, stream));
    read_back(want, y);
    run(s, stream, MOST, x, y); /* may move the arena */
    assert_ok(md_sync(context, stream));
    clear(y);
    assert_int_equal(cudaGraphLaunch(exec, stream), cudaSuccess);
    assert_ok(md_sync(context, stream));
    read_back(got, y);
    assert_memory_equal(got, want, sizeof got);
    (void)cudaGraphExecDestroy(exec);
    (void)cudaGraphDestroy(graph);
    md_sequence_destroy(&s);
    (void)cudaStreamDestroy(stream);
    md_free(context, x);
    md_free(context, y);
}

typedef struct worker {
    md_sequence *s;
    cudaStream_t stream;
    void *x, *y;
} worker;

static void *work(void *user)
{
    const worker *w = user;
    for (int i = 0; i < 200; i++)
        run(w->s, w->stream, 1 + i / 10 * 3, w->x, w->y);
    return NULL;
}

static void two_threads_share_a_sequence(void **state)
{
    static uint16_t got[2][N];
    pthread_t thread[2];
    worker w[2];
    (void)state;
    if (!context)
        skip();
    md_sequence *s = layers(&(md_sequence_options){.max_graphs = 4});
    void *x = noise(N);
    for (int i = 0; i < 2; i++) {
        w[i] = (worker){.s = s, .x = x, .y = noise(N)};
        clear(w[i].y);
        assert_int_equal(cudaStreamCreateWithFlags(&w[i].stream, cudaStreamNonBlocking), cudaSuccess);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < 2; i++) {
        assert_ok(md_sync(context, w[i].stream));
        read_back(got[i], w[i].y);
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
    assert_int_equal(counters(s).n_runs, 400);
    md_sequence_destroy(&s);
    for (int i = 0; i < 2; i++) {
        (void)cudaStreamDestroy(w[i].stream);
        md_free(context, w[i].y);
    }
    md_free(context, x);
}

/* Ops, then the context, then the sequence. */
static void goes_in_any_order(void **state)
{
    (void)state;
    if (!context)
        skip();
    void *x = noise(N), *y = noise(N);
    md_sequence *s = layers(NULL), *other = layers(NULL);
    for (int i = 0; i < 3; i++) {
        run(s, NULL, 20, x, y);
        run(other, NULL, 30, x, y);
    }
    md_sequence_destroy(&other); /* work is under way */
    md_op_destroy(&norm);
    md_op_destroy(&up);
    md_op_destroy(&down);
    run(s, NULL, 21, x, y);
    assert_ok(md_sync(context, NULL));
    md_context_destroy(&context);
    const int64_t t = 20;
    assert_fails(md_sequence_run(s, NULL, &t, 1, (void *const[]){x, y}, 2), MD_INVALID_ARGUMENT, "context");
    md_sequence_destroy(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_give_the_same_bits),
        cmocka_unit_test(launches_overlap_in_graphs),
        cmocka_unit_test(in_a_capture),
        cmocka_unit_test(two_threads_share_a_sequence),
        cmocka_unit_test(goes_in_any_order), /* the last one */
    };
    return cmocka_run_group_tests(tests, set_up, close_gpu);
}
#else
int main(void)
{
    return 0; /* built without CUDA */
}
#endif
