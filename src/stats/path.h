/* The file that MD_STATS names. */
#ifndef MD_STATS_PATH_H
#define MD_STATS_PATH_H

#include <md/md.h>
#include <stdbool.h>

/** True if the pattern names another file in each process: it has a %p. */
bool md_ss_path_has_pid(const char *pattern);
/** Replaces %p by the process id and %% by %. The number-th context (from 1 on) that has this pattern in the process
 * gets a file of its own: number 2 of "a.json" is "a.2.json". Only files are numbered, no terminals, pipes and "-".
 * IO if it is too long. */
md_status md_ss_path(char out[4096], const char *pattern, int32_t number);

#endif
