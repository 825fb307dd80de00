/* Making threads of the library. */
#ifndef MD_BASE_TASK_THREAD_H
#define MD_BASE_TASK_THREAD_H
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
/** A thread that takes no signals (they are the application's) and shows as `name` (15 characters) in debuggers. */
bool md_thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *context);
/* Where threads run. The system's scheduler leaves a thread that sleeps often on its waker's processor, however idle
 * the others are, and two lanes of a loop on one processor take turns. So workers start spread out, and one that
 * finds itself beside its caller moves. Nothing is bound for longer than the move takes, and the allowed processors
 * stay as they are. */

/** The processor that the calling thread is on; -1 where unknown. */
int32_t md_thread_cpu(void);
/** Moves the calling thread `n` allowed processors on. */
void md_thread_visit_cpu(int32_t n);
/** Moves the calling thread to any allowed processor but `cpu`, if there is another. */
void md_thread_leave_cpu(int32_t cpu);
#endif
