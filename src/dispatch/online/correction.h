/* What trials of an op saw over what the model said, and at which sizes: evidence about the same variants nearby. Thread-safe. */
#ifndef MD_DISPATCH_ONLINE_CORRECTION_H
#define MD_DISPATCH_ONLINE_CORRECTION_H

#include "dispatch/types.h"

typedef struct md_ds_lessons md_ds_lessons;

md_status md_ds_lessons_create(md_ds_lessons **out);
void md_ds_lessons_destroy(md_ds_lessons **lessons); /* NULL allowed */
/** Takes down that a variant took `ratio` times what the model says at sizes by dim id. Waits for nobody: where another thread is at them, it is lost. */
void md_ds_lessons_add(md_ds_lessons *lessons, const md_ds_op *op, int32_t stage, int32_t variant, const int64_t *by, double ratio);
/** Multiplies the model's times of n variants of the stage by what is to be expected at `by`; negative ones stay. */
void md_ds_lessons_apply(double *us, md_ds_lessons *lessons, const md_ds_op *op, int32_t stage, const int64_t *by, const int32_t *variant, int32_t n);
/** Whether the variant was seen anywhere of late. */
bool md_ds_lessons_know(md_ds_lessons *lessons, int32_t stage, int32_t variant);
/** Another number whenever a lesson was taken down. */
int32_t md_ds_lessons_version(const md_ds_lessons *lessons);

#endif
