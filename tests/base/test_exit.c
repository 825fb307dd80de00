/* What a process does at its end, where threads hold locks that this needs. Every case is a child process. */
#include "support/check.h"

#include "base/task/process.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT_S = 60, GOOD = 42 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ends[2];

/* Says that it ran. Needs the lock. */
static void say(void *user)
{
    (void)user;
    pthread_mutex_lock(&lock);
    if (write(ends[1], "r", 1) != 1)
        _exit(1);
    pthread_mutex_unlock(&lock);
}

static void watch(void)
{
    md_exit_watched got;
    if (md_exit_watch(&got, &(md_exit_watch_options){.user = &lock, .run = say, .name = "a"}) != MD_OK)
        _exit(1);
}

/* Status of the child; *n_runs is how often it ran. */
static int run(void (*be)(void), int *n_runs)
{
    int status = 0;
    char byte;
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(LIMIT_S);
        be();
        exit(GOOD);
    }
    close(ends[1]);
    for (*n_runs = 0; read(ends[0], &byte, 1) == 1;)
        ++*n_runs;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* The signal comes to the thread that holds the lock: it goes on until it releases it, and then all ends. */
static void hold_the_lock(void)
{
    watch();
    pthread_mutex_lock(&lock);
    raise(SIGTERM);
    pthread_mutex_unlock(&lock);
    for (;;)
        pause();
}

static void a_lock_is_held(void **state)
{
    (void)state;
    int n_runs;
    const int status = run(hold_the_lock, &n_runs);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    assert_int_equal(n_runs, 1);
}

/* exit() by the holder of a lock ends all the same, without the work. */
static void exit_with_the_lock(void)
{
    watch();
    pthread_mutex_lock(&lock);
}

static void exit_does_not_hang(void **state)
{
    (void)state;
    int n_runs;
    const int status = run(exit_with_the_lock, &n_runs);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == GOOD);
    assert_int_equal(n_runs, 0);
}

static void come_and_go(void)
{
    md_exit_watched got;
    for (int i = 1; i <= 50; i++) {
        int user = 0;
        const md_exit_watch_options o = {.user = &user, .run = say, .name = i % 2 ? "odd" : "even", .signal = SIGUSR2};
        if (md_exit_watch(&got, &o) != MD_OK || got.number != (i + 1) / 2 || !got.hears)
            _exit(1);
        if (i % 10 == 0)
            raise(SIGUSR2); /* just before the end of the thread that serves it */
        md_exit_leave(&user);
    }
    watch();
}

static void watches_come_and_go(void **state)
{
    (void)state;
    int n_runs;
    const int status = run(come_and_go, &n_runs);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == GOOD);
    assert_in_range(n_runs, 1, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lock_is_held),
        cmocka_unit_test(exit_does_not_hang),
        cmocka_unit_test(watches_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
