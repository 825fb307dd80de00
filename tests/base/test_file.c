/* Files and temporary folders. */
#include "support/check.h"

#include "base/file.h"
#include "base/task/process.h"
#include "base/temp.h"
#include "base/writing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdbool.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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
    return access(folder, F_OK) == 0; /* gone, with what was in it */
}

static const char *in_folder(const char *name)
{
    static char path[4200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void files_come_back_as_written(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    const size_t sizes[] = {0, 1, 4094, 4095, 4096, 4097, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char name[32], *back = NULL;
        unsigned char *bytes = malloc(sizes[i] + 1);
        for (size_t j = 0; j < sizes[i]; j++)
            bytes[j] = (unsigned char)check_random(&seed);
        snprintf(name, sizeof name, "file%zu", i);
        assert_ok(md_file_write(in_folder(name), bytes, sizes[i]));
        size_t n = 0;
        assert_ok(md_file_read(&back, &n, in_folder(name)));
        assert_int_equal(n, sizes[i]);
        assert_memory_equal(back, bytes, n);
        assert_int_equal(back[n], 0);
        struct stat facts;
        assert_int_equal(stat(in_folder(name), &facts), 0);
        assert_int_equal(facts.st_mode & 0777, 0600);
        free(back);
        free(bytes);
    }
}

static void file_errors_name_the_path(void **state)
{
    (void)state;
    char *text = NULL;
    size_t n = 0;
    assert_fails(md_file_read(&text, &n, in_folder("none")), MD_NOT_FOUND, "none");
    assert_fails(md_file_read(&text, &n, folder), MD_IO, folder);
    assert_null(text);
    assert_fails(md_file_write(in_folder("no/such"), "x", 1), MD_IO, "no/such");
    assert_ok(md_file_write(in_folder("twice"), "x", 1));
    assert_fails(md_file_write(in_folder("twice"), "y", 1), MD_IO, "twice");
    if (access("/dev/full", W_OK) == 0)
        assert_fails(md_file_write("/dev/full", "x", 1), MD_IO, "/dev/full"); /* it exists */
}

static int count_files(void)
{
    int n = 0;
    DIR *all = opendir(folder);
    assert_non_null(all);
    for (struct dirent *e; (e = readdir(all));)
        n += e->d_name[0] != '.';
    closedir(all);
    return n;
}

static void expect_text(const char *name, const char *text)
{
    char *back = NULL;
    assert_ok(md_file_read(&back, NULL, in_folder(name)));
    assert_string_equal(back, text);
    free(back);
}

/* A replaced file keeps its mode, its links and what opened it before; nothing lies beside it. */
static void files_are_replaced(void **state)
{
    (void)state;
    char link[4200], back[8] = "";
    struct stat facts;
    const mode_t mask = umask(027);
    assert_ok(md_file_replace(in_folder("a"), "first", 5));
    umask(mask);
    assert_int_equal(stat(in_folder("a"), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0640);
    assert_int_equal(chmod(in_folder("a"), 0604), 0);
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink("a", link), 0);
    FILE *reader = fopen(in_folder("a"), "r");
    assert_non_null(reader);
    assert_ok(md_file_replace(link, "2nd", 3));
    expect_text("a", "2nd");
    assert_int_equal(fread(back, 1, sizeof back, reader), 5);
    assert_string_equal(back, "first");
    fclose(reader);
    assert_int_equal(stat(in_folder("a"), &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0604);
    assert_int_equal(lstat(link, &facts), 0);
    assert_true(S_ISLNK(facts.st_mode));
    assert_int_equal(count_files(), 2);
}

/* Where the system has files without a name, one gets its name when it is complete: nobody reads half of it, and a
 * process that is killed leaves none. */
static void replaced_files_are_complete_when_named(void **state)
{
    alignas(struct inotify_event) char events[4096];
    const int unnamed = open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600), watch = inotify_init1(IN_NONBLOCK);
    (void)state;
    if (unnamed < 0 || watch < 0)
        skip();
    close(unnamed);
    assert_true(inotify_add_watch(watch, folder, IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_TO) >= 0);
    assert_ok(md_file_replace(in_folder("a"), "text", 4));
    const ssize_t n = read(watch, events, sizeof events);
    close(watch);
    uint32_t met = 0;
    for (ssize_t at = 0; at < n;) {
        struct inotify_event event;
        memcpy(&event, events + at, sizeof event);
        const char *const name = events + at + offsetof(struct inotify_event, name);
        met |= event.len > 0 && name[0] == 'a' ? event.mask : 0; /* else the system's name of a nameless file */
        at += (ssize_t)sizeof event + event.len;
    }
    assert_int_equal(met & (IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_TO), IN_CREATE | IN_MOVED_TO);
}

static void files_that_cannot_be_replaced(void **state)
{
    (void)state;
    char *back = NULL;
    assert_fails(md_file_replace("", "x", 1), MD_IO, "cannot write ''");
    assert_fails(md_file_replace(folder, "x", 1), MD_IO, folder);
    assert_fails(md_file_replace(in_folder("no/such"), "x", 1), MD_IO, "no/such");
    assert_ok(md_file_replace("/dev/null", "x", 1));
    if (access("/dev/full", W_OK) == 0)
        assert_fails(md_file_replace("/dev/full", "x", 1), MD_IO, "'/dev/full' could not be written");
    assert_ok(md_file_replace(in_folder("a"), "longer", 6));
    assert_int_equal(chmod(folder, 0500), 0);
    assert_ok(md_file_replace(in_folder("a"), "short", 5)); /* in place, unless root may do everything */
    assert_int_equal(chmod(folder, 0700), 0);
    assert_ok(md_file_read(&back, NULL, in_folder("a")));
    assert_string_equal(back, "short");
    free(back);
    assert_int_equal(count_files(), 1);
}

static void temp_folder_is_private_and_follows_tmpdir(void **state)
{
    (void)state;
    struct stat facts;
    assert_int_equal(stat(folder, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    md_temp inner;
    setenv("TMPDIR", folder, 1);
    assert_ok(md_temp_make(&inner, NULL));
    assert_int_equal(strncmp(inner.path, folder, strlen(folder)), 0);
    md_temp_remove(&inner);
    setenv("TMPDIR", in_folder("missing"), 1);
    assert_fails(md_temp_make(&inner, NULL), MD_IO, "missing");
    unsetenv("TMPDIR");
}

/* A folder that cannot be kept open could not be told from a leftover: there is none then. */
static void without_files_to_open_nothing_is_left(void **state)
{
    (void)state;
    struct rlimit limit, none;
    md_temp inner;
    char own[sizeof temp.path + 128];
    assert_int_equal(mkdir(in_folder("full"), 0700), 0);
    snprintf(own, sizeof own, "%s", in_folder("full"));
    setenv("TMPDIR", own, 1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){0, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const md_status s = md_temp_make(&inner, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    md_temp kept;
    assert_ok(md_temp_make(&kept, NULL));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    md_temp_remove(&kept);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_fails(s, MD_IO, "temporary folder");
    assert_int_equal(inner.fd, -1);
    assert_int_equal(rmdir(own), 0); /* it is empty */
    unsetenv("TMPDIR");
}

/* What a killed process leaves goes with the next sweep; what a living one has stays. */
static void leftovers_are_swept(void **state)
{
    (void)state;
    md_temp ours, theirs;
    char file[sizeof theirs.path + 16];
    int ends[2], wait_status = 0;
    setenv("TMPDIR", folder, 1);
    assert_ok(md_temp_make(&ours, NULL));
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        (void)(md_temp_make(&theirs, NULL) == MD_OK && write(ends[1], theirs.path, sizeof theirs.path));
        pause();
    }
    assert_int_equal(read(ends[0], theirs.path, sizeof theirs.path), sizeof theirs.path);
    snprintf(file, sizeof file, "%s/kernel.c", theirs.path);
    assert_ok(md_file_write(file, "x", 1));
    md_temp_sweep(NULL);
    assert_int_equal(access(file, F_OK), 0);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    md_temp_sweep(NULL);
    assert_int_not_equal(access(theirs.path, F_OK), 0);
    assert_int_equal(access(ours.path, F_OK), 0);
    md_temp_remove(&ours);
    unsetenv("TMPDIR");
    close(ends[0]);
    close(ends[1]);
}

/* Others who may write into TMPDIR could put a folder of theirs in the place of ours. */
static void a_temp_root_that_others_may_change_is_not_used(void **state)
{
    (void)state;
    static const struct {
        mode_t mode, above;
        const char *why; /* NULL: it is used */
    } cases[] = {{0700, 0700, NULL},  {0777, 0700, "no sticky bit"}, {0770, 0700, "no sticky bit"},
                 {01777, 0700, NULL}, {01770, 0700, NULL},           {0700, 0777, "a folder above it"},
                 {0700, 01777, NULL}};
    char above[sizeof temp.path + 128], own[sizeof above + 8];
    snprintf(above, sizeof above, "%s", in_folder("above"));
    snprintf(own, sizeof own, "%s/own", above);
    assert_int_equal(mkdir(above, 0700) | mkdir(own, 0700), 0);
    setenv("TMPDIR", own, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        md_temp inner;
        assert_int_equal(chmod(own, cases[i].mode) | chmod(above, cases[i].above), 0);
        if (cases[i].why)
            assert_fails(md_temp_check(NULL), MD_IO, cases[i].why);
        else
            assert_ok(md_temp_check(NULL));
        assert_ok(md_temp_make(&inner, NULL));
        assert_int_equal(strncmp(inner.path, own, strlen(own)) == 0, cases[i].why == NULL);
        md_temp_remove(&inner);
    }
    unsetenv("TMPDIR");
    assert_int_equal(rmdir(own) | rmdir(above), 0);
}

/* Where a standard descriptor is closed, no file of ours becomes it: messages would be written into it. */
static void files_are_no_standard_descriptors(void **state)
{
    (void)state;
    char *back = NULL, *said = NULL;
    fflush(NULL);
    const int in = dup(STDIN_FILENO), err = dup(STDERR_FILENO);
    assert_true(in > 2 && err > 2);
    close(STDIN_FILENO);
    close(STDERR_FILENO);
    const int taken = md_above_standard(open("/dev/null", O_RDONLY | O_CLOEXEC));
    const bool is_free = fcntl(STDIN_FILENO, F_GETFD) < 0 && fcntl(STDERR_FILENO, F_GETFD) < 0;
    const bool closes = fcntl(taken, F_GETFD) == FD_CLOEXEC;
    md_temp inner;
    const md_status made = md_temp_make(&inner, NULL);
    const md_status written = md_file_write(in_folder("file"), "text", 4);
    const md_status read = md_file_read(&back, NULL, in_folder("file"));
    int32_t code = -1;
    const md_status ran =
        md_process_run(&code, &said, (const char *const[]){"sh", "-c", "echo here >&2", NULL}, 0, NULL, NULL);
    dup2(in, STDIN_FILENO);
    dup2(err, STDERR_FILENO);
    close(in);
    close(err);
    assert_true(taken > 2 && is_free && closes);
    assert_true(made == MD_OK && written == MD_OK && read == MD_OK && ran == MD_OK && code == 0);
    assert_true(inner.fd > 2);
    assert_string_equal(back, "text");
    assert_string_equal(said, "here\n");
    md_temp_remove(&inner);
    close(taken);
    free(back);
    free(said);
}

static volatile sig_atomic_t n_heard;

static void hear(int number)
{
    (void)number;
    n_heard++;
}

/* A write that fails raises no signal, and takes none that was there before. */
static void failed_writes_raise_no_signals(void **state)
{
    (void)state;
    struct rlimit limit, small;
    struct sigaction old[2], now;
    sigset_t pending, block, before;
    int ends[2];
    static const char bytes[8192];
    const struct sigaction ours = {.sa_handler = hear};
    sigaction(SIGXFSZ, &ours, &old[0]);
    sigaction(SIGPIPE, &ours, &old[1]);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small = (struct rlimit){4096, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const md_status s = md_file_write(in_folder("large"), bytes, sizeof bytes);
    char said[200];
    snprintf(said, sizeof said, "%s", strrchr(md_last_error(), ':'));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(s, MD_IO);
    assert_string_equal(said, ": File too large");
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    assert_false(md_file_write_all(ends[1], bytes, 1));
    assert_int_equal(errno, EPIPE);
    assert_int_equal(n_heard, 0);
    sigemptyset(&block);
    sigaddset(&block, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &block, &before);
    pthread_kill(pthread_self(), SIGPIPE); /* the application's own, which waits */
    assert_false(md_file_write_all(ends[1], bytes, 1));
    sigpending(&pending);
    assert_true(sigismember(&pending, SIGPIPE));
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert_int_equal(n_heard, 1);
    sigaction(SIGPIPE, &old[1], &now);
    assert_ptr_equal(now.sa_handler, hear);
    sigaction(SIGXFSZ, &old[0], NULL);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_come_back_as_written, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(file_errors_name_the_path, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(files_are_replaced, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(replaced_files_are_complete_when_named, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(files_that_cannot_be_replaced, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(temp_folder_is_private_and_follows_tmpdir, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(without_files_to_open_nothing_is_left, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(leftovers_are_swept, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(a_temp_root_that_others_may_change_is_not_used, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(failed_writes_raise_no_signals, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(files_are_no_standard_descriptors, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
