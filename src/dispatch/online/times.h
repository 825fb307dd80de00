/* What follows from the times of a trial. The lock of hybrid is held, except for md_ds_switch. */
#ifndef MD_DISPATCH_ONLINE_TIMES_H
#define MD_DISPATCH_ONLINE_TIMES_H

#include "dispatch/online/state.h"

/** From now on the entry's shape is served with this pick in one stage, whose variant is ready and fits the shape.
 * Calls under way finish as they began. OUT_OF_MEMORY leaves all as it was. */
md_status md_ds_switch(md_ds_op *op, md_ds_shape_entry *entry, const md_kn_shape *shape, int32_t stage,
                       const md_ds_pick *pick);
/** The challenger serves from now on. */
void md_ds_make_incumbent(md_ds_op *op, md_ds_shape_entry *entry, const md_kn_shape *shape, int32_t challenger);
/** Keeps what the trial decided, once. */
void md_ds_keep_verdict(md_ds_op *op, const md_ds_shape_entry *entry);
/** Tells the correction of the model what was measured of a challenger. */
void md_ds_teach_model(struct md_ds_hybrid *hybrid, const md_ds_trial *trial, const md_ds_challenger *challenger);
/** Takes the expected times of a trial from the model again, as corrected by now. */
void md_ds_refresh_trial(struct md_ds_hybrid *hybrid, md_ds_trial *trial);
/** The challenger is out, and the next one is tried. */
void md_ds_drop_challenger(struct md_ds_hybrid *hybrid, md_ds_trial *trial, int32_t challenger);
/** After a round A B B A: drops the challenger, makes it the incumbent, or neither. */
void md_ds_judge_challenger(struct md_ds_hybrid *hybrid, md_ds_shape_entry *entry);
/** Takes the time of a call in us; not positive: the call has none. Times of older generations are dropped. */
void md_ds_record_time(struct md_ds_hybrid *hybrid, md_ds_shape_entry *entry, const md_ds_timing *timing, double us);

#endif
