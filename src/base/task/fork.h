/* What makes a fork safe. A child has only the thread that forked: a lock that another one held would stay held, and
 * whoever waits for another thread's work would wait for ever. So fork waits until all locks are free; in the child
 * they are free, conditions are as new, and what was under way is given up or taken over by hooks. What only GPUs
 * use is not here: they do not follow a fork. */
#ifndef MD_BASE_TASK_FORK_H
#define MD_BASE_TASK_FORK_H
#include <pthread.h>

/* As pthread_*_init and _destroy. All between them is safe in a child. (Where memory is short: only if no other
 * thread holds it at the fork.) */
void md_mutex_init(pthread_mutex_t *mutex);
void md_mutex_finish(pthread_mutex_t *mutex);
void md_cond_init(pthread_cond_t *cond);
void md_cond_finish(pthread_cond_t *cond);

/** Calls in_child(user) in every child from now on, by its only thread: all locks are free, other hooks may have run
 * or not. It is quick, since most children only run another program. One hook a `user`. */
void md_fork_watch(void *user, void (*in_child)(void *user));
void md_fork_leave(void *user);
#endif
