/* The host device and its compiler: bad texts and binaries, and what can go wrong with a compiler. */
#include "device/host_fixture.h"

#include "base/clock.h"
#include "base/status.h"
#include "device/host/host.h"

#include <unistd.h>

static void test_bad_text(void **state)
{
    host_fixture *f = *state;
    md_dev *dev = host_open(f, NULL, 0);
    void *binary = NULL;
    size_t n = 0;
    assert_fails(host_compile(&binary, &n, dev, "int x;\nvoid f(void) { return undeclared; }\n", "f"), MD_COMPILE,
                 "kernel.c:2:");
    assert_non_null(strstr(md_last_error(), "undeclared"));
    assert_null(strstr(md_last_error(), f->root)); /* a path that is gone helps nobody */
    assert_null(strchr(md_last_error(), '\n'));
    assert_null(binary);
    assert_int_equal(host_count_left(f->folder), 0);
    md_dev_close(&dev);
}

static void test_bad_binary(void **state)
{
    md_dev *dev = host_open(*state, NULL, 0);
    md_kn_launch_source s = host_source("int x = 1;\n", "absent");
    md_dev_kernel *kernel = NULL;
    assert_fails(dev->ops->load(&kernel, dev, "garbage", 7, &s), MD_DEVICE, "cannot be loaded");
    void *binary = NULL;
    size_t n = 0;
    assert_ok(dev->ops->compile(&binary, &n, dev, &s));
    assert_fails(dev->ops->load(&kernel, dev, binary, n, &s), MD_DEVICE, "no function 'absent'");
    for (size_t part = 0; part < n; part += n / 7)
        if (dev->ops->load(&kernel, dev, binary, part, &s) != MD_DEVICE)
            fail_msg("%zu of %zu bytes were loaded", part, n);
    free(binary);
    md_strbuf_finish(&s.text);
    s = host_source("void no_such_function(void);\nvoid f(void) { no_such_function(); }\n", "f");
    assert_ok(dev->ops->compile(&binary, &n, dev, &s));
    assert_fails(dev->ops->load(&kernel, dev, binary, n, &s), MD_DEVICE, "loaded: undefined symbol: no_such_function");
    assert_null(kernel);
    free(binary);
    md_strbuf_finish(&s.text);
    md_dev_close(&dev);
}

static void test_no_compiler(void **state)
{
    host_fixture *f = *state;
    const char *names[] = {"/nonexistent/cc", "no-such-compiler-here", "false", "/"};
    for (int i = 0; i < 4; i++) {
        f->log[0] = 0;
        md_dev *dev = host_open(f, names[i], 0);
        assert_false(dev->facts.can_compile);
        assert_string_equal(dev->facts.compiler, "");
        assert_non_null(strstr(f->log, names[i])); /* one warning that names it */
        assert_ptr_equal(strchr(f->log, '\n') + 1, f->log + strlen(f->log));
        void *binary = NULL;
        size_t n = 0;
        assert_fails(host_compile(&binary, &n, dev, "int x;\n", "x"), MD_COMPILE, names[i]);
        md_dev_close(&dev);
    }
}

/* A program that succeeds and compiles nothing, as MD_CC=/bin/true: its own name is shown, and every compile fails. */
static void test_program_that_compiles_nothing(void **state)
{
    host_fixture *f = *state;
    void *binary = NULL;
    size_t n = 0;
    md_dev *dev = host_open(f, "/bin/true", 0);
    assert_null(strstr(dev->facts.compiler, "gcc"));
    assert_null(strstr(dev->facts.compiler, "clang"));
    if (dev->facts.can_compile) { /* GNU's says its version; others may say nothing */
        assert_true(strncmp(dev->facts.compiler, "true", 4) == 0 || dev->facts.compiler[0] == 0);
        assert_fails(host_compile(&binary, &n, dev, "int x;\n", "x"), MD_COMPILE,
                     "'/bin/true' succeeded but wrote nothing");
    } else {
        assert_non_null(strstr(f->log, "/bin/true"));
    }
    assert_null(binary);
    md_dev_close(&dev);
}

static void test_failing_compiler(void **state)
{
    host_fixture *f = *state;
    void *binary = NULL;
    size_t n = 0;
    md_dev *dev = host_open(
        f, host_write_compiler(f, "echo 'warning: nothing'; echo 'toy: fatal error: no licence' >&2; exit 3"), 0);
    assert_true(dev->facts.can_compile);
    assert_string_equal(dev->facts.compiler, "toy 1.2.3");
    assert_fails(host_compile(&binary, &n, dev, "int x;\n", "x"), MD_COMPILE, "status 3: toy: fatal error: no licence");
    md_dev_close(&dev);
    dev = host_open(f, host_write_compiler(f, "exit 0"), 0);
    assert_fails(host_compile(&binary, &n, dev, "int x;\n", "x"), MD_COMPILE, "wrote nothing");
    md_dev_close(&dev);
    dev = host_open(f, host_write_compiler(f, "kill -9 $$"), 0);
    assert_fails(host_compile(&binary, &n, dev, "int x;\n", "x"), MD_COMPILE, "status 137");
    md_dev_close(&dev);
    dev = host_open(f, host_write_compiler(f, "sleep 10000"), 0);
    ((md_dev_host *)dev)->command.limit_ms = 200; /* now that the version is known */
    assert_fails(host_compile(&binary, &n, dev, "int x;\n", "x"), MD_TIMEOUT, "200 ms");
    md_dev_close(&dev);
    assert_null(binary);
}

/* An option after the program's name is passed on; a compiler that disappears later is named. */
static void test_options_of_compiler(void **state)
{
    host_fixture *f = *state;
    md_dev *dev = host_open(f, "cc  -DFACTOR=5.0f -DNOTHING ", 0);
    md_dev_kernel *kernel = host_make(dev, host_scale_text, "scale");
    float y[1] = {3.0f};
    md_kn_word words[2] = {{.p = y}, {.d = 1.0}};
    assert_ok(dev->ops->launch(dev, NULL, kernel, &(md_kn_geometry){.blocks = 1, .grain = 1}, (md_dev_params){words, 2},
                               NULL));
    assert_true(y[0] == 16.0f);
    dev->ops->unload(dev, kernel);
    md_dev_close(&dev);
    const char *path = host_write_compiler(f, "exit 1");
    dev = host_open(f, path, 0);
    unlink(path);
    void *binary = NULL;
    size_t n = 0;
    assert_fails(host_compile(&binary, &n, dev, "int x;\n", "x"), MD_COMPILE, "no C compiler");
    md_dev_close(&dev);
}

static void test_unwritable_folder(void **state)
{
    host_fixture *f = *state;
    md_dev *dev = host_open(f, NULL, 0);
    setenv("TMPDIR", "/nonexistent/folder", 1);
    void *binary = NULL;
    size_t n = 0;
    assert_fails(host_compile(&binary, &n, dev, "int x;\n", "x"), MD_IO, "/nonexistent/folder");
    setenv("TMPDIR", f->folder, 1);
    md_dev_close(&dev);
}

/* A small kernel compiles in 150 ms on an idle machine: printed, not checked. */
static void test_compile_time(void **state)
{
    md_dev *dev = host_open(*state, NULL, 0);
    char text[1024];
    snprintf(text, sizeof text, "#define FACTOR 2.0f\n%s", host_scale_text);
    uint64_t best = UINT64_MAX, best_load = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        md_kn_launch_source s = host_source(text, "scale");
        void *binary = NULL;
        size_t n = 0;
        md_dev_kernel *kernel = NULL;
        uint64_t start = md_clock_ns();
        assert_ok(dev->ops->compile(&binary, &n, dev, &s));
        uint64_t compiled = md_clock_ns();
        assert_ok(dev->ops->load(&kernel, dev, binary, n, &s));
        best = MD_MIN(best, compiled - start);
        best_load = MD_MIN(best_load, md_clock_ns() - compiled);
        dev->ops->unload(dev, kernel);
        free(binary);
        md_strbuf_finish(&s.text);
    }
    printf("compile %.1f ms, load %.3f ms\n", (double)best * 1e-6, (double)best_load * 1e-6);
    md_dev_close(&dev);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, host_setup, host_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_bad_text),          TEST(test_bad_binary),
        TEST(test_no_compiler),       TEST(test_program_that_compiles_nothing),
        TEST(test_failing_compiler),  TEST(test_options_of_compiler),
        TEST(test_unwritable_folder), TEST(test_compile_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
