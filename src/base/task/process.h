/* The process: its end, and what it was started with. */
#ifndef MD_BASE_TASK_PROCESS_H
#define MD_BASE_TASK_PROCESS_H

#include <md/md.h>
#include <stdbool.h>

/* ---- process.c */

/* Child processes. */

/** Runs argv[0], found by PATH, and waits for its end. No shell; stdin is empty; stdout and stderr (at most 64 KiB)
 * go to *output (malloc'ed, may be NULL). *exit_code is as in a shell. NOT_FOUND if there is no such program;
 * TIMEOUT if it was killed after limit_ms > 0. The child has the environment that md_env_child_make makes of
 * `environment` (NULL: this process's, which no other thread may change meanwhile) and `temp`, no file but its
 * standard ones, and no signal is blocked or ignored. In a privileged process (md_env_is_privileged) it works in "/".
 * Thread-safe. */
md_status md_process_run(int32_t *exit_code, char **output, const char *const *argv, int32_t limit_ms,
                         char *const *environment, const char *temp);

/* ---- exit.c */

/* What is left to do when the process ends, by exit() or by SIGTERM, and what a signal may ask for before. A signal
 * handler only wakes a thread, which does the work: the interrupted thread may hold any lock. */

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
