/* What profilers, debuggers and stack traces call a kernel. */
#ifndef MD_FAMILY_KERNEL_NAME_H
#define MD_FAMILY_KERNEL_NAME_H

#include "family/family.h"

/** Emits a variant and gives its kernels, which families call md_kernel, names of their own:
 * "md_row_looped_lanes32_vecs4_rows4_align0_max_exp_sum_f32" is row_looped/lanes32_vecs4_rows4_align0 of a softmax.
 * A launch with a role (md_kn_launch_source) has that in place of the variant, so that variants share it. The launches
 * of a variant are numbered if there are several. Equal variants of equal stages have equal names. Same errors as
 * family->emit. */
md_status md_fa_emit_named(md_kn_source *out, const md_fa_target *target, const md_fa_family *family,
                           const md_fa_config *config);

/** What a stage computes, in at most four words and the dtype of its first result: "max_exp_sum_f32". */
void md_fa_stage_words(char out[MD_KN_ENTRY], const md_fa_target *target);

#endif
