/* A queue of background jobs with threads that are made on demand. */
#include "base/task/jobs.h"

#include "base/clock.h"
#include "base/status.h"
#include "base/task/fork.h"
#include "base/task/thread.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

typedef struct job {
    struct job *next;
    void (*run)(void *context);
    void *context;
    uint64_t due_ns; /* of a job for later */
} job;

typedef struct list {
    job *first, **last;
} list;

struct md_jobs {
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed, later_changed;
    list queue, last; /* last: begun where the queue is empty */
    list later; /* what one more thread runs, which looks for jobs now and then */
    int32_t n_threads, max_threads;
    int32_t n_idle; /* threads that wait for a job */
    int32_t n_queued; /* the last ones, too */
    bool is_ending, has_later_thread, later_ends;
    md_thread_processors allowed; /* of the thread that made this: the threads' creators may be pinned */
    pthread_t later_thread;
    pthread_t thread[];
};

/* ---- Lists */

static void list_init(list *l)
{
    *l = (list){NULL, &l->first};
}

static void list_add(list *l, job *j)
{
    *l->last = j;
    l->last = &j->next;
}

/* `at` points to the job in the list. */
static job *list_cut(list *l, job **at)
{
    job *const j = *at;
    if (j && !(*at = j->next))
        l->last = at;
    return j;
}

static job *list_take(list *l)
{
    return list_cut(l, &l->first);
}

static void list_free(list *l)
{
    for (job *j; (j = list_take(l));)
        free(j);
}

/* ---- The end of the process. exit() is of the process, so these are, too. */

/* LONGEST_IN_EXIT_MS is for all waits together: NVRTC may take many seconds for a text on a loaded machine. */
enum { REST_MS = 2000, LONGEST_IN_EXIT_MS = 20000 };
#define RESTING UINT64_MAX
static _Atomic uint64_t left_ns; /* when exit() last stopped waiting; RESTING: it waits now; 0: it never began */
static _Atomic int32_t n_running, n_waited_ms; /* jobs of all queues */

static void rest(void)
{
    atomic_store(&left_ns, RESTING);
    while (atomic_load(&n_running) > 0 && atomic_fetch_add(&n_waited_ms, 1) < LONGEST_IN_EXIT_MS)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    atomic_store(&left_ns, md_clock_ns());
}

bool md_jobs_are_awaited(void)
{
    return atomic_load_explicit(&left_ns, memory_order_relaxed) != 0;
}

void md_jobs_rest_at_exit(void)
{
    (void)atexit(rest); /* registered again after each library, since exit() begins with what was registered last */
}

static bool may_run(void)
{
    const uint64_t since = atomic_load(&left_ns);
    return !since || (since != RESTING && md_clock_ns() - since > REST_MS * UINT64_C(1000000));
}

/* Runs and frees a job. While the process ends it waits first: usually the process is gone by then. */
static void run_one(job *j)
{
    for (;;) {
        atomic_fetch_add(&n_running, 1); /* counted before it looks, so that rest() waits for it */
        if (may_run())
            break;
        atomic_fetch_sub(&n_running, 1);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    j->run(j->context);
    atomic_fetch_sub(&n_running, 1);
    free(j);
}

/* ---- Threads that run jobs */

/* Fork hook: a child has no threads and starts none, so md_jobs_submit runs jobs at once. The hooks of submitters take
 * care of jobs that were queued. */
static void lose_threads(void *user)
{
    md_jobs *jobs = user;
    jobs->n_threads = jobs->max_threads = jobs->n_idle = 0;
    jobs->has_later_thread = false;
    atomic_store(&n_running, 0);
}

md_status md_jobs_create(md_jobs **out, int32_t max_threads)
{
    md_jobs *jobs = calloc(1, sizeof *jobs + (size_t)max_threads * sizeof jobs->thread[0]);
    if (!jobs)
        return md_fail_memory();
    md_mutex_init(&jobs->lock); /* cannot fail with default attributes on Linux, nor can the next */
    md_cond_init(&jobs->changed);
    md_cond_init(&jobs->later_changed);
    list_init(&jobs->queue);
    list_init(&jobs->last);
    list_init(&jobs->later);
    jobs->max_threads = max_threads;
    jobs->allowed = md_thread_allowed();
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
        while (!jobs->queue.first && !jobs->last.first && !jobs->is_ending) {
            jobs->n_idle++;
            pthread_cond_wait(&jobs->changed, &jobs->lock);
            jobs->n_idle--;
        }
        job *j = list_take(jobs->queue.first ? &jobs->queue : &jobs->last);
        if (!j)
            break;
        jobs->n_queued--;
        pthread_mutex_unlock(&jobs->lock);
        run_one(j);
        pthread_mutex_lock(&jobs->lock);
    }
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

static bool start(md_jobs *jobs, pthread_t *out, const char *name, void *(*run)(void *))
{
    if (!md_thread_start(out, name, run, jobs))
        return false;
    md_thread_allow(*out, &jobs->allowed);
    return true;
}

/* Jobs run compilers: more threads than the first must leave room for their processes. */
static bool has_room(const md_jobs *jobs)
{
    return jobs->n_threads == 0 || md_thread_count_room() == MD_THREAD_ROOM;
}

/* Starts a thread if one is needed. True if some thread serves the queue. Called with the lock held. */
static bool has_worker(md_jobs *jobs)
{
    bool wants_one = jobs->n_idle <= jobs->n_queued && jobs->n_threads < jobs->max_threads;
    if (wants_one && has_room(jobs) && start(jobs, &jobs->thread[jobs->n_threads], "md-job", work))
        jobs->n_threads++;
    return jobs->n_threads > 0;
}

/* Queues a job in one of the lists, or runs it at once. */
static void submit(md_jobs *jobs, list *l, void (*run)(void *context), void *context)
{
    job *j = malloc(sizeof *j);
    bool is_queued = false;
    if (j) {
        *j = (job){NULL, run, context};
        pthread_mutex_lock(&jobs->lock);
        is_queued = has_worker(jobs);
        if (is_queued) {
            list_add(l, j);
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

void md_jobs_submit(md_jobs *jobs, void (*run)(void *context), void *context)
{
    submit(jobs, &jobs->queue, run, context);
}

void md_jobs_submit_last(md_jobs *jobs, void (*run)(void *context), void *context)
{
    submit(jobs, &jobs->last, run, context);
}

void md_jobs_hasten(md_jobs *jobs, void (*run)(void *context), const void *context)
{
    pthread_mutex_lock(&jobs->lock);
    list *l = &jobs->queue;
    job **at = &l->first;
    while (*at && ((*at)->run != run || (*at)->context != context))
        at = &(*at)->next;
    if (*at && *at != l->first) {
        job *const found = list_cut(l, at);
        found->next = l->first;
        l->first = found;
    }
    pthread_mutex_unlock(&jobs->lock);
}

/* ---- Jobs for later */

/* Time to the next look after so many looks without a job. */
static int64_t period_ns(int32_t n_vain)
{
    enum { OFTEN = 256, SOMETIMES = 1024, PERIOD_NS = 4000000, CALM_PERIOD_NS = 16000000, LONGEST_NS = 100000000 };
    return n_vain < OFTEN ? PERIOD_NS : n_vain < SOMETIMES ? CALM_PERIOD_NS : LONGEST_NS;
}

/* Only the end, and who cannot wait, wake the thread. The lock is held. */
static void wait_for_later(md_jobs *jobs, int64_t ns)
{
    enum { SECOND = 1000000000 };
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += ns;
    end.tv_sec += end.tv_nsec / SECOND;
    end.tv_nsec %= SECOND;
    pthread_cond_timedwait(&jobs->later_changed, &jobs->lock, &end);
}

/* The first job that is due; at the end all are. The lock is held. */
static job *take_due(md_jobs *jobs)
{
    const uint64_t now_ns = jobs->later_ends ? UINT64_MAX : md_clock_ns();
    job **at = &jobs->later.first;
    while (*at && (*at)->due_ns > now_ns)
        at = &(*at)->next;
    return list_cut(&jobs->later, at);
}

static void *run_later(void *context)
{
    md_jobs *jobs = context;
    int32_t n_vain = 0;
    md_thread_default_floats();
    pthread_mutex_lock(&jobs->lock);
    while (!jobs->later_ends || jobs->later.first) {
        job *j = take_due(jobs);
        n_vain = j || jobs->later.first ? 0 : MD_MIN(n_vain + 1, INT32_MAX - 1);
        if (j) {
            pthread_mutex_unlock(&jobs->lock);
            run_one(j);
            pthread_mutex_lock(&jobs->lock);
        } else {
            wait_for_later(jobs, period_ns(n_vain));
        }
    }
    jobs->has_later_thread = false;
    pthread_mutex_unlock(&jobs->lock);
    return NULL;
}

void md_jobs_expect_later(md_jobs *jobs)
{
    pthread_mutex_lock(&jobs->lock);
    if (!jobs->has_later_thread && jobs->max_threads > 0)
        jobs->has_later_thread = start(jobs, &jobs->later_thread, "md-later", run_later);
    pthread_mutex_unlock(&jobs->lock);
}

/* False if there is no thread for it: nothing is listed. */
static bool list_for_later(md_jobs *jobs, const job *made)
{
    job *j = malloc(sizeof *j);
    pthread_mutex_lock(&jobs->lock);
    const bool is_listed = j && jobs->has_later_thread && (made->due_ns == 0 || !jobs->later_ends);
    if (is_listed) {
        *j = *made;
        list_add(&jobs->later, j);
    }
    pthread_mutex_unlock(&jobs->lock);
    if (!is_listed)
        free(j);
    return is_listed;
}

void md_jobs_submit_later(md_jobs *jobs, void (*run)(void *context), void *context)
{
    if (!list_for_later(jobs, &(job){.run = run, .context = context}))
        md_jobs_submit(jobs, run, context);
}

bool md_jobs_submit_after(md_jobs *jobs, uint64_t ns, void (*run)(void *context), void *context)
{
    return list_for_later(jobs, &(job){.run = run, .context = context, .due_ns = md_clock_ns() + ns});
}

void md_jobs_hasten_later(md_jobs *jobs, void (*run)(void *context))
{
    pthread_mutex_lock(&jobs->lock);
    for (job *j = jobs->later.first; j; j = j->next)
        if (j->run == run)
            j->due_ns = 0;
    pthread_cond_broadcast(&jobs->later_changed);
    pthread_mutex_unlock(&jobs->lock);
}

/* ---- The end */

void md_jobs_destroy(md_jobs **handle)
{
    md_jobs *jobs = handle ? *handle : NULL;
    if (!jobs)
        return;
    pthread_mutex_lock(&jobs->lock);
    const bool has_later_thread = jobs->has_later_thread;
    jobs->later_ends = true;
    pthread_cond_broadcast(&jobs->later_changed);
    pthread_mutex_unlock(&jobs->lock);
    if (has_later_thread)
        pthread_join(jobs->later_thread, NULL); /* stopped first: what it runs may submit more */
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
    list_free(&jobs->queue); /* a child after fork has no threads, and may have jobs left */
    list_free(&jobs->last);
    list_free(&jobs->later);
    md_fork_leave(jobs);
    md_cond_finish(&jobs->changed);
    md_cond_finish(&jobs->later_changed);
    md_mutex_finish(&jobs->lock);
    free(jobs);
    *handle = NULL;
}
