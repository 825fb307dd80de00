/* Making threads of the library. */
#ifndef MD_BASE_THREAD_H
#define MD_BASE_THREAD_H
#include <pthread.h>
#include <stdbool.h>
/** A thread that takes no signals (they are the application's) and shows as `name` (15 characters) in debuggers. */
bool md_thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *context);
#endif
