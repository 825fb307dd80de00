/* What policies allow: families, and formulas under a numeric policy. */
#include "dispatch/policy.h"

#include "base/status.h"
#include "expr/node.h"
#include "tune/tune.h"

const char *md_ds_numeric_name(md_numeric policy)
{
    static const char *const name[] = {[MD_NUMERIC_DEFAULT] = "fast",
                                       [MD_NUMERIC_FAST] = "fast",
                                       [MD_NUMERIC_DETERMINISTIC] = "deterministic",
                                       [MD_NUMERIC_BATCH_INVARIANT] = "batch_invariant"};
    return name[policy];
}

static bool reads_tensor(const md_st_store *store)
{
    for (int32_t i = 0; i < store->n_subscripts; i++)
        if (md_fx_has_kind(store->subscript[i], MD_FX_LOAD))
            return true;
    return false;
}

md_status md_ds_numeric_check(const md_st_program *program, md_numeric policy)
{
    for (int32_t s = 0; policy >= MD_NUMERIC_DETERMINISTIC && s < program->n_stages; s++)
        for (int32_t i = 0; i < program->stage[s].n_stores; i++) {
            const md_st_store *store = &program->stage[s].store[i];
            if (store->assign == MD_FX_SET && reads_tensor(store))
                return md_fail(
                    MD_INVALID_ARGUMENT,
                    "numeric policy %s: '%s' is written by '=' at indices that are read, and which of two equal ones "
                    "wins would be left to chance: use 'max=' or 'min=', '+=' onto zeros, or the policy fast",
                    md_ds_numeric_name(policy), program->formula->tensor[store->tensor].name);
        }
    return MD_OK;
}

bool md_ds_family_allowed(const md_fa_family *f, const md_fa_target *target, const md_ds_policy *policy)
{
    if (!md_fa_applies(f, target) || (policy->without_library && f->is_library))
        return false;
    if (!f->is_reduction)
        return true;
    return !(policy->persistent == MD_PERSISTENT_ONLY && !f->is_persistent) &&
           !(policy->persistent == MD_PERSISTENT_NEVER && f->is_persistent && !f->reads_again);
}

bool md_ds_config_allowed(const md_fa_family *f, const md_fa_config *config, const md_fa_target *target,
                          const md_ds_policy *policy)
{
    const bool is_any = !f->is_reduction || policy->persistent < MD_PERSISTENT_ONLY;
    return is_any || md_fa_is_persistent(target, f, config) == (policy->persistent == MD_PERSISTENT_ONLY);
}

typedef struct allowed {
    const md_fa_family *family;
    const md_fa_target *target;
    const md_ds_policy *policy;
} allowed;

static bool is_allowed(void *user, const md_fa_config *config)
{
    const allowed *a = user;
    return md_ds_config_allowed(a->family, config, a->target, a->policy);
}

md_status md_ds_best_allowed(md_fa_config *config, double *us, const md_fa_family *f, const md_fa_target *target,
                             const md_ds_policy *policy, const md_kn_shape *shape)
{
    allowed a = {f, target, policy};
    return md_tn_best_of(config, us, target, f, shape, &(md_tn_filter){is_allowed, &a});
}
