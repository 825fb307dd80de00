/* What the ops of a context did, as plain rows that outlive the ops. */
#ifndef MD_STATS_ROWS_H
#define MD_STATS_ROWS_H

#include "dispatch/online/online.h"
#include "dispatch/call/index_sample.h"
#include "dispatch/types.h"

typedef struct md_ss_stage {
    char variant[MD_FA_NAME];
    char runner_up[MD_FA_NAME]; /* "" where there was none */
    const char *source;
    double distance, margin;
} md_ss_stage;

typedef struct md_ss_row {
    char op[64];
    char shape[160]; /* "b=8 n=64", with " strided" behind where a tensor was not contiguous */
    int32_t n_stages;
    md_ss_stage stage[MD_ST_MAX_STAGES];
    uint64_t calls;
    double nearest; /* octaves to the nearest hint; -1: not known */
    bool is_uncovered;
    bool has_trial; /* MD_SELECT_HYBRID; merged rows keep the last one's */
    md_ds_trial_state trial;
    double time_us; /* of all calls: first launch to the end of the last */
    /* calls that were timed; the others count as much on average, or, where none was, as the model says */
    uint64_t n_timed;
} md_ss_row;

/* Some of what an index tensor held (MD_STATS_INDICES). */
typedef struct md_ss_indices {
    char tensor[64];
    int64_t n, seen; /* values; those that were looked at */
    int64_t *value;
} md_ss_indices;

/* What an op counted. */
enum { MD_SS_MAX_COUNTS = 24 };
typedef struct md_ss_op {
    char name[64];
    char *formula, *hints; /* hints: those of the space, as points */
    int32_t n_variants, n_shapes;
    uint64_t count[MD_SS_MAX_COUNTS]; /* in the order of md_ss_count_name */
    int32_t n_indices;
    md_ss_indices indices[MD_DS_INDEX_TENSORS];
} md_ss_op;
/** "calls", "misses", ...; NULL beyond the last. */
const char *md_ss_count_name(int32_t i);

typedef struct md_ss_rows {
    int64_t n, capacity;
    md_ss_row *row;
    int64_t n_ops, op_capacity;
    md_ss_op *op; /* one an op, also those that were never called */
    bool failed; /* memory was short: rows are missing */
} md_ss_rows; /* a zeroed struct is empty */

void md_ss_rows_finish(md_ss_rows *rows);
/** Appends the op, a row per shape that was called at least once, and one for all shapes that were forgotten. */
void md_ss_rows_add(md_ss_rows *rows, md_ds_op *op);
/** Appends copies of other rows. */
void md_ss_rows_append(md_ss_rows *rows, const md_ss_rows *from);
/** Merges rows of one op, shape and choice, and sorts by total time, longest first. */
void md_ss_rows_sort(md_ss_rows *rows);

/* The part of these that is about ops (ops.c). */
void md_ss_ops_add(md_ss_rows *rows, md_ds_op *op);
void md_ss_ops_append(md_ss_rows *rows, const md_ss_rows *from);
void md_ss_ops_merge(md_ss_rows *rows);
void md_ss_ops_finish(md_ss_rows *rows);

/** Writes as "table", "json" or "csv"; INVALID_ARGUMENT for another format. */
md_status md_ss_print(md_strbuf *out, const md_ss_rows *rows, const char *format);

#endif
