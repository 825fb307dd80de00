/* Part of every test program that uses CMocka (tests/meson.build): settings before its main; locks are checked. */
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
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
 * no test sees, or a hang. So do two locks that are taken in one order and in the other, though no thread waits for
 * another now. The linker sends the calls of the library here. */
int __real_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *how);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *how);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

static pid_t parent; /* the process that began */

__attribute__((constructor)) static void remember_parent(void)
{
    parent = getpid();
}

static void end(const char *what, const char *why)
{
    void *stack[32];
    fprintf(stderr, "a lock cannot be %s: %s\n", what, why);
    backtrace_symbols_fd(stack, backtrace(stack, 32), STDERR_FILENO);
    abort();
}

/* ---- Orders of two locks: pairs that were taken one after the other */

enum { MOST_HELD = 32, N_LIVES = 1 << 14, N_PAIRS = 1 << 16 };
static _Thread_local pthread_mutex_t *held[MOST_HELD];
static _Thread_local int n_held;
static _Atomic uint32_t lives[N_LIVES]; /* how many locks were made at addresses with this hash: so old pairs end */
static _Atomic uint64_t pairs[N_PAIRS]; /* hashes; 0: free */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 31) * UINT64_C(0x9e3779b97f4a7c15);
    return (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9) | 1;
}

static _Atomic uint32_t *life_of(const pthread_mutex_t *mutex)
{
    return &lives[mix((uintptr_t)mutex) >> 50];
}

static uint64_t pair_of(const pthread_mutex_t *first, const pthread_mutex_t *second)
{
    return mix(mix((uintptr_t)first + ((uint64_t)*life_of(first) << 48)) +
               ((uintptr_t)second ^ (uint64_t)*life_of(second) << 48));
}

/* The place of a pair, or the free one where it belongs; NULL: none is free. */
static _Atomic uint64_t *place_of(uint64_t pair)
{
    for (uint64_t i = 0, at = pair >> 48; i < 64; i++, at = (at + 1) % N_PAIRS)
        if (pairs[at] == pair || pairs[at] == 0)
            return &pairs[at];
    return NULL;
}

static void note_order(const pthread_mutex_t *mutex)
{
    for (int i = 0; i < n_held; i++) {
        const uint64_t pair = pair_of(held[i], mutex), turned = pair_of(mutex, held[i]);
        _Atomic uint64_t *place = place_of(pair), *other = place_of(turned);
        if (other && *other == turned)
            end("taken after another", "elsewhere it is taken before that");
        if (place && *place == 0)
            *place = pair; /* of two threads one may be lost: the next time it is noted */
    }
}

static void hold(pthread_mutex_t *mutex)
{
    if (n_held < MOST_HELD)
        held[n_held++] = mutex;
}

static void let_go(const pthread_mutex_t *mutex)
{
    for (int i = n_held; i-- > 0;)
        if (held[i] == mutex) {
            memmove(&held[i], &held[i + 1], (size_t)(--n_held - i) * sizeof *held);
            return;
        }
}

/* ---- Calls of the library */

/* Ordinary locks can be checked; md_mutex_init asks for one that only waits otherwise. */
static bool is_ordinary(const pthread_mutexattr_t *how)
{
    int type = PTHREAD_MUTEX_DEFAULT;
    if (how)
        pthread_mutexattr_gettype(how, &type);
#ifdef __GLIBC__
    if (type == PTHREAD_MUTEX_ADAPTIVE_NP)
        return true;
#endif
    return !how;
}

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *how)
{
    pthread_mutexattr_t checking;
    ++*life_of(mutex);
    let_go(mutex);
    if (!is_ordinary(how))
        return __real_pthread_mutex_init(mutex, how);
    pthread_mutexattr_init(&checking);
    pthread_mutexattr_settype(&checking, PTHREAD_MUTEX_ERRORCHECK);
    const int status = __real_pthread_mutex_init(mutex, &checking);
    pthread_mutexattr_destroy(&checking);
    return status;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (getpid() == parent)
        note_order(mutex);
    const int status = __real_pthread_mutex_lock(mutex);
    if (status == EDEADLK)
        end("taken twice", strerror(status));
    hold(mutex);
    return status;
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    const int status = __real_pthread_mutex_trylock(mutex);
    if (status == 0)
        hold(mutex);
    return status;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    let_go(mutex);
    const int status = __real_pthread_mutex_unlock(mutex);
    if (status != EPERM)
        return status;
    if (getpid() == parent)
        end("given back", strerror(status));
    return __wrap_pthread_mutex_init(mutex, NULL); /* in a child, a lock of the forking thread belongs to nobody */
}
