/* Shapes and choices in words. */
#ifndef MD_DISPATCH_SELECT_DESCRIBE_H
#define MD_DISPATCH_SELECT_DESCRIBE_H

#include "dispatch/op.h"

/** "b=8 n=64": the sizes of the dynamic dims; "static" if there are none. */
void md_ds_shape_text(char *out, size_t n_bytes, const md_fx_formula *formula, const int64_t *size);
/** "reference" for -1. */
const char *md_ds_variant_name(const md_ds_op *op, int32_t stage, int32_t variant);
/** Tells formula, stages and pools of a new op: a line each to the log at level debug, and a file of MD_DUMP. */
void md_ds_tell_op(const md_ds_op *op);
/** Logs a plan's picks in one line, at level debug. `what`: "picked", "now". */
void md_ds_log_choice(const md_ds_op *op, const int64_t *size, const md_ds_plan *plan, const char *what);
/** Logs a plan's picks, and writes them into the context's trace, if there is one. It writes a file, so not while a
 * stream is captured. `size`: by dim id. */
void md_ds_trace_choice(const md_ds_op *op, const int64_t *size, const md_ds_plan *plan);

#endif
