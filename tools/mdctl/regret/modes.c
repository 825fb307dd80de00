/* The modes of selection that regret compares: makes their ops and asks them for their choice. */
#include "regret/regret.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct {
    const char *name;
    md_select select;
    int n_calls; /* to learn from, with moments without calls */
    int idle_tune;
} modes[] = {{"distance", MD_SELECT_DISTANCE, 0, -1}, {"model", MD_SELECT_MODEL, 0, -1},
             {"measure", MD_SELECT_MEASURE, 0, -1},   {"hybrid", MD_SELECT_HYBRID, 1000, -1},
             {"idle", MD_SELECT_MODEL, 1000, 1},      {"default", MD_SELECT_DEFAULT, 20, 0}};
enum { N_MODES = sizeof modes / sizeof *modes };
/* Calls to learn from come in bursts, like steps of a server, and then a while without calls. */
enum { BURST = 20, PREPARE_NS = 5000000, PAUSE_NS = 1000000, REST_NS = 200000000 };

static md_status make_mode(regret_study *study, const regret_line *l, const regret_mode *mode, md_select select,
                           const char *hints)
{
    regret_mode *m = &study->mode[study->n_modes];
    md_op_options o = study->o->op;
    o.dtype = l->dtype;
    o.sizes = l->fixed;
    o.select = select;
    o.idle_tune = mode->idle_tune;
    o.hints = hints ? hints : o.hints;
    *m = *mode;
    cli_progress("building %s %s for %s", l->op, md_dtype_name(l->dtype), m->name);
    md_status s = md_op_create(&m->op, study->context, l->op, &o);
    study->n_modes += s == MD_OK;
    return s;
}

static bool is_wanted(const regret_study *study, const char *name)
{
    const char *list = study->o->modes;
    for (size_t n = strlen(name); list && (list = strstr(list, name)); list += n)
        if ((list[n] == 0 || list[n] == ',') && (list == study->o->modes || list[-1] == ','))
            return true;
    return study->o->modes == NULL;
}

static int take_hints(void *user, const char *text, size_t n_bytes)
{
    json_t *found = json_loadb(text, n_bytes, 0, NULL);
    const char *hints = json_string_value(json_object_get(found, "hints"));
    snprintf(user, REGRET_HINTS, "%s", hints ? hints : "");
    json_decref(found);
    return 0;
}

md_status regret_make_hinted(regret_study *study, const regret_line *l, const regret_shape *shape, int n)
{
    enum { HINTS = 16 };
    const regret_mode hinted = {.name = "hinted", .idle_tune = -1};
    if (!l->hints || !is_wanted(study, "hinted"))
        return MD_OK;
    if (strcmp(l->hints, "suggest"))
        return make_mode(study, l, &hinted, MD_SELECT_MODEL, l->hints);
    md_op_options o = study->o->op;
    o.dtype = l->dtype;
    o.sizes = l->fixed;
    md_met_shape *met = calloc((size_t)n, sizeof *met);
    for (int i = 0; met && i < n; i++)
        met[i] = (md_met_shape){shape[i].sizes, shape[i].weight};
    const md_suggest_options suggest = {met, n, HINTS, 1, take_hints, study->hints};
    md_status s = met ? md_hints_suggest(study->context, l->op, &o, &suggest) : MD_OUT_OF_MEMORY;
    free(met);
    return s == MD_OK ? make_mode(study, l, &hinted, MD_SELECT_MODEL, study->hints) : s;
}

md_status regret_make_modes(regret_study *study, const regret_line *l)
{
    md_status s = MD_OK;
    for (int i = 0; i < N_MODES && s == MD_OK; i++)
        if (is_wanted(study, modes[i].name))
            s = make_mode(
                study, l,
                &(regret_mode){.name = modes[i].name, .n_calls = modes[i].n_calls, .idle_tune = modes[i].idle_tune},
                modes[i].select, NULL);
    return s;
}

static md_status serve_calls(regret_study *study, const regret_mode *m)
{
    const regret_set *set = study->set;
    for (int i = 0; i < m->n_calls; i++) {
        const regret_set *x = &set[i % study->n_sets];
        md_status s = i % BURST ? MD_OK : md_sync(study->context, NULL);
        if (i && i % BURST == 0)
            nanosleep(&(struct timespec){.tv_nsec = i == BURST ? PREPARE_NS : PAUSE_NS}, NULL);
        if (s == MD_OK)
            s = md_call(m->op, NULL, x->arg, x->n);
        if (s != MD_OK)
            return s;
    }
    md_status s = md_sync(study->context, NULL);
    nanosleep(&(struct timespec){.tv_nsec = REST_NS}, NULL);
    return s == MD_OK ? md_call(m->op, NULL, set[0].arg, set[0].n) : s; /* it evaluates the last times */
}

md_status regret_ask(regret_study *study, regret_mode *m)
{
    const regret_set *set = study->set;
    md_choice choice;
    md_status s = m->n_calls > 0 ? serve_calls(study, m) : MD_OK;
    if (s != MD_OK)
        return s;
    double start = cli_now_us();
    s = md_choice_of(&choice, m->op, set[0].arg, set[0].n);
    m->choosing_us = cli_now_us() - start;
    if (s == MD_OK) /* libraries load their kernels, as they do in the background where it pays */
        s = md_prepare(m->op, study->shape->sizes);
    if (s == MD_OK)
        s = md_choice_of(&choice, m->op, set[0].arg, set[0].n);
    m->variant[0] = 0;
    if (s == MD_OK)
        regret_name(m->variant, study, &choice);
    m->source = s == MD_OK ? choice.source[study->stage] : "";
    m->pick = regret_find(study, m->variant);
    m->is_uncovered = s == MD_OK && choice.is_uncovered;
    return s;
}
