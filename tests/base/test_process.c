/* Running programs: what they get of this process, and what comes back. */
#include "support/check.h"

#include "base/file.h"
#include "base/task/process.h"
#include "base/temp.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

ssize_t __real_read(int fd, void *out, size_t n);
ssize_t __wrap_read(int fd, void *out, size_t n);

static int read_error, n_bad_reads; /* so many reads fail by it */

ssize_t __wrap_read(int fd, void *out, size_t n)
{
    if (n_bad_reads <= 0)
        return __real_read(fd, out, n);
    n_bad_reads--;
    errno = read_error;
    return -1;
}

static md_temp temp;
static const char *const folder = temp.path;

static int make_folder(void **state)
{
    (void)state;
    return md_temp_make(&temp, NULL) != MD_OK;
}

static int remove_folder(void **state)
{
    (void)state;
    md_temp_remove(&temp);
    return 0;
}

/* What a child says of itself. */
static char *ask_child(const char *command, const char *temporary)
{
    int32_t code = -1;
    char *output = NULL;
    assert_ok(md_process_run(&code, &output, (const char *const[]){"sh", "-c", command, NULL}, 20000, NULL, temporary));
    assert_int_equal(code, 0);
    return output;
}

static void children_get_an_environment_that_works(void **state)
{
    (void)state;
    char *keep = strdup(getenv("PATH") ? getenv("PATH") : ""), *said;
    unsetenv("PATH");
    setenv("LC_ALL", "de_DE.UTF-8", 1);
    setenv("DEPENDENCIES_OUTPUT", "made.d all", 1);
    setenv("SUNPRO_DEPENDENCIES", "made.d all", 1);
    setenv("TMPDIR", "/elsewhere", 1);
    setenv("COMPILER_PATH", "/own", 1); /* the user's own choice, who has no more rights than the process */
    said = ask_child("echo $0; env", "/some/folder");
    assert_int_equal(said[0], '/'); /* the whole path */
    assert_non_null(strstr(said, "\nPATH=/"));
    assert_non_null(strstr(said, "\nLC_ALL=C\n"));
    assert_non_null(strstr(said, "\nTMPDIR=/some/folder\n"));
    assert_non_null(strstr(said, "\nCOMPILER_PATH=/own\n"));
    assert_null(strstr(said, "de_DE"));
    assert_null(strstr(said, "elsewhere"));
    assert_null(strstr(said, "made.d"));
    free(said);
    setenv("PATH", keep, 1);
    unsetenv("LC_ALL");
    unsetenv("DEPENDENCIES_OUTPUT");
    unsetenv("SUNPRO_DEPENDENCIES");
    unsetenv("TMPDIR");
    unsetenv("COMPILER_PATH");
    free(keep);
}

/* Nor are signals ignored or blocked in a child, whatever the application does with them. */
static void children_get_no_signals_and_no_files(void **state)
{
    (void)state;
    enum { OWN = 77 };
    sigset_t all, before;
    unsigned long long ignored = 1, blocked = 1;
    const int numbers[] = {SIGXFSZ, SIGUSR1, SIGTERM, SIGPIPE};
    struct sigaction old[4];
    for (int i = 0; i < 4; i++)
        sigaction(numbers[i], &(struct sigaction){.sa_handler = SIG_IGN}, &old[i]);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    assert_int_equal(dup2(STDIN_FILENO, OWN), OWN); /* not close-on-exec */
    char *said = ask_child("ls /proc/$$/fd | tr '\\n' ' '; exec grep -E 'SigBlk|SigIgn' /proc/self/status", NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (int i = 0; i < 4; i++)
        sigaction(numbers[i], &old[i], NULL);
    char *const signals = strstr(said, "SigBlk:");
    assert_non_null(signals);
    assert_int_equal(sscanf(signals, "SigBlk: %llx SigIgn: %llx", &blocked, &ignored), 2);
    assert_int_equal(blocked, 0);
    assert_int_equal(ignored & ~UINT64_C(0x180000000), 0); /* two are the C library's own */
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    assert_null(strstr(said, "77 "));
#endif
    close(OWN);
    free(said);
}

static void programs_run(void **state)
{
    (void)state;
    int32_t code = -1;
    char *output = NULL;
    assert_ok(md_process_run(&code, &output, (const char *const[]){"sh", "-c", "echo out; echo err >&2; exit 3", NULL},
                             0, NULL, NULL));
    assert_int_equal(code, 3);
    assert_non_null(strstr(output, "out\n"));
    assert_non_null(strstr(output, "err\n"));
    free(output);
    assert_ok(
        md_process_run(&code, NULL, (const char *const[]){"sh", "-c", "read x || exit 4", NULL}, 20000, NULL, NULL));
    assert_int_equal(code, 4); /* stdin is empty */
    assert_ok(md_process_run(&code, NULL, (const char *const[]){"sh", "-c", "kill -9 $$", NULL}, 0, NULL, NULL));
    assert_int_equal(code, 128 + 9);
}

static void output_is_cut_at_64_kib(void **state)
{
    (void)state;
    int32_t code = -1;
    char *output = NULL;
    assert_ok(md_process_run(&code, &output,
                             (const char *const[]){"sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x", NULL}, 20000,
                             NULL, NULL));
    assert_int_equal(code, 0);
    assert_int_equal(strlen(output), 64 * 1024);
    free(output);
}

/* A read that a signal ended, or that found nothing, is made again; another error ends the reading, not the child. */
static void reads_that_fail(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        int32_t code = -1;
        char *output = NULL;
        read_error = (int[]){EINTR, EAGAIN, EIO}[i];
        n_bad_reads = 2;
        assert_ok(
            md_process_run(&code, &output, (const char *const[]){"sh", "-c", "echo said", NULL}, 20000, NULL, NULL));
        assert_string_equal(output, i < 2 ? "said\n" : "");
        if (i < 2) /* who writes when nobody reads any more may fail */
            assert_int_equal(code, 0);
        assert_int_equal(n_bad_reads, i < 2 ? 0 : 1);
        n_bad_reads = 0;
        free(output);
    }
}

static void missing_programs_are_not_found(void **state)
{
    (void)state;
    int32_t code = -1;
    char *output = NULL;
    assert_fails(md_process_run(&code, &output, (const char *const[]){"no-such-program-here", NULL}, 0, NULL, NULL),
                 MD_NOT_FOUND, "no-such-program-here");
    assert_fails(md_process_run(&code, &output, (const char *const[]){folder, NULL}, 0, NULL, NULL), MD_IO, folder);
    assert_fails(md_process_run(&code, &output, (const char *const[]){"/no/such/program", NULL}, 0, NULL, NULL),
                 MD_NOT_FOUND, "/no/such/program");
    assert_fails(md_process_run(&code, &output, (const char *const[]){"", NULL}, 0, NULL, NULL), MD_NOT_FOUND,
                 "cannot run");
    assert_null(output);
    assert_int_equal(code, -1);
}

/* As a shell does it: in the order of PATH, past folders that are none, past files that may not be run. */
static void path_is_searched(void **state)
{
    (void)state;
    const char *old = getenv("PATH");
    char *keep = strdup(old ? old : ""), path[16384], first[4300], second[4300];
    snprintf(first, sizeof first, "%s/first", folder);
    snprintf(second, sizeof second, "%s/second", folder);
    assert_int_equal(mkdir(first, 0700), 0);
    assert_int_equal(mkdir(second, 0700), 0);
    snprintf(path, sizeof path, "%s/tool", second);
    const char script[] = "#!/bin/sh\necho second\n";
    assert_ok(md_file_write(path, script, strlen(script)));
    int32_t code = -1;
    char *output = NULL;
    snprintf(path, sizeof path, "/nowhere::%s:%s:%s", folder, first, second);
    setenv("PATH", path, 1);
    assert_fails(md_process_run(&code, &output, (const char *const[]){"tool", NULL}, 0, NULL, NULL), MD_IO, "tool");
    snprintf(path, sizeof path, "%s/tool", second);
    assert_int_equal(chmod(path, 0700), 0);
    assert_ok(md_process_run(&code, &output, (const char *const[]){"tool", NULL}, 0, NULL, NULL));
    setenv("PATH", keep, 1);
    assert_string_equal(output, "second\n");
    free(output);
    free(keep);
    assert_int_equal(unlink(path) | rmdir(first) | rmdir(second), 0);
}

static void slow_programs_are_ended(void **state)
{
    (void)state;
    int32_t code = -1;
    char *output = NULL;
    assert_fails(md_process_run(&code, &output, (const char *const[]){"sleep", "10000", NULL}, 100, NULL, NULL),
                 MD_TIMEOUT, "100 ms");
    /* One that closes its output and goes on. */
    assert_fails(md_process_run(&code, &output, (const char *const[]){"sh", "-c", "exec >&- 2>&-; sleep 10000", NULL},
                                100, NULL, NULL),
                 MD_TIMEOUT, "100 ms");
    assert_null(output);
}

/* Something left behind that holds the output open does not keep us. */
static void orphans_do_not_block(void **state)
{
    (void)state;
    int32_t code = -1;
    char *output = NULL;
    assert_ok(md_process_run(&code, &output, (const char *const[]){"sh", "-c", "sleep 10000 & echo $!", NULL}, 0, NULL,
                             NULL));
    assert_int_equal(code, 0);
    const pid_t left = (pid_t)atoi(output);
    assert_true(left > 1);
    assert_int_equal(kill(left, SIGKILL), 0); /* it was still there */
    free(output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_get_an_environment_that_works),
        cmocka_unit_test(children_get_no_signals_and_no_files),
        cmocka_unit_test(programs_run),
        cmocka_unit_test(output_is_cut_at_64_kib),
        cmocka_unit_test(reads_that_fail),
        cmocka_unit_test_setup_teardown(missing_programs_are_not_found, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(path_is_searched, make_folder, remove_folder),
        cmocka_unit_test(slow_programs_are_ended),
        cmocka_unit_test(orphans_do_not_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
