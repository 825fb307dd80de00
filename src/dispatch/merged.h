/* The op of a formula whose dims are merged (expr/merge_dims.h): it serves calls whose tensors lie contiguously in
 * these dims, in fewer stages. The op itself serves the others. */
#ifndef MD_DISPATCH_MERGED_H
#define MD_DISPATCH_MERGED_H

#include "dispatch/op.h"
#include "expr/merge_dims.h"

/* Arguments of the merged op that lie in the memory of a call's. */
typedef struct md_ds_merged_args {
    md_arg arg[MD_FX_MAX_ARGS];
    md_tensor tensor[MD_FX_MAX_ARGS];
} md_ds_merged_args;

/** Sets `out` to the text of the merged formula; leaves it empty where joining saves no stage and no nest. */
md_status md_ds_merge_text(md_strbuf *out, md_fx_merged_dims *how, const md_ds_compiled *compiled, const char *formula,
                           const md_fx_options *options);
/** The hints of the op for the merged formula: "(i=8,j=64) ...". */
void md_ds_merge_hints(md_strbuf *out, const md_fx_merged_dims *how, const md_ds_space *space);
/** Takes the merged op, whose only owner is `op` from now on. False (it stays the caller's) if its arguments are not
 * those of `op`, or memory is short. */
bool md_ds_merge_op(md_ds_op *op, md_ds_op *merged, const md_fx_merged_dims *how);
/** Ends what md_ds_merge_op made, and returns the merged op; NULL: none. */
md_ds_op *md_ds_unmerge_op(md_ds_op *op);

/** True if the op has a merged op that can serve these arguments. What is wrong with arguments the merged op, or where
 * this is false the op, finds. */
bool md_ds_merged_take(md_ds_merged_args *out, const md_ds_op *op, const md_arg *args, int32_t n_args);
/** The sizes of the merged op's dims, "i=8, j=64", from those of the op by dim id. */
void md_ds_merged_sizes(md_strbuf *out, const md_ds_op *op, const int64_t *size);
/** The merged op; NULL: there is none. */
md_ds_op *md_ds_merged_of(const md_ds_op *op);

#endif
