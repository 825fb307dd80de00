/* Coordinate descent over the configs of a combo's kernels. A step doubles or halves one field of one kind of kernel,
 * and the whole combo is timed with it against the best so far. */
#include "combo/tuning/tuning.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"
#include "combo/stored.h"
#include "combo/tuning/order.h"
#include "tune/search/descent.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TRIED = 256 };
/* A kernel that items run if nothing is chosen. */
typedef struct kind {
    const md_ds_op *op;
    const md_bd_variant *own;
    const int64_t *size; /* sizes of the heaviest item, by dim id */
    double work;
    md_fa_config best; /* what the best way runs instead */
} kind;

typedef struct tuner {
    md_cb *cb;
    md_stream stream;
    const md_cb_tune_job *job;
    md_strbuf *report;
    uint64_t deadline_ns;
    bool is_complete; /* no step from the best one is left that could be better */
    int32_t n_kinds, n_dims, n_builds, n_kept, n_tried;
    kind kind[MD_CB_MAX_GROUPS];
    md_cb_dim dim[MD_CB_MAX_GROUPS * MD_CB_GROUP_FIELDS];
    uint64_t tried[MAX_TRIED]; /* hashes of all kinds' configs */
    md_cb_way heuristic, apart, best, trial; /* best.plan NULL: the heuristic one is the best */
} tuner;

_Static_assert((int)MD_CB_GROUP_FIELDS >= (int)MD_FA_MAX_FIELDS && (int)MD_CB_MAX_CHOICES >= (int)MD_CB_MAX_GROUPS,
               "all fields of all kinds have room");

/* ---- Report */

static md_cb_way *best_of(tuner *t)
{
    return t->best.plan ? &t->best : &t->heuristic;
}

static void print_event(md_strbuf *out, const json_t *e)
{
    if (json_object_get(e, "run"))
        md_strbuf_printf(out, "%s: %.2f us\n", md_json_text_at(e, "run"), md_json_number_at(e, "us"));
    else if (json_object_get(e, "kind"))
        md_strbuf_printf(out, "kernel %lld: %s, %s\n", md_json_integer_at(e, "kind"), md_json_text_at(e, "op"),
                         md_json_text_at(e, "kernel"));
    else if (json_object_get(e, "winner"))
        md_strbuf_printf(out, "%s; %lld builds, %lld steps kept; stored: %s\n", md_json_text_at(e, "winner"),
                         md_json_integer_at(e, "builds"), md_json_integer_at(e, "kept_steps"),
                         md_json_is(e, "stored") ? "true" : "false");
    else if (md_json_number_at(e, "us") > 0)
        md_strbuf_printf(out, "%s %lld->%lld: %.2f us, %s (the best so far: %.2f us)\n", md_json_text_at(e, "step"),
                         md_json_integer_at(e, "from"), md_json_integer_at(e, "to"), md_json_number_at(e, "us"),
                         md_json_text_at(e, "result"), md_json_number_at(e, "best_us"));
    else
        md_strbuf_printf(out, "%s %lld->%lld: %s\n", md_json_text_at(e, "step"), md_json_integer_at(e, "from"),
                         md_json_integer_at(e, "to"), md_json_text_at(e, "result"));
}

/* Memory that is short marks the report as failed. */
static void report(const tuner *t, json_t *event)
{
    t->report->failed |= md_json_report(t->report, event, t->job->json, print_event) != MD_OK;
}

static void report_way(const tuner *t, const char *name, const md_cb_way *way)
{
    report(t, json_pack("{s:s, s:o}", "run", name, "us", md_json_real(way->us)));
}

static void report_step(tuner *t, const md_cb_dim *dim, int32_t from, int32_t to, const char *result)
{
    report(t, json_pack("{s:s, s:i, s:i, s:s, s:o, s:o, s:s}", "step", dim->name, "from", from, "to", to, "kernel",
                        t->kind[dim->kind].own->name, "us", md_json_real(t->trial.us), "best_us",
                        md_json_real(best_of(t)->us), "result", result)); /* both times are of one race */
}

static void report_kinds(const tuner *t)
{
    for (int32_t i = 0; i < t->n_kinds; i++)
        report(t, json_pack("{s:i, s:o, s:s}", "kind", i, "op", md_json_text(t->kind[i].op->name), "kernel",
                            t->kind[i].own->name));
}

/* ---- Kinds */

/* True if md_cb_choose can put another kernel in the place of the unit's. */
static bool is_tunable(const md_cb_unit *u)
{
    return u->variant->n_launches == 1 && u->variant->family->n_fields > 0 &&
           u->plan->stage[u->stage].geometry.workspace_bytes == 0 && u->op->stage[u->stage].pinned < 0;
}

static int32_t find_kind(const tuner *t, const md_cb_unit *u)
{
    for (int32_t i = 0; i < t->n_kinds; i++)
        if (t->kind[i].own == u->variant)
            return i;
    return -1;
}

static void set_member(md_cb_member *m, int32_t kind_number, const md_cb_unit *u)
{
    m->kind = kind_number;
    md_cb_axis_sizes(m->size, &u->variant->target, u->entry->size);
}

/* The kind of a unit, which a new kernel makes. -1: it has none. */
static int32_t kind_of(tuner *t, const md_cb_unit *u)
{
    const int32_t known = is_tunable(u) ? find_kind(t, u) : -1;
    if (known >= 0 || !is_tunable(u) || t->n_kinds == MD_CB_MAX_GROUPS)
        return known;
    t->kind[t->n_kinds] = (kind){.op = u->op, .own = u->variant, .best = u->variant->config, .work = -1};
    return t->n_kinds++;
}

static void describe_kind(md_cb_kind *out, const kind *k)
{
    const md_fa_family *f = k->own->family;
    *out = (md_cb_kind){.n = f->n_fields, .is_persistent = md_fa_is_persistent(&k->own->target, f, &k->own->config)};
    for (int32_t i = 0; i < f->n_fields; i++)
        out->field[i] = (md_cb_field){f->field[i].name, md_cb_axis_of(f, i)};
}

static md_status list_dims(tuner *t, const md_cb_schedule *plan)
{
    md_cb_kind of[MD_CB_MAX_GROUPS];
    md_cb_member *member = malloc((size_t)MD_MAX(plan->n_units, 1) * sizeof *member);
    int64_t n = 0;
    if (!member)
        return md_fail_memory();
    for (int64_t i = 0; i < plan->n_units; i++) {
        const md_cb_unit *u = &plan->unit[i];
        const int32_t number = kind_of(t, u);
        if (number < 0)
            continue;
        set_member(&member[n], number, u);
        const int64_t *size = member[n++].size;
        const double work = (double)size[MD_CB_X] * (double)size[MD_CB_Y] * (double)size[MD_CB_R];
        if (work > t->kind[number].work) {
            t->kind[number].work = work;
            t->kind[number].size = u->entry->size;
        }
    }
    for (int32_t i = 0; i < t->n_kinds; i++)
        describe_kind(&of[i], &t->kind[i]);
    t->n_dims = md_cb_order(t->dim, of, t->n_kinds, member, n);
    free(member);
    return MD_OK;
}

static md_status order(tuner *t, const md_cb_schedule *plan)
{
    const md_cb_said *by = &t->job->order, *limits = &t->job->limits;
    MD_TRY(list_dims(t, plan));
    MD_TRY(by->text ? md_cb_order_by(t->dim, t->n_dims, by->text, by->source) : MD_OK);
    return limits->text ? md_cb_order_limit(t->dim, t->n_dims, limits->text, limits->source) : MD_OK;
}

/* ---- Steps */

static uint64_t hash_of(const tuner *t)
{
    uint64_t hash = 0;
    for (int32_t i = 0; i < t->n_kinds; i++)
        hash = (hash ^ md_hash64(t->kind[i].best.value, sizeof t->kind[i].best.value)) * UINT64_C(0x9e3779b97f4a7c15);
    return hash;
}

static bool is_new(tuner *t)
{
    const uint64_t hash = hash_of(t);
    for (int32_t i = 0; i < t->n_tried; i++)
        if (t->tried[i] == hash)
            return false;
    if (t->n_tried < MAX_TRIED)
        t->tried[t->n_tried++] = hash;
    return true;
}

static md_cb_choice choice_of(const kind *k, bool is_tuned)
{
    const md_bd_variant *own = k->own;
    return (md_cb_choice){k->op, own->family, own->target.stage, own->config, is_tuned ? k->best : own->config};
}

/* What the kinds run becomes the combo's choices. */
static void set_choices(tuner *t)
{
    md_cb_choices *c = &t->cb->choices;
    c->n = 0;
    for (int32_t i = 0; i < t->n_kinds; i++) {
        const kind *k = &t->kind[i];
        if (memcmp(k->best.value, k->own->config.value, sizeof k->best.value) != 0)
            c->choice[c->n++] = choice_of(k, true);
    }
}

/* True if some item runs the config: it was built, and some envelope holds. */
static bool is_used(const md_cb_schedule *plan, const kind *k)
{
    for (int64_t i = 0; i < plan->n_units; i++) {
        const md_bd_variant *v = plan->unit[i].variant;
        if (v->family == k->own->family && v->target.program == k->own->target.program &&
            v->target.stage == k->own->target.stage && !memcmp(v->config.value, k->best.value, sizeof v->config.value))
            return true;
    }
    return false;
}

/* Builds and times the combo with the configs that the kinds have now. */
static md_status race_trial(const char **result, tuner *t, const kind *k)
{
    md_cb_way *const ways[] = {best_of(t), &t->trial};
    set_choices(t);
    t->n_builds++;
    MD_TRY(md_cb_way_make(&t->trial, t->cb));
    *result = "not built, or for no item";
    if (!is_used(t->trial.plan, k))
        return MD_OK;
    MD_TRY(md_cb_race(ways, 2, t->cb, t->stream, t->deadline_ns));
    *result = md_cb_is_faster(&t->trial, ways[0]) ? "kept" : "no faster";
    return MD_OK;
}

/* One step. *kept: it is the best now. */
static md_status try_step(bool *kept, tuner *t, const md_cb_dim *dim, bool is_up)
{
    kind *k = &t->kind[dim->kind];
    const md_fa_config before = k->best;
    const md_fa_family *f = k->own->family;
    const md_fa_field *field = &f->field[dim->field];
    const int32_t from = before.value[dim->field];
    const char *result = NULL;
    int32_t to = 0;
    *kept = false;
    if (!md_cb_next_value(&to, field->value, field->n + field->more, from, is_up) || (is_up && to > dim->limit))
        return MD_OK;
    k->best.value[dim->field] = to;
    md_status status = MD_OK;
    if (md_fa_legal(f, &k->own->target, &k->best, k->size) && md_cb_is_alike(k->own, &k->best) && is_new(t)) {
        status = race_trial(&result, t, k);
        if (status == MD_OK) {
            report_step(t, dim, from, to, result);
            *kept = !strcmp(result, "kept");
        }
    }
    if (*kept) {
        md_cb_way_free(&t->best, t->cb);
        t->best = t->trial;
        memset(&t->trial, 0, sizeof t->trial);
        t->n_kept++;
        return MD_OK;
    }
    md_cb_way_free(&t->trial, t->cb);
    k->best = before;
    return status;
}

static bool may_go_on(const tuner *t)
{
    return t->n_builds < t->job->max_builds && md_clock_ns() < t->deadline_ns;
}

static md_status descend(tuner *t)
{
    md_tn_descent descent = {.n = t->n_dims};
    (void)is_new(t);
    while (may_go_on(t)) {
        bool kept;
        const int32_t step = md_tn_descent_next(&descent);
        t->is_complete = step < 0;
        if (t->is_complete)
            return MD_OK;
        MD_TRY(try_step(&kept, t, &t->dim[step % t->n_dims], true));
        if (!kept && may_go_on(t))
            MD_TRY(try_step(&kept, t, &t->dim[step % t->n_dims], false));
        md_tn_descent_tell(&descent, kept);
    }
    return MD_OK;
}

/* ---- The whole */

/* Races the best against the heuristic once more. It stays only if it wins again. */
static md_status judge(tuner *t)
{
    md_cb_way *const ways[] = {&t->heuristic, &t->apart, &t->best};
    if (!t->best.plan)
        return MD_OK;
    MD_TRY(md_cb_race(ways, MD_COUNT(ways), t->cb, t->stream, UINT64_MAX));
    report_way(t, "heuristic, again", &t->heuristic);
    report_way(t, "separate launches, again", &t->apart);
    report_way(t, "tuned", &t->best);
    if (!md_cb_is_faster(&t->best, &t->heuristic))
        md_cb_way_free(&t->best, t->cb);
    return MD_OK;
}

static md_status search(tuner *t)
{
    md_cb_way *const baselines[] = {&t->heuristic, &t->apart};
    t->cb->choices.n = 0;
    MD_TRY(md_cb_way_make(&t->heuristic, t->cb));
    MD_TRY(order(t, t->heuristic.plan));
    report_kinds(t);
    MD_TRY(md_cb_race(baselines, MD_COUNT(baselines), t->cb, t->stream, t->deadline_ns));
    report_way(t, "heuristic", &t->heuristic);
    report_way(t, "separate launches", &t->apart);
    MD_TRY(descend(t));
    return judge(t);
}

static void restore(md_cb *cb, const md_cb_choices *before)
{
    cb->choices.n = before->n;
    memcpy(cb->choices.choice, before->choice, sizeof before->choice);
}

/* The winner becomes what the combo runs, and is kept. A search that was cut short and found nothing says nothing about
 * an earlier winner. */
static md_status finish(tuner *t, const md_cb_choices *before)
{
    const bool is_tuned = t->best.plan != NULL;
    md_cb_choice all[MD_CB_MAX_CHOICES];
    bool is_kept = false;
    if (is_tuned || t->is_complete) {
        t->cb->choices.n = is_tuned ? t->best.n_choices : 0;
        memcpy(t->cb->choices.choice, t->best.choice, sizeof t->best.choice);
        for (int32_t i = 0; i < t->n_kinds; i++)
            all[i] = choice_of(&t->kind[i], is_tuned);
        is_kept = md_cb_swaps_put(t->cb, t->n_kinds, all, best_of(t)->us) == MD_OK;
    } else {
        restore(t->cb, before);
    }
    report(t, json_pack("{s:s, s:i, s:i, s:b}", "winner", is_tuned ? "tuned" : "heuristic", "builds", t->n_builds,
                        "kept_steps", t->n_kept, "stored", is_kept));
    return t->report->failed ? md_fail_memory() : MD_OK;
}

md_status md_cb_tune(md_strbuf *report, md_cb *cb, md_stream stream, const md_cb_tune_job *job)
{
    md_cb_copies copies;
    const md_cb_choices before = cb->choices;
    tuner *t = calloc(1, sizeof *t);
    if (!t)
        return md_fail_memory();
    *t = (tuner){.cb = cb, .stream = stream, .job = job, .report = report};
    t->deadline_ns = md_clock_ns() + (uint64_t)(MD_MIN(job->budget_s, 1e9) * 1e9);
    md_cb_schedule_free(cb);
    md_status status = cb->has_moved ? md_cb_check_overlaps(cb) : MD_OK;
    if (status == MD_OK)
        status = md_cb_copies_make(&copies, cb, stream);
    if (status == MD_OK) {
        status = search(t);
        if (status == MD_OK)
            status = finish(t, &before);
        md_cb_way_free(&t->heuristic, cb);
        md_cb_way_free(&t->best, cb);
        md_cb_way_free(&t->trial, cb);
        md_cb_copies_finish(&copies, cb);
        if (status == MD_OK)
            status = md_cb_prepare(cb);
    }
    if (status != MD_OK)
        restore(cb, &before);
    free(t);
    return status;
}
