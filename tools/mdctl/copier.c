#include "copier.h"

#include <pthread.h>
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
    _Atomic unsigned round; /* a new value is new work */
    _Atomic int left; /* pieces not finished */
    _Atomic int next; /* number the next thread takes */
    _Atomic bool is_over;
};

static void copy_piece(copier *c, int i)
{
    size_t piece = (c->n / (size_t)c->threads + 63) & ~(size_t)63;
    size_t first = piece * (size_t)i;
    if (first < c->n)
        memcpy(c->to + first, c->from + first, c->n - first < piece ? c->n - first : piece);
}

/* Spins: the copy is the floor, so nothing may wake slowly. */
static void *work(void *user)
{
    copier *c = user;
    int i = atomic_fetch_add(&c->next, 1);
    unsigned seen = 0;
    for (;;) {
        while (atomic_load_explicit(&c->round, memory_order_acquire) == seen && !atomic_load(&c->is_over))
            ;
        if (atomic_load(&c->is_over))
            return NULL;
        seen = atomic_load_explicit(&c->round, memory_order_acquire);
        copy_piece(c, i);
        atomic_fetch_sub_explicit(&c->left, 1, memory_order_release);
    }
}

copier *copier_create(int threads)
{
    copier *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->threads = threads < 1 ? 1 : threads > 64 ? 64 : threads;
    atomic_store(&c->next, 1);
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
    atomic_store(&c->is_over, true);
    for (int i = 0; i < c->started; i++)
        pthread_join(c->thread[i], NULL);
    free(c);
}

void copier_run(copier *c, void *to, const void *from, size_t n)
{
    c->to = to;
    c->from = from;
    c->n = n;
    atomic_store_explicit(&c->left, c->started, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->round, 1, memory_order_release);
    copy_piece(c, 0);
    while (atomic_load_explicit(&c->left, memory_order_acquire) > 0)
        ;
}
