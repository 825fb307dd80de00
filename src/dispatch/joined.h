/* The op of a formula whose dims are joined (expr/join.h): it serves calls whose tensors lie contiguously in these
 * dims, in fewer stages. The op itself serves the others. */
#ifndef MD_DISPATCH_JOINED_H
#define MD_DISPATCH_JOINED_H

#include "dispatch/op.h"
#include "expr/join.h"

/* Arguments of the joined op that lie in the memory of a call's. */
typedef struct md_ds_joined_args {
    md_arg arg[MD_FX_MAX_ARGS];
    md_tensor tensor[MD_FX_MAX_ARGS];
} md_ds_joined_args;

/** Sets `out` to the text of the joined formula; leaves it empty where joining saves no stage and no nest. */
md_status md_ds_join_text(md_strbuf *out, md_fx_joined *how, const md_ds_compiled *compiled, const char *formula,
                          const md_fx_options *options);
/** The hints of the op for the joined formula: "(i=8,j=64) ...". */
void md_ds_join_hints(md_strbuf *out, const md_fx_joined *how, const md_ds_space *space);
/** Takes the joined op, whose only owner is `op` from now on. False (it stays the caller's) if its arguments are not
 * those of `op`, or memory is short. */
bool md_ds_join_op(md_ds_op *op, md_ds_op *joined, const md_fx_joined *how);
/** Ends what md_ds_join_op made, and returns the joined op; NULL: none. */
md_ds_op *md_ds_unjoin_op(md_ds_op *op);

/** True if the op has a joined op that can serve these arguments. What is wrong with arguments the joined op, or where
 * this is false the op, finds. */
bool md_ds_joined_take(md_ds_joined_args *out, const md_ds_op *op, const md_arg *args, int32_t n_args);
/** The sizes of the joined op's dims, "i=8, j=64", from those of the op by dim id. */
void md_ds_joined_sizes(md_strbuf *out, const md_ds_op *op, const int64_t *size);
/** The joined op; NULL: there is none. */
md_ds_op *md_ds_joined_of(const md_ds_op *op);

#endif
