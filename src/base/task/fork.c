#include "base/task/fork.h"

#include "base/clock.h"
#include "base/table.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* A lock that is held longer than this is that of a thread which forks inside a call of ours (from a log function,
 * say), or of a measurement. */
static const uint64_t longest_wait_ns = 2000000000;
enum { PAUSE_NS = 50000 };

typedef enum kind { MUTEX, COND, HOOK } kind;

typedef struct identity {
    void *object; /* the mutex, the condition, or the hook's user */
    intptr_t kind; /* a lock may be the first member of a user */
} identity;

typedef struct entry {
    identity is;
    void (*in_child)(void *user);
    bool is_held; /* by the thread that forks */
} entry;

/* Of the process, since fork is. The lock is held while a thread forks. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static md_table *entries; /* NULL: none */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void try_one(void *user, const void *key, size_t n_bytes, void *value)
{
    bool *all = user;
    entry *e = value;
    (void)key, (void)n_bytes;
    if (e->is.kind == MUTEX)
        *all &= e->is_held = *all && pthread_mutex_trylock(e->is.object) == 0;
}

static void let_go(void *user, const void *key, size_t n_bytes, void *value)
{
    entry *e = value;
    (void)user, (void)key, (void)n_bytes;
    if (e->is_held)
        pthread_mutex_unlock(e->is.object);
    e->is_held = false;
}

static void renew_in_child(void *user, const void *key, size_t n_bytes, void *value)
{
    entry *e = value;
    if (e->is.kind == COND)
        pthread_cond_init(e->is.object, NULL);
    else if (e->is.kind == MUTEX && !e->is_held)
        pthread_mutex_init(e->is.object, NULL);
    let_go(user, key, n_bytes, value);
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

/* All or none are held, so no order among locks is needed and nobody waits for this thread while it waits. */
static void before_fork(void)
{
    const uint64_t start = md_clock_ns();
    for (;;) {
        bool all = true;
        pthread_mutex_lock(&lock);
        each(try_one, &all);
        if (all || md_clock_ns() - start > longest_wait_ns)
            return;
        each(let_go, NULL);
        pthread_mutex_unlock(&lock);
        nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
    }
}

static void after_fork_in_parent(void)
{
    each(let_go, NULL);
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
    void *old = NULL; /* of something that was never finished */
    if (e && (!entries || md_table_put(entries, &e->is, sizeof e->is, e, &old) != MD_OK))
        free(e);
    free(old);
    pthread_mutex_unlock(&lock);
}

static void take_out(kind what, void *object)
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
    pthread_mutex_init(mutex, NULL); /* cannot fail with default attributes on Linux; nor can a condition's */
    add(MUTEX, mutex, NULL);
}

void md_mutex_finish(pthread_mutex_t *mutex)
{
    take_out(MUTEX, mutex);
    pthread_mutex_destroy(mutex);
}

void md_cond_init(pthread_cond_t *cond)
{
    pthread_cond_init(cond, NULL);
    add(COND, cond, NULL);
}

void md_cond_finish(pthread_cond_t *cond)
{
    take_out(COND, cond);
    pthread_cond_destroy(cond);
}

void md_fork_watch(void *user, void (*in_child)(void *user))
{
    add(HOOK, user, in_child);
}

void md_fork_leave(void *user)
{
    take_out(HOOK, user);
}
