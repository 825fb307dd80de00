/* The best of the whole space at one shape: all configs of all families, not only those that some pool has. */
#include "regret/regret.h"

#include <jansson.h>
#include <string.h>

enum { MOST_BUILDS = 100000 };
static const double budget_ms = 30000.0;

typedef struct found {
    char variant[REGRET_NAME];
    bool is_complete;
    int n_configs;
} found;

static int take_line(void *user, const char *text, size_t n_bytes)
{
    found *f = user;
    json_t *line = json_loadb(text, n_bytes, 0, NULL);
    const char *event = json_string_value(json_object_get(line, "event")),
               *variant = json_string_value(json_object_get(line, "variant"));
    if (event && !strcmp(event, "candidate"))
        f->n_configs++;
    if (event && variant && !strcmp(event, "winner")) {
        f->is_complete = f->is_complete && json_is_true(json_object_get(line, "complete"));
        if (json_is_true(json_object_get(line, "best")))
            snprintf(f->variant, sizeof f->variant, "%s", variant);
    }
    json_decref(line);
    return 0;
}

md_status regret_search(regret_result *out, regret_study *study, const char *sizes)
{
    found f = {.is_complete = true};
    char hint[200];
    md_op_options o = study->o->op;
    const md_tune_options tune = {.rigor = MD_TUNE_EXHAUSTIVE,
                                  .budget_ms = study->o->budget > 0.0 ? study->o->budget : budget_ms,
                                  .max_builds = MOST_BUILDS,
                                  .write = take_line,
                                  .user = &f};
    for (int i = 0; i < study->n_rivals; i++)
        study->rival[i].is_wanted = false;
    snprintf(hint, sizeof hint, "(%s)", sizes);
    o.dtype = study->line->dtype;
    o.sizes = study->line->fixed;
    o.hints = hint;
    md_status s = md_tune_formula(study->context, study->line->op, &o, &tune);
    if (s != MD_OK || !f.variant[0])
        return s;
    const bool is_new = regret_find(study, f.variant) < 0;
    s = regret_add_rival(study, study->line, f.variant, -1);
    const int rival = regret_find(study, f.variant);
    if (s != MD_OK || rival < 0)
        return s;
    study->rival[rival].is_outside |= is_new;
    study->rival[rival].is_wanted = true;
    out->is_searched = true;
    out->is_complete = f.is_complete;
    out->n_space = f.n_configs;
    return MD_OK;
}
