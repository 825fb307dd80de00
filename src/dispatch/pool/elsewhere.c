/* Teaches the correction of a stage what installed wisdom knows at other points than the hints. */
#include "dispatch/pool/elsewhere.h"

#include "base/status.h"
#include "dispatch/pool/correct.h"
#include "dispatch/pool/points.h"
#include "tune/tune.h"
#include "tune/wisdom/known_text.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_FAMILIES = 64 };

typedef struct lesson {
    md_ds_pool *c;
    int32_t n_families;
    const md_fa_family *family[MOST_FAMILIES]; /* that were looked at */
    bool is_same[MOST_FAMILIES]; /* its kernels have the text that was measured */
} lesson;

/* One record of a family says it for all. */
static bool is_unchanged(lesson *l, const md_fa_family *family, const md_tn_record *r)
{
    int32_t i = 0;
    while (i < l->n_families && l->family[i] != family)
        i++;
    if (i == l->n_families && i < MOST_FAMILIES) {
        l->family[i] = family;
        l->is_same[i] = md_tn_has_text_of(l->c->policy.wisdom, &l->c->target, r);
        l->n_families++;
    }
    return i < MOST_FAMILIES && l->is_same[i];
}

static void learn(void *user, const md_tn_record *r)
{
    lesson *l = user;
    md_ds_pool *c = l->c;
    int64_t size[MD_FX_MAX_DIMS] = {0};
    if (!md_tn_key_sizes(size, &c->target, r->key) || !(md_ds_work(&c->target, size) <= MD_DS_MOST_WORK))
        return;
    for (int32_t v = 0; v < c->n_variants; v++) {
        const md_bd_variant *variant = c->variant[v];
        if (strcmp(variant->family->name, r->family) != 0)
            continue;
        for (int32_t i = 0; i < r->n_candidates; i++) {
            const md_tn_candidate *t = &r->candidate[i];
            if (t->verdict != MD_TN_TIMED || strcmp(t->name, variant->name) != 0 ||
                !is_unchanged(l, variant->family, r))
                continue;
            const double model_us = md_tn_predict_us(&c->target, variant->family, &variant->config, size);
            const md_tn_clock clock = r->rigor >= MD_TUNE_MEASURE ? MD_TN_CLOCK_TUNING : MD_TN_CLOCK_ESTIMATE;
            md_ds_observe_kept(c, size, &(md_ds_measured){v, clock, t->us, model_us}, r->date);
        }
    }
}

void md_ds_note_elsewhere(md_ds_pool *c)
{
    lesson l = {.c = c};
    char *beginning = NULL;
    if (!c->policy.wisdom || c->policy.tune == MD_TUNE_OFF || md_tn_key_beginning(&beginning, &c->target) != MD_OK)
        return;
    md_tn_wisdom_each_text(c->policy.wisdom, beginning, learn, &l);
    free(beginning);
}
