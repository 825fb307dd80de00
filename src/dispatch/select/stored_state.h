/* The measured picks of an op, for the files that implement them. */
#ifndef MD_DISPATCH_SELECT_STORED_STATE_H
#define MD_DISPATCH_SELECT_STORED_STATE_H

#include "dispatch/op.h"
#include "tune/bench/bench.h"

/* A pick in memory, by shape and stage. */
typedef struct md_ds_stored_pick {
    md_tn_stored_pick pick;
    bool is_own; /* this process measured it */
    bool is_new; /* not written yet */
    bool is_for_later; /* only later processes find it */
    bool is_given; /* by md_choices_import: it gives way to nothing else, and is not written */
} md_ds_stored_pick;

/* Another chip of the architecture, and what it took there. */
typedef struct md_ds_sibling {
    char name[MD_TN_CHIP_NAME];
    md_tn_stored_list times;
    int32_t n_taught[MD_ST_MAX_STAGES]; /* times that the correction was told */
} md_ds_sibling;
enum { MD_DS_SIBLINGS = 3 };

struct md_ds_stored {
    md_ds_op *op;
    md_tn_stored *store; /* NULL: in memory only */
    char *key; /* of the store; owned */
    pthread_mutex_t lock; /* of all below, up to n_taught; taken last */
    md_table *picks;
    md_table *proposals; /* md_ds_stored_pick, by the same keys; NULL unless policy.agrees */
    md_tn_stored_list times; /* the times as they were read */
    int32_t n_siblings;
    md_ds_sibling sibling[MD_DS_SIBLINGS];
    bool has_noted_chip; /* the store's list of chips has this one; under lock_of_writes */
    int32_t n_taught[MD_ST_MAX_STAGES]; /* variants that have been told their times */
    int32_t version[MD_ST_MAX_STAGES]; /* of the corrections, as they were written */
    bool is_dirty; /* some pick is new */
    _Atomic int32_t n_picks;
    _Atomic int32_t n_jobs; /* writes that are queued or running: at most one */
    _Atomic bool is_ending;
    pthread_mutex_t lock_of_writes; /* one at a time; taken before `lock` */
};

/** The key in the store: all that a pick depends on, but the shape and the environment. The caller frees it; NULL:
 * memory is short. */
char *md_ds_stored_make_key(const md_ds_op *op, const char *chip);
static inline bool md_ds_stored_is_fact(const struct md_ds_stored *stored, const md_tn_conditions *at)
{
    return md_tn_is_fact(at, stored->store, stored->op->runtime->dev);
}

/** Reads what other chips of the architecture took. Their picks are not taken over. */
void md_ds_stored_load_siblings(struct md_ds_stored *stored);
/** Queues a write, unless one is queued or nothing can be written. */
void md_ds_stored_write_later(struct md_ds_stored *stored);
/** Takes `lock` and the corrections' locks. */
void md_ds_stored_write(struct md_ds_stored *stored);

#endif
