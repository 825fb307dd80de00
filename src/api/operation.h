/* What making an op shares with asking about one that is not made. */
#ifndef MD_API_OPERATION_H
#define MD_API_OPERATION_H

#include "api/context.h"

/** A formula, or the catalogue's by name; *name is NULL for the former. */
md_status md_api_find_formula(const char **formula, const char **name, const char *text);
md_status md_api_check_options(const md_op_options *o);
/** The context's policy where the op's options are silent. */
md_ds_policy md_api_policy_of(const md_context *c, const md_op_options *o);

#endif
