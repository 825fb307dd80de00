/* Kernels of chains for lengths of heads that no hint had. GPUs have a kernel for each depth and number of columns; at
 * the first sight of new ones a background job chooses and builds some, while the chain's parts serve. Thread-safe. */
#ifndef MD_DISPATCH_SELECT_ADOPT_H
#define MD_DISPATCH_SELECT_ADOPT_H

#include "dispatch/op.h"

/* What is known of the lengths, alignment and strides of a shape. */
typedef enum md_ds_sight {
    MD_DS_UNSEEN, /* no job was begun: see md_ds_adopt */
    MD_DS_ADOPTING, /* a job is at it */
    MD_DS_ADOPTED /* the pool has what there is for them; it may be nothing */
} md_ds_sight;

/** What ops with chains keep. `adopted` is called on the job's thread after each job. */
md_status md_ds_adoption_create(struct md_ds_adoption **out, md_ds_op *op, void (*adopted)(md_ds_op *op));
/** Waits for jobs that run, and cancels the others. */
void md_ds_adoption_destroy(struct md_ds_adoption **adoption);

/** What is known of a shape of a stage. Stages that are no chains, or whose kernels serve all lengths, are ADOPTED. */
md_ds_sight md_ds_adoption_of(const md_ds_op *op, int32_t stage, const md_kn_shape *shape);
/** Begins a job for an UNSEEN shape. ADOPTED where there is no room to remember more. */
md_ds_sight md_ds_adopt(md_ds_op *op, int32_t stage, const md_kn_shape *shape);
/** Waits until no job is queued or running. */
void md_ds_adoption_wait(md_ds_op *op);

#endif
