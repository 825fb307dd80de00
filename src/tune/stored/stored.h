/* What was measured while the program ran, kept in the store: at which shapes which variant was the fastest (picks),
 * and the times of variants (for the correction of the model); of combos also what tuning found (swaps). One entry of
 * the store for each op, or the ops of a combo, and device model, of all drivers and compilers together: each line says
 * where it was measured. */
#ifndef MD_TUNE_STORED_STORED_H
#define MD_TUNE_STORED_STORED_H

#include "base/task/jobs.h"
#include "store/bundle.h"
#include "store/store.h"
#include "tune/model/correction.h"

/* The newest of an op are kept. */
enum { MD_TN_STORED_PICKS = 16384, MD_TN_STORED_TIMES = 1024 /* of a stage */ };

/* Under which conditions something was measured. */
typedef struct md_tn_conditions {
    uint64_t environment; /* digest of device, driver, compiler and library; md_tn_stored_environment */
    int32_t mhz; /* clock of the device's cores; 0: not known */
    int32_t is_throttled; /* heat or power held the clock down */
    int32_t order; /* 0, but in merges: of one second the one that was added last is the newer one */
    int64_t date; /* seconds since 1970, UTC */
} md_tn_conditions;

/* What is stored begins with its conditions. */
typedef struct md_tn_stored_pick {
    md_tn_conditions at;
    md_digest128 shape; /* of the shape key: sizes, strides, alignment */
    int32_t stage;
    double us; /* > 0 */
    char variant[MD_FA_NAME];
} md_tn_stored_pick;

typedef struct md_tn_stored_time {
    md_tn_conditions at;
    int32_t stage, clock; /* md_tn_clock */
    int32_t n_sizes;
    int64_t size[MD_TN_MAX_AXES]; /* of the stage's shape space */
    double us; /* > 0 */
    char variant[MD_FA_NAME];
} md_tn_stored_time;

/* A winner of a combo's tuning: the variant that takes the place of another one (the same: none does). */
typedef struct md_tn_stored_swap {
    md_tn_stored_pick of; /* the combo's list as shape, its time, the variant that gives way */
    int32_t op; /* its number in the combo */
    char to[MD_FA_NAME];
} md_tn_stored_swap;

typedef struct md_tn_stored_list {
    md_tn_stored_pick *pick;
    md_tn_stored_time *time;
    md_tn_stored_swap *swap;
    int32_t n_picks, n_times, n_swaps;
    bool failed; /* memory was short: something is missing */
} md_tn_stored_list; /* a zeroed struct is empty */

void md_tn_stored_list_finish(md_tn_stored_list *list);
void md_tn_stored_add_pick(md_tn_stored_list *list, const md_tn_stored_pick *pick);
void md_tn_stored_add_time(md_tn_stored_list *list, const md_tn_stored_time *time);
void md_tn_stored_add_swap(md_tn_stored_list *list, const md_tn_stored_swap *swap);
/** Adds all of another list. */
void md_tn_stored_add(md_tn_stored_list *list, const md_tn_stored_list *more);
/** Of equal ones (shape, place, variant, environment) the newest stays, and of all the newest. Sorts. */
void md_tn_stored_merge(md_tn_stored_list *list);

/** Appends the text of an entry: a line for each pick, time and swap. */
void md_tn_stored_print(md_strbuf *out, const md_tn_stored_list *list);
/** Adds what a text says. Returns how many lines are bad, with the first of them in `problem`; -1: it is no such text
 * at all. Any bytes may be given, with a 0 behind them. */
int32_t md_tn_stored_read(md_tn_stored_list *list, char problem[200], const char *text, size_t n);

/* ---- The store. Thread-safe, and safe for several processes. */

typedef struct md_tn_stored md_tn_stored; /* NULL finds and keeps nothing */

typedef struct md_tn_stored_options {
    const char *root, *system_path; /* as of md_sr_options */
    const char *environment; /* as of md_sr_options: another one's times are estimates */
    const md_log *log;
    md_sr_bundle *const *bundle; /* [n_bundles]: found there, too */
    int32_t n_bundles;
    _Atomic(md_sr_bundle_maker *) *maker; /* what is loaded or saved goes into it, too; may be NULL */
} md_tn_stored_options;

md_status md_tn_stored_open(md_tn_stored **out, const md_tn_stored_options *options);
/** Waits for queued writes. */
void md_tn_stored_close(md_tn_stored **stored);
uint64_t md_tn_stored_environment(const md_tn_stored *stored);
/** True if something can be written, as far as is known. */
bool md_tn_stored_is_writable(const md_tn_stored *stored);
/** False in a child after fork, which has no thread that writes; and without a store. */
bool md_tn_stored_is_own(const md_tn_stored *stored);
/** Runs a job on the thread that writes. False, and nothing is run, in a child after fork. */
bool md_tn_stored_submit(md_tn_stored *stored, void (*run)(void *user), void *user);
/** All that the user's and the systems' stores have for a key. What cannot be read is named in the log and removed. */
void md_tn_stored_load(md_tn_stored_list *out, md_tn_stored *stored, const char *key);
/** Adds to what the user's store has by now. One process at a time; survives a crash on return. Slow. */
md_status md_tn_stored_save(md_tn_stored *stored, const char *key, const md_tn_stored_list *list);

/* ---- Other chips. Entries are of one chip each; a list of each architecture says which chips there are. */

enum { MD_TN_CHIP_NAME = 64 };
/** Adds a chip to those of its architecture ("sm_90a"). Slow. */
md_status md_tn_stored_note_chip(md_tn_stored *stored, const char *arch, const char *name);
/** The names of the chips of an architecture, at most `most`. Returns how many. */
int32_t md_tn_stored_chips(char (*out)[MD_TN_CHIP_NAME], int32_t most, md_tn_stored *stored, const char *arch);

#endif
