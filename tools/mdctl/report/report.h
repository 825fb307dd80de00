/* The parts of mdctl report: what was read, and a section for each kind of it. */
#ifndef MDCTL_REPORT_H
#define MDCTL_REPORT_H

#include "report/page.h"

#include <jansson.h>

/* What a line says. */
typedef enum report_kind {
    REPORT_OTHER,
    REPORT_TIME, /* of a contender: bench, the judges */
    REPORT_HINT, /* of a column of the matrix hint x size: bench table, bench sweep */
    REPORT_REGRET,
    REPORT_DEMO,
    REPORT_STATS, /* of a program: MD_STATS */
    REPORT_KINDS
} report_kind;

typedef struct report_line {
    report_kind kind;
    json_t *json;
} report_line;

typedef struct report_input {
    int n, room;
    report_line *line;
    int count[REPORT_KINDS];
    char device[64]; /* "" where no line says it */
} report_input;

/** Adds a file's lines. False after a message: it cannot be read, or its lines are of another device. */
bool report_read(report_input *in, const char *path);
void report_free(report_input *in);
/** A text field, "" where it is missing; a number, 0 where it is missing. */
const char *report_word(const json_t *line, const char *field);
double report_number(const json_t *line, const char *field);
/** Sizes as "64 x 4096", or the text that the line has. */
void report_shape(char out[128], const json_t *line);
/** The family of a variant's name. */
void report_family(char out[64], const char *variant);

/* Each writes nothing where its kind has no lines. */
void report_demo(page *p, const report_input *in);
void report_hints(page *p, const report_input *in);
void report_times(page *p, const report_input *in);
void report_winners(page *p, const report_input *in);
void report_regret(page *p, const report_input *in);
void report_stats(page *p, const report_input *in);

#endif
