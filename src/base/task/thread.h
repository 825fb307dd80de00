/* Threads of the library. */
#ifndef MD_BASE_TASK_THREAD_H
#define MD_BASE_TASK_THREAD_H
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
/** Starts a thread that blocks all signals, which belong to the application. `name`: at most 15 characters. */
bool md_thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *context);
/** Blocks all signals in the calling thread. Threads that a foreign library starts until md_thread_unblock inherit
 * that, so they never take a signal of the application. `before`: the mask until now. Only around what ends soon: an
 * application with one thread takes its signals after that. */
void md_thread_block(sigset_t *before);
/** Gives the calling thread its mask of `before` back. */
void md_thread_unblock(const sigset_t *before);
/** A compiler is up to four processes at a time. Under a limit of processes, which counts threads too, so many more
 * must have room. */
enum { MD_THREAD_ROOM = 8 };
/** How many of MD_THREAD_ROOM more threads the system would start now. Takes about 100 us. */
int32_t md_thread_count_room(void);
/** Gives the calling thread the default floating-point mode: it has inherited its creator's, which may round otherwise,
 * flush denormals, or trap. */
void md_thread_default_floats(void);
/* The processors that a thread may run on. A thread inherits those of its creator, and applications pin the threads
 * that call this library to one processor each. */
typedef struct md_thread_processors {
    uint64_t mask[16]; /* a cpu_set_t */
    bool is_known; /* false: not Linux, or more processors than the mask has bits */
} md_thread_processors;
/** The processors that the calling thread may run on. */
md_thread_processors md_thread_allowed(void);
/** Lets a thread run on these processors. */
void md_thread_allow(pthread_t thread, const md_thread_processors *processors);
/* Placement. The system's scheduler often leaves a thread on the processor of the thread that woke it, even if others
 * are idle, and then two lanes of a loop share a processor. So workers start spread out, and a worker on its caller's
 * processor moves. The affinity of a thread is restored after the move. */

/** The processor of the calling thread; -1 if unknown. */
int32_t md_thread_cpu(void);
/** Moves the calling thread forward by n allowed processors. */
void md_thread_visit_cpu(int32_t n);
/** Moves the calling thread away from `cpu`, if another processor is allowed. */
void md_thread_leave_cpu(int32_t cpu);
#endif
