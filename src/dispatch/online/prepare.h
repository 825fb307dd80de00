/* What a trial needs before it can begin: who competes, checked against each other. Done by the pool's background
 * threads. */
#ifndef MD_DISPATCH_ONLINE_PREPARE_H
#define MD_DISPATCH_ONLINE_PREPARE_H

#include "dispatch/bind/bind.h"
#include "dispatch/cache/shape_entry.h"
#include "dispatch/online/trial.h"

/** Queues a job, counted in *n_jobs, that makes the record's trial; once a record. */
void md_ds_prepare_trial(_Atomic int32_t *n_jobs, md_ds_op *op, md_ds_shape_entry *entry, const md_ds_bound *bound);
void md_ds_prepare_wait(const _Atomic int32_t *n_jobs);

#endif
