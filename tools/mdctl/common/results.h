/* Results read again: lines that bench, regret, demo and the judges of tools/ write, and statistics of programs. */
#ifndef MDCTL_RESULTS_H
#define MDCTL_RESULTS_H

#include <jansson.h>
#include <stdbool.h>

/* What a line says. */
typedef enum result_kind {
    RESULT_OTHER,
    RESULT_TIME, /* of a contender: bench, the judges */
    RESULT_HINT, /* of a column of the matrix hint x size: bench table, bench sweep */
    RESULT_REGRET,
    RESULT_DEMO,
    RESULT_STATS, /* of a program: MD_STATS */
    RESULT_EVENT, /* of a timeline: MD_TRACE, profilers */
    RESULT_KINDS
} result_kind;

/* What all lines must agree on, where they say it. */
typedef enum result_fact { RESULT_DEVICE, RESULT_HARDWARE, RESULT_VERSION, RESULT_FACTS } result_fact;

typedef struct result_line {
    result_kind kind;
    json_t *json;
} result_line;

typedef struct results {
    int n, room;
    result_line *line;
    int count[RESULT_KINDS];
    char fact[RESULT_FACTS][64]; /* "" where no line says it */
} results;

/** Adds a file's lines. False after a message: it cannot be read, or its lines are of another device, hardware or
 * version. A line that is no JSON is left out with a message: a run may have ended in the middle. */
bool results_read(results *out, const char *path);
void results_free(results *r);
/** A text field, "" where it is missing; a number, 0 where it is missing. */
const char *result_word(const json_t *line, const char *field);
double result_number(const json_t *line, const char *field);
/** The element type: "bf16", which the judges call torch.bfloat16. */
const char *result_dtype(const json_t *line);
/** Sizes as "64 x 4096", or the text that the line has. */
void result_shape(char out[128], const json_t *line);

#endif
