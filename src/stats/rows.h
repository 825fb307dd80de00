/* Statistics of the ops and shapes of a context, as plain rows that outlive the ops. */
#ifndef MD_STATS_ROWS_H
#define MD_STATS_ROWS_H

#include "dispatch/hybrid/hybrid.h"
#include "stats/combos.h"
#include "stats/ops.h"
#include "stats/roof.h"

typedef struct md_ss_stage {
    char variant[MD_FA_NAME];
    char runner_up[MD_FA_NAME]; /* "" where there was none */
    const char *source;
    double distance, margin;
    md_tn_shortfall shortfall; /* us 0: the model says nothing */
} md_ss_stage;

typedef struct md_ss_row {
    char op[64];
    char shape[160]; /* "b=8 n=64"; " strided" follows if a tensor was not contiguous */
    int32_t n_stages;
    md_ss_stage *stage; /* n_stages, of the row */
    uint64_t calls;
    double nearest; /* octaves to the nearest hint; -1: not known */
    bool is_uncovered;
    uint64_t age; /* as `age` of md_ss_op */
    bool has_trial; /* MD_SELECT_HYBRID; merged rows keep the last one's */
    md_ds_trial_state trial;
    double time_us; /* of all calls, from the first launch to the end of the last */
    /* calls that were timed. The others count with the mean of those, or with the model's time if none was timed */
    uint64_t n_timed;
} md_ss_row;

typedef struct md_ss_rows {
    int64_t n;
    md_ss_row *row;
    md_ss_ops ops; /* every op, also those that were never called */
    md_ss_combos combos;
    uint64_t age; /* of the op that was retired last */
    int64_t n_bound, n_bound_ops; /* rows and ops that were left when the list was last cut to its limit */
    bool failed; /* memory was short: rows are missing */
    const char *device, *hardware; /* "cuda:0", "NVIDIA H200"; not owned, NULL: not said */
} md_ss_rows; /* a zeroed struct is empty */

/** True if memory was short, so that something is missing. */
static inline bool md_ss_rows_failed(const md_ss_rows *rows)
{
    return rows->failed || rows->ops.failed || rows->combos.failed;
}

void md_ss_rows_finish(md_ss_rows *rows);
/** Appends the op, a row per shape that was called at least once, and one for all shapes that were forgotten. */
void md_ss_rows_add(md_ss_rows *rows, md_ds_op *op);
/* What outlives its op is bounded: the oldest rows of destroyed ops become one row, MD_SS_DESTROYED, which has the sum
 * of what they counted. */
enum { MD_SS_RETIRED_ROWS = 16384, MD_SS_RETIRED_OPS = 16384 };
/** Appends an op that is about to be destroyed. Now and then all rows are merged, and the oldest become one. */
void md_ss_rows_retire(md_ss_rows *rows, md_ds_op *op);
/** Merges rows, and leaves at most so many of ops and of shapes. */
void md_ss_rows_bound(md_ss_rows *rows, int64_t n_ops, int64_t n_rows);
/** Appends copies of other rows. */
void md_ss_rows_append(md_ss_rows *rows, const md_ss_rows *from);
/** Merges rows of one op, shape and choice, and sorts by total time, longest first. */
void md_ss_rows_sort(md_ss_rows *rows);

/** Writes as "table", "json" or "csv"; INVALID_ARGUMENT for another format. */
md_status md_ss_print(md_strbuf *out, const md_ss_rows *rows, const char *format);

#endif
