/* Which config a family has at a point: by what is asked and known. */
#include "base/status.h"
#include "tune/search/search.h"
#include "tune/tune.h"

#include <stdlib.h>

static bool fits(const md_fa_target *target, const md_fa_family *family, const md_fa_config *config,
                 const md_kn_shape *shape)
{
    md_kn_envelope envelope = {0};
    if (!family->legal(target, config, shape->size))
        return false;
    family->envelope(&envelope, target, config);
    return !md_kn_envelope_miss(&envelope, shape);
}

/* The wisdom's, if it still is a config of the family that fits. */
static bool recall(md_fa_config *out, double *us, bool *is_measured, md_tn_wisdom *wisdom, const md_fa_target *target,
                   const md_fa_family *family, const md_tn_point *point, const md_kn_shape *shape)
{
    md_tn_record r = {0};
    char *key = NULL;
    const md_fa_family *named = NULL;
    md_fa_config config;
    if (md_tn_key(&key, target, point->size, point->is_ragged) != MD_OK)
        return false;
    bool is_known = md_tn_wisdom_find(&r, wisdom, key, family->name, MD_TUNE_ESTIMATE) == MD_OK && r.count > 0 &&
                    r.us > 0.0 && md_fa_parse_for(&named, &config, target, r.variant) == MD_OK && named == family &&
                    fits(target, family, &config, shape);
    if (is_known) {
        *out = config;
        *us = r.us;
        *is_measured = r.rigor > MD_TUNE_ESTIMATE; /* what was measured on a related device is an estimate here */
    }
    md_tn_record_finish(&r);
    free(key);
    return is_known;
}

md_status md_tn_decide(md_fa_config *out, double *us, bool *is_measured, md_tn_wisdom *wisdom,
                       md_tn_estimates *estimates, md_tune rigor, const md_fa_target *target,
                       const md_fa_family *family, const md_tn_point *point, const md_kn_shape *shape)
{
    bool unused;
    bool *measured = is_measured ? is_measured : &unused;
    *measured = false;
    const md_fa_config usual = md_fa_default(family);
    if (rigor == MD_TUNE_OFF && fits(target, family, &usual, shape)) {
        *out = usual;
        *us = md_tn_predict_us(target, family, &usual, shape->size);
        return MD_OK;
    }
    if (rigor > MD_TUNE_OFF && wisdom && recall(out, us, measured, wisdom, target, family, point, shape))
        return MD_OK;
    return md_tn_estimate(out, us, estimates, target, family, shape);
}
