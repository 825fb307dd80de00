/* A user's own kernels in an op's pool: CUSTOM_DEVICE is the device; skips itself where there is none. */
#include "support/check.h"

#include <stdbool.h>

static bool is_cuda;
static md_context *context;

/* Y[b] = sum[n](X[b,n]), a block a row. Host: partial sums in scratch; GPU: in shared memory. */
static const char host_sum[] = "static void row_sum(const md_params *p, int64_t block, void *scratch)\n"
                               "{\n"
                               "    double *part = scratch;\n"
                               "    for (int l = 0; l < lanes; l++)\n"
                               "        part[l] = 0;\n"
                               "    for (int64_t j = 0; j < p->n; j++)\n"
                               "        part[j % lanes] += p->X[block * p->X_stride[0] + j * p->X_stride[1]];\n"
                               "    for (int l = 1; l < lanes; l++)\n"
                               "        part[0] += part[l];\n"
                               "    p->Y[block * p->Y_stride[0]] = (float)part[0];\n"
                               "}\n";
static const char cuda_sum[] = "__device__ void row_sum(const md_params &p)\n"
                               "{\n"
                               "    extern __shared__ double part[];\n"
                               "    double sum = 0;\n"
                               "    for (int64_t j = threadIdx.x; j < p.n; j += lanes)\n"
                               "        sum += p.X[blockIdx.x * p.X_stride[0] + j * p.X_stride[1]];\n"
                               "    part[threadIdx.x] = sum;\n"
                               "    __syncthreads();\n"
                               "    for (int l = lanes / 2; l > 0; l /= 2) {\n"
                               "        if (threadIdx.x < l)\n"
                               "            part[threadIdx.x] += part[threadIdx.x + l];\n"
                               "        __syncthreads();\n"
                               "    }\n"
                               "    if (threadIdx.x == 0)\n"
                               "        p.Y[blockIdx.x * p.Y_stride[0]] = (float)part[0];\n"
                               "}\n";

static const md_tunable lanes[] = {{"lanes", 3, {64, 128, 256}}};

static md_custom sum_kernel(void)
{
    return (md_custom){.name = "mine",
                       .device = CUSTOM_DEVICE,
                       .source = is_cuda ? cuda_sum : host_sum,
                       .entry = "row_sum",
                       .tunable = lanes,
                       .n_tunables = 1,
                       .grid = "b",
                       .block = is_cuda ? "lanes" : NULL,
                       .shared_bytes = "8 * lanes",
                       .strided = 1};
}

/* `line`: of the formula Y[n] = 2 * X[n]. */
static md_custom twice(const char *name, const char *host, const char *cuda)
{
    return (md_custom){.name = name,
                       .device = CUSTOM_DEVICE,
                       .source = is_cuda ? cuda : host,
                       .entry = "twice",
                       .grid = is_cuda ? "(n + 255) // 256" : "1",
                       .block = is_cuda ? "256" : NULL};
}
#define CUDA_TWICE(value, edge)                                                                                        \
    "__device__ void twice(const md_params &p)\n{\n    const int64_t i = blockIdx.x * 256LL + threadIdx.x;\n    if "   \
    "(i < p.n" edge ")\n        p.Y[i] = " value ";\n}\n"
#define HOST_TWICE(value, edge)                                                                                        \
    "static void twice(const md_params *p, int64_t block, void *scratch)\n{\n    for (int64_t i = 0; i < p->n" edge    \
    "; i++)\n        p->Y[i] = " value ";\n}\n"

static int collect(void *user, const char *text, size_t n)
{
    strncat(user, text, n);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    md_status s = md_context_create(&context, &(md_context_options){.device = CUSTOM_DEVICE, .hints = "64,1024"});
    if (s != MD_OK) {
        print_message("no device %s: %s\n", CUSTOM_DEVICE, md_last_error());
        exit(77);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    md_context_destroy(&context);
    return 0;
}

typedef struct rows {
    md_tensor x, y;
    md_arg arg[2];
    int64_t b, n;
} rows;

/* Values of small whole numbers: sums are exact in any order. `gap`: elements between rows. */
static void rows_make(rows *r, int32_t rank, int64_t b, int64_t n, int64_t gap)
{
    const int64_t size[] = {b, n}, one[] = {n};
    int64_t all = b * (n + gap);
    *r = (rows){.b = b, .n = n};
    r->x = md_tensor_make(NULL, MD_F32, rank, rank == 2 ? size : one);
    r->y = md_tensor_make(NULL, MD_F32, 1, rank == 2 ? size : one);
    if (rank == 2)
        r->x.stride[0] = n + gap;
    assert_ok(md_alloc(&r->x.data, context, (size_t)all * 4));
    assert_ok(md_alloc(&r->y.data, context, (size_t)(b + n) * 4));
    float *x = malloc((size_t)all * 4);
    assert_non_null(x);
    for (int64_t i = 0; i < all; i++)
        x[i] = (float)(i % 13 - 6);
    assert_ok(md_copy(context, r->x.data, x, (size_t)all * 4));
    free(x);
    r->arg[0] = md_t(&r->y);
    r->arg[1] = md_t(&r->x);
}

static void rows_free(rows *r)
{
    md_free(context, r->x.data);
    md_free(context, r->y.data);
}

static void expect_sums(md_op *op, int64_t b, int64_t n, int64_t gap)
{
    rows r;
    rows_make(&r, 2, b, n, gap);
    assert_ok(md_call(op, NULL, r.arg, 2));
    assert_ok(md_sync(context, NULL));
    for (int64_t i = 0; i < b; i++) {
        float y = 0, right = 0;
        for (int64_t j = 0; j < n; j++)
            right += (float)((i * (n + gap) + j) % 13 - 6);
        assert_ok(md_copy(context, &y, (float *)r.y.data + i, 4));
        if (y != right)
            fail_msg("row %lld of %lld x %lld: %g, not %g", (long long)i, (long long)b, (long long)n, (double)y,
                     (double)right);
    }
    rows_free(&r);
}

static void it_serves_like_any_other(void **state)
{
    (void)state;
    const md_custom mine = sum_kernel();
    md_op *op = NULL;
    int32_t n_mine = 0;
    md_op_options o = {.custom = &mine, .n_custom = 1};
    assert_ok(md_op_create(&op, context, "Y[b] = sum[n](X[b,n])", &o));
    for (int32_t i = 0; i < md_op_n_variants(op, 0); i++)
        n_mine += !strncmp(md_op_variant(op, 0, i), "custom/mine/lanes", 17);
    assert_int_equal(n_mine, 3);
    assert_true(md_op_n_variants(op, 0) > 3); /* beside the library's */
    expect_sums(op, 5, 100, 0);
    md_op_destroy(&op);
    for (int32_t i = 0; i < 3; i++) {
        char pin[64], text[4096] = "";
        snprintf(pin, sizeof pin, "custom/mine/lanes%d", lanes[0].value[i]);
        o.pin = pin;
        assert_ok(md_op_create(&op, context, "Y[b] = sum[n](X[b,n])", &o));
        expect_sums(op, 7, 1000, 0);
        expect_sums(op, 3, 65, 3); /* rows apart: it looks at strides */
        assert_ok(md_explain(op, "b=3, n=65", 0, collect, text));
        assert_non_null(strstr(text, pin));
        md_op_destroy(&op);
    }
    o.pin = "custom/mine/lanes65";
    assert_fails(md_op_create(&op, context, "Y[b] = sum[n](X[b,n])", &o), MD_NOT_FOUND,
                 "lanes of family custom/mine cannot be 65 (but 64, 128, 256)");
}

/* Fails to be made with a message that has both parts. */
static void refused(const char *formula, const md_custom *custom, int32_t n, md_status status, const char *part,
                    const char *other)
{
    md_op *op = NULL;
    md_status s = md_op_create(&op, context, formula, &(md_op_options){.custom = custom, .n_custom = n});
    if (s != status || !strstr(md_last_error(), part) || !strstr(md_last_error(), other))
        fail_msg("%s: %s; expected %s, \"%s\" and \"%s\"", md_status_name(s), md_last_error(), md_status_name(status),
                 part, other);
}

static const char *const double_it = "Y[n] = 2 * X[n]";

static void compilers_speak_of_the_users_lines(void **state)
{
    (void)state;
    md_custom c =
        twice("wrong_text", HOST_TWICE("2 * p->X[i] + undeclared", ""), CUDA_TWICE("2 * p.X[i] + undeclared", ""));
    refused(double_it, &c, 1, MD_COMPILE, "undeclared", is_cuda ? "wrong_text(5)" : "wrong_text:4:");
    c = twice("another", HOST_TWICE("2 * p->X[i]", ""), CUDA_TWICE("2 * p.X[i]", ""));
    c.entry = "other";
    refused(double_it, &c, 1, MD_COMPILE, "custom kernel 'another' does not compile", "other");
}

static void wrong_results_are_never_served(void **state)
{
    (void)state;
    const md_custom bad[] = {
        twice("wrong", HOST_TWICE("p->X[i] + p->X[0]", ""), CUDA_TWICE("p.X[i] + p.X[0]", "")),
        twice("short", HOST_TWICE("2 * p->X[i]", " - 1"), CUDA_TWICE("2 * p.X[i]", " - 1")),
        twice("beside", HOST_TWICE("2 * p->X[i % p->n]", " + 1"), CUDA_TWICE("2 * p.X[i % p.n]", " + 1")),
        twice("good", HOST_TWICE("2 * p->X[i]", ""), CUDA_TWICE("2 * p.X[i]", "")),
    };
    static const char *const why[] = {"is", "is", "it wrote beside 'Y'"};
    md_op *op = NULL;
    char text[8192] = "";
    assert_ok(md_op_create(&op, context, double_it,
                           &(md_op_options){.custom = bad, .n_custom = 4, .select = MD_SELECT_MEASURE}));
    assert_ok(md_explain(op, "n=1000", 0, collect, text));
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "custom/%s ", bad[i].name);
        const char *line = strstr(text, name), *end = line ? strchr(line, '\n') : NULL,
                   *found = line ? strstr(line, "quarantined: ") : NULL;
        assert_non_null(line);
        assert_true((found && found < end) == (i < 3));
        if (i < 3)
            assert_non_null(strstr(found, why[i]));
    }
    rows r;
    rows_make(&r, 1, 1, 1000, 0);
    assert_ok(md_call(op, NULL, r.arg, 2));
    assert_ok(md_sync(context, NULL));
    float y[1000], x[1000];
    assert_ok(md_copy(context, y, r.y.data, sizeof y));
    assert_ok(md_copy(context, x, r.x.data, sizeof x));
    for (int i = 0; i < 1000; i++)
        assert_true(y[i] == 2 * x[i]);
    md_op_destroy(&op);
    assert_ok(
        md_op_create(&op, context, double_it, &(md_op_options){.custom = bad, .n_custom = 4, .pin = "custom/wrong"}));
    assert_fails(md_call(op, NULL, r.arg, 2), MD_UNSUPPORTED, "quarantined");
    md_op_destroy(&op);
    rows_free(&r);
}

/* Infinities and NaN must be where they belong, no more than numbers elsewhere. */
static void infinities_are_compared(void **state)
{
    (void)state;
    const md_custom made[] = {
        twice("large", HOST_TWICE("p->X[i] * 1e38f", ""), CUDA_TWICE("p.X[i] * 1e38f", "")),
        twice("positive", HOST_TWICE("1.0f / 0.0f", ""), CUDA_TWICE("1.0f / 0.0f", "")),
        twice("none", HOST_TWICE("0.0f / 0.0f", ""), CUDA_TWICE("0.0f / 0.0f", "")),
        twice("right", HOST_TWICE("p->X[i] / 0.0f", ""), CUDA_TWICE("p.X[i] / 0.0f", "")),
    };
    md_op *op = NULL;
    char text[8192] = "";
    assert_ok(md_op_create(&op, context, "Y[n] = X[n] / 0",
                           &(md_op_options){.custom = made, .n_custom = 4, .select = MD_SELECT_MEASURE}));
    assert_ok(md_explain(op, "n=1000", 0, collect, text));
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "custom/%s ", made[i].name);
        const char *line = strstr(text, name), *end = line ? strchr(line, '\n') : NULL,
                   *found = line ? strstr(line, "quarantined: ") : NULL;
        assert_non_null(line);
        if ((found && found < end) != (i < 3))
            fail_msg("%s", text);
    }
    md_op_destroy(&op);
}

static void an_envelope_is_kept(void **state)
{
    (void)state;
    md_custom c = twice("fours", HOST_TWICE("2 * p->X[i]", ""), CUDA_TWICE("2 * p.X[i]", ""));
    c.envelope = "n % 4 == 0, n <= 4000";
    md_op *op = NULL;
    rows r;
    assert_ok(
        md_op_create(&op, context, double_it, &(md_op_options){.custom = &c, .n_custom = 1, .pin = "custom/fours"}));
    static const int64_t n[] = {64, 65, 4000, 4004};
    for (int i = 0; i < 4; i++) {
        rows_make(&r, 1, 1, n[i], 0);
        if (i % 2 == 0)
            assert_ok(md_call(op, NULL, r.arg, 2));
        else
            assert_fails(md_call(op, NULL, r.arg, 2), MD_UNSUPPORTED, "outside the custom kernel's envelope");
        rows_free(&r);
    }
    md_op_destroy(&op);
    c.envelope = "n > 100000000"; /* nothing small enough to be verified on */
    char text[8192] = "";
    assert_ok(md_op_create(&op, context, double_it, &(md_op_options){.custom = &c, .n_custom = 1}));
    assert_ok(md_explain(op, "n=1000", 0, collect, text));
    assert_non_null(strstr(text, "takes no shape that is small enough to be verified"));
    md_op_destroy(&op);
}

static void bad_descriptions_are_refused(void **state)
{
    (void)state;
    const md_custom good = twice("good", HOST_TWICE("2 * p->X[i]", ""), CUDA_TWICE("2 * p.X[i]", ""));
    const char *formula = "Y[b] = sum[n](X[b,n])";
    md_custom c = sum_kernel();
    c.grid = "bb * 2";
    refused(formula, &c, 1, MD_INVALID_ARGUMENT,
            "custom kernel 'mine', grid: 1:1: 'bb' is neither a dim of the formula nor a tunable", "did you mean 'b'?");
    c.grid = "b * (lanes + 1";
    refused(formula, &c, 1, MD_INVALID_ARGUMENT, "grid: 1:", "expected ')'");
    c.grid = "b";
    c.shared_bytes = "8, 9";
    refused(formula, &c, 1, MD_INVALID_ARGUMENT, "shared_bytes", "no more");
    c = sum_kernel();
    c.envelope = "n < b < 4";
    refused(formula, &c, 1, MD_INVALID_ARGUMENT, "envelope", "not chained");
    c = sum_kernel();
    c.shared_bytes = NULL;

    c.tunable = &(md_tunable){"n", 1, {4}};
    c.block = is_cuda ? "64" : NULL;
    refused(formula, &c, 1, MD_INVALID_ARGUMENT, "two parameters would be named 'n'", "rename");
    c.tunable = &(md_tunable){"items4", 1, {4}};
    refused(formula, &c, 1, MD_INVALID_ARGUMENT, "ends with a letter", "items4");
    c = good;
    c.device = "tpu";
    refused(double_it, &c, 1, MD_INVALID_ARGUMENT, "device 'tpu'", "host or cuda");
    c = good;
    c.source = NULL;
    refused(double_it, &c, 1, MD_INVALID_ARGUMENT, "'good' has no source", "");
    const md_custom two[] = {good, good};
    refused(double_it, two, 2, MD_INVALID_ARGUMENT, "two custom kernels are named 'good'", "");
    refused("let t[b] = sum[n](X[b,n]); Y[b,n] = X[b,n] / sum[k](t[k] * W[n,k])", &good, 1, MD_UNSUPPORTED,
            "formulas of one stage", "");
    refused(double_it, NULL, 1, MD_INVALID_ARGUMENT, "n_custom", "");
}

/* A source that is another makes another op, whatever else is the same. */
static void sources_are_part_of_an_ops_identity(void **state)
{
    (void)state;
    const md_custom a = twice("same", HOST_TWICE("2 * p->X[i]", ""), CUDA_TWICE("2 * p.X[i]", ""));
    const md_custom b = twice("same", HOST_TWICE("p->X[i] + p->X[i]", ""), CUDA_TWICE("p.X[i] + p.X[i]", ""));
    const md_custom *const one[] = {&a, &b};
    md_op *op[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++)
        assert_ok(
            md_op_create(&op[i], context, double_it, &(md_op_options){.custom = one[i], .n_custom = 1, .hints = "64"}));
    static char all[2][1 << 20];
    for (int i = 0; i < 2; i++) {
        all[i][0] = '\0';
        assert_ok(md_op_source(op[i], 0, "custom/same", collect, all[i]));
    }
    assert_non_null(strstr(all[0], "2 * p"));
    assert_null(strstr(all[1], "= 2 * p"));
    for (int i = 0; i < 2; i++)
        md_op_destroy(&op[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_serves_like_any_other),
        cmocka_unit_test(compilers_speak_of_the_users_lines),
        cmocka_unit_test(wrong_results_are_never_served),
        cmocka_unit_test(infinities_are_compared),
        cmocka_unit_test(an_envelope_is_kept),
        cmocka_unit_test(bad_descriptions_are_refused),
        cmocka_unit_test(sources_are_part_of_an_ops_identity),
    };
    is_cuda = !strcmp(CUSTOM_DEVICE, "cuda");
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
