/* The plans of an op, found by the bytes of a call: slots of plain words, each under a sequence number, so that readers take no lock and write nothing
 * but counters of their own. Slots live as long as the op. The record behind a plan is held (not evicted) as long as the slot is its.
 *
 * In front of them every thread keeps copies of the plans that it used last. */
#ifndef MD_DISPATCH_SLOTS_H
#define MD_DISPATCH_SLOTS_H

#include "dispatch/plan.h"

typedef struct md_ds_slots md_ds_slots;

typedef struct md_ds_counter { /* of one thread, or of all that came late */
    _Atomic uint64_t n;
    _Atomic uint64_t n_flushed; /* of them, added to the record or counted there */
} md_ds_counter;

/* A thread's own copy of a plan. */
typedef struct md_ds_last {
    const _Atomic uint64_t *sequence_of; /* the slot's: the copy is good while it is what it was */
    uint64_t sequence;
    md_ds_counter *counter;
    md_ds_ready ready;
} md_ds_last;

enum { MD_DS_LAST_SETS = 8, MD_DS_LAST_WAYS = 4, MD_DS_SHARDS = 64 };

/* Enough of a copy to tell most others apart, so that looking for one touches no line of those. */
typedef struct md_ds_tag {
    uint64_t serial; /* of the op; 0: empty */
    uint64_t first, last; /* the first tensor's first and last size */
} md_ds_tag;

/* What a thread has in a context; belongs to the context, and goes to another thread when this one ends. */
typedef struct md_ds_thread {
    struct md_ds_thread *next;
    _Atomic bool is_idle;
    int32_t number; /* those below MD_DS_SHARDS - 1 have counters of their own */
    uint32_t turn;
    md_ds_tag tag[MD_DS_LAST_SETS][MD_DS_LAST_WAYS];
    md_ds_last last[MD_DS_LAST_SETS][MD_DS_LAST_WAYS];
} md_ds_thread;

/** The calling thread's; NULL where memory is short. */
md_ds_thread *md_ds_thread_get(md_ds_runtime *runtime);

void md_ds_thread_leave(void *thread); /* the destructor of its key */

/** Room for plans like this one. `older`: what it replaces, since it was too narrow; its slots are emptied, and it lives
 * as long as the new one, because threads may still read it. NULL where memory is short: then there is no warm path. */
md_ds_slots *md_ds_slots_create(int64_t max_records, const md_ds_word *plan, int32_t n_words, md_ds_slots *older);
void md_ds_slots_destroy(md_ds_slots *slots); /* the older ones too */
void md_ds_slots_disown(md_ds_slots *slots); /* destroys one that was never used, and nothing older */
/** Whether there is room for a plan of this length. */
bool md_ds_slots_hold(const md_ds_slots *slots, const md_ds_word *plan, int32_t n_words);
/** The plan of a call among the thread's copies, with the call's data in it; NULL where there is none. */
md_ds_last *md_ds_last_find(md_ds_thread *thread, const md_ds_op *op, const md_arg *args, int32_t n_args);
/** The plan of a call in the slots, copied to the thread's, with the call's data in it; NULL where there is none. */
md_ds_last *md_ds_slots_find(md_ds_slots *slots, md_ds_thread *thread, const md_ds_op *op, const md_ds_warm_call *call);
/** Counts a call; false once in `every` calls, a power of two: that call shall go the long way, where its time is taken. */
bool md_ds_slots_count(const md_ds_last *last, const md_ds_thread *thread, uint32_t every);
/** Puts a plan into a slot, which holds the record from then on; not where the record's way is another meanwhile than the plan was made from. */
void md_ds_slots_publish(md_ds_slots *slots, md_ds_op *op, uint64_t hash, const md_ds_word *plan, int32_t n_words, md_ds_record *record,
                         const md_ds_way *way);
/** Adds what was counted to the records. */
void md_ds_slots_flush(md_ds_slots *slots);
/** Empties the slots of records that have got another way since. */
void md_ds_slots_renew(md_ds_slots *slots, md_ds_op *op);
/** Empties all slots, so that their records can be evicted; false where there were none. */
bool md_ds_slots_drop(md_ds_slots *slots, md_ds_op *op);

#endif
