/* The host device and its compiler: bad texts and binaries, and what can go wrong with a compiler. */
#include "device/host_fixture.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/status.h"
#include "device/host/host.h"

#include <sys/stat.h>
#include <time.h>
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

/* A compiler that tells `version` and else runs a script; `folder`/words gets what it is given, a line each. */
static const char *write_compiler(host_fixture *f, const char *version, const char *script)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/cc", f->root);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n[ \"$1\" = --version ] && { printf '%s'; exit 0; }\n", version);
    fprintf(file, "printf '%%s\\n' \"$@\" >%s.words\n%s\n", path, script);
    fclose(file);
    chmod(path, 0700);
    return path;
}

static char *words_of_compiler(const char *path)
{
    char name[320], *text = NULL;
    size_t n = 0;
    snprintf(name, sizeof name, "%s.words", path);
    assert_ok(md_file_read(&text, &n, name));
    unlink(name);
    return text;
}

#define FSF "\\nCopyright (C) 2022 Free Software Foundation, Inc.\\n"

/* Names of compilers: which one it is, and the last number with a point of the first line. */
static void test_versions(void **state)
{
    static const struct {
        const char *said, *name;
    } rows[] = {{"cc (Debian 12.2.0-14+deb12u1) 12.2.0" FSF, "gcc 12.2.0"},
                {"gcc-13 (Ubuntu 13.1) 13.2.1 20231205" FSF, "gcc 13.2.1"},
                {"Debian clang version 14.0.6\\nTarget: x86_64", "clang 14.0.6"},
                {"clang version 17" FSF, "clang"},
                {"tcc version 0.9.27 (x86_64 Linux)", "tcc 0.9.27"},
                {"cc 3.4", "cc 3.4"},
                {"true (GNU coreutils) 9.1" FSF, "true 9.1"},
                {"toy v1.2 5\\n6.7 clang", "toy"},
                {"", ""}};
    host_fixture *f = *state;
    for (size_t i = 0; i < MD_COUNT(rows); i++) {
        md_dev *dev = host_open(f, write_compiler(f, rows[i].said, "exit 1"), 0);
        assert_string_equal(dev->facts.compiler, rows[i].name);
        md_dev_close(&dev);
    }
}

/* The words of a compile: the compiler's own options, the processor's, then both files and -lm. GCC 12 and later are
 * told to move whole vectors of 32 bytes. */
static void test_command(void **state)
{
    static const struct {
        const char *version;
        int32_t vector_bytes;
        bool moves;
    } rows[] = {{"gcc 11.4.0" FSF, 32, false}, {"gcc 12.1.0" FSF, 32, true},  {"gcc 13.1.0" FSF, 32, true},
                {"gcc 13.1.0" FSF, 16, false}, {"gcc 13.1.0" FSF, 64, false}, {"clang version 14.0.6", 32, false},
                {"notgcc 14.0.6", 32, false}};
    host_fixture *f = *state;
    for (size_t i = 0; i < MD_COUNT(rows); i++) {
        char command[400];
        const char *path = write_compiler(f, rows[i].version, "exit 1");
        snprintf(command, sizeof command, "%s -a  -b", path);
        md_dev *dev = host_open(f, command, 0);
        void *binary = NULL;
        size_t n = 0;
        assert_ok(md_dev_host_set_flags(dev, "-mone -mtwo", rows[i].vector_bytes));
        assert_string_equal(dev->facts.flags, "-mone -mtwo");
        assert_int_equal(dev->facts.vector_bytes, rows[i].vector_bytes);
        assert_int_equal(host_compile(&binary, &n, dev, "int x;\n", "x"), MD_COMPILE);
        char *words = words_of_compiler(path), *end = strstr(words, "-o\n");
        assert_non_null(end);
        *end = 0;
        assert_string_equal(words, rows[i].moves ? "-a\n-b\n-mone\n-mtwo\n-mmove-max=256\n-mstore-max=256\n"
                                                 : "-a\n-b\n-mone\n-mtwo\n");
        char *binary_path = end + 3, *source_path = strchr(binary_path, '\n') + 1,
             *last = strchr(source_path, '\n') + 1;
        assert_string_equal(last, "-lm\n");
        assert_true(!strncmp(last - 10, "/kernel.c\n", 10) && !strncmp(source_path - 11, "/kernel.so\n", 11));
        free(words);
        md_dev_close(&dev);
    }
}

/* A few words of options fit, no more, and no program is none. */
static void test_long_commands(void **state)
{
    host_fixture *f = *state;
    char words[4 * MD_DEV_HOST_ARGV] = "cc";
    md_dev_host_command command;
    for (int n = 1; n < MD_DEV_HOST_ARGV; n++, strcat(words, " -x")) {
        const md_status status = md_dev_host_command_init(&command, words, "-y -z", 1000);
        assert_int_equal(status, n <= MD_DEV_HOST_ARGV / 2 ? MD_OK : MD_INVALID_ARGUMENT);
        if (status != MD_OK)
            continue;
        int32_t n_words = 0;
        while (command.argv[n_words])
            n_words++;
        assert_int_equal(command.i_binary, n + 3);
        assert_int_equal(command.i_source, n + 4); /* their places are free, so that words end before them */
        assert_int_equal(n_words, n + 3);
        assert_string_equal(command.argv[n + 5], "-lm");
        assert_null(command.argv[n + 6]);
        assert_int_equal(command.limit_ms, 1000);
        md_dev_host_command_finish(&command);
        assert_null(command.words);
    }
    assert_fails(md_dev_host_command_init(&command, "  ", "-y", 1000), MD_INVALID_ARGUMENT, "a program");
    char many[3 * MD_DEV_HOST_ARGV + 1] = "";
    for (int n = 1; n < MD_DEV_HOST_ARGV; n++) { /* flags have the rest but what is added to them */
        strcat(many, " -y");
        const md_status status = md_dev_host_command_init(&command, "cc", many, 1000);
        assert_int_equal(status, n + 1 <= MD_DEV_HOST_ARGV - 5 ? MD_OK : MD_INVALID_ARGUMENT);
        if (status == MD_OK)
            md_dev_host_command_finish(&command);
    }
    char flags[512], isa[512];
    memset(isa, 'm', sizeof isa);
    isa[511 - 1] = 0; /* with the library's own they are too long */
    assert_int_equal(md_dev_host_flags(flags, isa), MD_INTERNAL);
    assert_ok(md_dev_host_flags(flags, ""));
    const size_t n_own = strlen(flags);
    memset(isa, 'm', sizeof isa);
    isa[511 - n_own] = 0;
    assert_ok(md_dev_host_flags(flags, isa));
    assert_int_equal(strlen(flags), 511);
    isa[511 - n_own] = 'm';
    isa[512 - n_own] = 0;
    assert_int_equal(md_dev_host_flags(flags, isa), MD_INTERNAL);
    (void)f;
}

/* Which line of what a compiler says is shown: the first with an error, else the first; without the folder's path. */
static void test_error_lines(void **state)
{
    static const struct {
        const char *script, *line;
    } rows[] = {{"echo one; echo two >&2", "status 1: one"},
                {"echo; echo '  one'", "status 1:   one"},
                {"echo one; echo 'x: error: y'; echo 'an error'", "status 1: x: error: y"},
                {"echo 'error first'; echo one", "status 1: error first"},
                {"echo \"$(dirname $2)/kernel.c:3: error: $(dirname $2)/a $(dirname $2)b\"",
                 "status 1: kernel.c:3: error: a /"},
                {":", "status 1"}};
    host_fixture *f = *state;
    void *binary = NULL;
    size_t n = 0;
    for (size_t i = 0; i < MD_COUNT(rows); i++) {
        char script[400];
        snprintf(script, sizeof script, "while [ \"$1\" != -o ]; do shift; done; %s; exit 1", rows[i].script);
        const char *path = write_compiler(f, "toy 1.0", script);
        md_dev *dev = host_open(f, path, 0);
        assert_fails(host_compile(&binary, &n, dev, "int x;\n", "x"), MD_COMPILE, rows[i].line);
        const char *at = strstr(md_last_error(), rows[i].line);
        if (i != 4)
            assert_string_equal(at, rows[i].line); /* nothing behind it */
        md_dev_close(&dev);
        free(words_of_compiler(path));
    }
    const char *path = write_compiler(f, "toy 1.0", "printf 'error: %500d' 7; exit 1");
    md_dev *dev = host_open(f, path, 0);
    assert_fails(host_compile(&binary, &n, dev, "int x;\n", "x"), MD_COMPILE, "error:     ");
    assert_true(strlen(strstr(md_last_error(), "error:")) <= 399);
    md_dev_close(&dev);
    free(words_of_compiler(path));
}

static int n_pauses;
int __real_nanosleep(const struct timespec *time, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *time, struct timespec *rest);

/* Pauses of 100 ms are counted, and left out. */
int __wrap_nanosleep(const struct timespec *time, struct timespec *rest)
{
    if (time->tv_sec || time->tv_nsec != 100000000)
        return __real_nanosleep(time, rest);
    n_pauses++;
    return 0;
}

/* Where the system has no room for processes it is tried again, 20 times; where that was in vain, the next compile is
 * tried once more only, until one succeeds. */
static void test_no_room(void **state)
{
    static const char script[] = "echo x >>$0.tries; [ $(wc -l <$0.tries) -gt $(cat $0.most) ] && exit 0\n"
                                 "echo 'cannot fork: Resource temporarily unavailable'; exit 1";
    static const struct {
        const char *most; /* so many tries fail */
        int n_tries, n_pauses;
        bool fails;
    } rows[] = {{"3", 4, 3, false}, {"20", 21, 20, false}, {"21", 21, 20, true}, {"2", 2, 1, true},
                {"1", 2, 1, false}, {"5", 6, 5, false},    {"0", 1, 0, false}};
    host_fixture *f = *state;
    const char *path = write_compiler(f, "toy 1.0", script);
    md_dev *dev = host_open(f, path, 0);
    char name[320];
    for (size_t i = 0; i < MD_COUNT(rows); i++) {
        char *tries = NULL;
        void *binary = NULL;
        size_t n = 0;
        snprintf(name, sizeof name, "%s.most", path);
        assert_ok(md_file_replace(name, rows[i].most, strlen(rows[i].most)));
        n_pauses = 0;
        assert_fails(host_compile(&binary, &n, dev, "int x;\n", "x"), MD_COMPILE,
                     rows[i].fails ? "Resource temporarily unavailable" : "wrote nothing");
        snprintf(name, sizeof name, "%s.tries", path);
        assert_ok(md_file_read(&tries, &n, name));
        assert_int_equal(n / 2, rows[i].n_tries);
        assert_int_equal(n_pauses, rows[i].n_pauses);
        free(tries);
        unlink(name);
    }
    snprintf(name, sizeof name, "%s.most", path);
    unlink(name);
    free(words_of_compiler(path));
    md_dev_close(&dev);
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
        TEST(test_versions),          TEST(test_command),
        TEST(test_long_commands),     TEST(test_error_lines),
        TEST(test_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
