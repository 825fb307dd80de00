/* How an op's kernels are chosen: the options of md_op_options and the context, resolved. */
#ifndef MD_DISPATCH_POLICY_H
#define MD_DISPATCH_POLICY_H

#include "base/env.h"
#include "family/family.h"

struct md_tn_counters;
struct md_tn_stored;
struct md_tn_wisdom;

/* Variants of a stage. SPARE of them are kept for shapes that no variant of the hints fits, and of those LAST_RESORTS
 * for families of last resort. */
enum { MD_DS_MAX_VARIANTS = 120, MD_DS_SPARE_VARIANTS = 72, MD_DS_LAST_RESORTS = 4 };

typedef struct md_ds_policy {
    md_select select; /* resolved: never *_DEFAULT */
    md_metric metric;
    md_persistent persistent;
    md_numeric numeric;
    md_env_axes axes; /* 0: auto */
    int32_t max_variants; /* per stage; <= 0: the default */
    bool without_library;
    bool allows_tf32; /* GPUs may round the operands of f32 products to tf32 */
    uint32_t constants; /* bits of the tensors that may be packed once (packed_operand.h) */
    bool has_default_hints; /* no one said where: GPU pools get variants for lopsided shapes, too (points.h) */
    double uncovered; /* octaves to the nearest hint; <= 0: MD_DS_UNCOVERED */
    double hybrid_share, hybrid_cap_ms; /* of GPU time, and in all, that trials may cost; <= 0: the defaults */
    bool idle_tune; /* MD_SELECT_MODEL: the model's best few are timed in quiet moments */
    bool races_cheaply; /* idle_tune without being asked: unnoticed, and picks change once, to equal bits */
    bool agrees; /* what is measured while the program runs serves from the next agreement of ranks on */
    double quiet_us; /* without calls, before hybrid times variants beside them; 0: 200, negative: never */
    const char *pin; /* of the stage: a variant's name; NULL */
    md_tune tune; /* resolved: never *_DEFAULT */
    double tune_budget_ms; /* of the op; 0: the default */
    struct md_tn_wisdom *wisdom; /* of the context; NULL: nothing is measured or remembered */
    struct md_tn_stored *stored; /* of the context; NULL: measured picks last as long as the op */
    struct md_tn_counters *tune_count; /* may be NULL */
} md_ds_policy;

/* Octaves to the nearest hint beyond which a shape counts as not covered. */
#define MD_DS_UNCOVERED 3.0
/* The part of an op's GPU time that trials may cost, and their cost in all. */
#define MD_DS_HYBRID_SHARE 0.0006
#define MD_DS_HYBRID_CAP_MS 1000.0
/* The model errs by less than this part between the best few: a pick that is ahead by more is not doubted. */
#define MD_DS_MODEL_ERROR 0.35
/* policy.races_cheaply: us that a sample takes at most, so that a call that comes meanwhile is hardly delayed. After a
 * long time without calls another call is not to be expected soon: then a sample may take a CALM_PART of that time, and
 * CALM_US at most. */
#define MD_DS_CHEAP_US 30.0
#define MD_DS_CALM_US 1000.0
#define MD_DS_CALM_PART (1.0 / 32)

/** Refuses what the policy cannot serve: a store by `=` that may write one element twice, under `deterministic` or
 * stricter. INVALID_ARGUMENT names the tensor. */
md_status md_ds_numeric_check(const md_st_program *program, md_numeric policy);
const char *md_ds_numeric_name(md_numeric policy);

/** True if the family can serve the stage and the policy allows some of its configs. */
bool md_ds_family_allowed(const md_fa_family *f, const md_fa_target *target, const md_ds_policy *policy);
/** True if the policy allows this config of an allowed family. */
bool md_ds_config_allowed(const md_fa_family *f, const md_fa_config *config, const md_fa_target *target,
                          const md_ds_policy *policy);
/** The best config by the model that the policy allows. NOT_FOUND if none is legal. */
md_status md_ds_best_allowed(md_fa_config *config, double *us, const md_fa_family *f, const md_fa_target *target,
                             const md_ds_policy *policy, const md_kn_shape *shape);

#endif
