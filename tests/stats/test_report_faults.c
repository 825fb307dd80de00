/* The public functions with every allocation failing in turn, jansson's too: each gives what was asked or
 * OUT_OF_MEMORY, a report is whole or an error, and nothing is lost (the sanitizers look). Families and the device
 * are scripted. */
#include "dispatch/support/script.h"
#include "support/check.h"
#include "support/fault.h"
#include "support/text.h"
#include "device/open.h"

#include <jansson.h>
#include <unistd.h>

enum { MOST_POINTS = 5000 };

static fake_device device;
static char path[] = "/tmp/md-test-faults-XXXXXX";

/* In the place of src/device/device.c. */
md_status md_dev_open(md_dev **out, const md_dev_options *options)
{
    fake_device_init(&device, options->pool, options->log);
    *out = &device.base;
    return MD_OK;
}

void md_dev_close(md_dev **dev)
{
    *dev = NULL;
}

static void expect_whole(const char *bytes, const char *what)
{
    fault_after(0);
    json_t *root = json_loads(bytes, 0, NULL);
    if (!root)
        fail_msg("%s: no JSON:\n%s", what, bytes);
    json_decref(root);
}

/* Allocations fail from number n on, all through, or the n-th alone. */
static int64_t failing;
static bool happened, is_once;

static void fail_at(int64_t n)
{
    failing = n;
    if (is_once)
        fault_once(n);
    else
        fault_after(n);
}

static bool got(md_status s, const char *what)
{
    happened |= fault_happened();
    if (s != MD_OK && s != MD_OUT_OF_MEMORY)
        fail_msg("%s, allocation %lld: %s: %s", what, (long long)failing, md_status_name(s), md_last_error());
    if (s == MD_OUT_OF_MEMORY)
        assert_non_null(strstr(md_last_error(), "memory"));
    return s == MD_OK;
}

typedef struct vectors {
    float x[100], y[100];
    md_tensor tx, ty;
    md_arg arg[2];
} vectors;

static void vectors_make(vectors *v, int64_t n)
{
    memset(v, 0, sizeof *v);
    v->tx = md_tensor_make(v->x, MD_F32, 1, &n);
    v->ty = md_tensor_make(v->y, MD_F32, 1, &n);
    v->arg[0] = md_t(&v->ty);
    v->arg[1] = md_t(&v->tx);
}

static void use_op(md_op *op)
{
    vectors v;
    md_launch *launch = NULL;
    md_choice choice;
    md_tensor t;
    double flops, bytes;
    vectors_make(&v, 20);
    (void)got(md_call(op, NULL, v.arg, 2), "md_call");
    vectors_make(&v, 21);
    if (got(md_resolve(&launch, op, v.arg, 2), "md_resolve"))
        (void)got(md_launch_run(launch, NULL, v.arg, 2), "md_launch_run");
    md_launch_destroy(&launch);
    vectors_make(&v, 22);
    (void)got(md_choice_of(&choice, op, v.arg, 2), "md_choice_of");
    (void)got(md_reference(op, v.arg, 2), "md_reference");
    (void)got(md_prepare(op, "n=23"), "md_prepare");
    (void)got(md_op_tensor(&t, op, 0, "n=24"), "md_op_tensor");
    (void)got(md_op_work(&flops, &bytes, op, "n=24"), "md_op_work");
    (void)got(md_op_wait(op), "md_op_wait");
}

/* Texts are asked for one by one, each with allocations failing from its own n on, so that the failure lies inside. */
static void explain(md_op *op)
{
    for (int32_t json = 0; json < 2; json++) {
        bool again = true;
        for (int64_t n = 1; again && n < MOST_POINTS; n++) {
            static text t;
            t.n = 0;
            t.bytes[0] = 0;
            fail_at(n);
            md_status s = md_explain(op, json ? "n=30" : "n=31", json, text_take, &t);
            again = fault_happened();
            if (got(s, "md_explain") && json)
                expect_whole(t.bytes, "md_explain");
            fault_after(0);
            assert_true(s == MD_OK || t.n == 0); /* whole or nothing */
        }
        assert_false(again);
    }
}

static char *read_all(void)
{
    static char bytes[16384];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes - 1, f);
    fclose(f);
    bytes[n] = 0;
    return bytes;
}

static void report(md_context *c)
{
    static const char *const format[] = {"table", "csv", "json"};
    for (size_t i = 0; i < 3; i++) {
        bool again = true;
        for (int64_t n = 1; again && n < MOST_POINTS; n++) {
            fail_at(n);
            md_status s = md_stats_write(c, path, format[i]);
            again = fault_happened();
            /* Rows may be missing where the report says so. */
            if (got(s, "md_stats_write") && i == 2)
                expect_whole(read_all(), "md_stats_write");
            fault_after(0);
        }
        assert_false(again);
    }
    bool again = true;
    for (int64_t n = 1; again && n < MOST_POINTS; n++) {
        static text t;
        t.n = 0;
        fail_at(n);
        md_status s = md_info(c, n % 2, text_take, &t);
        again = fault_happened() || n < 100;
        if (got(s, "md_info") && n % 2)
            expect_whole(t.bytes, "md_info");
        fault_after(0);
    }
}

/* Choices are written down wholly or not at all. */
static void choices(md_context *c)
{
    static text all, some;
    all.n = 0;
    assert_ok(md_choices_export(c, text_take, &all));
    bool again = true;
    for (int64_t n = 1; again && n < MOST_POINTS; n++) {
        some.n = 0;
        some.bytes[0] = 0;
        fail_at(n);
        const md_status s = md_choices_export(c, text_take, &some);
        again = fault_happened();
        fault_after(0);
        if (got(s, "md_choices_export"))
            assert_string_equal(some.bytes, all.bytes);
        else
            assert_int_equal(some.n, 0);
    }
    assert_false(again);
    again = true;
    for (int64_t n = 1; again && n < MOST_POINTS; n++) {
        fail_at(n);
        const md_status s = md_choices_import(NULL, c, all.bytes);
        again = fault_happened();
        fault_after(0);
        /* jansson takes a text for wrong where it could not copy a word of it */
        if (s != MD_OK && s != MD_OUT_OF_MEMORY && !(again && s == MD_INVALID_ARGUMENT))
            fail_msg("md_choices_import, allocation %lld: %s: %s", (long long)n, md_status_name(s), md_last_error());
    }
    assert_false(again);
}

static void everything(void **state)
{
    (void)state;
    const md_context_options o = {
        .device = "host", .threads = 1, .hints = "16", .pin = "other:beta", .select = MD_SELECT_MODEL};
    bool is_over = false;
    for (failing = 1; !is_over && failing < MOST_POINTS; failing++) {
        md_context *c = NULL;
        md_op *op = NULL;
        const int64_t living = fault_living();
        happened = false;
        fault_after(failing);
        if (got(md_context_create(&c, &o), "md_context_create") &&
            got(md_op_create(&op, c, "Y[n] = X[n]", &(md_op_options){.name = "q\"q", .weights = "n=2"}),
                "md_op_create"))
            use_op(op);
        fault_after(0);
        assert_true((op != NULL) <= (c != NULL));
        md_op_destroy(&op);
        md_context_destroy(&c);
        assert_int_equal(fault_living(), living);
        is_over = !happened;
    }
    assert_true(is_over && failing > 50);
}

static void reports(void **state)
{
    (void)state;
    md_context *c = NULL;
    md_op *op = NULL;
    assert_ok(md_context_create(
        &c, &(md_context_options){.device = "host", .threads = 1, .hints = "16,64", .max_shapes = 3}));
    assert_ok(md_op_create(&op, c, "Y[n] = X[n]", &(md_op_options){.name = "q\"q"}));
    for (int64_t n = 1; n < 8; n++) {
        vectors v;
        vectors_make(&v, n);
        assert_ok(md_call(op, NULL, v.arg, 2));
    }
    for (int i = 0; i < 2; i++) {
        is_once = i > 0;
        explain(op);
        report(c);
        choices(c);
    }
    md_op_destroy(&op);
    md_context_destroy(&c);
}

static int set_up(void **state)
{
    (void)state;
    json_set_alloc_funcs(malloc, free); /* this file's malloc is counted */
    script_reset();
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 2.0)->cannot_compile = true;
    script_allow(SCRIPT_GAMMA, 0, 3.0);
    int fd = mkstemp(path);
    return fd < 0 || close(fd) != 0;
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything),
        cmocka_unit_test(reports),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
