/* Measured picks of an op: kept in memory, so that eviction loses none, and in the store, so that later processes do
 * not measure again. With them, the times that the correction of the model was taught. Thread-safe. */
#ifndef MD_DISPATCH_SELECT_STORED_H
#define MD_DISPATCH_SELECT_STORED_H

#include "dispatch/op.h"
#include "dispatch/select/select.h"

/** Reads what the store has of the op (policy.kept; NULL: none). OUT_OF_MEMORY. */
md_status md_ds_stored_create(struct md_ds_stored **out, md_ds_op *op);
/** Writes what is not written yet. NULL in *kept is allowed. */
void md_ds_stored_destroy(struct md_ds_stored **stored);

/** Adds the variants of stored picks that the pools lack: an earlier process added them for its traffic. */
void md_ds_stored_bring(md_ds_op *op);
/* What variants were off by on one chip says what they are off by on another of its architecture, but for so much: the
 * root mean square of what is left between an H100 and an H200 (data/results/model.md). */
#define MD_DS_SIBLING_ERROR 0.11
/** The i-th other chip whose times correct the model of the stage, and how many; NULL: there are no more. */
const char *md_ds_stored_sibling(int32_t *n_times, const md_ds_op *op, int32_t stage, int32_t i);
/** Tells the corrections the stored times of variants that merged the pools since it was called last. */
void md_ds_stored_teach(md_ds_op *op);
/** True if a pick may be found. */
bool md_ds_stored_has_any(const md_ds_op *op);

/** The pick that was measured at the query's shape: MEASURED by this process, else STORED. False if there is none, it
 * was measured under other conditions (driver, compiler, clock), or its variant does not serve the query. */
bool md_ds_stored_find(md_ds_pick *out, md_ds_op *op, int32_t stage, const md_ds_query *query);
/** Remembers a measured pick, and has it written in the background. Unless it serves now, only later processes find it.
 */
void md_ds_stored_put(md_ds_op *op, int32_t stage, md_digest128 shape, const md_ds_pick *pick, bool serves_now);

/** Remembers what was measured to be faster than what serves, where the policy says that picks change at an agreement
 * alone. Of proposals for one shape the one of least time stays. `us` > 0. */
void md_ds_propose(md_ds_op *op, int32_t stage, md_digest128 shape, int32_t variant, double us);
/** The variant that is proposed; -1: none. md_ds_stored_give ends the proposal. */
int32_t md_ds_proposal_of(const md_ds_op *op, int32_t stage, md_digest128 shape);
/** Remembers a pick that was given: it serves whenever it fits, in every mode. It is not written to the store. Returns
 * OUT_OF_MEMORY, also where too many picks are remembered. */
md_status md_ds_stored_give(md_ds_op *op, int32_t stage, md_digest128 shape, int32_t variant);
/** What ops of equal formula, bounds, numeric mode, custom kernels and device have in common: text in one line. */
const char *md_ds_stored_key(const md_ds_op *op);

#endif
