#include "base/thread.h"

#include <signal.h>

bool md_thread_start(pthread_t *out, const char *name, void *(*run)(void *), void *context)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool started = pthread_create(out, NULL, run, context) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
#ifdef __linux__
    if (started)
        pthread_setname_np(*out, name);
#else
    (void)name;
#endif
    return started;
}
