/* The one thread pool: loops of blocks in the foreground, jobs (compiles) in the background. */
#ifndef MD_BASE_POOL_H
#define MD_BASE_POOL_H
#include <md/md.h>

typedef struct md_pool md_pool;
/** Runs blocks [first, last). `lane` in [0, threads) tells concurrent bodies of one loop apart; `scratch` is the lane's own. */
typedef void (*md_pool_body)(void *context, int64_t first, int64_t last, int32_t lane);
typedef void (*md_pool_job)(void *context);

/** `threads` >= 1 counts the caller: 1 means that loops run on the calling thread only. */
md_status md_pool_create(md_pool **out, int32_t threads);
void md_pool_destroy(md_pool **pool); /* waits for running and queued jobs */
int32_t md_pool_threads(const md_pool *pool);
/** Runs body over [0, n_blocks) in pieces of `grain` >= 1 blocks taken in turn; the caller takes part; returns when all is
 * done. Thread-safe: concurrent loops share the workers. A loop of one piece runs on the caller at once. */
void md_pool_loop(md_pool *pool, int64_t n_blocks, int64_t grain, md_pool_body body, void *context);
/** Queues a job for the background threads (as many as `threads`); runs it at once where none can be made. */
void md_pool_submit(md_pool *pool, md_pool_job job, void *context);
/** Memory of at least n_bytes, 64-byte aligned, the lane's own until the next loop that asks for more; NULL if short. */
void *md_pool_scratch(md_pool *pool, int32_t lane, size_t n_bytes);
#endif
