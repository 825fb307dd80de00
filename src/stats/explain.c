/* Explains a choice, as JSON: all candidates at a shape, the pick, and the trials of hybrid selection. */
#include "stats/report.h"

#include "base/json.h"
#include "base/status.h"
#include "dispatch/hybrid/hybrid.h"
#include "dispatch/space/space.h"
#include "dispatch/numeric/numeric.h"
#include "dispatch/select/select.h"
#include "dispatch/select/stored.h"
#include "family/additions.h"
#include "family/numeric.h"
#include "stats/roof.h"
#include "tune/tune.h"

typedef struct candidate {
    const char *name, *unfit;
    double factor; /* of the family's times, by calibration; 1: none */
    double us, distance; /* octaves to the nearest of its hints; -1: it has none */
    char hint[MD_DS_LABEL]; /* label of the nearest hint; or why the variant is in the pool */
    uint64_t hints; /* the hints in whose lists it is */
    md_fa_answer answer; /* what the library answered, if it was asked */
} candidate;

/* What is looked at: sizes to choose by, which are those of the shape unless md_as says others. */
typedef struct view {
    md_ds_op *op;
    const md_kn_shape *shape;
    int64_t sizes[MD_FX_MAX_DIMS];
} view;

static candidate examine(const view *v, int32_t stage, int32_t i, double us)
{
    const md_ds_op *op = v->op;
    const md_ds_pool *pool = &op->stage[stage];
    int64_t on_grid[MD_DS_MAX_DYNAMIC];
    candidate c = {.name = pool->variant[i]->name,
                   .unfit = md_ds_reject_reason(pool, i, v->shape),
                   .distance = -1.0,
                   .us = us,
                   .factor = md_tn_factor_of(pool->target.facts, pool->variant[i]->family),
                   .hints = md_ds_hints_of(pool, i)};
    if (pool->variant[i]->family->library_answer)
        c.answer = md_bd_variant_answer(pool->variant[i], v->shape);
    const int32_t hint = md_ds_nearest_of(&c.distance, op, c.hints, v->sizes);
    if (pool->pinned == i) {
        snprintf(c.hint, sizeof c.hint, "pinned");
    } else if (md_ds_has_grid(op)) { /* all variants are in the list of each hint of the grid */
        c.hints = 0;
        c.distance = md_ds_nearest_on_grid(on_grid, &op->space, op->policy.metric, v->sizes);
        md_ds_point_label(c.hint, &op->space, on_grid);
    } else if (hint >= 0) {
        md_ds_point_label(c.hint, &op->space, op->space.hint[hint]);
        c.hints &= ~(UINT64_C(1) << hint);
    } else {
        snprintf(c.hint, sizeof c.hint, "made for a shape");
    }
    return c;
}

static bool is_slow(const md_ds_op *op, int32_t stage, const md_ds_pick *pick)
{
    return pick->variant < 0 || op->stage[stage].variant[pick->variant]->family->is_last_resort;
}

/* Name of the numeric class that serves the shape; "" without a numeric policy. */
static void numeric_text(char *out, size_t n_out, const md_ds_op *op, int32_t stage, const md_kn_shape *shape)
{
    const md_ds_pool *pool = &op->stage[stage];
    uint64_t id = md_ds_numeric_class(pool->numeric, shape);
    out[0] = '\0';
    for (int32_t i = 0; i < pool->n_variants && pool->numeric && !out[0]; i++) {
        md_fa_numeric numeric;
        if (pool->variant[i]->numeric_class != id)
            continue;
        md_fa_numeric_of(&numeric, &pool->target, pool->variant[i]->family, &pool->variant[i]->config);
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

static json_t *distance_json(double distance)
{
    return distance >= 0 ? md_json_real(distance) : json_null();
}

/* Like all functions of this file that return JSON, NULL if memory is short. */
static json_t *hints_json(const md_ds_op *op, const candidate *c)
{
    char label[MD_DS_LABEL];
    json_t *list = json_array();
    if (c->distance >= 0)
        list = md_json_add(list, json_string(c->hint));
    for (int32_t h = 0; h < op->space.n_hints; h++)
        if (c->hints >> h & 1) {
            md_ds_point_label(label, &op->space, op->space.hint[h]);
            list = md_json_add(list, json_string(label));
        }
    return list;
}

/* What a library would run; null for own kernels, and if it was not asked. */
static json_t *answer_json(const md_fa_answer *a)
{
    return a->slices > 0 ? json_pack("{s:i, s:[i,i], s:i, s:o}", "algorithm", (int)a->algorithm, "tile", (int)a->rows,
                                     (int)a->columns, "slices", (int)a->slices, "waves", md_json_real(a->waves))
                         : json_null();
}

static json_t *candidate_json(const md_ds_op *op, const candidate *c)
{
    return json_pack("{s:s, s:o, s:o, s:s, s:o, s:b, s:o, s:o, s:o}", "variant", c->name, "model_us",
                     md_json_real(c->us), "factor", md_json_real(c->factor), "hint", c->hint, "hints",
                     hints_json(op, c), "fits", !c->unfit, "distance", distance_json(c->distance), "unfit",
                     md_json_text_or_null(c->unfit), "answer", answer_json(&c->answer));
}

static json_t *candidates_json(const view *v, int32_t stage)
{
    double us[MD_DS_MAX_VARIANTS];
    const int32_t n = v->op->stage[stage].n_variants;
    json_t *list = json_array();
    md_ds_model_us(us, v->op, stage, v->sizes, n, NULL);
    md_ds_take_answers(us, v->op, stage, v->shape, v->sizes, n);
    for (int32_t i = 0; i < n; i++) {
        const candidate c = examine(v, stage, i, us[i]);
        list = md_json_add(list, candidate_json(v->op, &c));
    }
    return list;
}

/* What the pick decides by itself, on the device; JSON null if nothing. */
static json_t *decides_json(const md_ds_op *op, int32_t stage, const md_ds_pick *pick)
{
    const md_bd_variant *v = pick->variant >= 0 ? op->stage[stage].variant[pick->variant] : NULL;
    md_strbuf text = {0};
    if (v && v->family->describe)
        v->family->describe(&text, &op->stage[stage].target, &v->config);
    json_t *line = text.failed ? NULL : text.size > 0 ? json_string(md_strbuf_text(&text)) : json_null();
    md_strbuf_finish(&text);
    return line;
}

static json_t *pick_json(const md_ds_op *op, const md_ds_plan *plan, int32_t stage)
{
    const md_ds_pick *pick = &plan->stage[stage].pick;
    return json_pack(
        "{s:s, s:o, s:s, s:b, s:o, s:o, s:o, s:o, s:s}", "pick", md_ds_pick_name(op, plan, stage), "decides",
        decides_json(op, stage, pick), "why", md_ds_source_name(pick->source), "slow", is_slow(op, stage, pick), "us",
        pick->source == MD_DS_STORED ? md_json_real(pick->us) : json_null(), "distance", distance_json(pick->distance),
        "runner_up", md_json_text_or_null(pick->runner_up >= 0 ? md_ds_variant_name(op, stage, pick->runner_up) : NULL),
        "margin", md_json_real(pick->margin), "margin_unit", pick->source == MD_DS_NEAREST ? "octaves" : "time");
}

/* How near the pick is to the roofline. */
static json_t *roof_json(const view *v, const md_ds_plan *plan, int32_t stage)
{
    const md_tn_shortfall shortfall = md_ss_shortfall(v->op, plan, stage, v->shape->size);
    return md_ss_roof_json(&shortfall);
}

/* Whether a stage or its parts serve, and why; JSON null for stages without parts. */
static json_t *fused_json(const view *v, const md_ds_plan *plan, int32_t stage)
{
    md_strbuf text = {0};
    if (v->op->program->stage[stage].n_parts == 0)
        return json_null();
    md_ds_print_fused(&text, v->op, plan, stage, v->shape, v->sizes);
    json_t *line = text.failed ? NULL : json_string(md_strbuf_text(&text));
    md_strbuf_finish(&text);
    return line;
}

/* Other chips whose measured times correct the model. */
static json_t *siblings_json(const md_ds_op *op, int32_t stage)
{
    json_t *list = json_array();
    const char *name;
    int32_t n = 0;
    for (int32_t i = 0; (name = md_ds_stored_sibling(&n, op, stage, i)) != NULL; i++)
        (void)json_array_append_new(list, json_pack("{s:o, s:i, s:f}", "chip", md_json_text(name), "times", (int)n,
                                                    "expected_error", MD_DS_SIBLING_ERROR));
    return list;
}

static json_t *stage_json(const view *v, const md_ds_shape_entry *entry, int32_t stage)
{
    const md_ds_op *op = v->op;
    double flops = 0, bytes = 0;
    md_strbuf text = {0};
    char numeric[MD_FA_NUMERIC_NAME];
    numeric_text(numeric, sizeof numeric, op, stage, v->shape);
    md_st_work(&flops, &bytes, op->program, stage, v->shape->size);
    md_st_describe(&text, op->program, stage);
    json_t *kind = text.failed ? NULL : json_string(md_strbuf_text(&text));
    md_strbuf_finish(&text);
    return md_json_merge(json_pack("{s:o, s:o, s:o, s:o, s:o, s:b, s:s, s:o, s:o, s:o, s:o}", "kind", kind, "flops",
                                   md_json_real(flops), "bytes", md_json_real(bytes), "additions",
                                   md_json_real(md_fa_additions(&op->stage[stage].target, v->shape->size)),
                                   "candidates", candidates_json(v, stage), "lopsided", is_lopsided(op, v->shape),
                                   "numeric", md_ds_numeric_name(op->policy.numeric), "numeric_class",
                                   md_json_text_or_null(numeric[0] ? numeric : NULL), "fused",
                                   fused_json(v, md_ds_plan_of(entry), stage), "roof",
                                   roof_json(v, md_ds_plan_of(entry), stage), "times_of_other_chips",
                                   siblings_json(op, stage)),
                         pick_json(op, md_ds_plan_of(entry), stage));
}

static json_t *tried_json(md_ds_op *op, const md_ds_trial_state *t, const md_ds_tried *x)
{
    return json_pack("{s:s, s:f, s:o, s:o, s:i, s:b}", "variant", md_ds_variant_name(op, t->stage, x->variant),
                     "expected", x->expected, "us", md_json_real(x->us), "beside_us", md_json_real(x->idle_us), "times",
                     x->n, "out", x->is_out);
}

/* Of hybrid selection; JSON null if the entry has no trial. */
static json_t *trial_json(md_ds_op *op, const md_ds_shape_entry *entry)
{
    md_ds_trial_state t;
    if (!md_ds_trial_of(&t, op, entry))
        return json_null();
    json_t *list = json_array();
    for (int32_t i = 0; i <= t.challengers; i++)
        list = md_json_add(list, tried_json(op, &t, &t.of[i]));
    return json_pack("{s:i, s:b, s:b, s:f, s:i, s:i, s:i, s:o}", "stage", t.stage, "over", t.is_over, "raced",
                     t.is_raced, "load", t.load, "timed", t.timed, "switches", t.switches, "demotions", t.demotions,
                     "variants", list);
}

static json_t *warnings_json(const md_fx_formula *formula)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < formula->n_warnings; i++)
        list = md_json_add(list, md_json_text(formula->warning[i]));
    return list;
}

static bool has_temporaries(const md_ds_op *op)
{
    bool has_temps = false;
    for (int32_t t = 0; t < op->formula->n_tensors; t++)
        has_temps |= op->program->is_temp_stored[t];
    return has_temps;
}

static json_t *report(const view *v, const md_ds_shape_entry *entry)
{
    md_ds_op *op = v->op;
    const md_ds_plan *plan = md_ds_plan_of(entry);
    char label[160];
    json_t *stages = json_array();
    for (int32_t s = 0; s < op->n_stages; s++)
        stages = md_json_add(stages, stage_json(v, entry, s));
    md_ds_shape_text(label, sizeof label, op->formula, v->shape->size);
    return json_pack("{s:o, s:o, s:s, s:o, s:b, s:b, s:I, s:I, s:o, s:o, s:o, s:o}", "op", md_json_text(op->name),
                     "formula", md_json_text(md_strbuf_text(&op->compiled->printed)), "shape", label, "nearest",
                     md_json_real(entry->nearest), "uncovered", entry->is_uncovered, "has_temporaries",
                     has_temporaries(op), "memory_bytes", (json_int_t)plan->workspace_bytes, "unshared_bytes",
                     (json_int_t)plan->unshared_bytes, "stages", stages, "trial", trial_json(op, entry), "orders",
                     md_ss_orders_json(op->compiled, v->shape->size), "warnings", warnings_json(op->formula));
}

md_status md_ss_explain(md_strbuf *out, md_ds_op *op, const md_ds_bound *bound, bool json)
{
    md_ds_shape_entry *entry = NULL;
    view v = {.op = op, .shape = &bound->shape};
    MD_TRY(md_ds_find(&entry, op, NULL, bound));
    md_ds_select_sizes(v.sizes, op, bound->shape.size, &bound->as);
    const md_status s = md_json_report(out, report(&v, entry), json, md_ss_explain_print);
    md_ds_shape_entry_release(entry);
    return s;
}
