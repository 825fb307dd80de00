/* The config of least model time among a family's legal ones. */
#include "tune/tune.h"

#include "base/status.h"

#include <math.h>

typedef struct search {
    const md_fa_target *target;
    const md_fa_family *family;
    const md_kn_shape *shape;
    md_fa_config best;
    double us;
    const char *miss; /* why the last config was refused */
    const md_tn_filter *filter;
} search;

static bool consider(void *user, const md_fa_config *config)
{
    search *s = user;
    md_kn_envelope envelope = {0};
    md_fa_envelope_of(&envelope, s->family, s->target, config);
    const char *miss = md_kn_envelope_miss(&envelope, s->shape);
    if (miss) {
        s->miss = miss;
        return true;
    }
    if (s->filter && !s->filter->accepts(s->filter->user, config)) {
        s->miss = "none of the wanted kind";
        return true;
    }
    double us = md_tn_form_us(s->target, s->family, config, s->shape->size);
    if (us < s->us) {
        s->us = us;
        s->best = *config;
    }
    return true;
}

md_status md_tn_best_of(md_fa_config *out, double *us, const md_fa_target *target, const md_fa_family *family,
                        const md_kn_shape *shape, const md_tn_filter *filter)
{
    search s = {.target = target, .family = family, .shape = shape, .us = INFINITY, .filter = filter};
    md_fa_each(target, family, shape->size, consider, &s);
    if (!isfinite(s.us))
        return md_fail(MD_NOT_FOUND, "family '%s' has no legal config here%s%s", family->name, s.miss ? ": " : "",
                       s.miss ? s.miss : "");
    *out = s.best;
    if (us)
        *us = s.us;
    return MD_OK;
}

md_status md_tn_best(md_fa_config *out, double *us, const md_fa_target *target, const md_fa_family *family,
                     const int64_t *size, const md_kn_shape *shape)
{
    md_kn_shape made;
    if (!shape) {
        md_tn_shape(&made, target->program, size);
        shape = &made;
    }
    return md_tn_best_of(out, us, target, family, shape, NULL);
}
