/* Explains which variant serves a shape, and why. */
#ifndef MD_STATS_EXPLAIN_H
#define MD_STATS_EXPLAIN_H

#include "dispatch/call/slow_call.h"

/** Prints all candidates of all stages at a bound shape, and the pick, as a table or as one JSON object. */
md_status md_ss_explain(md_strbuf *out, md_ds_op *op, const md_ds_bound *bound, bool json);

#endif
