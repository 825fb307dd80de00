/* That support/start.c ends a program which takes two locks in both orders, takes one twice, or gives one back that it
 * does not hold. Called with a case, it does so. */
#include "base/task/fork.h"
#include "support/check.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void take(pthread_mutex_t *first, pthread_mutex_t *second, bool tries)
{
    pthread_mutex_lock(first);
    if (tries)
        (void)pthread_mutex_trylock(second);
    else
        pthread_mutex_lock(second);
    pthread_mutex_unlock(second);
    pthread_mutex_unlock(first);
}

/* A lock as the library makes them: it is no plain one. */
static int misuse_one(bool takes)
{
    pthread_mutex_t lock;
    md_mutex_init(&lock);
    alarm(20);
    for (int i = 0; i < 2 && takes; i++)
        pthread_mutex_lock(&lock);
    if (!takes)
        pthread_mutex_unlock(&lock);
    return 0;
}

/* Who only tries waits for nobody; a lock that is made anew is another one. */
static int take_both(const char *how)
{
    pthread_mutex_t a, b;
    if (!strcmp(how, "twice") || !strcmp(how, "unheld"))
        return misuse_one(!strcmp(how, "twice"));
    pthread_mutex_init(&a, NULL);
    pthread_mutex_init(&b, NULL);
    take(&a, &b, false);
    if (!strcmp(how, "anew")) {
        pthread_mutex_destroy(&a);
        pthread_mutex_init(&a, NULL);
    }
    if (!strcmp(how, "same"))
        take(&a, &b, false);
    else
        take(&b, &a, !strcmp(how, "tried"));
    return 0;
}

static const char *program; /* not /proc/self/exe, which may be Valgrind */

static int status_of(const char *how)
{
    char name[] = "test_lock_order", given[8];
    char *argv[] = {name, given, NULL};
    pid_t child;
    int status = 0;
    snprintf(given, sizeof given, "%s", how);
    assert_int_equal(posix_spawn(&child, program, NULL, NULL, argv, environ), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void misused_locks_end_the_program(void **state)
{
    (void)state;
    static const char *const good[] = {"same", "tried", "anew"};
    for (int i = 0; i < (int)(sizeof good / sizeof *good); i++)
        assert_int_equal(status_of(good[i]), 0);
#if defined(__SANITIZE_THREAD__)
    skip(); /* it ends the program itself */
#endif
    static const char *const bad[] = {"turned", "twice", "unheld"};
    for (int i = 0; i < (int)(sizeof bad / sizeof *bad); i++) {
        const int status = status_of(bad[i]);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(misused_locks_end_the_program)};
    program = argv[0];
    return argc > 1 ? take_both(argv[1]) : cmocka_run_group_tests(tests, NULL, NULL);
}
