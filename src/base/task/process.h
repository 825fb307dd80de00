/* Child processes. */
#ifndef MD_BASE_TASK_PROCESS_H
#define MD_BASE_TASK_PROCESS_H
#include <md/md.h>
/** Runs argv[0], found by PATH, and waits for its end. No shell; stdin is empty; stdout and stderr (at most 64 KiB)
 * go to *output (malloc'ed, may be NULL). *exit_code is as in a shell. NOT_FOUND if there is no such program;
 * TIMEOUT if it was killed after limit_ms > 0. `temp`: TMPDIR of the child; NULL: as in this process. The child has
 * the environment of md_env_child_make, no file but its standard ones, and no signal is blocked or ignored. In a
 * privileged process (md_env_is_privileged) it works in "/". Thread-safe. */
md_status md_process_run(int32_t *exit_code, char **output, const char *const *argv, int32_t limit_ms,
                         const char *temp);
#endif
