/* A queue of background jobs with threads that are made on demand. */
#include "base/task/jobs.h"

#include "base/task/fork.h"
#include "base/status.h"
#include "base/task/thread.h"

#include <stdlib.h>

typedef struct job {
    struct job *next;
    void (*run)(void *context);
    void *context;
} job;

struct md_jobs {
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    job *first, **last;
    int32_t n_threads, max_threads;
    int32_t n_idle; /* threads that wait for a job */
    int32_t n_queued;
    bool is_ending;
    pthread_t thread[];
};

/* Fork hook: a child has no threads and starts none, so md_jobs_submit runs jobs at once. The hooks of submitters take
 * care of jobs that were queued. */
static void lose_threads(void *user)
{
    md_jobs *jobs = user;
    jobs->n_threads = jobs->max_threads = jobs->n_idle = 0;
}

md_status md_jobs_create(md_jobs **out, int32_t max_threads)
{
    md_jobs *jobs = calloc(1, sizeof *jobs + (size_t)max_threads * sizeof jobs->thread[0]);
    if (!jobs)
        return md_fail_memory();
    md_mutex_init(&jobs->lock); /* cannot fail with default attributes on Linux, nor can the next */
    md_cond_init(&jobs->changed);
    jobs->last = &jobs->first;
    jobs->max_threads = max_threads;
    md_fork_watch(jobs, lose_threads);
    *out = jobs;
    return MD_OK;
}

static void *work(void *context)
{
    md_jobs *jobs = context;
    md_thread_default_floats();
    pthread_mutex_lock(&jobs->lock);
    for (;;) {
        while (!jobs->first && !jobs->is_ending) {
            jobs->n_idle++;
            pthread_cond_wait(&jobs->changed, &jobs->lock);
            jobs->n_idle--;
        }
        job *j = jobs->first;
        if (!j)
            break;
        jobs->first = j->next;
        if (!jobs->first)
            jobs->last = &jobs->first;
        jobs->n_queued--;
        pthread_mutex_unlock(&jobs->lock);
        j->run(j->context);
        free(j);
        pthread_mutex_lock(&jobs->lock);
    }
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

/* Starts a thread if one is needed. True if some thread serves the queue. Called with the lock held. */
static bool has_worker(md_jobs *jobs)
{
    bool wants_one = jobs->n_idle <= jobs->n_queued && jobs->n_threads < jobs->max_threads;
    if (wants_one && md_thread_start(&jobs->thread[jobs->n_threads], "md-job", work, jobs))
        jobs->n_threads++;
    return jobs->n_threads > 0;
}

void md_jobs_submit(md_jobs *jobs, void (*run)(void *context), void *context)
{
    job *j = malloc(sizeof *j);
    bool is_queued = false;
    if (j) {
        *j = (job){NULL, run, context};
        pthread_mutex_lock(&jobs->lock);
        is_queued = has_worker(jobs);
        if (is_queued) {
            *jobs->last = j;
            jobs->last = &j->next;
            jobs->n_queued++;
            pthread_cond_signal(&jobs->changed);
        }
        pthread_mutex_unlock(&jobs->lock);
    }
    if (!is_queued) {
        free(j);
        run(context);
    }
}

/* Frees queued jobs: there are some only in a child after fork. */
static void free_queue(md_jobs *jobs)
{
    while (jobs->first) {
        job *j = jobs->first;
        jobs->first = j->next;
        free(j);
    }
}

void md_jobs_destroy(md_jobs **handle)
{
    md_jobs *jobs = handle ? *handle : NULL;
    if (!jobs)
        return;
    pthread_mutex_lock(&jobs->lock);
    jobs->is_ending = true;
    pthread_cond_broadcast(&jobs->changed);
    /* A job may submit more jobs and start threads meanwhile: n_threads is read again each time, under the lock. */
    for (int32_t i = 0; i < jobs->n_threads; i++) {
        pthread_mutex_unlock(&jobs->lock);
        pthread_join(jobs->thread[i], NULL);
        pthread_mutex_lock(&jobs->lock);
    }
    pthread_mutex_unlock(&jobs->lock);
    free_queue(jobs);
    md_fork_leave(jobs);
    md_cond_finish(&jobs->changed);
    md_mutex_finish(&jobs->lock);
    free(jobs);
    *handle = NULL;
}
