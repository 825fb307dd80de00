/* memcpy by several threads. */
#include "bench/copier.h"
#include "common/cli.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct copier {
    int threads, started;
    pthread_t thread[64];
    char *to;
    const char *from;
    size_t n;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    unsigned round; /* under the lock: a new value wakes everybody */
    bool is_over; /* under the lock */
    int n_threads; /* under the lock: how many have a number */
    _Atomic unsigned go; /* the round that may begin */
    _Atomic int awake, left; /* threads that wait for `go`; pieces not finished */
};

static void copy_piece(copier *c, int i)
{
    size_t piece = (c->n / (size_t)c->threads + 63) & ~(size_t)63;
    size_t first = piece * (size_t)i;
    if (first < c->n)
        memcpy(c->to + first, c->from + first, c->n - first < piece ? c->n - first : piece);
}

/* A thread sleeps between rounds, so that other contenders have the processors. It spins only between waking and the
 * start of a round. */
static void *work(void *user)
{
    copier *c = user;
    unsigned seen = 0;
    pthread_mutex_lock(&c->lock);
    int i = ++c->n_threads;
    for (;;) {
        while (c->round == seen && !c->is_over)
            pthread_cond_wait(&c->wake, &c->lock);
        seen = c->round;
        bool is_over = c->is_over;
        pthread_mutex_unlock(&c->lock);
        if (is_over)
            return NULL;
        atomic_fetch_add(&c->awake, 1);
        while (atomic_load_explicit(&c->go, memory_order_acquire) != seen)
            ;
        copy_piece(c, i);
        atomic_fetch_sub_explicit(&c->left, 1, memory_order_release);
        pthread_mutex_lock(&c->lock);
    }
}

copier *copier_create(int threads)
{
    copier *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->threads = threads < 1 ? 1 : threads > 64 ? 64 : threads;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->wake, NULL);
    for (int i = 1; i < c->threads; i++) {
        if (pthread_create(&c->thread[c->started], NULL, work, c)) {
            copier_destroy(c);
            return NULL;
        }
        c->started++;
    }
    return c;
}

void copier_destroy(copier *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->lock);
    c->is_over = true;
    pthread_cond_broadcast(&c->wake);
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < c->started; i++)
        pthread_join(c->thread[i], NULL);
    pthread_cond_destroy(&c->wake);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

double copier_run(copier *c, void *to, const void *from, size_t n)
{
    c->to = to;
    c->from = from;
    c->n = n;
    atomic_store(&c->awake, 0);
    atomic_store(&c->left, c->started);
    pthread_mutex_lock(&c->lock);
    unsigned round = ++c->round;
    pthread_cond_broadcast(&c->wake);
    pthread_mutex_unlock(&c->lock);
    while (atomic_load(&c->awake) < c->started)
        sched_yield();
    double start = cli_now_us();
    atomic_store_explicit(&c->go, round, memory_order_release);
    copy_piece(c, 0);
    while (atomic_load_explicit(&c->left, memory_order_acquire) > 0)
        ;
    return cli_now_us() - start;
}
