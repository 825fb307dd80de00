/* Decides which config a family has at a point: its default, what the wisdom knows, or the model's best. */
#include "base/status.h"
#include "tune/search/search.h"
#include "tune/tune.h"

#include <stdlib.h>

static bool fits(const md_tn_query *q, const md_fa_family *family, const md_fa_config *config)
{
    md_kn_envelope envelope = {0};
    if (!md_fa_legal(family, q->target, config, q->shape->size))
        return false;
    md_fa_envelope_of(&envelope, family, q->target, config);
    return !md_kn_envelope_miss(&envelope, q->shape);
}

/* The wisdom's config, if the family still has it and it fits. */
static bool recall(md_tn_decision *out, const md_tn_query *q, const md_fa_family *family)
{
    md_tn_record r = {0};
    char *key = NULL;
    const md_fa_family *named = NULL;
    if (md_tn_key(&key, q->target, q->point->size, q->point->is_ragged) != MD_OK)
        return false;
    const bool is_known = md_tn_wisdom_find(&r, q->wisdom, key, family->name, MD_TUNE_ESTIMATE) == MD_OK &&
                          r.count > 0 && r.us > 0.0 &&
                          md_fa_parse_for(&named, &out->config, q->target, r.variant) == MD_OK && named == family &&
                          fits(q, family, &out->config);
    if (is_known) {
        out->us = r.us;
        out->is_measured = r.rigor > MD_TUNE_ESTIMATE; /* a related device's time is only an estimate here */
    }
    md_tn_record_finish(&r);
    free(key);
    return is_known;
}

md_status md_tn_decide(md_tn_decision *out, const md_tn_query *query, const md_fa_family *family)
{
    const md_fa_config usual = md_fa_default(family);
    if (query->rigor == MD_TUNE_OFF && fits(query, family, &usual)) {
        *out =
            (md_tn_decision){.config = usual, .us = md_tn_form_us(query->target, family, &usual, query->shape->size)};
        return MD_OK;
    }
    if (query->rigor > MD_TUNE_OFF && query->wisdom && recall(out, query, family))
        return MD_OK;
    out->is_measured = false;
    return md_tn_estimate(&out->config, &out->us, query->estimates, query->target, family, query->shape);
}
