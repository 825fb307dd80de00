/* The parts of mdctl report: a section for each kind of result. */
#ifndef MDCTL_REPORT_H
#define MDCTL_REPORT_H

#include "common/results.h"
#include "report/page.h"

/* Each writes nothing where its kind has no lines. */
void report_demo(page *p, const results *in);
void report_hints(page *p, const results *in);
void report_times(page *p, const results *in);
void report_winners(page *p, const results *in);
void report_regret(page *p, const results *in);
void report_tables(page *p, const results *in);
void report_timeline(page *p, const results *in);
void report_stats(page *p, const results *in);
/** Whether report_tables has a table for the line. */
bool report_is_row(const json_t *line);
/** What other hints would bring the program of these statistics. */
void report_suggested(page *p, const json_t *stats);

#endif
