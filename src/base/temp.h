/* Temporary folders that do not outlive a killed process for long. */
#ifndef MD_BASE_TEMP_H
#define MD_BASE_TEMP_H

#include <md/md.h>

typedef struct md_temp {
    char path[4096];
    int fd; /* of the folder, locked (flock) while its owner lives; -1: none */
} md_temp;

/* An environment (base/env.h) says what TMPDIR is; NULL: this process's. */

/** IO if TMPDIR is not used, and why: others may replace what is in it. */
md_status md_temp_check(char *const *environment);
/** Makes a private (0700) folder in TMPDIR, or, where that is not set or not used, in /tmp or /var/tmp. IO. */
md_status md_temp_make(md_temp *out, char *const *environment);
/** Removes a folder and the plain files in it. */
void md_temp_remove(md_temp *folder);
/** Removes such folders of this user whose process ended without removing them. */
void md_temp_sweep(char *const *environment);

#endif
