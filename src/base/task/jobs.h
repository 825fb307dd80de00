/* Background threads for long work, started on demand. Thread-safe. */
#ifndef MD_BASE_TASK_JOBS_H
#define MD_BASE_TASK_JOBS_H
#include <md/md.h>

#include <stdbool.h>

typedef struct md_jobs md_jobs;
md_status md_jobs_create(md_jobs **out, int32_t max_threads);
/** Waits for all queued jobs, then frees. */
void md_jobs_destroy(md_jobs **jobs);
/** Queues a job. Runs it at once if there is no memory or no thread for it (a child after fork has none). */
void md_jobs_submit(md_jobs *jobs, void (*run)(void *context), void *context);
/** As md_jobs_submit, but the job begins only when all others of these have begun. */
void md_jobs_submit_last(md_jobs *jobs, void (*run)(void *context), void *context);
/** Puts a queued job in front of all others. Nothing if it is not queued, or runs already. */
void md_jobs_hasten(md_jobs *jobs, void (*run)(void *context), const void *context);
/** As md_jobs_submit, but wakes no thread, which can take the caller 100 us. One thread runs all such jobs in turn,
 * and looks for them every 4 ms, every 16 ms when there was none for a second, or every 100 ms after a quarter of a
 * minute. */
void md_jobs_submit_later(md_jobs *jobs, void (*run)(void *context), void *context);
/** As md_jobs_submit_later, but the job runs after so many ns at the earliest, and when the queue ends. False: there is
 * no thread for it, and the job never runs. */
bool md_jobs_submit_after(md_jobs *jobs, uint64_t ns, void (*run)(void *context), void *context);
/** Jobs for later with this function run at once. */
void md_jobs_hasten_later(md_jobs *jobs, void (*run)(void *context));
/** Starts the thread that md_jobs_submit_later needs, unless it runs. Without it jobs are submitted at once. */
void md_jobs_expect_later(md_jobs *jobs);
/** From now on exit() waits for the jobs that run, in all queues of the process, and lets no other begin, before it
 * takes down what was loaded until now: a job that calls a library which is gone crashes. Call it after a library was
 * loaded. Who still waits for jobs after two seconds gets them run: a job that calls a library asks first whether
 * exit() has begun (md_jobs_are_awaited). */
void md_jobs_rest_at_exit(void);
/** True once exit() waits: a long job ends as soon as it can. */
bool md_jobs_are_awaited(void);
#endif
