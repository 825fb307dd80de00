/* Verifies candidates of a search against the reference. */
#ifndef MD_TUNE_VERIFY_VERIFY_H
#define MD_TUNE_VERIFY_VERIFY_H

#include "tune/job/work.h"

/** True if a trial's results are right: all of them on a small shape (once per job), samples at the point. Else sets
 * its verdict. */
bool md_tn_verify(md_tn_work *w, md_tn_tuning_point *tuning_point, int32_t trial);
/** The small shape alone, before a first run. */
bool md_tn_verify_small(md_tn_work *w, md_tn_tuning_point *tuning_point, md_tn_trial *trial);
void md_tn_verify_finish(md_tn_work *w);
void md_tn_verify_leave(md_tn_tuning_point *tuning_point);

#endif
