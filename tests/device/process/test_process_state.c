/* What belongs to the process stays as it is while the library, and the libraries that it loads, are used: signals,
 * timers, limits, the environment, the locale, floating-point modes, descriptors, threads, children. MD_DEVICE chooses
 * the device (host by default). */
#include "device/process/process_state.h"
#include "support/check.h"

#include "base/file.h"
#include "device/host/host.h"
#include "device/nvrtc/nvrtc.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 400000 }; /* enough for several threads */

static const char *device(void)
{
    return getenv("MD_DEVICE") ? getenv("MD_DEVICE") : "host";
}

static md_context *open_context(const char *cc)
{
    md_context *c = NULL;
    assert_ok(md_context_create(
        &c, &(md_context_options){.device = device(), .cc = cc, .threads = 2, .hints = "1024", .cache_dir = ""}));
    return c;
}

/* y = x * factor, on new kernels. True if a kernel ran, not the reference. */
static bool scale(md_context *c, const char *formula, float *y, const float *x)
{
    const int64_t n = N;
    md_op *op = NULL;
    void *dx = NULL, *dy = NULL;
    md_choice choice;
    assert_ok(md_op_create(&op, c, formula, &(md_op_options){.max_variants = 2}));
    assert_ok(md_alloc(&dx, c, N * sizeof *x));
    assert_ok(md_alloc(&dy, c, N * sizeof *y));
    assert_ok(md_copy(c, dx, x, N * sizeof *x));
    const md_tensor tx = md_tensor_make(dx, MD_F32, 1, &n), ty = md_tensor_make(dy, MD_F32, 1, &n);
    const md_arg arg[] = {md_t(&ty), md_t(&tx)};
    for (int i = 0; i < 3; i++)
        assert_ok(md_call(op, NULL, arg, 2));
    assert_ok(md_sync(c, NULL));
    assert_ok(md_choice_of(&choice, op, arg, 2));
    const bool is_kernel = strcmp(choice.variant[0], "reference") != 0;
    assert_ok(md_copy(c, y, dy, N * sizeof *y));
    md_free(c, dx);
    md_free(c, dy);
    md_op_destroy(&op);
    return is_kernel;
}

static float x[N], y[N];

static void compile_for_gpu(void)
{
    static const char text[] = "struct md_params { float *a; };\nextern \"C\" __global__ void md_kernel(const "
                               "__grid_constant__ md_params p) { p.a[threadIdx.x] = 1; }\n";
    md_dev_nvrtc nvrtc;
    void *binary = NULL;
    size_t n = 0;
    if (md_dev_nvrtc_open(&nvrtc) != MD_OK)
        return;
    assert_ok(md_dev_nvrtc_compile(&binary, &n, NULL, text, "sm_80"));
    free(binary);
}

/* A whole life of a context. Descriptors of NVRTC and of a driver may stay, but none is inherited by a child. */
static void nothing_changes(void **state)
{
    (void)state;
    int bytes[2], left = 0;
    static process_state before, during, after;
    const int was = dup(0);
    assert_int_equal(pipe2(bytes, O_CLOEXEC), 0);
    assert_int_equal(dup2(bytes[0], 0), 0);
    assert_int_equal(write(bytes[1], "input", 5), 5);
    for (int i = 0; i < N; i++)
        x[i] = (float)i;
    process_state_take(&before);
    md_context *c = open_context(NULL);
    assert_true(scale(c, "Y[i] = X[i] * 3", y, x));
    assert_ok(md_tune_formula(c, "Y[i] = X[i] * 5", &(md_op_options){.hints = "1024"},
                              &(md_tune_options){.budget_ms = 5, .max_builds = 2}));
    process_state_take(&during);
    process_state_equal(&before, &during, PROCESS_LIVES);
    md_context_destroy(&c);
    process_state_take(&after);
    /* The driver of a GPU keeps threads and descriptors until the process ends, whoever was the first to use it. */
    process_state_equal(&before, &after, strcmp(device(), "host") ? PROCESS_KEPT : PROCESS_ENDED);
    compile_for_gpu();
    process_state_take(&after);
    process_state_equal(&before, &after, PROCESS_KEPT);
    assert_int_equal(ioctl(0, FIONREAD, &left), 0);
    assert_int_equal(left, 5); /* no child has read from the application's input */
    assert_int_equal(dup2(was, 0), 0);
    close(was);
    close(bytes[0]);
    close(bytes[1]);
}

static void reap_all(int number)
{
    const int error = errno;
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    errno = error;
}

/* Applications that ignore SIGCHLD, or reap every child, get kernels all the same. */
static void children_of_others(void **state)
{
    (void)state;
    void (*const handler[])(int) = {SIG_IGN, reap_all};
    struct sigaction was;
    for (int i = 0; i < 2; i++) {
        const struct sigaction wanted = {.sa_handler = handler[i], .sa_flags = SA_RESTART};
        struct sigaction now;
        assert_int_equal(sigaction(SIGCHLD, &wanted, i ? NULL : &was), 0);
        md_context *c = open_context(NULL);
        assert_true(scale(c, "Y[i] = X[i] * 7", y, x));
        md_context_destroy(&c);
        assert_int_equal(sigaction(SIGCHLD, NULL, &now), 0);
        assert_ptr_equal(now.sa_handler, handler[i]);
    }
    assert_int_equal(sigaction(SIGCHLD, &was, NULL), 0);
}

/* A compiler that says which descriptors it has: the application's are not among them. */
static void descriptors_of_children(void **state)
{
    (void)state;
    char folder[] = "/tmp/md-state-XXXXXX", script[64], list[64], text[4096] = "";
    assert_non_null(mkdtemp(folder));
    snprintf(script, sizeof script, "%s/cc", folder);
    snprintf(list, sizeof list, "%s/list", folder);
    FILE *f = fopen(script, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\nls /proc/$$/fd >> %s\nexec cc \"$@\"\n", list);
    fclose(f);
    assert_int_equal(chmod(script, 0700), 0);
    assert_int_equal(dup2(1, 77), 77); /* not close-on-exec */
    md_context *c = open_context(script);
    (void)scale(c, "Y[i] = X[i] * 9", y, x);
    md_context_destroy(&c);
    close(77);
    f = fopen(list, "r");
    assert_true(f || strcmp(device(), "host"));
    if (f) {
        text[fread(text, 1, sizeof text - 1, f)] = 0;
        fclose(f);
        assert_non_null(strstr(text, "0\n1\n"));
        assert_null(strstr(text, "77\n"));
    }
    unlink(list);
    unlink(script);
    rmdir(folder);
}

/* A kernel that a user's flags (MD_CC="cc -ffast-math") link with a start-up file for fast arithmetic does not change
 * the thread that loads it. */
static void fast_start_up_files(void **state)
{
    (void)state;
    char folder[] = "/tmp/md-fast-XXXXXX", path[64], command[256];
    char *binary = NULL;
    void *library = NULL;
    size_t n = 0;
    md_kn_host_entry entry;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/k.so", folder);
    snprintf(command, sizeof command,
             "echo 'void md_kernel(void) {}' | cc -ffast-math -shared -fPIC -x c -o %s - -x none", path);
    assert_int_equal(system(command), 0);
    assert_ok(md_file_read(&binary, &n, path));
    const unsigned before = process_float_mode();
    assert_ok(md_dev_host_load(&library, &entry, binary, n, "md_kernel", NULL));
    assert_int_equal(process_float_mode(), before);
    dlclose(library);
    free(binary);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

/* The library's threads compute in the default mode, whatever their creator's was. */
static void floating_point_modes(void **state)
{
    (void)state;
    const float least = 1.4e-45f;
    fenv_t mode;
    if (strcmp(device(), "host"))
        skip();
    for (int i = 0; i < N; i++)
        x[i] = 64 * least;
    md_context *c = NULL;
    assert_int_equal(fegetenv(&mode), 0);
    process_flush_denormals();
    assert_int_equal(fesetround(FE_UPWARD), 0);
    c = open_context(NULL);
    assert_int_equal(fesetenv(&mode), 0);
    for (int round = 0; round < 20; round++) {
        memset(y, 0, sizeof y);
        assert_true(scale(c, "Y[i] = X[i] * 0.5", y, x));
        for (int i = 0; i < N; i++)
            assert_true(y[i] == 32 * least);
    }
    md_context_destroy(&c);
}

/* Kernels, weights and statistics have a decimal point where the application's locale has a comma. */
static void locales(void **state)
{
    (void)state;
    char folder[] = "/tmp/md-locale-XXXXXX", command[256];
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 > %s/log 2>&1", folder, folder);
    const bool is_made = system(command) == 0;
    setenv("LOCPATH", folder, 1);
    const bool is_set = setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    if (!is_set) {
        printf("no locale with a decimal comma%s\n", is_made ? "" : ": localedef made none");
        skip();
    }
    for (int i = 0; i < N; i++)
        x[i] = (float)i;
    md_context *c = open_context(NULL);
    md_op *op = NULL;
    assert_true(scale(c, "Y[i] = X[i] * 1.5 + 0.1", y, x));
    for (int i = 0; i < N; i++)
        assert_true(fabsf(y[i] - (1.5f * (float)i + 0.1f)) <= 0.01f + 1e-6f * (float)i);
    assert_ok(md_op_create(&op, c, "relu", &(md_op_options){.max_variants = 1, .weights = "i=0.5"}));
    md_op_destroy(&op);
    md_context_destroy(&c);
    assert_string_equal(setlocale(LC_NUMERIC, NULL), "de_DE.UTF-8");
    setlocale(LC_ALL, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_changes),         cmocka_unit_test(children_of_others),
        cmocka_unit_test(descriptors_of_children), cmocka_unit_test(floating_point_modes),
        cmocka_unit_test(fast_start_up_files),     cmocka_unit_test(locales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
