/* A context with a bundle: the kernels, choices and results of the context that made it, and no compiler. */
#include "support/check.h"

#include <fcntl.h>
#include <math.h>
#include <md/list.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

static int print(void *user, const char *text, size_t n)
{
    return fwrite(text, 1, n, user) != n;
}

static void choose_alike(md_op *a, md_op *b, int rows, int columns)
{
    char sizes[64];
    md_tensor tensor[2];
    md_choice x, y;
    snprintf(sizes, sizeof sizes, "i=%d, j=%d", rows, columns);
    static char *room; /* nothing is read or written */
    if (!room)
        room = mmap(NULL, (size_t)1 << 31, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (int i = 0; i < 2; i++) {
        assert_ok(md_op_tensor(&tensor[i], a, i, sizes));
        tensor[i].data = room + ((size_t)i << 30);
    }
    const md_arg args[] = {md_t(&tensor[0]), md_t(&tensor[1])};
    assert_ok(md_choice_of(&x, a, args, 2));
    assert_ok(md_choice_of(&y, b, args, 2));
    assert_string_equal(x.variant[0], y.variant[0]);
}

/* The maker's context and the bundle's choose alike and give equal bits, and the second one starts no compiler: its
 * compiler does not exist. */
static void a_bundle_serves_as_its_maker_does(void **state)
{
    static float made[300 * 300], got[300 * 300];
    (void)state;
    md_context *maker = open_context("", NULL);
    assert_ok(md_bundle_begin(maker, MD_BUNDLE_ALL));
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
    for (int i = 0; i < 10000; i++)
        choose_alike(op, bundled, 1 + rand() % (1 << (1 + rand() % 12)), 1 + rand() % (1 << (1 + rand() % 14)));
    md_store_counters counters;
    assert_ok(md_store_count(&counters, c));
    assert_int_equal(counters.compiles, 0);
    md_op_destroy(&op);
    md_op_destroy(&bundled);
    md_context_destroy(&c);
    md_context_destroy(&maker);
}

static void write_bundle(const md_context_options *options, const char *op, md_bundle_what what, const char *sizes)
{
    md_context *maker = NULL;
    assert_ok(md_context_create(&maker, options));
    assert_ok(md_bundle_begin(maker, what));
    md_op *made = op ? make_op(maker, op) : NULL;
    if (sizes)
        assert_ok(md_bundle_keep(made, sizes));
    assert_ok(md_bundle_write(maker, path));
    md_op_destroy(&made);
    md_context_destroy(&maker);
}

static const md_context_options host = {.device = "host", .threads = 2, .hints = "16,256", .cache_dir = ""};

static void expect_compiles(md_context *c, bool some)
{
    md_store_counters counters;
    assert_ok(md_store_count(&counters, c));
    assert_int_equal(counters.compiles > 0, some);
}

/* A bundle that lacks all kernels of an op is not written. */
static void without_a_compiler_no_bundle_is_made(void **state)
{
    (void)state;
    md_op *op = NULL;
    md_context *maker = open_context("", "/nowhere/cc");
    assert_ok(md_bundle_begin(maker, MD_BUNDLE_ALL));
    assert_fails(md_op_create(&op, maker, "softmax", NULL), MD_COMPILE, "op softmax, stage 0: no kernel");
    md_context_destroy(&maker);
}

enum { ITEMS = 3, MOST = 5000 };

/* Items of whole tiles, of few elements, and with gaps: those are reduced in another way. */
static void normalize(float out[ITEMS][MOST], md_list *list)
{
    static float g[ITEMS][2 * MOST];
    md_tensor from[ITEMS], to[ITEMS];
    for (int t = 0; t < ITEMS; t++) {
        const int64_t size[] = {t == 1 ? 3 : MOST};
        for (int i = 0; i < 2 * MOST; i++)
            g[t][i] = (float)((i * 37 + t) % 101) * 0.125f;
        from[t] = md_tensor_make(g[t], MD_F32, 1, size);
        to[t] = md_tensor_make(out[t], MD_F32, 1, size);
        from[t].stride[0] = t == 2 ? 2 : 1;
    }
    assert_ok(md_list_call(list, NULL, (md_arg[]){md_ts(from, ITEMS), md_ts(to, ITEMS)}, 2));
}

static void a_bundle_has_formulas_over_lists(void **state)
{
    (void)state;
    static const char formula[] = "let n = sum[t,i](G@t[i] * G@t[i]); P@t[i] = G@t[i] / sqrt(n)";
    static float made[ITEMS][MOST], got[ITEMS][MOST];
    md_list *list = NULL, *bundled = NULL;
    md_store_counters counters;
    md_context *maker = open_context("", NULL);
    assert_ok(md_bundle_begin(maker, MD_BUNDLE_ALL));
    assert_ok(md_list_create(&list, maker, formula, NULL));
    assert_ok(md_bundle_write(maker, path)); /* before any item was seen */
    normalize(made, list);
    md_context *c = open_context(path, "/nowhere/cc");
    assert_ok(md_list_create(&bundled, c, formula, NULL));
    normalize(got, bundled);
    assert_memory_equal(made, got, sizeof got);
    assert_ok(md_store_count(&counters, c));
    assert_int_equal(counters.compiles, 0);
    md_list_destroy(&list);
    md_list_destroy(&bundled);
    md_context_destroy(&c);
    md_context_destroy(&maker);
}

static void what_a_bundle_lacks_is_an_error_or_compiled(void **state)
{
    (void)state;
    md_op *op = NULL;
    write_bundle(&host, NULL, MD_BUNDLE_ALL, NULL);
    md_context *c = open_context(path, NULL);
    assert_int_equal(md_op_create(&op, c, "softmax", NULL), MD_COMPILE);
    assert_non_null(strstr(md_last_error(), "op softmax, stage 0"));
    assert_non_null(strstr(md_last_error(), "no bundle has softmax.0."));
    expect_compiles(c, false);
    md_context_destroy(&c);
    md_context_options compiles = host;
    compiles.bundle = path;
    compiles.bundle_compile = 1;
    assert_ok(md_context_create(&c, &compiles));
    op = make_op(c, "softmax");
    expect_compiles(c, true);
    assert_int_equal(md_bundle_write(c, path), MD_INVALID_ARGUMENT);
    assert_int_equal(md_bundle_keep(op, "i=1, j=1"), MD_INVALID_ARGUMENT);
    assert_ok(md_bundle_begin(c, MD_BUNDLE_ALL));
    assert_int_equal(md_bundle_begin(c, MD_BUNDLE_ALL), MD_INVALID_ARGUMENT);
    md_op_destroy(&op);
    md_context_destroy(&c);
}

/* Kernels of one level of instructions serve a processor that has more; sizes are far from the hints. */
static void a_bundle_of_a_lower_level_serves(void **state)
{
    static float expected[300 * 300], got[300 * 300];
    (void)state;
    md_choice choice;
    md_context_options low = host;
    low.device = "x86-64";
    write_bundle(&low, "softmax", MD_BUNDLE_ALL, NULL);
    md_context *c = open_context(path, "/nowhere/cc"), *plain = open_context("", NULL);
    md_op *bundled = make_op(c, "softmax"), *op = make_op(plain, "softmax");
    run(got, &choice, bundled, 5, 77);
    assert_string_not_equal(choice.variant[0], "reference");
    run(expected, &choice, op, 5, 77);
    for (int i = 0; i < 5 * 77; i++)
        assert_true(fabsf(got[i] - expected[i]) < 1e-5f);
    expect_compiles(c, false);
    md_op_destroy(&op);
    md_op_destroy(&bundled);
    md_context_destroy(&plain);
    md_context_destroy(&c);
}

/* Only what serves one shape, and what serves all: strided rows too, for which nothing else is there. */
static void stored_kernels_and_one_for_all_shapes_are_enough(void **state)
{
    static float x[64 * 600], y[64 * 600];
    (void)state;
    struct stat all, kept;
    write_bundle(&host, "softmax", MD_BUNDLE_ALL, NULL);
    assert_int_equal(stat(path, &all), 0);
    write_bundle(&host, "softmax", MD_BUNDLE_KEPT, "i=64, j=300");
    assert_int_equal(stat(path, &kept), 0);
    assert_true(kept.st_size < all.st_size);
    md_choice a, b;
    md_context *c = open_context(path, "/nowhere/cc"), *plain = open_context("", NULL);
    md_op *bundled = make_op(c, "softmax"), *op = make_op(plain, "softmax");
    run(x, &a, bundled, 64, 300);
    run(y, &b, op, 64, 300);
    assert_string_equal(a.variant[0], b.variant[0]);
    md_tensor in = md_tensor_make(x, MD_F32, 2, (const int64_t[]){64, 300}), out = in;
    in.stride[0] = 600;
    in.stride[1] = 2;
    out.data = y;
    const md_arg args[] = {md_t(&out), md_t(&in)};
    assert_ok(md_call(bundled, NULL, args, 2));
    assert_ok(md_choice_of(&a, bundled, args, 2));
    assert_string_not_equal(a.variant[0], "reference");
    expect_compiles(c, false);
    md_op_destroy(&op);
    md_op_destroy(&bundled);
    md_context_destroy(&plain);
    md_context_destroy(&c);
}

/* The kernels of merged dims are in bundles, too; tensors with gaps have those of the formula. */
static void joined_dims_are_inside(void **state)
{
    static float x[40 * 7 * 8], y[40], right[40];
    static const char *const formula = "Y[i] = sum[j,k](X[i,j,k])", *const sizes[] = {NULL, "i=40, j=7, k=6"};
    (void)state;
    for (int i = 0; i < 40 * 7 * 8; i++)
        x[i] = (float)(i * 37 % 101);
    for (int what = 0; what < 2; what++) {
        md_choice choice;
        write_bundle(&host, formula, what ? MD_BUNDLE_KEPT : MD_BUNDLE_ALL, sizes[what]);
        md_context *c = open_context(path, "/nowhere/cc");
        md_op *op = make_op(c, formula);
        for (int gap = 0; gap < 3; gap += 2) {
            md_tensor in = md_tensor_make(x, MD_F32, 3, (const int64_t[]){40, 7, 6}),
                      out = md_tensor_make(y, MD_F32, 1, (const int64_t[]){40});
            in.stride[1] += gap;
            in.stride[0] = 7 * in.stride[1];
            const md_arg args[] = {md_t(&out), md_t(&in)};
            assert_ok(md_call(op, NULL, args, 2));
            memcpy(right, y, sizeof y);
            assert_ok(md_reference(op, args, 2));
            assert_memory_equal(y, right, sizeof y); /* whole numbers: no sum is rounded */
            assert_ok(md_choice_of(&choice, op, args, 2));
            assert_int_equal(choice.n_stages, gap ? 2 : 1);
            assert_string_not_equal(choice.variant[0], "reference");
        }
        expect_compiles(c, false);
        md_op_destroy(&op);
        md_context_destroy(&c);
    }
}

/* Tuned results are in the bundle: who has it picks by them, as measured. */
static void tuned_results_are_inside(void **state)
{
    static float y[300 * 300];
    (void)state;
    md_choice a, b;
    md_context *maker = NULL, *c = NULL;
    md_context_options options = host;
    options.hints = "i=64 j=256";
    options.tune = MD_TUNE_MEASURE;
    options.tune_budget_ms = 60;
    assert_ok(md_context_create(&maker, &options));
    assert_ok(md_bundle_begin(maker, MD_BUNDLE_ALL));
    md_op *op = make_op(maker, "softmax");
    assert_ok(md_bundle_write(maker, path));
    options.tune = MD_TUNE_ESTIMATE;
    options.bundle = path;
    options.cc = "/nowhere/cc";
    assert_ok(md_context_create(&c, &options));
    md_op *bundled = make_op(c, "softmax");
    run(y, &a, op, 64, 256);
    run(y, &b, bundled, 64, 256);
    assert_string_equal(a.variant[0], b.variant[0]);
    char text[8192] = "";
    FILE *f = fmemopen(text, sizeof text, "w");
    assert_ok(md_bundle_describe(path, print, f));
    fclose(f);
    assert_non_null(strstr(text, "\"wisdom\":1"));
    f = fmemopen(text, sizeof text, "w");
    assert_ok(md_wisdom_export(c, print, f));
    fclose(f);
    assert_non_null(strstr(text, "\"rigor\""));
    md_op_destroy(&op);
    md_op_destroy(&bundled);
    md_context_destroy(&c);
    md_context_destroy(&maker);
}

/* A bundle for a GPU is made where none is; it serves no processor, which is said. */
static void a_gpu_needs_none_to_be_bundled_for(void **state)
{
    static float x[16];
    (void)state;
    const int64_t size[] = {16};
    md_context *maker = NULL, *c = NULL;
    md_context_options gpu = {.device = "sm_90a:1", .hints = "64", .cache_dir = ""};
    assert_int_equal(md_context_create(&maker, &(md_context_options){.device = "sm_91"}), MD_INVALID_ARGUMENT);
    const md_status s = md_context_create(&maker, &gpu);
    if (s == MD_UNSUPPORTED) /* no NVRTC */
        skip();
    assert_ok(s);
    assert_ok(md_bundle_begin(maker, MD_BUNDLE_ALL));
    md_op *op = make_op(maker, "Y[i] = X[i] * 2"), *none = NULL;
    const md_tensor t = md_tensor_make(x, MD_F32, 1, size);
    const md_arg args[] = {md_t(&t), md_t(&t)};
    assert_int_equal(md_call(op, NULL, args, 2), MD_UNSUPPORTED);
    assert_non_null(strstr(md_last_error(), "sm_90a"));
    assert_ok(md_bundle_write(maker, path));
    char text[8192] = "";
    FILE *f = fmemopen(text, sizeof text, "w");
    assert_ok(md_bundle_describe(path, print, f));
    fclose(f);
    assert_non_null(strstr(text, "sm_90a NVIDIA H100"));
    assert_non_null(strstr(text, "\"gaps\":[]"));
    c = open_context(path, "/nowhere/cc");
    assert_int_equal(md_op_create(&none, c, "Y[i] = X[i] * 2", NULL), MD_COMPILE);
    md_op_destroy(&op);
    md_context_destroy(&c);
    md_context_destroy(&maker);
    gpu.device = "sm_90a:9";
    assert_int_equal(md_context_create(&maker, &gpu), MD_NOT_FOUND);
}

static void a_bundle_in_memory_serves(void **state)
{
    (void)state;
    md_context *c = NULL;
    char *bytes = malloc(1 << 22);
    write_bundle(&host, "softmax", MD_BUNDLE_ALL, NULL);
    FILE *f = fopen(path, "rb");
    const size_t n = fread(bytes, 1, 1 << 22, f);
    fclose(f);
    md_context_options options = host;
    options.bundle_bytes = bytes;
    options.n_bundle_bytes = n;
    options.cc = "/nowhere/cc";
    assert_ok(md_context_create(&c, &options));
    md_op *op = make_op(c, "softmax");
    assert_true(md_op_n_variants(op, 0) > 1);
    expect_compiles(c, false);
    md_op_destroy(&op);
    md_context_destroy(&c);
    options.n_bundle_bytes = n - 1;
    assert_int_equal(md_context_create(&c, &options), MD_IO);
    free(bytes);
}

static int n_open_files(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void bundles_are_closed(void **state)
{
    (void)state;
    char both[2 * sizeof path];
    write_bundle(&host, NULL, MD_BUNDLE_ALL, NULL);
    snprintf(both, sizeof both, "%s:%s", path, path);
    const int n = n_open_files();
    md_context *c = open_context(both, "/nowhere/cc");
    assert_int_equal(n_open_files(), n + 2);
    md_context_destroy(&c);
    assert_int_equal(n_open_files(), n);
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
        cmocka_unit_test(without_a_compiler_no_bundle_is_made),
        cmocka_unit_test(a_bundle_has_formulas_over_lists),
        cmocka_unit_test(what_a_bundle_lacks_is_an_error_or_compiled),
        cmocka_unit_test(a_bundle_of_a_lower_level_serves),
        cmocka_unit_test(stored_kernels_and_one_for_all_shapes_are_enough),
        cmocka_unit_test(joined_dims_are_inside),
        cmocka_unit_test(tuned_results_are_inside),
        cmocka_unit_test(a_gpu_needs_none_to_be_bundled_for),
        cmocka_unit_test(a_bundle_in_memory_serves),
        cmocka_unit_test(bundles_are_closed),
        cmocka_unit_test(a_bad_bundle_is_refused),
    };
    setenv("MD_SYNC", "1", 1);
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
