/* Choosing a variant of one stage for one shape. */
#ifndef MD_DISPATCH_SELECT_SELECT_H
#define MD_DISPATCH_SELECT_SELECT_H

#include "dispatch/op.h"
#include "dispatch/select/fit.h"

/** Picks by the op's policy among the variants that fit. NOT_FOUND if none fits; UNSUPPORTED if the pinned one does
 * not. Builds nothing. Thread-safe. */
md_status md_ds_select(md_ds_pick *out, md_ds_op *op, int32_t stage, const md_ds_query *query);

/** True if nothing is left to be measured at the query's shape: every stage has a stored pick, or is pinned. */
bool md_ds_has_stored_picks(md_ds_op *op, const md_ds_query *query);

#endif
