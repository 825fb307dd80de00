/* Recorded times: lines of JSON that bench and the judges of tools/ write, read again. */
#ifndef MDCTL_RECORDED_H
#define MDCTL_RECORDED_H

#include <stdbool.h>
#include <stdio.h>

/* One timed contender at one shape. */
typedef struct recorded_line {
    char op[64], dtype[16], shape[96]; /* shape: "64, 4096" */
    char peer[32]; /* "md": this library */
    char variant[128]; /* "" where it is not said */
    double us, lo, hi; /* median, tenth and ninetieth percentile */
    double bytes; /* moved at least; 0: not said */
    bool is_pick; /* of the lines of this library at a shape: what was picked, the first */
} recorded_line;

typedef struct recorded {
    int n, room;
    recorded_line *line;
    char device[64]; /* of the file's lines; "" where none says it */
    int n_other; /* lines that are no times: other JSON, or cut off */
} recorded;

/** Reads a file. False after a message: it cannot be read, holds no times, or times of two devices. */
bool recorded_read(recorded *out, const char *path);
void recorded_free(recorded *r);
/** What this library picked at the shape of `like`, or NULL. */
const recorded_line *recorded_pick(const recorded *r, const recorded_line *like);

#endif
