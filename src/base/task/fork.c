/* Makes locks and conditions safe across fork: one table of the process holds them all. */
#include "base/task/fork.h"

#include "base/clock.h"
#include "base/table.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* After this time the fork goes on with locks that are still held: by the forking thread itself (inside a log
 * function), or by a measurement. */
static const uint64_t longest_wait_ns = 2000000000;
enum { PAUSE_NS = 50000 };

typedef enum kind { MUTEX, COND, HOOK } kind;

typedef struct identity {
    void *object; /* the mutex, the condition, or the hook's user */
    intptr_t kind; /* part of the key: a lock may have the same address as a hook's user */
} identity;

typedef struct entry {
    identity is;
    void (*in_child)(void *user);
    bool is_held; /* taken by the forking thread */
} entry;

/* One table a process, because fork is of the process. The lock is held during a fork. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static md_table *entries; /* NULL: none */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void try_lock(void *user, const void *key, size_t n_bytes, void *value)
{
    bool *all = user;
    entry *e = value;
    (void)key, (void)n_bytes;
    if (e->is.kind == MUTEX)
        *all &= e->is_held = *all && pthread_mutex_trylock(e->is.object) == 0;
}

static void release(void *user, const void *key, size_t n_bytes, void *value)
{
    entry *e = value;
    (void)user, (void)key, (void)n_bytes;
    if (e->is_held)
        pthread_mutex_unlock(e->is.object);
    e->is_held = false;
}

/* Waits with a limit go by the monotonic clock: the other one may be set back by hours. */
static void make_cond(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes); /* cannot fail on Linux, nor can the next two */
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* Locks are held for less than a microsecond nearly always, and to wake a thread takes 50: who waits looks again for a
 * while first. Making one cannot fail on Linux. */
static void make_mutex(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
#ifdef __GLIBC__
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
    pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static void renew_in_child(void *user, const void *key, size_t n_bytes, void *value)
{
    entry *e = value;
    if (e->is.kind == COND)
        make_cond(e->is.object);
    else if (e->is.kind == MUTEX && !e->is_held)
        make_mutex(e->is.object);
    release(user, key, n_bytes, value);
}

static void call_hook(void *user, const void *key, size_t n_bytes, void *value)
{
    const entry *e = value;
    (void)user, (void)key, (void)n_bytes;
    if (e->is.kind == HOOK)
        e->in_child(e->is.object);
}

static void each(void (*visit)(void *user, const void *key, size_t n_bytes, void *value), void *user)
{
    if (entries)
        md_table_each(entries, visit, user);
}

/* Takes all locks, or none and tries again. So locks need no order, and no thread waits for this one meanwhile. */
static void before_fork(void)
{
    const uint64_t start = md_clock_ns();
    for (;;) {
        bool all = true;
        pthread_mutex_lock(&lock);
        each(try_lock, &all);
        if (all || md_clock_ns() - start > longest_wait_ns)
            return;
        each(release, NULL);
        pthread_mutex_unlock(&lock);
        nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
    }
}

static void after_fork_in_parent(void)
{
    each(release, NULL);
    pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
    each(renew_in_child, NULL);
    each(call_hook, NULL);
    pthread_mutex_unlock(&lock);
}

static void install(void)
{
    (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static void add(kind what, void *object, void (*hook)(void *user))
{
    pthread_once(&once, install);
    entry *e = malloc(sizeof *e);
    pthread_mutex_lock(&lock);
    if (e && !entries)
        entries = md_table_create();
    if (e)
        *e = (entry){{object, what}, hook, false};
    void *old = NULL; /* entry of an object that was never finished */
    if (e && (!entries || md_table_put(entries, &e->is, sizeof e->is, e, &old) != MD_OK))
        free(e);
    free(old);
    pthread_mutex_unlock(&lock);
}

static void remove_entry(kind what, void *object)
{
    const identity is = {object, what};
    pthread_mutex_lock(&lock);
    if (entries) {
        free(md_table_remove(entries, &is, sizeof is));
        if (md_table_count(entries) == 0)
            md_table_destroy(&entries, NULL);
    }
    pthread_mutex_unlock(&lock);
}

void md_mutex_init(pthread_mutex_t *mutex)
{
    make_mutex(mutex);
    add(MUTEX, mutex, NULL);
}

void md_mutex_finish(pthread_mutex_t *mutex)
{
    remove_entry(MUTEX, mutex);
    pthread_mutex_destroy(mutex);
}

void md_cond_init(pthread_cond_t *cond)
{
    make_cond(cond);
    add(COND, cond, NULL);
}

void md_cond_finish(pthread_cond_t *cond)
{
    remove_entry(COND, cond);
    pthread_cond_destroy(cond);
}

void md_fork_watch(void *user, void (*in_child)(void *user))
{
    add(HOOK, user, in_child);
}

void md_fork_leave(void *user)
{
    remove_entry(HOOK, user);
}
