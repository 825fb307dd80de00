/* MD_STATS_INDICES: what index tensors held is kept on request, bounded, as runs of neighbours, and nothing else is.
 * No compiler is used. */
#include "support/check.h"

#include <jansson.h>
#include <stdbool.h>
#include <unistd.h>

enum { ROWS = 5000, WIDTH = 2, MOST_IDS = 600 };

static md_context *make_context(const char *n)
{
    md_context *c = NULL;
    if (n)
        setenv("MD_STATS_INDICES", n, 1);
    const md_status s = md_context_create(
        &c, &(md_context_options){.device = "host", .cc = "/nonexistent/cc", .threads = 1, .cache_dir = ""});
    unsetenv("MD_STATS_INDICES");
    assert_ok(s);
    return c;
}

/* ids[k] = from + 3 k, `step` elements apart. */
static void look_up(md_op *op, int64_t n, int64_t from, int64_t step)
{
    static float table[ROWS * WIDTH], y[MOST_IDS * WIDTH];
    static int64_t ids[2 * MOST_IDS];
    for (int64_t k = 0; k < n * step; k++)
        ids[k] = k % step ? -1 : (from + 3 * (k / step));
    md_tensor ty = md_tensor_make(y, MD_F32, 2, (int64_t[]){n, WIDTH}),
              te = md_tensor_make(table, MD_F32, 2, (int64_t[]){ROWS, WIDTH});
    md_tensor ti = md_tensor_make(ids, MD_I64, 1, &n);
    ti.stride[0] = step;
    assert_ok(md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&te), md_t(&ti)}, 3));
}

static json_t *stats_of(md_context *c)
{
    char path[] = "/tmp/md-test-indices-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_ok(md_stats_write(c, path, "json"));
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    unlink(path);
    return root;
}

/* The only sample of the only op; `seen` of all. */
static json_t *sample_of(json_t *root, int64_t *seen)
{
    json_t *list = json_object_get(json_array_get(json_object_get(root, "ops"), 0), "indices");
    assert_int_equal(json_array_size(list), 1);
    json_t *sample = json_array_get(list, 0);
    assert_string_equal(json_string_value(json_object_get(sample, "tensor")), "ids");
    *seen = json_integer_value(json_object_get(sample, "seen"));
    return json_object_get(sample, "values");
}

static md_op *make_op(md_context *c)
{
    md_op *op = NULL;
    assert_ok(md_op_create(&op, c, "Y[i,j] = E[ids[i],j]", &(md_op_options){.sizes = "j=2"}));
    return op;
}

static void one_call_is_kept_whole(void **state)
{
    const int64_t step = *(int64_t *)*state;
    md_context *c = make_context("100");
    md_op *op = make_op(c);
    int64_t seen = 0;
    look_up(op, 40, 7, step);
    json_t *root = stats_of(c), *values = sample_of(root, &seen);
    assert_int_equal(seen, 40);
    assert_int_equal(json_array_size(values), 40);
    for (size_t k = 0; k < 40; k++)
        assert_int_equal(json_integer_value(json_array_get(values, k)), 7 + 3 * (int64_t)k);
    json_decref(root);
    md_op_destroy(&op);
    md_context_destroy(&c);
}

/* All values were there, most have their neighbour from the call, and early and late calls are both among them. */
static void many_calls_leave_a_sample(void **state)
{
    (void)state;
    md_context *c = make_context("512");
    md_op *op = make_op(c);
    int64_t seen = 0, neighbours = 0, early = 0;
    for (int64_t k = 0; k < 200; k++) /* each of a length of its own, so that none is warm */
        look_up(op, 300 + k, k % 3 + (k < 100 ? 0 : 3000), 1);
    json_t *root = stats_of(c), *values = sample_of(root, &seen);
    assert_int_equal(json_array_size(values), 512);
    assert_true(seen >= 200 * 256);
    for (size_t k = 0; k < 512; k++) {
        const int64_t v = json_integer_value(json_array_get(values, k));
        assert_in_range(v, 0, ROWS - 1);
        neighbours += k > 0 && v == json_integer_value(json_array_get(values, k - 1)) + 3;
        early += v < 2000;
    }
    assert_true(neighbours >= 500);
    printf("%d of 512 of the first half of the calls\n", (int)early);
    json_decref(root);
    md_op_destroy(&op);
    root = stats_of(c); /* what the op left behind */
    assert_int_equal(json_array_size(sample_of(root, &seen)), 512);
    json_decref(root);
    md_context_destroy(&c);
}

static void nothing_is_kept_unasked(void **state)
{
    (void)state;
    md_context *c = make_context(NULL);
    md_op *op = make_op(c);
    look_up(op, 40, 7, 1);
    json_t *root = stats_of(c);
    assert_int_equal(json_array_size(json_object_get(json_array_get(json_object_get(root, "ops"), 0), "indices")), 0);
    json_decref(root);
    md_op_destroy(&op);
    md_context_destroy(&c);
    setenv("MD_STATS_INDICES", "-1", 1);
    assert_fails(md_context_create(&c, NULL), MD_INVALID_ARGUMENT, "MD_STATS_INDICES");
    unsetenv("MD_STATS_INDICES");
}

int main(void)
{
    static int64_t one = 1, two = 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(one_call_is_kept_whole, &one),
        cmocka_unit_test_prestate(one_call_is_kept_whole, &two),
        cmocka_unit_test(many_calls_leave_a_sample),
        cmocka_unit_test(nothing_is_kept_unasked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
