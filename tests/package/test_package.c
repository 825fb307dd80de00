/* Packages from C: written, opened without a compiler, called at sizes that change; and what is refused. */
#include "support/check.h"
#include "support/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <md/package.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* y = relu(x w'), x of any number of rows, but an even one. The last argument is what a test adds. */
#define PLAN                                                                                                           \
    "{\"version\": 1, \"library\": \"%s\", \"device\": \"%s\", \"name\": \"linear\", \"hints\": \"16\","               \
    "\"dims\": [[0, 0]], \"weights\": [32], \"conditions\": [\"d0 %% 2 == 0\"], \"examples\": [[4]],"                  \
    "\"tensors\": [{\"name\": \"x\", \"role\": 1, \"dtype\": \"f32\", \"size\": \"d0, 4\", \"stride\": \"4, 1\"},"     \
    "{\"name\": \"w\", \"role\": 3, \"dtype\": \"f32\", \"size\": \"2, 4\", \"weight\": 0},"                           \
    "{\"name\": \"y\", \"role\": 2, \"dtype\": \"f32\", \"size\": \"d0, 2\"},"                                         \
    "{\"name\": \"t\", \"role\": 0, \"dtype\": \"f32\", \"size\": \"d0, 2\"}],"                                        \
    "\"calls\": [{\"formula\": \"Y:f32[b,n] = sum[k](X:f32[b,k] * W:f32[n,k])\", \"sizes\": \"n=2, k=4\","             \
    "\"name\": \"product\", \"args\": [4, 1, 2]},"                                                                     \
    "{\"formula\": \"Y:f32[b,n] = relu(X:f32[b,n])\", \"sizes\": \"n=2\", \"name\": \"relu\", \"args\": [3, 4]}]%s}"

static const float weights[2][4] = {{1, 2, 3, 4}, {-1, 0, 1, 0}};
static char folder[] = "/tmp/md_package_XXXXXX", path[64], other[64];
static const md_context_options plain = {.threads = 2, .cache_dir = "", .cc = "/nonexistent/cc"};

static md_status write_plan(const char *to, const char *version, const char *device, const char *more)
{
    char text[4096];
    snprintf(text, sizeof text, PLAN, version, device, more);
    return md_package_write(to, text, &(md_package_weight){weights, sizeof weights}, 1,
                            &(md_context_options){.threads = 2, .cache_dir = ""});
}

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/model.mdp", folder);
    snprintf(other, sizeof other, "%s/other.mdp", folder);
    return write_plan(path, md_version(), "host", "") != MD_OK;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    unlink(other);
    return rmdir(folder);
}

/* ---- Calls */

/* Checks a call with b rows. */
static void check_call(md_package *p, int64_t b)
{
    const int64_t size[] = {b, 4};
    float x[64][4], y[64][2];
    md_tensor in = md_tensor_make(x, MD_F32, 2, size), out;
    for (int i = 0; i < 64 * 4; i++)
        x[i / 4][i % 4] = (float)(i % 7) - 3;
    assert_ok(md_package_outputs(&out, p, &in));
    assert_int_equal(out.dtype, MD_F32);
    assert_int_equal(out.rank, 2);
    assert_int_equal(out.size[0], b);
    assert_int_equal(out.size[1], 2);
    assert_int_equal(out.stride[0], 2);
    out.data = y;
    assert_ok(md_package_call(p, NULL, &in, &out));
    for (int64_t i = 0; i < b; i++)
        for (int n = 0; n < 2; n++) {
            float sum = 0;
            for (int k = 0; k < 4; k++)
                sum += x[i][k] * weights[n][k];
            assert_float_equal(y[i][n], sum > 0 ? sum : 0, 1e-5);
        }
}

static int look_for_plan(void *user, const char *text, size_t n)
{
    *(bool *)user = strstr(text, "\"name\":\"product\"") != NULL && strlen(text) == n;
    return 0;
}

static int look_for_reference(void *user, const char *text, size_t n)
{
    (void)n;
    *(bool *)user |= strstr(text, "reference") != NULL;
    return 0;
}

static int stop(void *user, const char *text, size_t n)
{
    (void)user;
    (void)text;
    return n > 0;
}

static void test_calls(void **state)
{
    (void)state;
    md_package *p = NULL;
    md_store_counters counters;
    bool is_there = false, is_evaluated = false;
    assert_ok(md_package_open(&p, path, &plain));
    assert_int_equal(md_package_n_inputs(p), 1);
    assert_int_equal(md_package_n_outputs(p), 1);
    for (int64_t b = 0; b <= 64; b += 2)
        check_call(p, b);
    assert_ok(md_store_count(&counters, md_package_context(p)));
    assert_int_equal(counters.compiles, 0);
    assert_ok(md_stats_report(md_package_context(p), "table", look_for_reference, &is_evaluated));
    assert_false(is_evaluated);
    assert_ok(md_package_describe(p, look_for_plan, &is_there));
    assert_true(is_there);
    assert_fails(md_package_describe(p, stop, NULL), MD_IO, "could not be written");
    md_package_close(&p);
    assert_null(p);
    md_package_close(&p);
}

static void *call_often(void *package)
{
    for (int64_t b = 2; b <= 40; b += 2)
        check_call(package, b);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    md_package *p = NULL;
    pthread_t thread[3];
    assert_ok(md_package_open(&p, path, &plain));
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, call_often, p), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    md_package_close(&p);
}

/* ---- What is refused */

static void test_tensors(void **state)
{
    (void)state;
    md_package *p = NULL;
    static float x[8][4];
    const int64_t size[] = {4, 4}, odd[] = {3, 4}, narrow[] = {4, 3}, wrong[] = {4, 3};
    md_tensor out, in = md_tensor_make(x, MD_F32, 2, size);
    assert_ok(md_package_open(&p, path, &plain));
    in.stride[0] = 5;
    assert_fails(md_package_outputs(&out, p, &in), MD_INVALID_ARGUMENT, "input 0 has stride 5 along axis 0, not 4");
    in = md_tensor_make(x, MD_F64, 2, size);
    assert_fails(md_package_outputs(&out, p, &in), MD_INVALID_ARGUMENT, "dtype f64 and rank 2, not f32 and 2");
    in = md_tensor_make(x, MD_F32, 0, size);
    assert_fails(md_package_outputs(&out, p, &in), MD_INVALID_ARGUMENT, "input 0 has rank 0, not 2");
    in = md_tensor_make(x, MD_F32, 2, odd);
    assert_fails(md_package_outputs(&out, p, &in), MD_INVALID_ARGUMENT, "sizes with d0 % 2 == 0");
    in = md_tensor_make(x, MD_F32, 2, narrow);
    assert_fails(md_package_outputs(&out, p, &in), MD_INVALID_ARGUMENT, "input 0 has size 3 along axis 1, not 4");
    in = md_tensor_make(x, MD_F32, 2, size);
    out = md_tensor_make(x, MD_F32, 2, wrong);
    assert_fails(md_package_call(p, NULL, &in, &out), MD_INVALID_ARGUMENT, "output 0 has size 3 along axis 1, not 2");
    assert_ok(md_package_outputs(&out, p, &in));
    assert_fails(md_package_call(p, NULL, &in, &out), MD_INVALID_ARGUMENT, "NULL");
    assert_fails(md_package_call(p, NULL, NULL, &out), MD_INVALID_ARGUMENT, "inputs is NULL");
    assert_fails(md_package_call(p, NULL, &in, NULL), MD_INVALID_ARGUMENT, "outputs is NULL");
    assert_fails(md_package_outputs(NULL, p, &in), MD_INVALID_ARGUMENT, "outputs is NULL");
    assert_fails(md_package_call(NULL, NULL, &in, &out), MD_INVALID_ARGUMENT, "package is NULL");
    assert_fails(md_package_describe(p, NULL, NULL), MD_INVALID_ARGUMENT, "write is NULL");
    assert_int_equal(md_package_n_inputs(NULL) + md_package_n_outputs(NULL), 0);
    assert_null(md_package_context(NULL));
    check_call(p, 4);
    md_package_close(&p);
}

static void test_plans(void **state)
{
    (void)state;
    assert_fails(write_plan(other, "0.0.1", "host", ""), MD_UNSUPPORTED, "made by version 0.0.1");
    assert_fails(write_plan(other, md_version(), "tpu", ""), MD_INVALID_ARGUMENT, "tpu");
    assert_fails(
        write_plan(other, md_version(), "host", ", \"pytorch\": [\"aten.sort.default\", \"aten.topk.default\"]"),
        MD_UNSUPPORTED, "only PyTorch can run: aten.sort.default, aten.topk.default");
    assert_fails(write_plan(other, md_version(), "host", "]"), MD_CORRUPT, "no object of JSON");
    assert_fails(write_plan(other, md_version(), "host", ", \"version\": 1"), MD_CORRUPT, "duplicate");
    assert_fails(md_package_write(other, "{}", NULL, 1, NULL), MD_INVALID_ARGUMENT, "NULL");
    assert_fails(md_package_write(other, "{}", NULL, 0, NULL), MD_UNSUPPORTED, "version 0 of the format");
    assert_fails(md_package_write(NULL, "{}", NULL, 0, NULL), MD_INVALID_ARGUMENT, "NULL");
}

/* A plan in which one place is another, as a program of another version or a mistaken one would write it. */
static void test_wrong_places(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *part;
    } row[] = {
        {"\"role\": 3", "\"role\": 4", "role for tensor 1"},
        {"\"role\": 3", "\"role\": -1", "role for tensor 1"},
        {"\"role\": 0", "\"role\": 3", "no weight for tensor 3"},
        {"\"role\": 0", "\"role\": 0, \"base\": 4", "base or role for tensor 3"},
        {"\"role\": 0", "\"role\": 0, \"base\": -1", "base or role for tensor 3"},
        {"\"role\": 3, \"dtype\": \"f32\"", "\"role\": 3, \"dtype\": \"f33\"", "dtype"},
        {"\"role\": 3, \"dtype\": \"f32\"", "\"role\": 3, \"dtype\": \"i4\"", "too short for tensor 1"},
        {"\"weight\": 0", "\"weight\": 1", "no weight for tensor 1"},
        {"\"weight\": 0", "\"weight\": -1", "no weight for tensor 1"},
        {"\"weight\": 0", "\"weight\": 0.5", "no weight for tensor 1"},
        {"[4, 1, 2]", "[4, 1, null]", "no tensor and no text, of call 0"},
        {"[4, 1, 2]", "[4, 1, 5]", "5"},
        {"[4, 1, 2]", "[4, 1, 0]", "0"},
        {"[4, 1, 2]", "[4, 1]", "2"},
        {"[[0, 0]]", "[[1, 0]]", "no axis of an input"},
        {"[[0, 0]]", "[[0, 2]]", "no axis of an input"},
        {"[[0, 0]]", "[[0, -1]]", "no axis of an input"},
        {"[\"d0 % 2 == 0\"]", "[7]", "no text"},
        {"[\"d0 % 2 == 0\"]", "[\"d0 +\"]", "no expression"},
        {"\"4, 1\"", "\"4\"", "another number of strides"},
    };
    char plan[4096], text[4200];
    snprintf(plan, sizeof plan, PLAN, md_version(), "host", "");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const char *at = strstr(plan, row[i].from);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - plan), plan, row[i].to, at + strlen(row[i].from));
        const md_status s = md_package_write(other, text, &(md_package_weight){weights, sizeof weights}, 1, &plain);
        if (s == MD_OK || !strstr(md_last_error(), row[i].part))
            fail_msg("%s -> %s: %s, %s", row[i].from, row[i].to, md_status_name(s), s == MD_OK ? "" : md_last_error());
    }
}

static void test_weights(void **state)
{
    (void)state;
    char text[4096];
    snprintf(text, sizeof text, PLAN, md_version(), "host", "");
    const md_package_weight bad[] = {{weights, 28}, {NULL, 32}, {weights, -1}};
    for (int i = 0; i < 3; i++)
        assert_fails(md_package_write(other, text, &bad[i], 1, NULL), MD_INVALID_ARGUMENT, "not as many, or as long");
    assert_fails(md_package_write(other, text, NULL, 0, NULL), MD_INVALID_ARGUMENT, "not as many, or as long");
    char *shape = strstr(text, "\"size\": \"2, 4\"");
    memcpy(shape, "\"size\": \"9, 4\"", strlen("\"size\": \"9, 4\""));
    assert_fails(md_package_write(other, text, &(md_package_weight){weights, 32}, 1, &plain), MD_CORRUPT,
                 "too short for tensor 1");
}

/* An output that is seen in another shape than the sequence writes, and one of too little memory. */
static void test_seen_shape(void **state)
{
    (void)state;
    char text[8192], rest[4096], *size = text;
    md_package *p = NULL;
    float x[4][4] = {{1}}, y[8];
    const int64_t rows[] = {4, 4};
    md_tensor out, in = md_tensor_make(x, MD_F32, 2, rows);
    for (int is_wrong = 0; is_wrong < 2; is_wrong++) {
        snprintf(text, sizeof text, PLAN, md_version(), "host", "");
        size = strstr(text, "\"size\": \"d0, 2\"},");
        assert_non_null(size);
        snprintf(rest, sizeof rest, "%s", size + strlen("\"size\": \"d0, 2\"},"));
        snprintf(size, sizeof text - (size_t)(size - text), "\"size\": \"d0, 2\", \"seen_size\": \"%s\"},%s",
                 is_wrong ? "d0" : "d0 // 2, 1, 4", rest);
        const md_status status = md_package_write(other, text, &(md_package_weight){weights, sizeof weights}, 1,
                                                  &(md_context_options){.threads = 2, .cache_dir = ""});
        if (is_wrong) {
            assert_int_equal(status, MD_CORRUPT);
            assert_non_null(strstr(md_last_error(), "'y' has less memory than the plan writes"));
            return;
        }
        assert_int_equal(status, MD_OK);
        assert_ok(md_package_open(&p, other, &plain));
        assert_ok(md_package_outputs(&out, p, &in));
        assert_int_equal(out.rank, 3);
        assert_int_equal(out.size[0], 2);
        assert_int_equal(out.stride[0], 4);
        out.data = y;
        assert_ok(md_package_call(p, NULL, &in, &out));
        assert_float_equal(y[0], 1, 1e-6);
        md_package_close(&p);
    }
}

/* A shape that is seen may have a size below 0 for other sizes than the example's: said before anybody allocates. */
static void test_negative_sizes(void **state)
{
    (void)state;
    static const char *const seen[] = {"\"seen_size\": \"6 - d0, 4\"",
                                       "\"seen_size\": \"4, 2\", \"seen_stride\": \"2, 5 - d0\""};
    static float x[8][4];
    md_tensor out;
    for (int i = 0; i < 2; i++) {
        char text[8192], rest[4096];
        md_package *p = NULL;
        snprintf(text, sizeof text, PLAN, md_version(), "host", "");
        char *size = strstr(text, "\"size\": \"d0, 2\"},");
        assert_non_null(size);
        snprintf(rest, sizeof rest, "%s", size + strlen("\"size\": \"d0, 2\"},"));
        snprintf(size, sizeof text - (size_t)(size - text), "\"size\": \"d0, 2\", %s},%s", seen[i], rest);
        assert_ok(md_package_write(other, text, &(md_package_weight){weights, sizeof weights}, 1,
                                   &(md_context_options){.threads = 2, .cache_dir = ""}));
        assert_ok(md_package_open(&p, other, &plain));
        const md_tensor few = md_tensor_make(x, MD_F32, 2, (int64_t[]){4, 4}),
                        many = md_tensor_make(x, MD_F32, 2, (int64_t[]){8, 4});
        assert_ok(md_package_outputs(&out, p, &few));
        assert_fails(md_package_outputs(&out, p, &many), MD_INVALID_ARGUMENT,
                     i ? "'y' has a negative size along axis 1" : "'y' has a negative size along axis 0");
        md_package_close(&p);
    }
}

/* ---- Files */

static size_t read_file(char **out)
{
    struct stat facts;
    assert_int_equal(stat(path, &facts), 0);
    *out = malloc((size_t)facts.st_size);
    FILE *f = fopen(path, "rb");
    assert_int_equal(fread(*out, 1, (size_t)facts.st_size, f), facts.st_size);
    fclose(f);
    return (size_t)facts.st_size;
}

static void write_file(const char *bytes, size_t n)
{
    FILE *f = fopen(other, "wb");
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
    chmod(other, 0600);
}

/* Cut anywhere, or with a byte changed: refused, or all is as it was. */
static void test_damaged(void **state)
{
    (void)state;
    char *bytes;
    md_package *p = NULL;
    const size_t n = read_file(&bytes);
    for (int i = 0; i < 40; i++) {
        write_file(bytes, n * (size_t)i / 40);
        errno = EINTR; /* of an earlier call: a file that ends is not read again */
        assert_true(md_package_open(&p, other, &plain) != MD_OK);
        assert_null(p);
    }
    uint64_t seed = check_seed();
    for (int i = 0; i < 40; i++) {
        const size_t at = check_random(&seed) % n;
        bytes[at] ^= 0x10;
        write_file(bytes, n);
        if (md_package_open(&p, other, &plain) == MD_OK)
            check_call(p, 6);
        md_package_close(&p);
        bytes[at] ^= 0x10;
    }
    free(bytes);
}

static void test_files(void **state)
{
    (void)state;
    md_package *p = NULL;
    md_context *c = NULL;
    assert_fails(md_package_open(&p, "/nonexistent.mdp", NULL), MD_NOT_FOUND, "/nonexistent.mdp");
    assert_fails(md_package_open(&p, NULL, NULL), MD_INVALID_ARGUMENT, "path is NULL");
    assert_fails(md_package_open(NULL, path, NULL), MD_INVALID_ARGUMENT, "out is NULL");
    assert_ok(md_context_create(&c, &(md_context_options){.device = "host", .cache_dir = "", .threads = 1}));
    assert_ok(md_bundle_begin(c, MD_BUNDLE_ALL));
    assert_ok(md_bundle_write(c, other));
    md_context_destroy(&c);
    assert_fails(md_package_open(&p, other, NULL), MD_IO, "is a bundle of kernels, and no package");
    assert_int_equal(chmod(other, 0666), 0);
    assert_fails(md_package_open(&p, other, NULL), MD_IO, "others may write");
}

/* An allocation that fails, alone or with all after it, is an error or does no harm, and nothing is lost. */
static void test_memory(void **state)
{
    (void)state;
    const md_context_options alone = {.threads = 1, .cache_dir = "", .cc = "/nonexistent/cc"};
    int64_t n_failed = 0;
    for (int is_once = 0; is_once < 2; is_once++)
        for (int64_t n = 1, more = 1; more; n++) {
            md_package *p = NULL;
            const int64_t living = fault_living();
            fault_at(n, is_once);
            const md_status status = md_package_open(&p, path, &alone);
            more = fault_happened();
            fault_after(0);
            if (status != MD_OK && !strstr(md_last_error(), "out of memory")) /* so say failed builds, too */
                fail_msg("allocation %lld: %s, %s", (long long)n, md_status_name(status), md_last_error());
            assert_true((p != NULL) == (status == MD_OK));
            if (p)
                check_call(p, 4);
            md_package_close(&p);
            assert_true(fault_living() <= living);
            n_failed += status != MD_OK;
        }
    assert_true(n_failed > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),      cmocka_unit_test(test_threads),        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_plans),      cmocka_unit_test(test_wrong_places),   cmocka_unit_test(test_weights),
        cmocka_unit_test(test_seen_shape), cmocka_unit_test(test_negative_sizes), cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_files),      cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
