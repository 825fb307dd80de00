/* What combos did: how often, how long, and how each kind of item was run. Plain values that outlive their combos. */
#ifndef MD_STATS_COMBOS_H
#define MD_STATS_COMBOS_H

#include "base/strbuf.h"
#include "family/family.h"

#include <jansson.h>

enum { MD_SS_COMBO_KINDS = 64, MD_SS_COMBOS = 256 }; /* that are told apart */

/* Items of one part that have equal sizes and were run in one way. */
typedef struct md_ss_combo_kind {
    int32_t part, level; /* level: number of the launch within an item */
    const char *how; /* static: "loop", "one launch", "own launch", "own call" */
    char op[64], shape[160];
    char variant[MD_FA_NAME]; /* or, of calls of their own, why */
    int64_t items;
    uint64_t calls; /* times that some item of it was run in this way */
} md_ss_combo_kind;

typedef struct md_ss_combo {
    uint64_t hash; /* of ops, sizes and strides */
    char ops[128]; /* "adamw*148 + scale*2" */
    int32_t n_parts;
    int64_t n_items, n_empty;
    uint64_t runs, n_timed; /* n_timed: of the runs */
    uint64_t runs_by_calls; /* in which each item was a call, since calls were recorded or the device has no lists */
    double timed_us; /* of the timed runs, on the caller's clock; GPUs: none is timed */
    int32_t n_kinds;
    uint64_t n_more; /* calls of kinds beyond the first 64 */
    md_ss_combo_kind *kind; /* owned; NULL: none yet */
} md_ss_combo;

/* Lists beyond the first 256 are one row, "other lists". */
typedef struct md_ss_combos {
    int64_t n;
    md_ss_combo *combo;
    int32_t n_busy; /* combos that could not be asked, since they were running */
    bool failed; /* memory was short */
} md_ss_combos; /* a zeroed struct is empty */

void md_ss_combos_finish(md_ss_combos *combos);
/** Appends a copy; that of the same list counts into the row that is there. */
void md_ss_combos_add(md_ss_combos *combos, const md_ss_combo *from);
void md_ss_combos_append(md_ss_combos *combos, const md_ss_combos *from);

/** Adds the items and calls of a kind. False: memory was short. */
bool md_ss_combo_count(md_ss_combo *combo, const md_ss_combo_kind *kind);

/** An array; NULL: memory was short. */
json_t *md_ss_combos_json(const md_ss_combos *combos);
/** Lines of that array. A NULL marks `out` as failed. */
void md_ss_combos_print(md_strbuf *out, const json_t *combos);

#endif
