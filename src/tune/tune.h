/* Choosing configs by the cost model, and timing variants against each other. (The measured search: search.h.) */
#ifndef MD_TUNE_TUNE_H
#define MD_TUNE_TUNE_H

#include "build/build.h"

/** Time of a launch sequence by the model, in us, > 0. */
double md_tn_model_us(const md_dev_facts *facts, const md_fa_features *features);
/** What the model's times of the family are multiplied by on the device; 1 where nothing else is known. */
double md_tn_factor_of(const md_dev_facts *facts, const md_fa_family *family);
/** Model time of a config at these sizes (by dim id) by the form of its family's cost, times that factor: what pools
 * are made by. */
double md_tn_form_us(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config,
                     const int64_t *size);
/** The same corrected by the family's trees, which have seen what pools had: what the pick among variants goes by. */
double md_tn_predict_us(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config,
                        const int64_t *size);

/* What a stage's formula needs at some sizes, whatever computes it. */
typedef struct md_tn_need {
    double flops, bytes; /* of each tensor once */
    bool is_product;
    int32_t operand_bytes; /* of a product: of an element of its wider operand */
} md_tn_need;
/* What keeps a config from the roofline. */
typedef struct md_tn_shortfall {
    double us, roof_us; /* the model's time; the least that the device could take for the work */
    bool is_arithmetic; /* the roof is that of arithmetic, not of memory */
    const char *reason; /* a static text: what costs the config most beyond the roof */
    double lost_us; /* what that costs */
} md_tn_shortfall;
/** Mends the features of a config one by one; what saves most by that is the reason. */
md_tn_shortfall md_tn_shortfall_of(const md_dev_facts *facts, const md_fa_features *features, const md_tn_need *need);

/** The legal config of least model time at these sizes whose envelope holds for `shape` (NULL: contiguous, aligned
 * tensors of these sizes); ties to the earlier one. NOT_FOUND where none is legal. `us` may be NULL. */
md_status md_tn_best(md_fa_config *out, double *us, const md_fa_target *target, const md_fa_family *family,
                     const int64_t *size, const md_kn_shape *shape);
/* Which configs are taken into account. */
typedef struct md_tn_filter {
    bool (*accepts)(void *user, const md_fa_config *config);
    void *user;
} md_tn_filter;
/** The same among the configs that the filter accepts (NULL: all). */
md_status md_tn_best_of(md_fa_config *out, double *us, const md_fa_target *target, const md_fa_family *family,
                        const md_kn_shape *shape, const md_tn_filter *filter);
/** A contiguous, 64-byte aligned shape at these sizes: what a hint stands for. at_least axes get what reaches need
 * (or 1). */
void md_tn_shape(md_kn_shape *out, const md_st_program *program, const int64_t *size);

#define MD_TN_HUNG (-2.0)
/** Times READY variants at one call's shape by a tournament, on private copies of inputs and private outputs, so that
 * no user memory changes. us[i]: the median kernel time of a run; negative where it failed, gave no time (zero, NaN) or
 * was not reached. TIMEOUT where one does not end: its us is MD_TN_HUNG, and nothing more is measured on the device.
 * Takes about budget_ms at most. One thread at a time a device. */
md_status md_tn_measure(double *us, md_bd_variant *const *variants, int32_t n, const md_kn_call *call,
                        double budget_ms);

#endif
