/* Runs a program to its end without a shell, with a time limit. */
#include "base/task/process.h"

#include "base/clock.h"
#include "base/env.h"
#include "base/status.h"
#include "base/writing.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_OUTPUT = 64 * 1024, SLICE_MS = 50, BUSY_TRIES = 20, BUSY_MS = 50 };

typedef struct child {
    pid_t pid;
    int fd; /* the pipe that its output comes through */
    char *text; /* MAX_OUTPUT + 1 bytes; NULL: output is dropped */
    size_t size;
    bool is_closed, is_ended;
    int wait_status;
    uint64_t deadline_ns; /* 0: none */
} child;

/* 0 if `path` can be executed, else the reason as errno. */
static int try_program(const char *path)
{
    struct stat facts;
    if (stat(path, &facts) != 0)
        return errno == ENOTDIR ? ENOENT : errno;
    if (!S_ISREG(facts.st_mode))
        return EACCES;
    return access(path, X_OK) == 0 ? 0 : errno;
}

/* Finds the program in PATH. posix_spawnp cannot always report a missing program: if it forks (Valgrind, some C
 * libraries), the child just exits with 127. */
static int find_program(char out[4096], const char *name, const char *path)
{
    if (strchr(name, '/') || !name[0]) {
        int n = snprintf(out, 4096, "%s", name);
        if (name[0] && name[0] != '/' && md_env_is_privileged())
            return EACCES; /* no program from a folder of its caller: the process is privileged */
        return n < 4096 ? try_program(out) : ENAMETOOLONG;
    }
    int reason = ENOENT;
    for (const char *folder = path;; folder++) {
        int length = (int)strcspn(folder, ":");
        int n = snprintf(out, 4096, "%.*s/%s", length ? length : 1, length ? folder : ".", name);
        int failed = n < 4096 ? try_program(out) : ENAMETOOLONG;
        if (!failed)
            return 0;
        if (failed == EACCES)
            reason = EACCES; /* the search continues, as in a shell */
        folder += length;
        if (!*folder)
            return reason;
    }
}

/* The application's files, pipes and sockets are not the compiler's, whether or not they are marked close-on-exec: who
 * reads a pipe to its end must not wait for a compiler. Older C libraries have no such action. */
static int close_others(posix_spawn_file_actions_t *actions)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    return posix_spawn_file_actions_addclosefrom_np(actions, 3);
#else
    (void)actions;
    return 0;
#endif
}

/* The folder of a privileged process is its caller's choice, so a child does not work in it. */
static int leave_folder(posix_spawn_file_actions_t *actions)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 29)
    return md_env_is_privileged() ? posix_spawn_file_actions_addchdir_np(actions, "/") : 0;
#else
    (void)actions;
    return 0;
#endif
}

static int init_actions(posix_spawn_file_actions_t *actions, int write_end)
{
    int reason = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    if (!reason)
        reason = posix_spawn_file_actions_adddup2(actions, write_end, 1);
    if (!reason)
        reason = posix_spawn_file_actions_adddup2(actions, write_end, 2);
    if (!reason)
        reason = close_others(actions);
    return reason ? reason : leave_folder(actions);
}

/* In its own process group, so that a timeout kills the compiler's children too. No signal is blocked or ignored. */
static void set_signals(posix_spawnattr_t *attributes)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(attributes, 0);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, &all);
}

static int spawn_program(child *c, const char *program, const char *const *argv, int write_end, char **environment)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int reason = posix_spawn_file_actions_init(&actions);
    if (reason)
        return reason;
    reason = posix_spawnattr_init(&attributes);
    if (!reason) {
        set_signals(&attributes);
        reason = init_actions(&actions, write_end);
        if (!reason) /* exec does not change argv; POSIX recommends this cast */
            reason = posix_spawn(&c->pid, program, &actions, &attributes, (char *const *)argv, environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return reason;
}

/* The child's argv[0] is its whole path: a compiler looks for its parts beside itself, and not every process has a PATH
 * by which it would find itself. */
static int spawn_child(child *c, const char *const *argv, int write_end, const md_env_child *environment)
{
    char program[4096];
    size_t n = 0;
    int reason = find_program(program, argv[0], environment->path);
    if (reason)
        return reason;
    while (argv[n])
        n++;
    const char **own = malloc((n + 1) * sizeof *own);
    if (!own)
        return ENOMEM;
    memcpy(own, argv, (n + 1) * sizeof *own);
    own[0] = program;
    reason = spawn_program(c, program, own, write_end, environment->variables);
    for (int i = 0; reason == EAGAIN && i < BUSY_TRIES; i++) { /* too many processes just now */
        nanosleep(&(struct timespec){.tv_nsec = BUSY_MS * 1000000}, NULL);
        reason = spawn_program(c, program, own, write_end, environment->variables);
    }
    free(own);
    return reason;
}

/* Reads available output. Output beyond MAX_OUTPUT is dropped, so that the child does not block. */
static void read_some(child *c)
{
    char bytes[4096];
    ssize_t n = read(c->fd, bytes, sizeof bytes);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
        c->is_closed = true;
    } else if (n > 0 && c->text) {
        size_t take = MD_MIN((size_t)n, MAX_OUTPUT - c->size);
        memcpy(c->text + c->size, bytes, take);
        c->size += take;
    }
}

static bool reap(child *c, int flags)
{
    pid_t got;
    do
        got = waitpid(c->pid, &c->wait_status, flags);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        c->wait_status = 0; /* the application has reaped the child: its exit status is unknown */
    c->is_ended = got != 0;
    return c->is_ended;
}

static bool is_late(const child *c)
{
    return c->deadline_ns && md_clock_ns() >= c->deadline_ns;
}

/* Reads until the output is closed, or until the child has ended while another process keeps the output open. False if
 * the time is over. */
static bool collect(child *c)
{
    while (!c->is_closed) {
        if (is_late(c))
            return false;
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        int ready = poll(&p, 1, SLICE_MS);
        if (ready > 0)
            read_some(c);
        else if (c->is_ended)
            return true;
        else if (ready == 0)
            reap(c, WNOHANG);
    }
    while (!c->is_ended && c->deadline_ns && !reap(c, WNOHANG)) {
        if (is_late(c))
            return false;
        nanosleep(&(struct timespec){0, 500 * 1000}, NULL);
    }
    if (!c->is_ended)
        reap(c, 0);
    return true;
}

static md_status open_output(child *c, int *write_end, bool wants_text)
{
    int ends[2];
    if (wants_text && !(c->text = malloc(MAX_OUTPUT + 1)))
        return md_fail_memory();
    if (pipe2(ends, O_CLOEXEC) != 0) {
        free(c->text);
        return md_fail(MD_IO, "cannot make a pipe: %s", strerror(errno));
    }
    c->fd = md_above_standard(ends[0]);
    *write_end = md_above_standard(ends[1]);
    if (c->fd >= 0 && *write_end >= 0)
        return MD_OK;
    const int reason = errno;
    close(c->fd);
    close(*write_end);
    free(c->text);
    return md_fail(MD_IO, "cannot make a pipe: %s", strerror(reason));
}

md_status md_process_run(int32_t *exit_code, char **output, const char *const *argv, int32_t limit_ms,
                         char *const *environment, const char *temp)
{
    child c = {.deadline_ns = limit_ms > 0 ? md_clock_ns() + (uint64_t)limit_ms * 1000000u : 0};
    int write_end = -1;
    md_env_child own;
    MD_TRY(md_env_child_make(&own, environment, temp));
    md_status opened = open_output(&c, &write_end, output != NULL);
    int reason = opened == MD_OK ? spawn_child(&c, argv, write_end, &own) : 0;
    md_env_child_finish(&own);
    MD_TRY(opened);
    close(write_end);
    md_status status = MD_OK;
    if (reason) {
        status = md_fail(reason == ENOENT   ? MD_NOT_FOUND
                         : reason == ENOMEM ? MD_OUT_OF_MEMORY
                                            : MD_IO,
                         "cannot run %.500s: %s", argv[0], strerror(reason));
    } else if (!collect(&c)) {
        kill(-c.pid, SIGKILL);
        if (!c.is_ended)
            reap(&c, 0);
        status = md_fail(MD_TIMEOUT, "%.500s did not end within %d ms", argv[0], limit_ms);
    }
    close(c.fd);
    if (status != MD_OK) {
        free(c.text);
        return status;
    }
    if (c.text) {
        c.text[c.size] = 0;
        *output = c.text;
    }
    *exit_code = WIFEXITED(c.wait_status) ? WEXITSTATUS(c.wait_status) : 128 + WTERMSIG(c.wait_status);
    return MD_OK;
}
