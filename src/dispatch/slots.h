/* The table of plans of an op: slots of plain words, each under a sequence lock, so that readers take no lock and write nothing but their own counters.
 * Its memory lives as long as the op. The records behind plans are held (not evicted) as long as they have a slot. */
#ifndef MD_DISPATCH_SLOTS_H
#define MD_DISPATCH_SLOTS_H

#include "dispatch/plan.h"

typedef struct md_ds_slots md_ds_slots;

/** NULL where memory is short: then there is no warm path. */
md_ds_slots *md_ds_slots_create(int64_t max_records);
void md_ds_slots_destroy(md_ds_slots *slots);
/** Copies the plan of a key; -1 where there is none, else the slot. */
int32_t md_ds_slots_find(md_ds_word out[MD_DS_PLAN_WORDS], md_ds_slots *slots, const md_ds_warm *warm, const md_ds_warm_call *call);
/** Counts a call; false now and then: that call shall go the long way, where its time is taken. */
bool md_ds_slots_count(md_ds_slots *slots, int32_t i, uint32_t shard);
/** Puts a plan into a slot, which holds the record from then on. */
void md_ds_slots_publish(md_ds_slots *slots, md_ds_op *op, uint64_t hash, const md_ds_word *plan, int32_t n_words, md_ds_record *record);
/** Adds what was counted to the records. */
void md_ds_slots_flush(md_ds_slots *slots);
/** Empties all slots, so that their records can be evicted; false where there were none. */
bool md_ds_slots_drop(md_ds_slots *slots, md_ds_op *op);

/** The calling thread's number among those that call, for counters of its own. */
uint32_t md_ds_shard(md_ds_runtime *runtime);

#endif
