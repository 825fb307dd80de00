/* The one way from the text of a formula to what kernels are chosen for: op creation, tuning and hint suggestion all
 * compile here, so that the stages of one formula with the same options are the same targets, with the same wisdom. */
#ifndef MD_DISPATCH_COMPILE_COMPILE_H
#define MD_DISPATCH_COMPILE_COMPILE_H

#include "dispatch/policy.h"
#include "dispatch/space/space.h"
#include "family/custom/custom.h"

typedef struct md_ds_compile_options {
    md_dtype dtype; /* of data tensors that the formula gives no type; MD_DTYPE_DEFAULT is f32 */
    const char *sizes; /* static dims and ranges: "n=11008, b=1..8192"; may be NULL */
    md_bounds bounds;
    const char *hints, *hints_source, *weights; /* as for md_ds_space_make */
    const char *constant; /* names of inputs that may be packed once, separated by commas; may be NULL */
    md_ds_policy
        policy; /* `pin`, `constants` and `has_default_hints` are ignored: of a stage, of the names, of the hints */
    const md_custom *custom;
    int32_t n_custom;
} md_ds_compile_options;

/* Never changes once it is made; `space` and the targets point into it. */
typedef struct md_ds_compiled {
    const md_dev_facts *facts; /* of the device; the caller's */
    md_fx_formula *formula; /* with the temporaries by which it was split into stages */
    md_strbuf printed; /* the formula in canonical form, without temporaries */
    md_st_orders orders; /* of sums of products of several tensors */
    bool may_join; /* md_fx_may_merge_dims of the formula before it was split */
    md_st_program *program;
    md_fa_customs *customs; /* NULL: none */
    md_ds_space space;
    md_ds_policy policy; /* defaults filled in, pin NULL */
} md_ds_compiled;

/** Formula -> space -> stages -> program -> custom kernels -> policy. `facts` must outlive it; nothing of `options` but
 * the policy's wisdom and counters has to. Fails as md_op_create does for a bad formula or option. */
md_status md_ds_compile(md_ds_compiled **out, const md_dev_facts *facts, const char *formula,
                        const md_ds_compile_options *options);
/** Logs the warnings about the formula, each once a context. */
void md_ds_warn(const md_log *log, const md_ds_compiled *compiled);
/** NULL in *compiled is allowed. */
void md_ds_compiled_destroy(md_ds_compiled **compiled);

/** What kernels of a stage are made for. Valid as long as `compiled` is. */
md_fa_target md_ds_target_of(const md_ds_compiled *compiled, int32_t stage);

#endif
