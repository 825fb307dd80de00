/* The orders of sums of products, for the reports of formulas and of calls. */
#ifndef MD_STATS_ORDERS_H
#define MD_STATS_ORDERS_H

#include "base/json.h"
#include "base/strbuf.h"
#include "dispatch/compile/compile.h"

/** A list of objects at sizes (by dim id): sum, of which statement; order; operations; written; largest. */
json_t *md_ss_orders_json(const md_ds_compiled *compiled, const int64_t *size);
/** Lines of that list; none where it is empty. `at` says the sizes; "": they need not be said. */
void md_ss_orders_print(md_strbuf *out, const json_t *orders, const char *at);

#endif
