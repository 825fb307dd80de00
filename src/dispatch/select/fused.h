/* A chain or its parts: which of them a plan runs. The others are idle: they have a pick, but no launch. */
#ifndef MD_DISPATCH_SELECT_FUSED_H
#define MD_DISPATCH_SELECT_FUSED_H

#include "dispatch/op.h"
#include "dispatch/select/fit.h"

/** Decides for each chain of a plan whose stages have picks, by their times. `missing`: a bit for each stage that no
 * variant fits, or that has none; those that become idle leave it. */
void md_ds_choose_chains(md_ds_plan *plan, md_ds_op *op, const md_ds_query *query, uint64_t *missing);
/** False where a plan runs both a chain and its parts, or neither. */
bool md_ds_runs_all_once(const md_ds_plan *plan, const md_ds_op *op);
/** The name of a stage's variant for people and files: "idle", "reference". */
const char *md_ds_pick_name(const md_ds_op *op, const md_ds_plan *plan, int32_t stage);

#endif
