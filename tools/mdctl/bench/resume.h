/* The sizes that earlier runs of bench sweep have finished. */
#ifndef MDCTL_BENCH_RESUME_H
#define MDCTL_BENCH_RESUME_H

#include <md/md.h>
#include <stdbool.h>
#include <stdio.h>

enum { BENCH_MOST_DONE = 512 };
#define BENCH_LAST_COLUMN "tuned"

typedef struct bench_done_size {
    md_dtype dtype;
    int64_t size;
} bench_done_size;

typedef struct bench_done {
    int n;
    bench_done_size of[BENCH_MOST_DONE];
} bench_done;

/** Opens a file of JSON lines to add to it, and reads which sizes it has. NULL if it cannot be opened. */
FILE *bench_resume(bench_done *out, const char *path);
bool bench_is_done(const bench_done *done, md_dtype dtype, int64_t size);

#endif
