/* Says what a formula becomes, before anything is compiled. */
#ifndef MD_STATS_CHECK_H
#define MD_STATS_CHECK_H

#include "base/json.h"
#include "dispatch/compile/compile.h"

/** Dims and where their sizes come from, stages with their families, what is slow and why, and what is checked at run
 * time. NULL: memory is short. */
json_t *md_ss_check_report(const md_ds_compiled *compiled);
/** The text of that report. */
void md_ss_check_print(md_strbuf *out, const json_t *report);

#endif
