/* Sequences of cuBLASLt's products on a real GPU, whose graphs can only be updated as a whole: where input and output
 * move at every run, the calls between are one graph, and the bits are those of plain calls. Skips itself where there
 * is no GPU. */
#include "cuda/gpu_sequence.h"

#if MD_HAVE_CUDA

static md_op *norm;

static int set_up(void **state)
{
    (void)state;
    if (!open_gpu())
        return 0;
    assert_ok(md_op_create(&norm, context, "Y[t,d] = X[t,d] * rsqrt(mean[k](X[t,k] * X[t,k]) + 1e-6) * G[d]",
                           &(md_op_options){.dtype = MD_BF16, .sizes = "d=256"}));
    assert_ok(md_op_wait(norm));
    return 0;
}

static int tear_down(void **state)
{
    md_op_destroy(&norm);
    return close_gpu(state);
}

enum { CALLS = 7, BLOCKS = 3 };
static const char kind_of[] = "udnudud"; /* up, down, norm */

static md_op *make_library(const char *formula, const char *sizes)
{
    md_op *op = NULL;
    if (md_op_create(&op, context, formula,
                     &(md_op_options){.dtype = MD_BF16, .sizes = sizes, .pin = "gemm_lib/rank0"}) != MD_OK)
        return NULL; /* no cuBLASLt */
    assert_ok(md_op_wait(op));
    return op;
}

/* Call i of the chain. */
static md_op *op_of(md_op *const library[2], int i)
{
    return kind_of[i] == 'n' ? norm : library[kind_of[i] == 'd'];
}

static md_sequence *products(md_op *const library[2])
{
    md_sequence *s = NULL;
    assert_ok(md_sequence_create(&s, context, NULL));
    assert_ok(md_sequence_add_dim(NULL, s, "t", 1, MOST));
    const int32_t g = tensor(s, MD_SEQUENCE_CONSTANT, "256", gain),
                  wu = tensor(s, MD_SEQUENCE_CONSTANT, "512, 256", w_up),
                  wd = tensor(s, MD_SEQUENCE_CONSTANT, "256, 512", w_down);
    int32_t from = tensor(s, MD_SEQUENCE_INPUT, "t, 256", NULL);
    for (int i = 0; i < CALLS; i++) {
        const char kind = kind_of[i];
        const int32_t to = tensor(s, i == CALLS - 1 ? MD_SEQUENCE_OUTPUT : MD_SEQUENCE_TEMPORARY,
                                  kind == 'u' ? "t, 512" : "t, 256", NULL);
        assert_ok(md_sequence_add_call(s, op_of(library, i),
                                       (md_sequence_arg[]){{.id = to},
                                                           {.id = from},
                                                           {.id = kind == 'n'   ? g
                                                                  : kind == 'u' ? wu
                                                                                : wd}},
                                       3));
        from = to;
    }
    assert_ok(md_sequence_finish(s));
    return s;
}

/* The same by plain calls. `room`: two blocks for what is between them. */
static void call_products(md_op *const library[2], int64_t t, void *x, void *y, void *const room[2])
{
    const void *from = x;
    for (int i = 0; i < CALLS; i++) {
        const char kind = kind_of[i];
        const int64_t d = D, k = kind == 'd' ? H : D, n = kind == 'u' ? H : D;
        void *const to = i == CALLS - 1 ? y : room[i % 2];
        const md_tensor in = md_tensor_make((void *)(uintptr_t)from, MD_BF16, 2, (int64_t[]){t, k}),
                        out = md_tensor_make(to, MD_BF16, 2, (int64_t[]){t, n}),
                        w = kind == 'n' ? md_tensor_make(gain, MD_BF16, 1, &d)
                                        : md_tensor_make(kind == 'u' ? w_up : w_down, MD_BF16, 2, (int64_t[]){n, k});
        assert_ok(md_call(op_of(library, i), NULL, (md_arg[]){md_t(&out), md_t(&in), md_t(&w)}, 3));
        from = to;
    }
}

/* Input and output move at every run: from the third on, the calls between the first and the last are one graph. */
static void library_calls_with_moving_addresses(void **state)
{
    static uint16_t want[N], got[N];
    enum { RUNS = 20 };
    void *x[BLOCKS], *y[BLOCKS], *room[2];
    (void)state;
    if (!context)
        skip();
    md_op *const library[2] = {make_library("Y[t,n] = sum[k](X[t,k] * W[n,k])", "n=512, k=256"),
                               make_library("Y[t,n] = sum[k](X[t,k] * W[n,k])", "n=256, k=512")};
    if (!library[0] || !library[1])
        skip();
    for (int i = 0; i < BLOCKS; i++) {
        x[i] = noise((size_t)N + 64 * (size_t)i); /* blocks of other sizes lie elsewhere */
        y[i] = noise(N);
    }
    room[0] = noise((size_t)MOST * H);
    room[1] = noise((size_t)MOST * H);
    md_sequence *s = products(library);
    for (int64_t t = MOST; t > 2; t -= 100)
        for (int r = 0; r < RUNS; r++) {
            void *const from = x[r % BLOCKS], *const to = y[r * 2 % BLOCKS];
            clear(to);
            call_products(library, t, from, to, room);
            read_back(want, to);
            clear(to);
            run(s, NULL, t, from, to);
            read_back(got, to);
            assert_memory_equal(got, want, sizeof got);
        }
    const md_sequence_counters c = counters(s);
    text[0] = 0;
    assert_ok(md_sequence_explain(s, 1, take, NULL));
    const bool is_one_graph = strstr(text, "\"segment_graphs\":1,\"launched_calls\":2") != NULL;
    if (!is_one_graph)
        print_message("%s", text);
    assert_true(is_one_graph);
    assert_int_equal(c.n_failures, 0);
    assert_in_range(c.n_split_runs, RUNS, 2 * RUNS); /* but those behind a better kernel */
    assert_int_equal(c.n_graph_runs, 0);
    for (int r = 0; r < RUNS; r++) /* they stay: one graph of all */
        run(s, NULL, 28, x[1], y[2]);
    read_back(got, y[2]);
    clear(y[2]);
    call_products(library, 28, x[1], y[2], room);
    read_back(want, y[2]);
    assert_memory_equal(got, want, 28 * D * sizeof *got);
    assert_true(counters(s).n_graph_runs >= RUNS / 2 - 1);
    md_sequence_destroy(&s);
    for (int i = 0; i < BLOCKS; i++) {
        md_free(context, x[i]);
        md_free(context, y[i]);
    }
    md_free(context, room[0]);
    md_free(context, room[1]);
    for (int i = 0; i < 2; i++) {
        md_op *op = library[i];
        md_op_destroy(&op);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(library_calls_with_moving_addresses),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
#else
int main(void)
{
    return 0; /* built without CUDA */
}
#endif
