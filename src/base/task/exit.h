/* What is left to do when the process ends, by exit() or by SIGTERM, and what a signal may ask for before. A signal
 * handler only wakes a thread, which does the work: the interrupted thread may hold any lock. */
#ifndef MD_BASE_TASK_EXIT_H
#define MD_BASE_TASK_EXIT_H
#include <md/md.h>
#include <stdbool.h>

typedef struct md_exit_watch_options {
    void *user;
    void (*run)(void *user); /* from a thread of its own, or from exit(); it must not call functions of this header */
    const char *name; /* copied */
    int signal; /* SIGHUP, SIGUSR1 or SIGUSR2, at which run(user) is called, too; 0: none */
} md_exit_watch_options;

typedef struct md_exit_watched {
    int32_t number; /* this is the how-manieth watch of its name in this process, from 1 on */
    bool hears; /* false: the program does something else at `signal`, which stays so */
} md_exit_watched;

/** From now on calls run(user) at exit(), at SIGTERM, and at `signal`. A signal whose disposition is not the default
 * is left alone. After SIGTERM the process ends by SIGTERM. The library stays loaded until the process ends. In a
 * child after fork only exit() calls it. OUT_OF_MEMORY. */
md_status md_exit_watch(md_exit_watched *out, const md_exit_watch_options *options);
/** Ends a watch, after a run(user) that has begun. */
void md_exit_leave(void *user);

/** From now on dlclose does not unload the library: something of the process calls its functions. */
void md_exit_stay_loaded(void);
#endif
