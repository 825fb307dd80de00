/* Part of every test program that uses CMocka (tests/meson.build): settings before its main; locks are checked. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* No test reads or fills the user's store, not even one that is started by hand; tests of stores make their own.
 * MD_TEST_CASE names the only cases to run, with * and ? (tools/test NAME::CASE). */
__attribute__((constructor)) static void start(void)
{
    (void)setenv("MD_CACHE_DIR", "", 0);
    if (getenv("MD_TEST_CASE"))
        cmocka_set_test_filter(getenv("MD_TEST_CASE"));
}

/* A lock that is given back without being held, or taken twice, ends the program: in the field it would be a race that
 * no test sees, or a hang. The linker sends the calls of the library here. */
int __real_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *how);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *how);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

static pid_t parent; /* the process that began */

__attribute__((constructor)) static void remember_parent(void)
{
    parent = getpid();
}

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *how)
{
    pthread_mutexattr_t checking;
    if (how)
        return __real_pthread_mutex_init(mutex, how);
    pthread_mutexattr_init(&checking);
    pthread_mutexattr_settype(&checking, PTHREAD_MUTEX_ERRORCHECK);
    const int status = __real_pthread_mutex_init(mutex, &checking);
    pthread_mutexattr_destroy(&checking);
    return status;
}

static void end(const char *what, int error)
{
    fprintf(stderr, "a lock cannot be %s: %s\n", what, strerror(error));
    abort();
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    const int status = __real_pthread_mutex_lock(mutex);
    if (status == EDEADLK)
        end("taken twice", status);
    return status;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    const int status = __real_pthread_mutex_unlock(mutex);
    if (status != EPERM)
        return status;
    if (getpid() == parent)
        end("given back", status);
    return __wrap_pthread_mutex_init(mutex, NULL); /* in a child, a lock of the forking thread belongs to nobody */
}
