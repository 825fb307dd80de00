/* The one thread pool: loops of blocks in the foreground, jobs (compiles) in the background. */
#ifndef MD_BASE_TASK_POOL_H
#define MD_BASE_TASK_POOL_H
#include <md/md.h>

typedef struct md_pool md_pool;
/** Runs blocks [first, last). `lane` in [0, threads) tells concurrent bodies of one loop apart. `scratch` is this
 * thread's own during the loop: as many bytes as the loop asked, 64-byte aligned, not initialised; NULL where it
 * asked for 0. */
typedef void (*md_pool_body)(void *context, int64_t first, int64_t last, int32_t lane, void *scratch);
typedef void (*md_pool_job)(void *context);

/** `threads` in [1, 1024] counts the caller: 1 means that loops run on the calling thread only. */
md_status md_pool_create(md_pool **out, int32_t threads);
void md_pool_destroy(md_pool **pool); /* waits for running and queued jobs; no loop may run */
/** Lanes that a loop may use: `threads`, or fewer where the system gave fewer. */
int32_t md_pool_threads(const md_pool *pool);
/** Runs body over [0, n_blocks) in pieces of `grain` >= 1 blocks taken in turn; the caller takes part; returns when
 * all is done. Thread-safe: concurrent loops share the workers. A loop of one piece runs on the caller at once.
 * Costs about a microsecond while the workers are awake. @return OUT_OF_MEMORY where the caller's scratch cannot be
 * had: nothing ran. */
md_status md_pool_loop(md_pool *pool, int64_t n_blocks, int64_t grain, size_t scratch_bytes, md_pool_body body,
                       void *context);
/** Queues a job for the background threads (as many as `threads`); runs it at once where none can be made. */
void md_pool_submit(md_pool *pool, md_pool_job job, void *context);
#endif
