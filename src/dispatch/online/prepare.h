/* What a trial needs before it can begin: challengers that agree with each other, and their plans. Background threads
 * prepare it. */
#ifndef MD_DISPATCH_ONLINE_PREPARE_H
#define MD_DISPATCH_ONLINE_PREPARE_H

#include "dispatch/bind/bind.h"
#include "dispatch/cache/shape_entry.h"
#include "dispatch/online/trial.h"

/** Queues a job, counted in *n_jobs, that makes the entry's trial. At most one job per entry. */
void md_ds_prepare_trial(_Atomic int32_t *n_jobs, md_ds_op *op, md_ds_shape_entry *entry, const md_ds_bound *bound);
/** Takes challengers in whose library's kernels are loaded by now, and begins to load what would save more than loading
 * costs. The lock of hybrid is held. */
void md_ds_load_challengers(md_ds_op *op, md_ds_trial *trial);
/** Waits until *n_jobs is 0. */
void md_ds_prepare_wait(const _Atomic int32_t *n_jobs);

#endif
