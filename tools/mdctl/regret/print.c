/* Prints a shape of regret, and sums over the shapes of a line, as JSON lines. */
#include "regret/regret.h"

#include <jansson.h>
#include <string.h>

/* What a mode that learns tried at the shape, from md_explain. */
static int take_trial(void *user, const char *text, size_t n_bytes)
{
    json_t *all = json_loadb(text, n_bytes, 0, NULL), *trial = json_object_get(all, "trial");
    if (json_is_object(trial)) {
        fputs(",\"trial\":", user);
        json_dumpf(trial, user, JSON_COMPACT | JSON_REAL_PRECISION(4));
    }
    json_decref(all);
    return 0;
}

typedef struct printed {
    FILE *file;
    int32_t stage;
} printed;

/* {"variant": something, ...} of a stage's candidates, from the text of md_explain. */
static void print_candidates(const printed *to, const char *text, size_t n_bytes, const char *name, const char *key)
{
    FILE *f = to->file;
    bool is_first = true;
    size_t i;
    json_t *all = json_loadb(text, n_bytes, 0, NULL), *one,
           *list = json_object_get(json_array_get(json_object_get(all, "stages"), (size_t)to->stage), "candidates");
    fprintf(f, ",\"%s\":{", name);
    json_array_foreach(list, i, one)
    {
        const json_t *value = json_object_get(one, key);
        if (!json_is_true(json_object_get(one, "fits")) || json_is_null(value))
            continue;
        fprintf(f, "%s\"%s\":", is_first ? "" : ",", json_string_value(json_object_get(one, "variant")));
        json_dumpf(value, f, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(4));
        is_first = false;
    }
    fputs("}", f);
    json_decref(all);
}

/* us by the model as it stands: corrections and a library's answers are in it. */
static int take_predicted(void *user, const char *text, size_t n_bytes)
{
    print_candidates(user, text, n_bytes, "predicted", "model_us");
    return 0;
}

/* What a library said that it would run. */
static int take_answers(void *user, const char *text, size_t n_bytes)
{
    print_candidates(user, text, n_bytes, "answers", "answer");
    return 0;
}

static void print_mode(FILE *f, const regret_mode *m, const char *sizes)
{
    fprintf(f, ",\"%s\":{\"variant\":\"%s\",\"source\":\"%s\",\"regret\":%.5f,\"own\":%.5f%s", m->name, m->variant,
            m->source, m->regret, m->own_regret, m->has_failed ? ",\"failed\":true" : "");
    if (m->n_calls > 0)
        (void)md_explain(m->op, sizes, 1, take_trial, f);
    fputs("}", f);
}

static void print_space(FILE *f, const regret_study *study, const regret_result *r)
{
    fprintf(f, ",\"space\":{\"best\":\"%s\",\"us\":%.3f,\"configs\":%d,\"complete\":%s", r->space_best, r->space_us,
            r->n_space, r->is_complete ? "true" : "false");
    for (int i = 0; i < study->n_modes; i++)
        fprintf(f, ",\"%s\":%.5f", study->mode[i].name, study->mode[i].space_regret);
    fputs("}", f);
}

/* Variants that were timed after the first sample. */
static void print_rivals(FILE *f, const regret_study *study)
{
    const char *between = "";
    fputs(",\"rivals\":{", f);
    for (int i = 0; i < study->n_rivals; i++) {
        const regret_rival *r = &study->rival[i];
        if (!r->fits || r->half[0].n == 0)
            continue;
        fprintf(f, "%s\"%s\":%.3f", between, r->name,
                0.5 * (timing_quantile(&r->half[0], 0.5) + timing_quantile(&r->half[r->half[1].n > 0], 0.5)));
        between = ",";
    }
    fputs("}", f);
}

void regret_print_shape(regret_study *study, const regret_line *l, const regret_shape *shape, const regret_result *r)
{
    FILE *f = study->output ? study->output : stdout;
    cli_progress(NULL);
    fputs("{\"op\":", f);
    cli_json_text(f, l->op);
    fprintf(f, ",\"dtype\":\"%s\",\"shape\":\"%s\",\"weight\":%g,\"best\":\"%s\",\"best_us\":%.3f,\"timed\":%d",
            md_dtype_name(l->dtype), shape->sizes, shape->weight, r->best, r->best_us, r->n_timed);
    if (l->fixed)
        fprintf(f, ",\"static\":\"%s\"", l->fixed);
    for (int i = 0; i < study->n_modes; i++)
        print_mode(f, &study->mode[i], shape->sizes);
    if (r->is_searched)
        print_space(f, study, r);
    if (study->o->rivals) {
        printed to = {f, study->stage};
        print_rivals(f, study);
        for (int i = 0; i < study->n_modes; i++)
            if (!strcmp(study->mode[i].name, "model"))
                (void)md_explain(study->mode[i].op, shape->sizes, 1, take_predicted, &to);
        (void)md_explain(study->mode[study->n_modes - 1].op, shape->sizes, 1, take_answers, &to);
    }
    fprintf(f, "%s}\n", study->mode[0].is_uncovered ? ",\"uncovered\":true" : "");
}

/* Both outputs get the sums. */
static int outputs(FILE *out[2], const regret_study *study)
{
    out[0] = stdout;
    out[1] = study->output;
    return study->output ? 2 : 1;
}

void regret_print_sum(regret_study *study, const char *what, int n, const regret_mode *m)
{
    FILE *to[2];
    const int n_shapes = m->all.n ? m->all.n : 1, n_outputs = n > 0 ? outputs(to, study) : 0;
    for (int i = 0; i < n_outputs; i++) {
        fputs("{\"sum\":", to[i]);
        cli_json_text(to[i], what);
        fprintf(to[i],
                ",\"mode\":\"%s\",\"shapes\":%d,\"mean\":%.5f,\"own\":%.5f,\"median\":%.5f,\"p90\":%.5f,\"max\":%.5f,"
                "\"by_time\":%.5f,\"within_1\":%.4f,\"within_5\":%.4f,\"choosing_us\":%.1f,\"failed\":%d}\n",
                m->name, n, m->sum / n_shapes, m->own_sum / n_shapes, timing_quantile(&m->all, 0.5),
                timing_quantile(&m->all, 0.9), m->most, m->best_time > 0.0 ? m->time / m->best_time - 1.0 : 0.0,
                (double)m->n_within[0] / n_shapes, (double)m->n_within[1] / n_shapes, m->choosing_sum / n, m->n_failed);
    }
}

void regret_print_space_sum(regret_study *study, const char *what, const regret_mode *m)
{
    FILE *to[2];
    const int n_outputs = study->n_searched > 0 ? outputs(to, study) : 0;
    for (int i = 0; i < n_outputs; i++) {
        fputs("{\"space_sum\":", to[i]);
        cli_json_text(to[i], what);
        fprintf(to[i], ",\"mode\":\"%s\",\"shapes\":%d,\"complete\":%d,\"mean\":%.5f,\"by_time\":%.5f}\n", m->name,
                study->n_searched, study->n_complete, m->space_sum / study->n_searched,
                m->space_best > 0.0 ? m->space_time / m->space_best - 1.0 : 0.0);
    }
}
