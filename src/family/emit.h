/* What families share when they print kernels. A text has the entry point md_kernel, whose parameters are the stage's
 * and then those of the family. */
#ifndef MD_FAMILY_EMIT_H
#define MD_FAMILY_EMIT_H

#include "codegen/row/row.h"
#include "family/family.h"

/** Begins a launch: a text with the stage's parameters. UNSUPPORTED where these are more than a kernel takes. */
md_status md_fa_begin_launch(md_kn_launch_source *out, const md_fa_target *target);

/* Prints one launch. phase: which of the launches, from 1; 0 where there is only one. */
typedef md_status md_fa_emit_launch(md_kn_launch_source *out, const md_fa_target *target, const md_fa_config *config,
                                    int32_t phase);
/** Prints n launches, or nothing where one fails. */
md_status md_fa_emit_launches(md_kn_source *out, const md_fa_target *target, const md_fa_config *config, int32_t n,
                              md_fa_emit_launch *emit);

/** Prints a row program into a template. The parameters are the stage's and `options->extra`. `defines` holds the
 * family's macros, and is finished here. */
md_status md_fa_emit_row(md_kn_launch_source *out, const md_fa_target *target, const md_cg_row_options *options,
                         const char *template_name, md_strbuf *defines);

#endif
