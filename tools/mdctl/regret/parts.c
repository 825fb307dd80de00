/* Chains in the study of regret: their variants compete with each other, and with the parts that they fuse. */
#include "regret/regret.h"

#include <jansson.h>
#include <string.h>

void regret_pin(char out[REGRET_NAME], const regret_study *study, const char *name)
{
    if (study->stage > 0 && !strchr(name, ':'))
        snprintf(out, REGRET_NAME, "%d:%s", (int)study->stage, name);
    else
        snprintf(out, REGRET_NAME, "%s", name);
}

/* Adds "1:variant" to a pin. */
static void add_part(char pin[REGRET_NAME], size_t stage, const char *variant)
{
    const size_t n = strlen(pin);
    snprintf(pin + n, REGRET_NAME - n, "%s%zu:%s", n ? "; " : "", stage, variant);
}

void regret_name(char out[REGRET_NAME], const regret_study *study, const md_choice *choice)
{
    const char *variant = choice->variant[study->stage];
    out[0] = 0;
    if (strcmp(variant, "idle"))
        snprintf(out, REGRET_NAME, "%s", variant);
    else
        for (int32_t s = 0; s < study->stage; s++)
            add_part(out, (size_t)s, choice->variant[s]);
}

/* ---- The parts at a shape where the chain was picked, from the text of md_explain */

static const char *fastest(const json_t *stage)
{
    const json_t *one;
    const char *variant = NULL;
    double least = 0.0;
    size_t i;
    json_array_foreach(json_object_get(stage, "candidates"), i, one)
    {
        const double us = json_number_value(json_object_get(one, "model_us"));
        if (!json_is_true(json_object_get(one, "fits")) || (variant && us >= least))
            continue;
        variant = json_string_value(json_object_get(one, "variant"));
        least = us;
    }
    return variant;
}

typedef struct parts {
    int32_t n;
    char pin[REGRET_NAME]; /* "": a part has no kernel that fits */
} parts;

static int take_parts(void *user, const char *text, size_t n_bytes)
{
    parts *p = user;
    json_t *all = json_loadb(text, n_bytes, 0, NULL);
    const json_t *stages = json_object_get(all, "stages");
    for (size_t s = 0; s < (size_t)p->n; s++) {
        const char *variant = fastest(json_array_get(stages, s));
        if (!variant) {
            p->pin[0] = 0;
            break;
        }
        add_part(p->pin, s, variant);
    }
    json_decref(all);
    return 0;
}

md_status regret_add_parts(regret_study *study)
{
    parts p = {.n = study->stage};
    if (study->stage == 0)
        return MD_OK;
    md_status s = md_explain(study->mode[0].op, study->shape->sizes, 1, take_parts, &p);
    for (int m = 0; m < study->n_modes && s == MD_OK && p.pin[0]; m++)
        s = regret_add_rival(study, study->line, p.pin, m);
    return s;
}
