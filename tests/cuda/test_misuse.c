/* What a GPU must not be asked: each is refused by name, and the context goes on. Skips itself where there is no
 * GPU; what needs two says so. */
#include "support/check.h"

#include "api/context.h"

#include <dlfcn.h>
#include <stdbool.h>

enum { N = 1 << 20 };

static const char *device_name;
static md_context *context;

/* y = x * 2 on a context, from x = 1, 2, .. */
typedef struct doubling {
    md_context *context;
    md_op *op;
    md_tensor x, y;
} doubling;

static void begin(doubling *d, md_context *c, const char *name)
{
    const int64_t n = N;
    float *x = malloc(N * sizeof *x);
    *d = (doubling){.context = c, .x = md_tensor_make(NULL, MD_F32, 1, &n), .y = md_tensor_make(NULL, MD_F32, 1, &n)};
    assert_non_null(x);
    for (int i = 0; i < N; i++)
        x[i] = (float)(i + 1);
    assert_ok(
        md_op_create(&d->op, c, "Y[i] = X[i] * 2", &(md_op_options){.name = name, .hints = "4096", .max_variants = 2}));
    assert_ok(md_alloc(&d->x.data, c, N * 4));
    assert_ok(md_alloc(&d->y.data, c, N * 4));
    assert_ok(md_copy(c, d->x.data, x, N * 4));
    free(x);
}

static md_status run(const doubling *d, md_stream stream, const md_tensor *y, const md_tensor *x)
{
    return md_call(d->op, stream, (md_arg[]){md_t(y ? y : &d->y), md_t(x ? x : &d->x)}, 2);
}

/* As ever. */
static void check_works(const doubling *d)
{
    float last[2] = {0};
    assert_ok(run(d, NULL, NULL, NULL));
    assert_ok(md_sync(d->context, NULL));
    assert_ok(md_check(d->context));
    assert_ok(md_copy(d->context, last, (float *)d->y.data + N - 2, sizeof last));
    assert_true(last[0] == 2.0f * (N - 1) && last[1] == 2.0f * N);
}

static void end(doubling *d)
{
    check_works(d);
    md_free(d->context, d->x.data);
    md_free(d->context, d->y.data);
    md_op_destroy(&d->op);
}

static void test_host_pointers(void **state)
{
    (void)state;
    doubling d;
    begin(&d, context, "twice");
    md_tensor x = d.x, y = d.y;
    x.data = malloc(N * 4);
    y.data = malloc(N * 4);
    assert_fails(run(&d, NULL, NULL, &x), MD_INVALID_ARGUMENT, "'X'");
    assert_fails(run(&d, NULL, &y, NULL), MD_INVALID_ARGUMENT, "host memory");
    assert_non_null(strstr(md_last_error(), "op twice"));
    assert_non_null(strstr(md_last_error(), "'Y'"));
    free(x.data);
    free(y.data);
    end(&d);
}

/* Addresses that are no multiple of an element's size; strides and offsets that no vector fits. */
static void test_misaligned(void **state)
{
    (void)state;
    doubling d;
    begin(&d, context, "twice");
    for (int by = 1; by < 4; by++) {
        md_tensor x = d.x, y = d.y;
        x.size[0] = y.size[0] = 1000;
        x.data = (char *)d.x.data + by;
        assert_fails(run(&d, NULL, &y, &x), MD_INVALID_ARGUMENT, "'X'");
        x.data = (float *)d.x.data + by;
        x.stride[0] = by;
        y.data = (float *)d.y.data + (by + 1) % 4;
        assert_ok(run(&d, NULL, &y, &x));
        float got[1000];
        assert_ok(md_sync(context, NULL));
        assert_ok(md_copy(context, got, y.data, sizeof got));
        for (int i = 0; i < 1000; i++)
            assert_true(got[i] == 2.0f * (float)(by + i * by + 1));
    }
    end(&d);
}

static void test_indices(void **state)
{
    (void)state;
    md_op *op = NULL;
    const int64_t rows = 100, size[2] = {3000, 64}, from[2] = {50, 64};
    md_tensor e = md_tensor_make(NULL, MD_F32, 2, from), ids = md_tensor_make(NULL, MD_I64, 1, &rows),
              y = md_tensor_make(NULL, MD_F32, 2, (int64_t[]){rows, 64});
    int64_t id[100];
    assert_ok(md_op_create(&op, context, "Y[t,d] = E[ids[t],d]", &(md_op_options){.name = "rows_of", .hints = "64"}));
    assert_ok(md_alloc(&e.data, context, (size_t)size[0] * 64 * 4));
    assert_ok(md_alloc(&y.data, context, (size_t)rows * 64 * 4));
    assert_ok(md_alloc(&ids.data, context, sizeof id));
    const md_arg arg[] = {md_t(&y), md_t(&e), md_t(&ids)};
    static const int64_t wild[] = {0, 50, -1, INT64_MAX, INT64_MIN, (INT64_C(1) << 32) + 3};
    for (size_t k = 0; k < sizeof wild / sizeof *wild; k++) {
        char part[40];
        for (int i = 0; i < 100; i++)
            id[i] = i == 77 ? wild[k] : i % 50;
        snprintf(part, sizeof part, "index %lld ", (long long)wild[k]);
        assert_ok(md_copy(context, ids.data, id, sizeof id));
        assert_ok(md_call(op, NULL, arg, 3));
        assert_ok(md_sync(context, NULL));
        if (k == 0) {
            assert_ok(md_check(context));
            continue;
        }
        assert_fails(md_check(context), MD_INVALID_ARGUMENT, part);
        assert_non_null(strstr(md_last_error(), "op rows_of"));
        assert_non_null(strstr(md_last_error(), "axis 0"));
        assert_non_null(strstr(md_last_error(), "'E'"));
        assert_ok(md_check(context)); /* told once */
    }
    /* What nobody asked for is told by the next call. */
    assert_ok(md_call(op, NULL, arg, 3));
    assert_ok(md_sync(context, NULL));
    assert_fails(md_call(op, NULL, arg, 3), MD_INVALID_ARGUMENT, "op rows_of");
    md_free(context, e.data);
    md_free(context, y.data);
    md_free(context, ids.data);
    md_op_destroy(&op);
}

/* All memory is taken: allocations and calls that need a workspace say so, and go on when there is room again. */
static void test_memory(void **state)
{
    (void)state;
    enum { MOST = 512, SIDE = 4096, LEAST_PIECE = 1 << 20 };
    const int64_t size[2] = {SIDE, SIDE};
    md_tensor x = md_tensor_make(NULL, MD_F32, 2, size), y = x;
    md_op *op = NULL;
    void *taken[MOST];
    int n = 0;
    doubling d;
    begin(&d, context, "twice");
    check_works(&d);
    assert_ok(md_op_create(&op, context, "let T[i,j] = cumsum[j](X[i,j]); Y[i,j] = cumsum[i](T[i,j])",
                           &(md_op_options){.name = "sums", .hints = "4096"}));
    assert_ok(md_alloc(&x.data, context, (size_t)SIDE * SIDE * 4));
    assert_ok(md_alloc(&y.data, context, (size_t)SIDE * SIDE * 4));
    for (size_t piece = (size_t)64 << 30; piece >= LEAST_PIECE; piece /= 2)
        while (n < MOST && md_alloc(&taken[n], context, piece) == MD_OK)
            n++;
    assert_true(n > 0 && n < MOST);
    assert_fails(md_alloc(&taken[n], context, 64 << 20), MD_OUT_OF_MEMORY, "67108864 bytes");
    const md_arg arg[] = {md_t(&y), md_t(&x)};
    const md_status s = md_call(op, NULL, arg, 2);
    print_message("%d pieces; %s: %s\n", n, md_status_name(s), md_last_error());
    assert_int_equal(s, MD_OUT_OF_MEMORY);
    check_works(&d);
    while (n > 0)
        md_free(context, taken[--n]);
    assert_ok(md_call(op, NULL, arg, 2));
    assert_ok(md_sync(context, NULL));
    md_free(context, x.data);
    md_free(context, y.data);
    md_op_destroy(&op);
    end(&d);
}

/* A stream of another context of the driver's on the same GPU, not the one that all users of the runtime share:
 * refused, or it works. */
static void test_foreign_stream(void **state)
{
    (void)state;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *foreign = NULL, *popped = NULL, *stream = NULL;
    assert_non_null(driver);
    int (*make)(void **, unsigned, int) = NULL, (*unmake)(void *) = NULL, (*pop)(void **) = NULL,
                                   (*make_stream)(void **, unsigned) = NULL;
    *(void **)&make = dlsym(driver, "cuCtxCreate_v2");
    *(void **)&unmake = dlsym(driver, "cuCtxDestroy_v2");
    *(void **)&pop = dlsym(driver, "cuCtxPopCurrent_v2");
    *(void **)&make_stream = dlsym(driver, "cuStreamCreate");
    if (!make || !unmake || !pop || !make_stream)
        skip();
    doubling d;
    begin(&d, context, "twice");
    check_works(&d);
    assert_int_equal(make(&foreign, 0, context->dev->facts.index), 0);
    assert_int_equal(make_stream(&stream, 0), 0);
    assert_int_equal(pop(&popped), 0);
    for (int turn = 0; turn < 3; turn++) {
        float last = 0, none = 0;
        assert_ok(md_copy(context, (float *)d.y.data + N - 1, &none, sizeof none));
        const md_status s = run(&d, stream, NULL, NULL);
        print_message("%s%s%s\n", md_status_name(s), s != MD_OK ? ": " : "", s != MD_OK ? md_last_error() : "");
        if (s == MD_OK) {
            assert_ok(md_sync(context, stream));
            assert_ok(md_copy(context, &last, (float *)d.y.data + N - 1, sizeof last));
            assert_true(last == 2.0f * N);
        } else {
            assert_int_equal(s, MD_INVALID_ARGUMENT);
            assert_non_null(strstr(md_last_error(), "stream"));
        }
    }
    check_works(&d);
    assert_int_equal(unmake(foreign), 0);
    end(&d);
    dlclose(driver);
}

static void test_two_devices(void **state)
{
    (void)state;
    md_context *second = NULL;
    char name[16];
    snprintf(name, sizeof name, "cuda:%d", context->dev->facts.index == 0 ? 1 : 0);
    if (md_context_create(&second, &(md_context_options){.device = name}) != MD_OK) {
        print_message("TWO DEVICES NOT CHECKED: %s\n", md_last_error());
        skip();
    }
    doubling a, b;
    begin(&a, context, "first");
    begin(&b, second, "second");
    for (int turn = 0; turn < 2; turn++) { /* shapes that stay unknown: known ones are looked at under MD_VERIFY only */
        assert_fails(run(&a, NULL, NULL, &b.x), MD_INVALID_ARGUMENT, turn ? "'X'" : "memory of cuda:");
        assert_fails(run(&b, NULL, &a.y, NULL), MD_INVALID_ARGUMENT, turn ? "'Y'" : "memory of cuda:");
        assert_fails(run(&a, second->dev->tuning, NULL, NULL), MD_INVALID_ARGUMENT,
                     turn ? "op first" : "a stream of cuda:");
    }
    check_works(&a);
    check_works(&b);
    for (int i = 0; i < 20; i++) { /* both at once */
        assert_ok(run(&a, NULL, NULL, NULL));
        assert_ok(run(&b, NULL, NULL, NULL));
    }
    end(&a);
    end(&b);
    md_context_destroy(&second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_pointers), cmocka_unit_test(test_misaligned),     cmocka_unit_test(test_indices),
        cmocka_unit_test(test_memory),        cmocka_unit_test(test_foreign_stream), cmocka_unit_test(test_two_devices),
    };
    const char *only = getenv("MD_TEST_ONLY");
    device_name = getenv("MD_TEST_DEVICE");
    if (only)
        cmocka_set_test_filter(only);
    if (md_context_create(&context, &(md_context_options){.device = device_name ? device_name : "cuda"}) != MD_OK) {
        print_message("MISUSE NOT CHECKED: %s\n", md_last_error());
        return 77;
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    md_context_destroy(&context);
    return failed;
}
