/* Locks that survive a fork. A child has only the forking thread: a lock held by another thread would stay locked, and
 * work of other threads would never end. So fork waits until all locks are free. In the child all locks are free,
 * conditions are new, and hooks abandon or take over unfinished work. Locks that only GPUs use are not registered: a
 * GPU cannot be used after a fork. */
#ifndef MD_BASE_TASK_FORK_H
#define MD_BASE_TASK_FORK_H
#include <pthread.h>

/* Like pthread_*_init and _destroy, and registered between them. A condition's waits end by CLOCK_MONOTONIC. (If memory
 * is short they are not registered: then a fork is safe only while no other thread holds the lock.) */
void md_mutex_init(pthread_mutex_t *mutex);
void md_mutex_finish(pthread_mutex_t *mutex);
void md_cond_init(pthread_cond_t *cond);
void md_cond_finish(pthread_cond_t *cond);

/** From now on calls in_child(user) in every child, with all locks free, in no order among hooks. Keep it quick: most
 * children only execute another program. One hook a `user`. */
void md_fork_watch(void *user, void (*in_child)(void *user));
void md_fork_leave(void *user);
#endif
