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
void report_stats(page *p, const results *in);

#endif
