/* Formulas over lists on a real GPU beside the host device: norms, clipping, optimizers, several passes, and the same
 * bits at each run. Skips itself where there is no GPU. */
#include "md_build_config.h"
#include "support/check.h"

#include <math.h>
#include <md/list.h>
#include <stdlib.h>

#if MD_HAVE_CUDA
#include <cuda_runtime_api.h>

enum { ITEMS = 14, MOST_ARGS = 16, HOST = 0, GPU = 1 };

static md_context *context[2];
static const int64_t size[ITEMS] = {0, 1, 3, 4095, 4096, 4097, 8192, 20000, 64, 300001, 7, 0, 12289, 2};

typedef struct argument {
    md_list_info info;
    double scalar;
    float *start[ITEMS], *got[ITEMS]; /* a single tensor is item 0 */
    void *data[ITEMS][2];
    md_tensor tensor[ITEMS][2];
} argument;

static int64_t elements(const argument *a, int64_t item)
{
    return a->info.rank == 0 ? 1 : size[item];
}

static void make_argument(argument *a, md_list *list, int32_t i, uint64_t *seed)
{
    assert_ok(md_list_arg(&a->info, list, i));
    a->scalar = strstr(a->info.name, "norm") ? 1.5 : 0.01 + (double)(check_random(seed) % 900) / 1000.0;
    for (int64_t k = 0; !a->info.is_scalar && k < (a->info.is_list ? ITEMS : 1); k++) {
        const int64_t n = elements(a, k);
        const size_t bytes = (size_t)(n > 0 ? n : 1) * sizeof(float);
        a->start[k] = calloc(1, bytes);
        a->got[k] = calloc(1, bytes);
        assert_true(a->start[k] && a->got[k]);
        for (int64_t e = 0; e < n; e++) /* some are second moments, so none is negative */
            a->start[k][e] = (float)(check_random(seed) % 4000) / 1000.0F;
        for (int d = 0; d < 2; d++) {
            assert_ok(md_alloc(&a->data[k][d], context[d], bytes));
            a->tensor[k][d] = md_tensor_make(a->data[k][d], MD_F32, a->info.rank, &n);
        }
    }
}

static void free_argument(argument *a)
{
    for (int64_t k = 0; k < ITEMS; k++) {
        for (int d = 0; d < 2 && a->data[k][d]; d++)
            md_free(context[d], a->data[k][d]);
        free(a->start[k]);
        free(a->got[k]);
    }
}

static void call(md_list *list, argument *all, int32_t n, int device)
{
    md_arg args[MOST_ARGS];
    md_tensor items[MOST_ARGS][ITEMS];
    for (int32_t i = 0; i < n; i++) {
        argument *a = &all[i];
        for (int64_t k = 0; k < ITEMS && a->data[k][device]; k++) {
            items[i][k] = a->tensor[k][device];
            assert_ok(
                md_copy(context[device], a->data[k][device], a->start[k], (size_t)elements(a, k) * sizeof(float)));
        }
        args[i] = a->info.is_scalar ? md_s(a->scalar)
                  : a->info.is_list ? md_ts(items[i], ITEMS)
                                    : md_t(&a->tensor[0][device]);
    }
    assert_ok(md_list_call(list, NULL, args, n));
}

static void read_outputs(argument *a, int64_t item, int device, float *to)
{
    assert_ok(md_copy(context[device], to, a->data[item][device], (size_t)elements(a, item) * sizeof(float)));
}

/* What the host computes lies in a->got. */
static void expect_near(const argument *a, int64_t item, const float *got)
{
    for (int64_t e = 0; e < elements(a, item); e++) {
        const double want = a->got[item][e];
        if (!(fabs(got[e] - want) <= 2e-5 * (1.0 + fabs(want))))
            fail_msg("%s, item %d, element %d: %.9g, on the host %.9g", a->info.name, (int)item, (int)e, got[e], want);
    }
}

static void compare(argument *all, int32_t n, float **first)
{
    for (int32_t i = 0; i < n; i++)
        for (int64_t k = 0; all[i].info.is_output && k < ITEMS && all[i].data[k][GPU]; k++) {
            const size_t bytes = (size_t)elements(&all[i], k) * sizeof(float);
            float *got = malloc(bytes + 1), **kept = &first[i * ITEMS + k];
            assert_non_null(got);
            read_outputs(&all[i], k, GPU, got);
            expect_near(&all[i], k, got);
            if (*kept)
                assert_memory_equal(*kept, got, bytes); /* as at the first run */
            free(*kept);
            *kept = got;
        }
}

static void beside_the_host(const char *formula, uint64_t *seed)
{
    md_list *list[2];
    argument *all = calloc(MOST_ARGS, sizeof *all);
    float *first[MOST_ARGS * ITEMS] = {0};
    assert_non_null(all);
    for (int d = 0; d < 2; d++)
        assert_ok(md_list_create(&list[d], context[d], formula, NULL));
    const int32_t n = md_list_n_args(list[HOST]);
    assert_in_range(n, 1, MOST_ARGS);
    for (int32_t i = 0; i < n; i++)
        make_argument(&all[i], list[HOST], i, seed);
    call(list[HOST], all, n, HOST);
    for (int32_t i = 0; i < n; i++)
        for (int64_t k = 0; all[i].info.is_output && k < ITEMS && all[i].data[k][HOST]; k++)
            read_outputs(&all[i], k, HOST, all[i].got[k]);
    for (int run = 0; run < 3; run++) {
        call(list[GPU], all, n, GPU);
        compare(all, n, first);
    }
    for (int32_t i = 0; i < MOST_ARGS * ITEMS; i++)
        free(first[i]);
    for (int32_t i = 0; i < n; i++)
        free_argument(&all[i]);
    for (int d = 0; d < 2; d++)
        md_list_destroy(&list[d]);
    free(all);
}

static void catalogue(void **state)
{
    const char *name, *formula, *description;
    uint64_t seed = check_seed();
    int n = 0;
    (void)state;
    for (; md_list_catalogue(n, &name, &formula, &description), name; n++) {
        print_message("%s\n", name);
        beside_the_host(name, &seed);
    }
    assert_true(n > 0);
}

static void passes_and_numbers(void **state)
{
    static const char *const formulas[] = {
        "let m = max[t,i](X@t[i]); let s = sum[t,i](exp(X@t[i]-m)); Y@t[i] = exp(X@t[i]-m) / s; C = sum[t,i](Y@t[i])",
        "N = sqrt(sum[t,i](G@t[i] * G@t[i])); L = min[t,i](G@t[i]); H[] = max[t,i](G@t[i])",
        "O@t[i] = X@t[i]; X@t[i] = X@t[i] + 1; N = sum[t,i](X@t[i]) / 30000; Y@t[i] = O@t[i] - X@t[i] / N",
    };
    uint64_t seed = check_seed();
    (void)state;
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
        beside_the_host(formulas[i], &seed);
}

enum { N = 30000 };

static float *values_of(const md_tensor *t)
{
    float *out = malloc(N * sizeof *out);
    assert_non_null(out);
    assert_ok(md_copy(context[GPU], out, t->data, N * sizeof *out));
    return out;
}

/* A captured call allocates memory of its own, and its graph gives what calls give. */
static void captured(void **state)
{
    md_list *list;
    md_tensor t[2][2]; /* called and captured; items */
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    uint64_t seed = check_seed();
    float *start = malloc(N * sizeof *start);
    (void)state;
    assert_non_null(start);
    for (int e = 0; e < N; e++)
        start[e] = (float)(check_random(&seed) % 4000) / 1000.0F;
    assert_ok(
        md_list_create(&list, context[GPU], "let n = sum[t,i](G@t[i] * G@t[i]); G@t[i] = 90 * G@t[i] / sqrt(n)", NULL));
    for (int k = 0; k < 4; k++) {
        void *p;
        assert_ok(md_alloc(&p, context[GPU], N * sizeof *start));
        assert_ok(md_copy(context[GPU], p, start, N * sizeof *start));
        t[k / 2][k % 2] = md_tensor_make(p, MD_F32, 1, (const int64_t[]){N});
    }
    assert_ok(md_sync(context[GPU], NULL));
    assert_int_equal(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), 0);
    assert_int_equal(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), 0);
    for (int k = 0; k < 2; k++)
        assert_ok(md_list_call(list, (md_stream)stream, (const md_arg[]){md_ts(t[1], 2)}, 1));
    assert_int_equal(cudaStreamEndCapture(stream, &graph), 0);
    assert_int_equal(cudaGraphInstantiate(&exec, graph, 0), 0);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(cudaGraphLaunch(exec, stream), 0);
        for (int call = 0; call < 2; call++)
            assert_ok(md_list_call(list, NULL, (const md_arg[]){md_ts(t[0], 2)}, 1));
        assert_int_equal(cudaStreamSynchronize(stream), 0);
        assert_ok(md_sync(context[GPU], NULL));
        float *want = values_of(&t[0][1]), *got = values_of(&t[1][1]);
        assert_memory_equal(got, want, N * sizeof *got);
        free(want);
        free(got);
    }
    assert_int_equal(cudaGraphExecDestroy(exec), 0);
    assert_int_equal(cudaGraphDestroy(graph), 0);
    assert_int_equal(cudaStreamDestroy(stream), 0);
    md_list_destroy(&list);
    for (int k = 0; k < 4; k++)
        md_free(context[GPU], t[k / 2][k % 2].data);
    free(start);
}

int main(void)
{
    if (md_context_create(&context[GPU], &(md_context_options){.device = "cuda", .hints = "4096"}) != MD_OK) {
        printf("SKIPPED, nothing was tested: %s\n", md_last_error());
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(catalogue), cmocka_unit_test(passes_and_numbers),
                                       cmocka_unit_test(captured)};
    int failed = md_context_create(&context[HOST], &(md_context_options){.device = "host", .hints = "4096"}) != MD_OK;
    failed += cmocka_run_group_tests_name("formulas over lists on a GPU", tests, NULL, NULL);
    for (int d = 0; d < 2; d++)
        md_context_destroy(&context[d]);
    return failed;
}
#else
int main(void)
{
    return 0; /* built without CUDA */
}
#endif
