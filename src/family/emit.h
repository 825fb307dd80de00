/* Parts of printing a kernel that all families share. Every text has the entry point md_kernel. Its parameters are the
 * stage's, then the family's own. */
#ifndef MD_FAMILY_EMIT_H
#define MD_FAMILY_EMIT_H

#include "codegen/row/row.h"
#include "family/family.h"

/** Begins a launch: its text will take the stage's parameters. UNSUPPORTED if these are more than a kernel can take. */
md_status md_fa_begin_launch(md_kn_launch_source *out, const md_fa_target *target);

/* Prints one launch. phase: its number, from 1; 0 if it is the only one. */
typedef md_status md_fa_emit_launch(md_kn_launch_source *out, const md_fa_target *target, const md_fa_config *config,
                                    int32_t phase);
/** Prints n launches, or none if one fails. */
md_status md_fa_emit_launches(md_kn_source *out, const md_fa_target *target, const md_fa_config *config, int32_t n,
                              md_fa_emit_launch *emit);

/** Ends a launch: its text is the template with `defines` and `expr`, which are freed here. Returns `status` if that is
 * an error, and then prints nothing. */
md_status md_fa_end_launch(md_status status, md_kn_launch_source *out, md_dev_kind device, const char *template_name,
                           md_strbuf *defines, md_strbuf *expr);

/** Prints a row program into a template. The parameters are the stage's and options->extra. `defines` holds the
 * family's macros; it is freed here. */
md_status md_fa_emit_row(md_kn_launch_source *out, const md_fa_target *target, const md_cg_row_options *options,
                         const char *template_name, md_strbuf *defines);

/* A macro of a template: MD_NAME value. */
typedef struct md_fa_define {
    const char *name;
    int64_t value;
} md_fa_define;

void md_fa_print_defines(md_strbuf *out, const md_fa_define *define, int32_t n);

#endif
