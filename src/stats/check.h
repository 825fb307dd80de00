/* Says what a formula becomes, before anything is compiled. */
#ifndef MD_STATS_CHECK_H
#define MD_STATS_CHECK_H

#include "dispatch/compile/compile.h"

/** Prints dims and where their sizes come from, stages with their families, what is slow and why, and what is checked
 * at run time; as text or as one JSON object. */
md_status md_ss_check(md_strbuf *out, const md_ds_compiled *compiled, bool json);

#endif
