/* Runs a suite over formulas on several threads, each with a context of its own. */
#include "device/suite_call.h"

#include "base/status.h"
#include "support/check.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MAX_THREADS = 64 };

typedef struct run {
    suite_fn fn;
    void *user;
    int64_t n;
    atomic_llong next;
} run;

typedef struct worker {
    suite s;
    run *run;
    bool is_open;
    char why[300];
} worker;

static void *work(void *user)
{
    worker *w = user;
    for (int64_t i = atomic_fetch_add(&w->run->next, 1); i < w->run->n; i = atomic_fetch_add(&w->run->next, 1))
        w->run->fn(&w->s, i, w->run->user);
    return NULL;
}

/* Opening a context allocates and may fail where threads cannot: before they start. */
static void open_worker(worker *w, const suite *s, run *r)
{
    *w = (worker){.s = {.options = s->options}, .run = r};
    w->is_open = md_context_create(&w->s.context, &(md_context_options){.device = s->options->device}) == MD_OK;
    if (!w->is_open)
        (void)snprintf(w->why, sizeof w->why, "%s", md_last_error());
}

static void add(suite *sum, const suite *s)
{
    sum->n_calls += s->n_calls;
    sum->n_elements += s->n_elements;
    sum->n_unchecked += s->n_unchecked;
    sum->n_variants += s->n_variants;
    sum->n_skipped += s->n_skipped;
    sum->n_failed += s->n_failed;
}

void suite_each(suite *s, int64_t n, suite_fn fn, void *user)
{
    run r = {.fn = fn, .user = user, .n = n};
    worker w[MAX_THREADS] = {0};
    pthread_t thread[MAX_THREADS];
    bool is_running[MAX_THREADS] = {0};
    const int n_threads = (int)MD_MIN(MD_MIN(s->options->n_threads, MAX_THREADS), n);
    if (n_threads <= 1) {
        for (int64_t i = 0; i < n; i++)
            fn(s, i, user);
        return;
    }
    for (int i = 0; i < n_threads; i++)
        open_worker(&w[i], s, &r);
    for (int i = 0; i < n_threads; i++)
        is_running[i] = w[i].is_open && pthread_create(&thread[i], NULL, work, &w[i]) == 0;
    for (int i = 0; i < n_threads; i++) {
        if (is_running[i])
            pthread_join(thread[i], NULL);
        else if (s->n_failed++ == 0)
            print_error("a thread of the suite could not start: %s\n", w[i].why);
        md_context_destroy(&w[i].s.context);
        add(s, &w[i].s);
    }
}
