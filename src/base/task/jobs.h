/* Background threads for long work, made when first needed. Thread-safe. */
#ifndef MD_BASE_TASK_JOBS_H
#define MD_BASE_TASK_JOBS_H
#include <md/md.h>
typedef struct md_jobs md_jobs;
md_status md_jobs_create(md_jobs **out, int32_t max_threads);
/** Runs what is queued to its end, then frees. */
void md_jobs_destroy(md_jobs **jobs);
/** Queues; runs the job at once where there is no memory or no thread for it (a child after fork has none). */
void md_jobs_submit(md_jobs *jobs, void (*run)(void *context), void *context);
#endif
