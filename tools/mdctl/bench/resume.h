/* What earlier runs of bench have finished: cases of boards, sizes of bench sweep. */
#ifndef MDCTL_BENCH_RESUME_H
#define MDCTL_BENCH_RESUME_H

#include <md/md.h>
#include <stdbool.h>
#include <stdio.h>

enum { BENCH_MOST_DONE = 4096, BENCH_KEY = 320 };
#define BENCH_LAST_COLUMN "tuned" /* of a size of the sweep: written last */
#define BENCH_LAST_PEER "copy" /* of a case of a board */

typedef struct bench_done {
    int n;
    char *key[BENCH_MOST_DONE]; /* owned */
} bench_done;

/** Opens a file of JSON lines to add to it, and reads what it has. NULL if it cannot be opened. */
FILE *bench_resume(bench_done *out, const char *path);
void bench_done_free(bench_done *done);
bool bench_is_done(const bench_done *done, const char *key);
/** What a size of the sweep, and a case of a board, are known by. Sizes are written "b=8, n=64" or "b=8 n=64". */
void bench_key_of_size(char out[BENCH_KEY], md_dtype dtype, int64_t size);
void bench_key_of_case(char out[BENCH_KEY], const char *op, md_dtype dtype, const char *sizes);

#endif
