/* What trials of an op saw over what the model said, and at which sizes: evidence about the same variants nearby.
 * Thread-safe. */
#ifndef MD_DISPATCH_ONLINE_CORRECTION_H
#define MD_DISPATCH_ONLINE_CORRECTION_H

#include "dispatch/types.h"

typedef struct md_ds_correction md_ds_correction;

md_status md_ds_correction_create(md_ds_correction **out);
void md_ds_correction_destroy(md_ds_correction **correction); /* NULL allowed */
/** Takes down that a variant took `ratio` times what the model says at sizes by dim id. Waits for nobody: where
 * another thread is at them, it is lost. */
void md_ds_correction_add(md_ds_correction *correction, const md_ds_op *op, int32_t stage, int32_t variant,
                          const int64_t *by, double ratio);
/** Multiplies the model's times of n variants of the stage by what is to be expected at `by`; negative ones stay. */
void md_ds_correction_apply(double *us, md_ds_correction *correction, const md_ds_op *op, int32_t stage,
                            const int64_t *by, const int32_t *variant, int32_t n);
/** Whether the variant was seen anywhere of late. */
bool md_ds_correction_know(md_ds_correction *correction, int32_t stage, int32_t variant);
/** Another number whenever a lesson was taken down. */
int32_t md_ds_correction_version(const md_ds_correction *correction);

#endif
