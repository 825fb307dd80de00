/* Explains a choice: all candidates at a shape, the pick, and the trials of hybrid selection. */
#include "stats/explain.h"

#include "base/json.h"
#include "base/plain.h"
#include "base/status.h"
#include "dispatch/online/online.h"
#include "dispatch/pool/grid.h"
#include "dispatch/pool/numeric.h"
#include "dispatch/select/describe.h"
#include "dispatch/select/fit.h"
#include "dispatch/select/fused.h"
#include "dispatch/select/model.h"
#include "dispatch/select/nearest.h"
#include "family/numeric.h"
#include "stats/orders.h"
#include "stats/rows.h"
#include "tune/tune.h"

typedef struct candidate {
    const char *name, *unfit;
    double us, distance; /* octaves to the nearest of its hints; -1: it has none */
    char hint[MD_DS_LABEL]; /* that one; or why it is there */
    uint64_t hints; /* in whose lists it is */
    md_fa_answer answer; /* of a library, if it was asked */
} candidate;

/* What is looked at: sizes to choose by, which are those of the shape unless md_as says others. */
typedef struct view {
    md_ds_op *op;
    const md_kn_shape *shape;
    int64_t sizes[MD_FX_MAX_DIMS];
} view;

typedef struct widths {
    int name, hints;
} widths;

static candidate examine(const view *v, int32_t stage, int32_t i, double us)
{
    const md_ds_op *op = v->op;
    const md_ds_pool *c = &op->stage[stage];
    int64_t on_grid[MD_DS_MAX_DYNAMIC];
    candidate x = {.name = c->variant[i]->name,
                   .unfit = md_ds_reject_reason(c, i, v->shape),
                   .distance = -1.0,
                   .us = us,
                   .hints = md_ds_hints_of(c, i)};
    if (c->variant[i]->family->library_answer)
        x.answer = md_bd_variant_answer(c->variant[i], v->shape);
    const int32_t hint = md_ds_nearest_of(&x.distance, op, x.hints, v->sizes);
    if (c->pinned == i) {
        snprintf(x.hint, sizeof x.hint, "pinned");
    } else if (md_ds_has_grid(op)) { /* all variants are in the list of each hint of the grid */
        x.hints = 0;
        x.distance = md_ds_nearest_on_grid(on_grid, &op->space, op->policy.metric, v->sizes);
        md_ds_point_label(x.hint, &op->space, on_grid);
    } else if (hint >= 0) {
        md_ds_point_label(x.hint, &op->space, op->space.hint[hint]);
        x.hints &= ~(UINT64_C(1) << hint);
    } else {
        snprintf(x.hint, sizeof x.hint, "made for a shape");
    }
    return x;
}

static bool is_slow(const md_ds_op *op, int32_t stage, const md_ds_pick *pick)
{
    return pick->variant < 0 || op->stage[stage].variant[pick->variant]->family->is_last_resort;
}

/* Name of the numeric class that serves the shape; "" without a numeric policy. */
static void numeric_text(char *out, size_t n_out, const md_ds_op *op, int32_t stage, const md_kn_shape *shape)
{
    const md_ds_pool *c = &op->stage[stage];
    uint64_t id = md_ds_numeric_class(c->numeric, shape);
    out[0] = '\0';
    for (int32_t i = 0; i < c->n_variants && c->numeric && !out[0]; i++) {
        md_fa_numeric numeric;
        if (c->variant[i]->numeric_class != id)
            continue;
        md_fa_numeric_of(&numeric, &c->target, c->variant[i]->family, &c->variant[i]->config);
        snprintf(out, n_out, "%s", numeric.name);
    }
}

/* True if the shape is far from square and all hints are: then no hint covers it. */
static bool is_lopsided(const md_ds_op *op, const md_kn_shape *shape)
{
    if (op->policy.select != MD_SELECT_DISTANCE || op->space.n < 2 || md_ds_has_grid(op))
        return false;
    for (int32_t h = 0; h < op->space.n_hints; h++)
        for (int32_t d = 1; d < op->space.n; d++)
            if (op->space.hint[h][d] != op->space.hint[h][0])
                return false;
    int64_t lo = shape->size[op->space.dim[0]], hi = lo;
    for (int32_t d = 1; d < op->space.n; d++) {
        lo = MD_MIN(lo, shape->size[op->space.dim[d]]);
        hi = MD_MAX(hi, shape->size[op->space.dim[d]]);
    }
    return hi > 64 * MD_MAX(lo, 1);
}

/* "i=64 j=64, i=16 j=16": the nearest first. */
static void add_hints(md_strbuf *out, const md_ds_op *op, const candidate *x)
{
    char label[MD_DS_LABEL];
    md_strbuf_add(out, x->hint);
    for (int32_t h = 0; h < op->space.n_hints; h++)
        if (x->hints >> h & 1) {
            md_ds_point_label(label, &op->space, op->space.hint[h]);
            md_strbuf_printf(out, ", %s", label);
        }
}

static void print_candidate(md_strbuf *out, const candidate *x, const char *hints, bool is_picked, widths w)
{
    char distance[24] = "-";
    if (x->distance >= 0)
        md_snprintf(distance, sizeof distance, "%.2f", x->distance);
    md_strbuf_printf(out, "  %s  %-*s  %10.2f  %8s  %-*s  %s\n", is_picked ? "->" : "  ", w.name, x->name, x->us,
                     distance, w.hints, hints, x->unfit ? x->unfit : "yes");
}

/* Once to measure the columns, once to print. */
static void print_candidates(md_strbuf *out, const view *v, int32_t picked, int32_t stage)
{
    double us[MD_DS_MAX_VARIANTS];
    const int32_t n = v->op->stage[stage].n_variants;
    widths w = {9, 9}; /* of the headings */
    md_ds_model_us(us, v->op, stage, v->sizes, n, NULL);
    md_ds_take_answers(us, v->op, stage, v->shape, v->sizes, n);
    for (int32_t i = 0; i < 2 * n; i++) {
        md_strbuf hints = {0};
        const candidate x = examine(v, stage, i % n, us[i % n]);
        add_hints(&hints, v->op, &x);
        out->failed |= hints.failed;
        w.name = MD_MAX(w.name, (int)strlen(x.name));
        w.hints = MD_MAX(w.hints, (int)hints.size);
        if (i == n)
            md_strbuf_printf(out, "      %-*s  %10s  %8s  %-*s  %s\n", w.name, "candidate", "model us", "distance",
                             w.hints, "from hint", "fits");
        if (i >= n)
            print_candidate(out, &x, md_strbuf_text(&hints), i % n == picked, w);
        md_strbuf_finish(&hints);
    }
}

static void print_stage(md_strbuf *out, const view *v, const md_ds_shape_entry *entry, int32_t stage)
{
    const md_ds_op *op = v->op;
    const md_kn_shape *shape = v->shape;
    const md_ds_pick *pick = &md_ds_plan_of(entry)->stage[stage].pick;
    double flops = 0, bytes = 0;
    md_st_work(&flops, &bytes, op->program, stage, shape->size);
    md_strbuf_printf(out, "stage %d: ", stage);
    md_st_describe(out, op->program, stage);
    md_strbuf_printf(out, "; %.4g MFLOP, %.4g MB\n", flops / 1e6, bytes / 1e6);
    char numeric[MD_FA_NUMERIC_NAME];
    numeric_text(numeric, sizeof numeric, op, stage, shape);
    if (op->policy.numeric >= MD_NUMERIC_DETERMINISTIC)
        md_strbuf_printf(out, "  numeric policy %s: class %s serves this shape\n",
                         md_ds_numeric_name(op->policy.numeric), numeric[0] ? numeric : "of what is pinned");
    print_candidates(out, v, pick->variant, stage);
    if (md_ds_plan_of(entry)->stage[stage].is_idle) {
        md_strbuf_add(out, op->program->stage[stage].kind == MD_ST_CHAIN ? "  idle: its parts serve\n"
                                                                         : "  idle: a chain serves\n");
        return;
    }
    md_strbuf_printf(out, "  pick: %s (%s)", md_ds_variant_name(op, stage, pick->variant),
                     pick->source == MD_DS_STORED  ? "measured, stored by an earlier run"
                     : pick->source == MD_DS_GIVEN ? "imported by md_choices_import"
                                                   : md_ds_source_name(pick->source));
    if (pick->source == MD_DS_STORED)
        md_strbuf_printf(out, ", %.2f us", pick->us);
    if (pick->runner_up >= 0)
        md_strbuf_printf(out, ", ahead of %s by %.2f%s", md_ds_variant_name(op, stage, pick->runner_up), pick->margin,
                         pick->source == MD_DS_NEAREST ? " octaves" : " of its time");
    md_strbuf_add(out, "\n");
    if (pick->variant < 0)
        md_strbuf_add(
            out, "  warning: no kernel could be built: the reference evaluator serves, slowly (the log says why)\n");
    else if (is_slow(op, stage, pick))
        md_strbuf_add(out, "  warning: a plain loop nest serves this stage: it is slow; another way to write the "
                           "formula may fit a faster family\n");
    if (is_lopsided(op, shape))
        md_strbuf_add(out,
                      "  note: diagonal hints cannot see lopsided shapes; give hints by dim, or MD_SELECT=model\n");
}

static json_t *text_or_null(const char *text)
{
    return text ? json_string(text) : json_null();
}

static json_t *distance_json(double distance)
{
    return distance >= 0 ? md_json_real(distance) : json_null();
}

/* Like all functions of this file that return JSON, NULL if memory is short. */
static json_t *hints_json(const md_ds_op *op, const candidate *x)
{
    char label[MD_DS_LABEL];
    json_t *list = json_array();
    bool ok = x->distance < 0 || json_array_append_new(list, json_string(x->hint)) == 0;
    for (int32_t h = 0; h < op->space.n_hints && ok; h++)
        if (x->hints >> h & 1) {
            md_ds_point_label(label, &op->space, op->space.hint[h]);
            ok = json_array_append_new(list, json_string(label)) == 0;
        }
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

/* What a library would run; null for own kernels, and if it was not asked. */
static json_t *answer_json(const md_fa_answer *a)
{
    return a->slices > 0 ? json_pack("{s:i, s:[i,i], s:i, s:o}", "algorithm", (int)a->algorithm, "tile", (int)a->rows,
                                     (int)a->columns, "slices", (int)a->slices, "waves", md_json_real(a->waves))
                         : json_null();
}

static json_t *candidate_json(const md_ds_op *op, const candidate *x)
{
    return json_pack("{s:s, s:o, s:s, s:o, s:b, s:o, s:o, s:o}", "variant", x->name, "model_us", md_json_real(x->us),
                     "hint", x->hint, "hints", hints_json(op, x), "fits", x->unfit == NULL, "distance",
                     distance_json(x->distance), "unfit", text_or_null(x->unfit), "answer", answer_json(&x->answer));
}

static json_t *candidates_json(const view *v, int32_t stage)
{
    bool ok = true;
    double us[MD_DS_MAX_VARIANTS];
    const int32_t n = v->op->stage[stage].n_variants;
    json_t *list = json_array();
    md_ds_model_us(us, v->op, stage, v->sizes, n, NULL);
    md_ds_take_answers(us, v->op, stage, v->shape, v->sizes, n);
    for (int32_t i = 0; i < n && ok; i++) {
        const candidate x = examine(v, stage, i, us[i]);
        ok = json_array_append_new(list, candidate_json(v->op, &x)) == 0;
    }
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *stage_json(const view *v, const md_ds_shape_entry *entry, int32_t stage)
{
    const md_ds_op *op = v->op;
    const md_kn_shape *shape = v->shape;
    const md_ds_pick *pick = &md_ds_plan_of(entry)->stage[stage].pick;
    double flops = 0, bytes = 0;
    md_strbuf text = {0};
    char numeric[MD_FA_NUMERIC_NAME];
    numeric_text(numeric, sizeof numeric, op, stage, shape);
    md_st_work(&flops, &bytes, op->program, stage, shape->size);
    md_st_describe(&text, op->program, stage);
    json_t *j =
        json_pack("{s:s, s:o, s:o, s:o, s:s, s:s, s:b, s:o, s:o, s:o, s:s, s:o}", "kind", md_strbuf_text(&text),
                  "flops", md_json_real(flops), "bytes", md_json_real(bytes), "candidates", candidates_json(v, stage),
                  "pick", md_ds_pick_name(op, md_ds_plan_of(entry), stage), "why", md_ds_source_name(pick->source),
                  "slow", is_slow(op, stage, pick), "distance", distance_json(pick->distance), "runner_up",
                  text_or_null(pick->runner_up >= 0 ? md_ds_variant_name(op, stage, pick->runner_up) : NULL), "margin",
                  md_json_real(pick->margin), "numeric", md_ds_numeric_name(op->policy.numeric), "numeric_class",
                  text_or_null(numeric[0] ? numeric : NULL));
    if (text.failed) {
        json_decref(j);
        j = NULL;
    }
    md_strbuf_finish(&text);
    return j;
}

/* ---- MD_SELECT_HYBRID */

static void print_trial(md_strbuf *out, md_ds_op *op, const md_ds_shape_entry *entry)
{
    md_ds_trial_state t;
    if (!md_ds_trial_of(&t, op, entry))
        return;
    md_strbuf_printf(out, "on trial%s: %d others, which served %d calls; %d switches, %d demotions\n",
                     t.is_over ? ", over for now" : "", t.challengers, t.timed, t.switches, t.demotions);
    for (int32_t i = 0; i <= t.challengers; i++) {
        const md_ds_tried *x = &t.of[i];
        md_strbuf_printf(out, "  %-10s %s: expected %.2f",
                         i == 0      ? "serves"
                         : x->is_out ? "out"
                         : x->n      ? "races"
                                     : "waits",
                         md_ds_variant_name(op, t.stage, x->variant), x->expected);
        if (x->n)
            md_strbuf_printf(out, ", took %.2f us (%d times)", x->us, x->n);
        if (x->idle_us > 0.0)
            md_strbuf_printf(out, ", beside calls %.2f us", x->idle_us);
        md_strbuf_add(out, "\n");
    }
}

static json_t *tried_json(md_ds_op *op, const md_ds_trial_state *t, const md_ds_tried *x)
{
    return json_pack("{s:s, s:f, s:o, s:o, s:i, s:b}", "variant", md_ds_variant_name(op, t->stage, x->variant),
                     "expected", x->expected, "us", md_json_real(x->us), "beside_us", md_json_real(x->idle_us), "times",
                     x->n, "out", x->is_out);
}

/* JSON null if the entry has no trial. */
static json_t *trial_json(md_ds_op *op, const md_ds_shape_entry *entry)
{
    md_ds_trial_state t;
    if (!md_ds_trial_of(&t, op, entry))
        return json_null();
    bool ok = true;
    json_t *list = json_array();
    for (int32_t i = 0; i <= t.challengers && ok; i++)
        ok = json_array_append_new(list, tried_json(op, &t, &t.of[i])) == 0;
    if (ok)
        return json_pack("{s:i, s:b, s:b, s:f, s:i, s:i, s:i, s:o}", "stage", t.stage, "over", t.is_over, "raced",
                         t.is_raced, "load", t.load, "timed", t.timed, "switches", t.switches, "demotions", t.demotions,
                         "variants", list);
    json_decref(list);
    return NULL;
}

/* Of ops that keep temporaries in memory between stages. */
static void print_memory(md_strbuf *out, const md_ds_op *op, const md_ds_plan *plan)
{
    bool has_temps = false;
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        has_temps |= op->program->is_temp_stored[t];
    if (has_temps)
        md_strbuf_printf(out,
                         "memory of a call: %zu bytes at its peak for temporaries and workspace, %zu without sharing\n",
                         plan->workspace_bytes, plan->unshared_bytes);
}

static json_t *warnings_json(const md_fx_formula *formula)
{
    bool ok = true;
    json_t *list = json_array();
    for (int32_t i = 0; i < formula->n_warnings && ok; i++)
        ok = json_array_append_new(list, md_json_text(formula->warning[i])) == 0;
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

static void print_json(md_strbuf *out, const view *v, const md_ds_shape_entry *entry)
{
    md_ds_op *op = v->op;
    const md_ds_plan *plan = md_ds_plan_of(entry);
    char label[160];
    bool ok = true;
    json_t *stages = json_array();
    for (int32_t s = 0; s < op->n_stages && ok; s++)
        ok = json_array_append_new(stages, stage_json(v, entry, s)) == 0;
    if (!ok) {
        json_decref(stages);
        out->failed = true;
        return;
    }
    md_ds_shape_text(label, sizeof label, op->formula, v->shape->size);
    md_json_print(out,
                  json_pack("{s:o, s:o, s:s, s:o, s:b, s:I, s:I, s:o, s:o, s:o, s:o}", "op", md_json_text(op->name),
                            "formula", md_json_text(md_strbuf_text(&op->compiled->printed)), "shape", label, "nearest",
                            md_json_real(entry->nearest), "uncovered", entry->is_uncovered, "memory_bytes",
                            (json_int_t)plan->workspace_bytes, "unshared_bytes", (json_int_t)plan->unshared_bytes,
                            "stages", stages, "trial", trial_json(op, entry), "orders",
                            md_ss_orders_json(op->compiled, v->shape->size), "warnings", warnings_json(op->formula)));
}

md_status md_ss_explain(md_strbuf *out, md_ds_op *op, const md_ds_bound *bound, bool json)
{
    md_ds_shape_entry *entry = NULL;
    char label[160];
    view v = {.op = op, .shape = &bound->shape};
    MD_TRY(md_ds_find(&entry, op, NULL, bound));
    md_ds_select_sizes(v.sizes, op, bound->shape.size, &bound->as);
    md_ds_shape_text(label, sizeof label, op->formula, bound->shape.size);
    if (json) {
        print_json(out, &v, entry);
    } else {
        md_strbuf_printf(out, "%s: %s\nat %s, %.2f octaves from the nearest hint%s\n", op->name,
                         md_strbuf_text(&op->compiled->printed), label, entry->nearest,
                         entry->is_uncovered ? ": no hint covers it" : "");
        for (int32_t i = 0; i < op->formula->n_warnings; i++)
            md_strbuf_printf(out, "warning: %s\n", op->formula->warning[i]);
        json_t *orders = md_ss_orders_json(op->compiled, bound->shape.size);
        md_ss_orders_print(out, orders, "");
        json_decref(orders);
        print_memory(out, op, md_ds_plan_of(entry));
        print_trial(out, op, entry);
        for (int32_t s = 0; s < op->n_stages; s++)
            print_stage(out, &v, entry, s);
    }
    md_ds_shape_entry_release(entry);
    return out->failed ? md_fail_memory() : MD_OK;
}
