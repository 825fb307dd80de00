/* What making an op shares with asking about one that is not made. */
#ifndef MD_API_OPERATION_H
#define MD_API_OPERATION_H

#include "api/context.h"

/** A formula, or the catalogue's by name; *name is NULL for the former. */
md_status md_api_find_formula(const char **formula, const char **name, const char *text);
md_status md_api_check_options(const md_op_options *o);
/** What the options say of the formula and its kernels; the context's hints and policy where they are silent. */
md_ds_compile_options md_api_compile_options(const md_context *c, const md_op_options *o);

#endif
