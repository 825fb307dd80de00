/* The matrix hint x size of bench table and bench sweep: its columns, and what is printed of it. */
#ifndef MDCTL_TABLE_H
#define MDCTL_TABLE_H

#include "bench/bench.h"

enum { TABLE_SIZES = 128, TABLE_LABEL = 32, TABLE_COLUMNS = TABLE_SIZES + 8, TABLE_POOL = 128, TABLE_VARIANT = 128 };

typedef struct column {
    char label[TABLE_LABEL];
    int hint; /* of "hint h"; 0 */
    md_op *op; /* NULL: "tuned", which has an op for each size */
    int contender; /* of the size at hand; -1: none */
} column;

/* Of time over the least, minus 1. */
typedef struct loss {
    int n;
    double sum, worst;
} loss;

/* A variant of a pool that columns dispatch from, and an op that runs it alone. */
typedef struct pooled {
    char variant[TABLE_VARIANT];
    md_op *op;
} pooled;

typedef struct table {
    bench *b;
    md_dtype dtype;
    int n_sizes, n_columns, n_pooled;
    int64_t size[TABLE_SIZES];
    md_op *tuned[TABLE_SIZES]; /* of sizes not yet timed; NULL */
    column column[TABLE_COLUMNS];
    pooled pool[TABLE_POOL];
    loss all[TABLE_COLUMNS], own[TABLE_COLUMNS]; /* to the fastest of the size, and to that of the column's pool */
} table;

/* True if the column dispatches among several variants. */
bool table_has_pool(const column *c);

/* Prints a line of JSON per column to stdout and to the output of the bench, and adds up what the columns lose. */
void table_print_size(table *t, const bench_case *c, int64_t size);

/* Prints to stderr what each column loses. */
void table_print_summary(const table *t);

#endif
