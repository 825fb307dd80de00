/* Products on a GPU at their edges: no K, no rows, no columns; outputs in the memory of inputs; strides that are 0,
 * odd, beyond 32 bits, beyond what the copy engine takes; a GPU without wgmma; no cuBLASLt. Operands are small whole
 * numbers, so that results are exact. Skips itself where there is no GPU. dlopen is wrapped by the linker, to lose a
 * library. */
#include "support/check.h"

#include "api/context.h"
#include "base/dtype.h"
#include "base/status.h"

#include <math.h>
#include <stdbool.h>

static bool is_library_lost;

void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);

void *__wrap_dlopen(const char *name, int flags)
{
    return is_library_lost && name && strstr(name, "cublas") ? NULL : __real_dlopen(name, flags);
}

static md_context *context;

/* Y = X W^T + B. Distances from line to line of each, in elements. */
typedef struct product {
    int64_t m, n, k, x_line, w_line;
    bool is_in_place; /* Y in the memory of X */
} product;

typedef struct memory {
    int8_t *x, *w; /* line after line */
    md_tensor tx, tw, tb, ty;
    void *base[4];
} memory;

static md_tensor on_device(void **base, int64_t rows, int64_t columns, int64_t line, const int8_t *value)
{
    const int64_t size[2] = {rows, columns}, n = (MD_MAX(rows, 1) - 1) * line + MD_MAX(columns, 1);
    md_tensor t = md_tensor_make(NULL, MD_BF16, 2, size);
    uint16_t *image = calloc((size_t)MD_MAX(columns, 1), sizeof *image);
    t.stride[0] = line;
    assert_non_null(image);
    assert_ok(md_alloc(base, context, (size_t)(line > INT64_C(1) << 40 ? columns : n) * 2 + 64));
    t.data = *base;
    for (int64_t r = 0; r < rows && columns > 0 && value; r++) {
        for (int64_t c = 0; c < columns; c++)
            md_dtype_store(MD_BF16, image, c, value[(line == 0 ? 0 : r) * columns + c]);
        assert_ok(md_copy(context, (uint16_t *)t.data + r * line, image, (size_t)columns * 2));
    }
    free(image);
    return t;
}

static int8_t *numbers(int64_t n, uint64_t seed)
{
    int8_t *x = malloc((size_t)n + 1);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = (int8_t)(check_random(&seed) % 3) - 1;
    return x;
}

static int bias(int64_t j)
{
    return (int)(j % 7) - 3;
}

static void begin(memory *d, const product *p)
{
    *d = (memory){.x = numbers(p->m * p->k, 1), .w = numbers(p->n * p->k, 2)};
    int8_t *b = malloc((size_t)p->n + 1);
    assert_non_null(b);
    for (int64_t j = 0; j < p->n; j++)
        b[j] = (int8_t)bias(j);
    d->tx = on_device(&d->base[0], p->m, p->k, p->x_line ? p->x_line : p->k, d->x);
    d->tw = on_device(&d->base[1], p->n, p->k, p->w_line ? p->w_line : p->k, d->w);
    d->tb = on_device(&d->base[2], 1, p->n, p->n, b);
    d->tb.rank = 1;
    d->tb.size[0] = p->n;
    d->tb.stride[0] = 1;
    d->ty = p->is_in_place ? d->tx : on_device(&d->base[3], p->m, p->n, MD_MAX(p->n, 1), NULL);
    free(b);
}

static void check_results(const memory *d, const product *p, const char *what)
{
    uint16_t *y = malloc((size_t)(p->m * p->n) * 2 + 2);
    int64_t wrong = 0;
    assert_non_null(y);
    if (p->m * p->n > 0)
        assert_ok(md_copy(context, y, d->ty.data, (size_t)(p->m * p->n) * 2));
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            int64_t sum = bias(j);
            for (int64_t k = 0; k < p->k; k++)
                sum += d->x[i * p->k + k] * d->w[j * p->k + k];
            wrong += !(md_dtype_load(MD_BF16, y, i * p->n + j) == md_dtype_round(MD_BF16, (double)sum));
        }
    free(y);
    if (wrong > 0)
        fail_msg("%s, m=%lld n=%lld k=%lld: %lld wrong results", what, (long long)p->m, (long long)p->n,
                 (long long)p->k, (long long)wrong);
}

static void end(memory *d)
{
    for (int i = 0; i < 4; i++)
        md_free(context, d->base[i]);
    free(d->x);
    free(d->w);
}

static const char text[] = "Y[i,j] = sum[k](X[i,k] * W[j,k]) + B[j]";

static md_op *op_of(const char *pin)
{
    md_op *op = NULL;
    assert_ok(md_op_create(&op, context, text,
                           &(md_op_options){.dtype = MD_BF16, .hints = "64", .pin = pin, .max_variants = 8}));
    assert_ok(md_op_wait(op));
    return op;
}

/* False where a pinned variant does not fit. */
static bool run(md_op *op, const product *p, const char *what)
{
    memory d;
    begin(&d, p);
    md_arg args[] = {md_t(&d.ty), md_t(&d.tx), md_t(&d.tw), md_t(&d.tb)};
    const md_status s = md_call(op, NULL, args, 4);
    if (s != MD_OK && s != MD_UNSUPPORTED)
        fail_msg("%s, m=%lld n=%lld k=%lld: %s", what, (long long)p->m, (long long)p->n, (long long)p->k,
                 md_last_error());
    assert_ok(md_sync(context, NULL));
    assert_ok(md_check(context));
    if (s == MD_OK)
        check_results(&d, p, what);
    end(&d);
    return s == MD_OK;
}

static const product list[] = {
    {70, 130, 0},
    {0, 130, 64},
    {70, 0, 64},
    {0, 0, 0},
    {1, 1, 0}, /* nothing */
    {64, 64, 64, .is_in_place = true},
    {77, 33, 33, .is_in_place = false},
    {129, 129, 129, .is_in_place = true},
    {130, 72, 64, .x_line = 72},
    {130, 72, 64, .x_line = 65, .w_line = 67},
    {64, 72, 64, .w_line = 80}, /* gaps */
    /* of one line: any distance */
    {1, 72, 64, .x_line = INT64_C(1) << 50},
    {1, 1, 64, .x_line = INT64_C(1) << 50, .w_line = (INT64_C(1) << 50) + 3},
    {3, 72, 64, .x_line = (INT64_C(1) << 31) + 24},
    {3, 72, 65, .x_line = (INT64_C(1) << 31) + 25}, /* beyond 32 bits */
};

static void run_all(const char *pin)
{
    md_op *op = op_of(pin);
    int n = 0;
    for (size_t i = 0; i < MD_COUNT(list); i++)
        n += run(op, &list[i], pin ? pin : "whatever is picked");
    print_message("%s: %d of %d\n", pin ? pin : "whatever is picked", n, (int)MD_COUNT(list));
    assert_true(pin ? n > 0 : n == MD_COUNT(list));
    md_op_destroy(&op);
}

static void test_picked(void **state)
{
    (void)state;
    run_all(NULL);
}

static void test_pinned(void **state)
{
    (void)state;
    static const char *const pin[] = {"gemm_wgmma/rows64_columns64_pingpong0_cluster1_split1_epilogue1_pad0",
                                      "gemm_wgmma/rows64_columns64_pingpong0_cluster2_split2_epilogue0_pad1",
                                      "gemm_mma/rows64_columns64_stages3_split1", "gemm_lib/rank0"};
    for (size_t i = 0; i < MD_COUNT(pin); i++)
        run_all(pin[i]);
}

/* Every line of X is the first one. */
static void test_repeated(void **state)
{
    (void)state;
    const product p = {70, 72, 64};
    memory d;
    md_op *op = op_of(NULL);
    begin(&d, &p);
    for (int64_t r = 1; r < p.m; r++)
        memcpy(d.x + r * p.k, d.x, (size_t)p.k);
    d.tx.stride[0] = 0;
    assert_ok(md_call(op, NULL, (md_arg[]){md_t(&d.ty), md_t(&d.tx), md_t(&d.tw), md_t(&d.tb)}, 4));
    assert_ok(md_sync(context, NULL));
    check_results(&d, &p, "lines that are one");
    end(&d);
    md_op_destroy(&op);
}

static bool has_family(const md_op *op, const char *family)
{
    for (int32_t i = 0; i < md_op_n_variants(op, 0); i++)
        if (strncmp(md_op_variant(op, 0, i), family, strlen(family)) == 0)
            return true;
    return false;
}

/* Before Hopper. */
static void test_no_wgmma(void **state)
{
    (void)state;
    md_context *before = context;
    assert_ok(md_context_create(&context, &(md_context_options){.device = "cuda"}));
    context->dev->facts.capability = 80;
    md_op *op = op_of(NULL);
    assert_false(has_family(op, "gemm_wgmma"));
    for (size_t i = 0; i < MD_COUNT(list); i++)
        if (!run(op, &list[i], "without wgmma"))
            fail_msg("without wgmma, %d: %s", (int)i, md_last_error());
    md_op_destroy(&op);
    md_context_destroy(&context);
    context = before;
}

static void test_no_library(void **state)
{
    (void)state;
    md_context *before = context;
    md_op *op = NULL;
    is_library_lost = true;
    assert_ok(md_context_create(&context, &(md_context_options){.device = "cuda"}));
    op = op_of(NULL);
    assert_false(has_family(op, "gemm_lib"));
    for (size_t i = 0; i < MD_COUNT(list); i++)
        if (!run(op, &list[i], "without cuBLASLt"))
            fail_msg("without cuBLASLt, %d: %s", (int)i, md_last_error());
    md_op_destroy(&op);
    assert_true(md_op_create(&op, context, text, &(md_op_options){.dtype = MD_BF16, .pin = "gemm_lib/rank0"}) != MD_OK);
    print_message("pinned: %s\n", md_last_error());
    md_context_destroy(&context);
    context = before;
    is_library_lost = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_picked), cmocka_unit_test(test_pinned),
                                       cmocka_unit_test(test_repeated), cmocka_unit_test(test_no_wgmma),
                                       cmocka_unit_test(test_no_library)};
    if (md_context_create(&context, &(md_context_options){.device = "cuda"}) != MD_OK) {
        print_message("NOT RUN ON A GPU: %s\n", md_last_error());
        return 77;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    md_context_destroy(&context);
    return failed;
}
