/* What each op of a context counted: calls, hits, misses, and samples of its indices. */
#ifndef MD_STATS_OPS_H
#define MD_STATS_OPS_H

#include "dispatch/call/index_sample.h"
#include "dispatch/op.h"

/* A sample of the values of an index tensor (MD_STATS_INDICES). */
typedef struct md_ss_indices {
    char tensor[64];
    int64_t n, seen; /* values in the sample; values that it was drawn from */
    int64_t *value;
} md_ss_indices;

/* Counters of an op. */
enum { MD_SS_MAX_COUNTS = 28 };
typedef struct md_ss_op {
    char name[64];
    char *formula, *hints; /* owned; hints as points */
    bool allows_tf32;
    int32_t n_variants, n_shapes;
    int64_t order; /* place before sorting, while ops are merged */
    uint64_t age; /* of destroyed ops, from 1: the higher, the later; 0: the row of many */
    uint64_t count[MD_SS_MAX_COUNTS]; /* in the order of md_ss_count_name */
    int32_t n_indices;
    md_ss_indices indices[MD_DS_INDEX_TENSORS];
} md_ss_op;
/** Name of counter i: "calls", "misses", ...; NULL beyond the last. */
const char *md_ss_count_name(int32_t i);

typedef struct md_ss_ops {
    int64_t n;
    md_ss_op *op;
    bool failed; /* memory was short: ops are missing or incomplete */
} md_ss_ops; /* a zeroed struct is empty */

void md_ss_ops_finish(md_ss_ops *ops);
/** Appends what an op counted so far. */
void md_ss_ops_add(md_ss_ops *ops, md_ds_op *op);
/** Appends copies of other ops. */
void md_ss_ops_append(md_ss_ops *ops, const md_ss_ops *from);
/** Merges ops of equal name, formula, hints and tf32. The first of each stays where it is. */
void md_ss_ops_merge(md_ss_ops *ops);
#define MD_SS_DESTROYED "destroyed ops" /* the name of the row of many ops, whose formula is "" */
/** Adds the oldest ops to one row, so that at most n rows are left. Merge them before. */
void md_ss_ops_fold(md_ss_ops *ops, int64_t n);

#endif
