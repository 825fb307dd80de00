/* What takes a process in life, here one after the other: an op of timed.h whose picks are kept in a store. Linking
 * process.c wants timed.c and scratch.c. */
#ifndef MD_TESTS_DISPATCH_PROCESS_H
#define MD_TESTS_DISPATCH_PROCESS_H

#include "dispatch/support/timed.h"
#include "store/scratch.h"
#include "tune/stored/stored.h"

extern scratch *process_disk;
extern md_dev_ops process_ops; /* of the device; a test may add to them */
extern md_dev_clock process_clock; /* for a test that does */

int process_set_up(void **state);
int process_tear_down(void **state);
/** One variant of each family, beta the fastest, and the model wrong about it. */
void process_set_times(void);
md_tn_stored *process_store(const char *root, const char *system, const char *environment);

typedef struct process {
    md_tn_stored *store;
    md_ds_op *op;
} process;

process process_start(md_select select, md_tn_stored *store, int64_t max_shapes);
/** With the store of the scratch folder. */
process process_start_here(md_select select);
void process_end(process *p);
void process_call(process *p, timed_call *c);
/** Why the variant of a shape was picked. */
md_ds_source process_why(process *p, const timed_call *c);

#endif
