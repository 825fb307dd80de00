/* Why a shape gets what it gets. */
#ifndef MD_STATS_EXPLAIN_H
#define MD_STATS_EXPLAIN_H

#include "dispatch/call/slow_call.h"

/** All candidates of all stages at a bound shape, and the pick; as a table or one JSON object. */
md_status md_ss_explain(md_strbuf *out, md_ds_op *op, const md_ds_bound *bound, bool json);

#endif
