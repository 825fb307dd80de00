/* Shapes and choices in words. */
#ifndef MD_DISPATCH_SELECT_DESCRIBE_H
#define MD_DISPATCH_SELECT_DESCRIBE_H

#include "dispatch/types.h"

/** "b=8 n=64" of an op's dynamic dims; "static" where there are none. */
void md_ds_shape_text(char *out, size_t n_bytes, const md_fx_formula *formula, const int64_t *size);
/** "reference" for -1. */
const char *md_ds_variant_name(const md_ds_op *op, int32_t stage, int32_t variant);
/** Marks what was chosen for a shape in the trace of the context, if there is one. Writes a file: not while a stream
 * is captured. */
void md_ds_trace_choice(const md_ds_op *op, const md_ds_shape_entry *entry);

#endif
