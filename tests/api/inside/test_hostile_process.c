/* Processes that were started by somebody who means no good, or with little: a set-user-ID program, no environment, few
 * processes, small files, a reader that is gone. Each case runs in a process of its own. */
#include "support/check.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/auxv.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534, STRANGER = 61234, SKIPPED = 77, LIMIT_S = 240 };

static char folder[] = "/tmp/md-hostile-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/md-hostile-XXXXXX");
    return mkdtemp(folder) && chmod(folder, 0755) == 0 ? 0 : -1;
}

static const char *in_folder(const char *name)
{
    static char path[2][4200];
    static int n;
    char *out = path[n++ % 2];
    snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

static void run_shell(const char *format, const char *name)
{
    char command[8600];
    snprintf(command, sizeof command, format, name);
    assert_int_equal(system(command), 0);
}

static int remove_folder(void **state)
{
    (void)state;
    run_shell("rm -rf '%s'", folder);
    return 0;
}

/* A softmax of [1, 2]. *variant: what served. */
static md_status compute_in(char variant[160], md_context *context)
{
    float x[2] = {1, 2}, y[2] = {0};
    const int64_t size[] = {1, 2};
    const md_tensor tx = md_tensor_make(x, MD_F32, 2, size), ty = md_tensor_make(y, MD_F32, 2, size);
    md_op *op = NULL;
    md_choice choice = {0};
    md_status s = md_op_create(&op, context, "softmax", &(md_op_options){.hints = "16"});
    if (s == MD_OK)
        s = md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2);
    if (s == MD_OK)
        s = md_choice_of(&choice, op, (md_arg[]){md_t(&ty), md_t(&tx)}, 2);
    if (s == MD_OK && !(y[0] > 0.268f && y[0] < 0.27f && y[1] > 0.73f && y[1] < 0.732f))
        s = MD_INTERNAL;
    snprintf(variant, 160, "%s", choice.variant[0] ? choice.variant[0] : "none");
    md_op_destroy(&op);
    return s;
}

static md_status create(md_context **context, int32_t threads)
{
    return md_context_create(context, &(md_context_options){.device = "host", .threads = threads});
}

/* 0: computed by a compiled kernel. 2: by the reference. 1: not at all. */
static int compute_exit_code(int32_t threads)
{
    md_context *context = NULL;
    char variant[160];
    md_status s = create(&context, threads);
    if (s == MD_OK)
        s = compute_in(variant, context);
    if (s != MD_OK)
        fprintf(stderr, "%s: %s\n", md_status_name(s), md_last_error());
    md_context_destroy(&context);
    return s != MD_OK ? 1 : strcmp(variant, "reference") ? 0 : 2;
}

/* Runs a case in a child. Its exit status, as in a shell. */
static int run_child(int (*run)(void))
{
    int status = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        alarm(LIMIT_S);
        exit(run());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- A set-user-ID program */

/* What the caller's programs would do: they say that they ran. */
static void write_traps(void)
{
    static const char *const names[] = {"cc", "gcc", "cc1", "as", "ld", "collect2"};
    assert_int_equal(mkdir(in_folder("caught"), 0777), 0);
    assert_int_equal(chmod(in_folder("caught"), 0777), 0);
    assert_int_equal(mkdir(in_folder("traps"), 0755), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[4400];
        snprintf(path, sizeof path, "%s/traps/%s", folder, names[i]);
        FILE *f = fopen(path, "we");
        assert_non_null(f);
        fprintf(f, "#!/bin/sh\n: > %s/caught/%s\nexit 1\n", folder, names[i]);
        fclose(f);
        assert_int_equal(chmod(path, 0755), 0);
    }
}

static void set_path_variable(const char *name, const char *format)
{
    char value[8600];
    snprintf(value, sizeof value, format, folder, folder);
    assert_int_equal(setenv(name, value, 1), 0);
}

/* As a caller without rights, with an environment that points at traps and at files to write. */
static int call_set_user_id(void)
{
    static const char *const traps[] = {"COMPILER_PATH", "PATH"};
    static const char *const files[] = {"MD_STATS",       "MD_TRACE", "MD_DUMP",         "MD_CACHE_DIR",       "TMPDIR",
                                        "XDG_CACHE_HOME", "HOME",     "XDG_RUNTIME_DIR", "DEPENDENCIES_OUTPUT"};
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++)
        set_path_variable(traps[i], "%s/traps");
    set_path_variable("GCC_EXEC_PREFIX", "%s/traps/");
    set_path_variable("MD_CC", "%s/traps/cc");
    set_path_variable("MD_BUNDLE", "%s/traps/bundle.mdb");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        set_path_variable(files[i], "%s/caught/file");
    if (chdir(in_folder("traps")) || setgid(NOBODY) || setuid(NOBODY))
        return 1;
    execl(in_folder("program"), "program", "set-user-id", NULL);
    return SKIPPED;
}

static int be_set_user_id(void)
{
    if (!getauxval(AT_SECURE))
        return SKIPPED;
    md_context *context = NULL; /* what reads the environment by itself is not loaded */
    if (md_context_create(&context, &(md_context_options){.device = "cuda"}) != MD_UNSUPPORTED)
        return 3;
    return compute_exit_code(2);
}

static void a_set_user_id_program_runs_nothing_of_its_callers(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        printf("NOT TESTED: only root can make a set-user-ID program\n");
        skip();
    }
    write_traps();
    run_shell("cp /proc/$PPID/exe '%s'", in_folder("program"));
    assert_int_equal(chmod(in_folder("program"), 04755), 0);
    const int code = run_child(call_set_user_id);
    if (code == SKIPPED) {
        printf("NOT TESTED: /tmp has no set-user-ID programs\n");
        skip();
    }
    run_shell("ls -A '%s' >&2", in_folder("caught"));
    run_shell("test -z \"$(ls -A '%s')\"", in_folder("caught"));
    assert_int_equal(code, 0);
}

/* ---- Processes that lack something */

static int without_environment(void)
{
    clearenv();
    setenv("MD_CACHE_DIR", "", 1);
    return compute_exit_code(2);
}

static void a_process_without_an_environment_compiles(void **state)
{
    (void)state;
    assert_int_equal(run_child(without_environment), 0);
}

/* A thread of the application that changes the environment all the time. */
static void *change_environment(void *done)
{
    char value[400] = "";
    for (size_t n = 0; !atomic_load((_Atomic bool *)done); n = (n + 1) % (sizeof value - 1)) {
        memset(value, 'x', n);
        value[n] = 0;
        setenv("APPLICATIONS_OWN", value, 1);
        setenv("TMPDIR", value, 1);
        unsetenv(n % 2 ? "TMPDIR" : "APPLICATIONS_OWN");
    }
    return NULL;
}

/* A context compiles by the environment that it was made in. */
static int with_a_changing_environment(void)
{
    md_context *context = NULL;
    pthread_t changer;
    _Atomic bool is_done = false;
    char variant[160] = "";
    setenv("MD_CACHE_DIR", "", 1);
    unsetenv("MD_CC");
    if (create(&context, 2) != MD_OK)
        return 1;
    setenv("PATH", "/nonexistent", 1);
    setenv("TMPDIR", "/nonexistent", 1);
    if (pthread_create(&changer, NULL, change_environment, &is_done) != 0)
        return 1;
    const md_status s = compute_in(variant, context);
    atomic_store(&is_done, true);
    pthread_join(changer, NULL);
    md_context_destroy(&context);
    return s != MD_OK ? 1 : strcmp(variant, "reference") ? 0 : 2;
}

static void a_program_changes_its_environment_while_kernels_are_built(void **state)
{
    (void)state;
    assert_int_equal(run_child(with_a_changing_environment), 0);
}

static int with_few_processes(void)
{
    const struct rlimit few = {24, 24};
    if (setgid(STRANGER) || setuid(STRANGER) || setrlimit(RLIMIT_NPROC, &few))
        return SKIPPED;
    return compute_exit_code(40);
}

/* As many threads as there may be processes: a compiler would not start. */
static void threads_leave_room_for_the_compiler(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        printf("NOT TESTED: only root can become a user without other processes\n");
        skip();
    }
    assert_int_equal(run_child(with_few_processes), 0);
}

/* As in a container whose root is read-only. */
static int where_nothing_is_written(void)
{
    static const char *const folders[] = {"/tmp", "/var/tmp"};
    unsetenv("TMPDIR");
    unsetenv("MD_CC"); /* it may lie there */
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        return SKIPPED;
    for (int i = 0; i < 2; i++)
        if (mount("none", folders[i], "tmpfs", MS_RDONLY, NULL))
            return SKIPPED;
    return compute_exit_code(1);
}

static void a_container_that_may_not_write_compiles(void **state)
{
    (void)state;
    const int code = run_child(where_nothing_is_written);
    if (code == SKIPPED) {
        printf("NOT TESTED: only root may mount, and not in every container\n");
        skip();
    }
    assert_int_equal(code, 0);
}

static int with_small_files(void)
{
    const struct rlimit small = {64, 64};
    const char *store = in_folder("store");
    setenv("MD_CACHE_DIR", store, 1);
    setenv("MD_STATS", in_folder("stats.json"), 1);
    setenv("MD_TRACE", in_folder("trace.json"), 1);
    setenv("MD_DUMP", in_folder("dump"), 1);
    return setrlimit(RLIMIT_FSIZE, &small) ? 1 : compute_exit_code(1);
}

/* SIGXFSZ is not the application's fault. One thread: what the library writes, it writes on the caller's. */
static void files_that_may_not_grow_end_nothing(void **state)
{
    (void)state;
    assert_int_equal(run_child(with_small_files), 2); /* no kernel either, so the reference serves */
}

static int without_reader(void)
{
    int ends[2];
    if (pipe(ends) || dup2(ends[1], STDERR_FILENO) < 0 || close(ends[0]))
        return 1;
    setenv("MD_LOG", "debug", 1);
    setenv("MD_STATS", "/dev/stderr", 1);
    return compute_exit_code(1);
}

/* Nor is SIGPIPE, where stderr is a pipe that nobody reads. */
static void messages_that_nobody_reads_end_nothing(void **state)
{
    (void)state;
    assert_int_equal(run_child(without_reader), 0);
}

/* ---- Files that take nothing */

static void statistics_that_are_not_written_are_an_error(void **state)
{
    (void)state;
    md_context *context = NULL;
    FILE *full = fopen("/dev/full", "we");
    assert_ok(md_context_create(&context, &(md_context_options){.device = "host", .threads = 1}));
    if (full) {
        assert_fails(md_stats_print(context, full), MD_IO, "No space left");
        fclose(full);
        assert_fails(md_stats_write(context, "/dev/full", NULL), MD_IO, "/dev/full");
    }
    assert_fails(md_stats_write(context, in_folder("no/such"), NULL), MD_IO, "no/such");
    md_context_destroy(&context);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_set_user_id_program_runs_nothing_of_its_callers, make_folder, remove_folder),
        cmocka_unit_test(a_process_without_an_environment_compiles),
        cmocka_unit_test(a_program_changes_its_environment_while_kernels_are_built),
        cmocka_unit_test(threads_leave_room_for_the_compiler),
        cmocka_unit_test(a_container_that_may_not_write_compiles),
        cmocka_unit_test_setup_teardown(files_that_may_not_grow_end_nothing, make_folder, remove_folder),
        cmocka_unit_test(messages_that_nobody_reads_end_nothing),
        cmocka_unit_test_setup_teardown(statistics_that_are_not_written_are_an_error, make_folder, remove_folder),
    };
    if (argc > 1 && !strcmp(argv[1], "set-user-id"))
        return be_set_user_id();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
