/* Checks and defaults of op options, shared by creation, tuning and hint suggestion. */
#ifndef MD_API_OPERATION_H
#define MD_API_OPERATION_H

#include "api/context.h"

/** Resolves a text: a catalogue name gives its formula and name; any other text is the formula itself, *name NULL. */
md_status md_api_find_formula(const char **formula, const char **name, const char *text);
/** Describes argument i < n_args of a formula. The texts are the formula's. */
void md_api_describe_arg(md_arg_info *out, const md_fx_formula *f, int32_t i);
md_status md_api_check_options(const md_op_options *o);
/** Compile options of an op: formula and kernels, with the context's hints and policy as defaults. */
md_ds_compile_options md_api_compile_options(const md_context *c, const md_op_options *o);

#endif
