/* Calls that go the warm way on a GPU give what the first one gave, whatever pointers they get: workspaces,
 * counters, tensor maps, captures aside. Data are small integers, so that no order of additions shows. Skips itself
 * where there is no GPU. */
#include "support/check.h"

#include "api/context.h"
#include "base/dtype.h"

#include <stdbool.h>

enum { MOST_ARGS = 3, CALLS = 6 };

typedef struct warm_case {
    const char *text;
    md_dtype dtype;
    const char *pin; /* NULL: whatever is picked */
    int64_t size[MOST_ARGS][2]; /* of the arguments, the result first; 0: no such axis */
} warm_case;

static const warm_case list[] = {
    {"Y[i,j] = sum[k](X[i,k] * W[k,j])", MD_BF16, NULL, {{256, 512}, {256, 384}, {384, 512}}},
    {"Y[i,j] = sum[k](X[i,k] * W[k,j])", MD_BF16, NULL, {{131, 77}, {131, 201}, {201, 77}}},
    {"Y[i,j] = sum[k](X[i,k] * W[k,j])",
     MD_BF16,
     "gemm_wgmma/rows128_columns128_pingpong0_cluster1_split1_epilogue0_pad1",
     {{131, 77}, {131, 201}, {201, 77}}},
    {"Y[i,j] = sum[k](X[i,k] * W[k,j])",
     MD_BF16,
     "gemm_wgmma/rows128_columns128_pingpong0_cluster1_split4_epilogue0_pad0",
     {{256, 512}, {256, 4096}, {4096, 512}}},
    {"Y[i,j] = sum[k](X[i,k] * W[k,j])", MD_F32, NULL, {{65, 130}, {65, 300}, {300, 130}}},
    {"Y[j] = sum[k](X[k] * W[k,j])", MD_F32, NULL, {{200, 0}, {3000, 0}, {3000, 200}}},
    {"Y[i] = sum[j](X[i,j])", MD_F32, NULL, {{1, 0}, {1, 1000000}}},
    {"Y[i,j] = X[i,j] - max[k](X[i,k])", MD_F32, NULL, {{2, 300000}, {2, 300000}}},
    {"Y[j] = sum[i](X[i,j])", MD_F32, NULL, {{40, 0}, {100000, 40}}},
    {"Y[n] = cumsum[n](X[n])", MD_F32, NULL, {{1000003, 0}, {1000003, 0}}},
    {"Y[i,j] = X[j,i] + 1", MD_F32, NULL, {{300, 77}, {77, 300}}},
};

static md_context *context;

static void make(md_tensor *t, const int64_t size[2], md_dtype dtype, int64_t *n)
{
    *t = md_tensor_make(NULL, dtype, size[1] ? 2 : 1, size);
    *n = size[0] * (size[1] ? size[1] : 1);
    void *host = malloc((size_t)*n * md_dtype_size(dtype));
    assert_non_null(host);
    for (int64_t i = 0; i < *n; i++)
        md_dtype_store(dtype, host, i, (double)((i * 7 + i / 11) % 3) - 1.0);
    assert_ok(md_alloc(&t->data, context, (size_t)*n * md_dtype_size(dtype)));
    assert_ok(md_copy(context, t->data, host, (size_t)*n * md_dtype_size(dtype)));
    free(host);
}

static bool is_equal(const md_tensor *t, const void *want, size_t n_bytes)
{
    void *got = malloc(n_bytes);
    assert_non_null(got);
    assert_ok(md_copy(context, got, t->data, n_bytes));
    bool is = !memcmp(got, want, n_bytes);
    free(got);
    return is;
}

static bool check_case(const warm_case *c)
{
    md_op *op = NULL;
    md_tensor tensor[MOST_ARGS] = {{0}}, other[CALLS] = {{0}};
    md_arg arg[MOST_ARGS];
    int32_t n_args = c->size[2][0] ? 3 : 2;
    int64_t n = 0, n_out = 0;
    bool is_good = true;
    if (md_op_create(&op, context, c->text,
                     &(md_op_options){.dtype = c->dtype, .pin = c->pin, .hints = "64,512", .max_variants = 6}) !=
        MD_OK) {
        print_error("%s %s: %s\n", c->text, c->pin ? c->pin : "", md_last_error());
        return false;
    }
    for (int32_t i = 0; i < n_args; i++) {
        make(&tensor[i], c->size[i], c->dtype, i ? &n : &n_out);
        arg[i] = md_t(&tensor[i]);
    }
    size_t n_bytes = (size_t)n_out * md_dtype_size(c->dtype);
    void *want = malloc(n_bytes);
    assert_ok(md_call(op, NULL, arg, n_args)); /* the long way, which other tests hold against the reference */
    assert_ok(md_sync(context, NULL));
    assert_ok(md_copy(context, want, tensor[0].data, n_bytes));
    for (int k = 0; k < CALLS && is_good; k++) {
        make(&other[k], c->size[0], c->dtype, &n_out); /* elsewhere each time */
        arg[0] = md_t(&other[k]);
        md_status s = md_call(op, NULL, arg, n_args);
        is_good = s == MD_OK && md_sync(context, NULL) == MD_OK && is_equal(&other[k], want, n_bytes);
        if (!is_good)
            print_error("%s %s, call %d: %s\n", c->text, c->pin ? c->pin : "", k,
                        s == MD_OK ? "another result" : md_last_error());
    }
    for (int32_t i = 0; i < n_args; i++)
        md_free(context, tensor[i].data);
    for (int k = 0; k < CALLS; k++)
        md_free(context, other[k].data);
    free(want);
    md_op_destroy(&op);
    return is_good;
}

static void test_warm_calls(void **state)
{
    (void)state;
    int n_bad = 0;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!list[i].pin || context->dev->facts.capability == 90) /* pinned are families of Hopper's */
            n_bad += !check_case(&list[i]);
    assert_int_equal(n_bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_warm_calls)};
    const char *device = getenv("MD_TEST_DEVICE");
    if (md_context_create(&context, &(md_context_options){.device = device ? device : "cuda"}) != MD_OK) {
        print_message("WARM CALLS NOT CHECKED: %s\n", md_last_error());
        return 77;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    md_context_destroy(&context);
    return failed;
}
