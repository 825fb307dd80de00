/* A context with a bundle: the kernels, choices and results of the context that made it, and no compiler. */
#include "support/check.h"

#include <unistd.h>

static char path[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/md-bundle-XXXXXX");
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

static md_context *open_context(const char *bundle, const char *cc)
{
    md_context *c = NULL;
    assert_ok(md_context_create(
        &c, &(md_context_options){
                .device = "host", .threads = 2, .hints = "16,256", .cache_dir = "", .bundle = bundle, .cc = cc}));
    return c;
}

static md_op *make_op(md_context *c, const char *name)
{
    md_op *op = NULL;
    assert_ok(md_op_create(&op, c, name, NULL));
    assert_ok(md_op_wait(op));
    return op;
}

static void run(float *y, md_choice *choice, md_op *op, int64_t rows, int64_t columns)
{
    static float x[300 * 300];
    const int64_t size[] = {rows, columns};
    md_arg_info info;
    for (int i = 0; i < rows * columns; i++)
        x[i] = (float)((i * 37) % 101) * 0.1f;
    assert_ok(md_op_arg(&info, op, 0));
    const md_tensor in = md_tensor_make(x, MD_F32, 2, size), out = md_tensor_make(y, MD_F32, 2, size);
    const md_arg args[] = {md_t(info.is_output ? &out : &in), md_t(info.is_output ? &in : &out)};
    assert_ok(md_call(op, NULL, args, 2));
    assert_ok(md_choice_of(choice, op, args, 2));
}

/* The maker's context and the bundle's choose alike and give equal bits, and the second one starts no compiler: its
 * compiler does not exist. */
static void a_bundle_serves_as_its_maker_does(void **state)
{
    static float made[300 * 300], got[300 * 300];
    (void)state;
    md_context *maker = open_context("", NULL);
    assert_ok(md_bundle_begin(maker));
    md_op *op = make_op(maker, "softmax");
    assert_ok(md_bundle_write(maker, path));
    md_context *c = open_context(path, "/nowhere/cc");
    md_op *bundled = make_op(c, "softmax");
    assert_int_equal(md_op_n_variants(bundled, 0), md_op_n_variants(op, 0));
    for (int i = 0; i < 200; i++) {
        md_choice a, b;
        const int64_t rows = 1 + i * 13 % 300, columns = 1 + i * 101 % 300;
        run(made, &a, op, rows, columns);
        run(got, &b, bundled, rows, columns);
        assert_string_equal(a.variant[0], b.variant[0]);
        assert_string_equal(a.source[0], b.source[0]);
        assert_memory_equal(made, got, (size_t)(rows * columns) * sizeof *got);
    }
    md_store_counters n;
    assert_ok(md_store_count(&n, c));
    assert_int_equal(n.compiles, 0);
    md_op_destroy(&op);
    md_op_destroy(&bundled);
    md_context_destroy(&c);
    md_context_destroy(&maker);
}

static void what_a_bundle_lacks_is_compiled_only_if_asked_for(void **state)
{
    (void)state;
    md_store_counters n;
    md_context *maker = open_context("", NULL), *c = NULL;
    assert_ok(md_bundle_begin(maker));
    assert_int_equal(md_bundle_begin(maker), MD_INVALID_ARGUMENT);
    assert_ok(md_bundle_write(maker, path));
    md_context_destroy(&maker);
    c = open_context(path, NULL);
    md_op *op = make_op(c, "softmax");
    assert_ok(md_store_count(&n, c));
    assert_int_equal(n.compiles, 0);
    md_op_destroy(&op);
    md_context_destroy(&c);
    assert_ok(md_context_create(
        &c,
        &(md_context_options){.device = "host", .hints = "16", .cache_dir = "", .bundle = path, .bundle_compile = 1}));
    op = make_op(c, "softmax");
    assert_ok(md_store_count(&n, c));
    assert_true(n.compiles > 0);
    assert_int_equal(md_bundle_write(c, path), MD_INVALID_ARGUMENT);
    md_op_destroy(&op);
    md_context_destroy(&c);
}

static void a_bad_bundle_is_refused(void **state)
{
    (void)state;
    md_context *c = NULL;
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("no bundle at all, but long enough to hold the header of one", f);
    fclose(f);
    assert_int_equal(md_context_create(&c, &(md_context_options){.device = "host", .bundle = path}), MD_IO);
    assert_non_null(strstr(md_last_error(), path));
    assert_int_equal(md_context_create(&c, &(md_context_options){.device = "host", .bundle = "/nowhere/a.mdb"}),
                     MD_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bundle_serves_as_its_maker_does),
        cmocka_unit_test(what_a_bundle_lacks_is_compiled_only_if_asked_for),
        cmocka_unit_test(a_bad_bundle_is_refused),
    };
    setenv("MD_SYNC", "1", 1);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
