/* The thread pool of a context: parallel loops over blocks, and background jobs (compiles). */
#ifndef MD_BASE_TASK_POOL_H
#define MD_BASE_TASK_POOL_H
#include "base/task/jobs.h"

#include <stdbool.h>

typedef struct md_pool md_pool;
/** Runs blocks [first, last). `lane` in [0, threads) differs between concurrent bodies of a loop. `scratch` belongs to
 * this thread during the loop: scratch_bytes, 64-byte aligned, not initialised; NULL for 0 bytes. */
typedef void (*md_pool_body)(void *context, int64_t first, int64_t last, int32_t lane, void *scratch);

/** `threads` in [1, 1024] counts the caller: 1 means that loops run on the calling thread only. */
md_status md_pool_create(md_pool **out, int32_t threads);
void md_pool_destroy(md_pool **pool); /* waits for all jobs; no loop may be running */
/** Lanes of a loop: `threads`, or fewer if the system refused some. */
int32_t md_pool_threads(const md_pool *pool);
/** Runs body over [0, n_blocks) in pieces of `grain` >= 1 blocks, on the caller and the workers, and returns when all
 * are done. Thread-safe: concurrent loops share the workers. One piece runs on the caller alone. Costs about a
 * microsecond while the workers are awake. OUT_OF_MEMORY if there is no memory for the caller's scratch: then nothing
 * ran. */
md_status md_pool_loop(md_pool *pool, int64_t n_blocks, int64_t grain, size_t scratch_bytes, md_pool_body body,
                       void *context);
/** True if a loop of several pieces is running. */
bool md_pool_is_busy(const md_pool *pool);
/** Its background threads, at most `threads`. They end with the pool. */
md_jobs *md_pool_jobs(md_pool *pool);
#endif
