/* Tunes a formula without making an op, suggests hints for the shapes that a service met, and digests, exports and
 * imports choices. */
#include "api/context.h"
#include "base/json.h"
#include "base/status.h"
#include "dispatch/compile/suggest.h"
#include "dispatch/pool/fill.h"
#include "stats/choices.h"
#include "stats/report.h"

static md_status check_tune(const md_tune_options *t)
{
    if (t->rigor != MD_TUNE_DEFAULT && t->rigor != MD_TUNE_MEASURE && t->rigor != MD_TUNE_EXHAUSTIVE)
        return md_fail(MD_INVALID_ARGUMENT,
                       "option rigor: %d; tuning measures (MD_TUNE_MEASURE) or measures all (MD_TUNE_EXHAUSTIVE)",
                       (int)t->rigor);
    if (t->strategy != MD_TUNE_GUESS && t->strategy != MD_TUNE_DESCENT)
        return md_fail(MD_INVALID_ARGUMENT, "option strategy: %d; there are MD_TUNE_GUESS and MD_TUNE_DESCENT",
                       (int)t->strategy);
    if (!(t->budget_ms >= 0.0) || t->max_builds < 0 || t->n_indices < 0 || (t->n_indices > 0 && !t->indices))
        return md_fail(MD_INVALID_ARGUMENT, "option budget_ms, max_builds or indices: less than nothing");
    return MD_OK;
}

md_status md_api_tune_request(md_ds_tune_request *out, const md_context *c, const md_op_options *o,
                              const md_tune_options *t)
{
    MD_TRY(md_api_check_options(o));
    MD_TRY(check_tune(t));
    *out = (md_ds_tune_request){
        .compile = md_api_compile_options(c, o),
        .builder = c->builder,
        .log = &c->log,
        .off_hints = t->off_hints != 0,
        .job = {.rigor = t->rigor ? t->rigor : MD_TUNE_MEASURE,
                .budget_ms = t->budget_ms,
                .max_builds = t->max_builds,
                .strategy = t->strategy,
                .all_directions = t->all_directions != 0,
                .indices = {t->n_indices, t->indices},
                .exclude = t->exclude,
                .seed = t->seed,
                .write = t->write,
                .user = t->user},
    };
    return MD_OK;
}

md_status md_tune_formula(md_context *context, const char *formula, const md_op_options *options,
                          const md_tune_options *tune)
{
    static const md_op_options no_options = {0};
    static const md_tune_options no_tune = {0};
    md_ds_tune_request request;
    const char *text, *name;
    if (!context || !formula)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", context ? "formula" : "context");
    MD_TRY(md_api_tune_request(&request, context, options ? options : &no_options, tune ? tune : &no_tune));
    MD_TRY(md_api_find_formula(&text, &name, formula));
    return md_ds_tune_formula(&request, text);
}

/* ---- Hints and digests */

enum { DEFAULT_HINTS = 6 };

static void print(md_strbuf *out, const char *hints, const md_ds_suggestion *s, bool json)
{
    if (json) {
        md_json_print(out, json_pack("{s:s, s:i, s:{s:i, s:f, s:f}, s:{s:i, s:f, s:f}}", "hints", hints, "shapes",
                                     s->n_shapes, "suggested", "hints", s->suggested.n_hints, "mean_regret",
                                     s->suggested.mean, "worst_regret", s->suggested.worst, "today", "hints",
                                     s->today.n_hints, "mean_regret", s->today.mean, "worst_regret", s->today.worst));
        return;
    }
    md_strbuf_printf(out,
                     "%s\n  %d hints: expected regret %.2f%% on average, %.1f%% at worst, over %d shapes\n  %d hints "
                     "of today: %.2f%%, %.1f%%\n",
                     hints, s->suggested.n_hints, 100.0 * s->suggested.mean, 100.0 * s->suggested.worst, s->n_shapes,
                     s->today.n_hints, 100.0 * s->today.mean, 100.0 * s->today.worst);
}

static md_status check(const md_context *context, const char *formula, const md_suggest_options *suggest)
{
    const char *missing = !context                                    ? "context"
                          : !formula                                  ? "formula"
                          : !suggest                                  ? "suggest"
                          : suggest->n_shapes > 0 && !suggest->shapes ? "shapes"
                          : !suggest->write                           ? "write"
                                                                      : NULL;
    if (missing)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", missing);
    for (int32_t i = 0; i < suggest->n_shapes; i++)
        if (!suggest->shapes[i].sizes)
            return md_fail(MD_INVALID_ARGUMENT, "shape %d: sizes is NULL", i);
    return MD_OK;
}

static md_status add_suggestion(md_strbuf *out, const md_context *c, const char *text, const md_op_options *o,
                                const md_suggest_options *suggest)
{
    const char *formula, *name;
    md_strbuf hints = {0};
    md_ds_suggestion found = {0};
    MD_TRY(md_api_check_options(o));
    MD_TRY(md_api_find_formula(&formula, &name, text));
    const md_ds_suggest_options options = {
        .compile = md_api_compile_options(c, o),
        .shape = suggest->shapes,
        .n_shapes = suggest->n_shapes,
        .n_hints = suggest->n_hints ? suggest->n_hints : DEFAULT_HINTS,
    };
    const md_status s = md_ds_suggest(&hints, &found, &c->dev->facts, formula, &options);
    if (s == MD_OK)
        print(out, md_strbuf_text(&hints), &found, suggest->json != 0);
    md_strbuf_finish(&hints);
    return s;
}

md_status md_hints_suggest(md_context *context, const char *formula, const md_op_options *options,
                           const md_suggest_options *suggest)
{
    static const md_op_options none = {0};
    md_strbuf text = {0};
    MD_TRY(check(context, formula, suggest));
    md_status s = add_suggestion(&text, context, formula, options ? options : &none, suggest);
    if (s == MD_OK)
        s = md_api_write(&text, suggest->write, suggest->user);
    md_strbuf_finish(&text);
    return s;
}

static void add_choices(void *user, md_ds_op *op)
{
    md_ss_choices_add(user, op);
}

md_status md_digest(uint64_t out[2], md_context *context)
{
    md_ss_choices choices = {0};
    md_digest128 digest;
    if (!out || !context)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", out ? "context" : "out");
    md_api_each_op(context, add_choices, &choices);
    MD_TRY(md_ss_choices_digest(&digest, &choices));
    out[0] = digest.lo;
    out[1] = digest.hi;
    return MD_OK;
}

static void add_lines(void *user, md_ds_op *op)
{
    md_ss_lines_add(user, op);
}

md_status md_choices_export(md_context *context, md_write_fn write, void *user)
{
    md_ss_lines lines = {0};
    md_strbuf text = {0};
    if (!context || !write)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", context ? "write" : "context");
    md_api_each_op(context, add_lines, &lines);
    md_status s = md_ss_lines_print(&text, &lines);
    if (s == MD_OK)
        s = md_api_write(&text, write, user);
    md_strbuf_finish(&text);
    return s;
}

/* Enters the ops before it lets go of their lock, since builds that the import waits for take that lock when they end.
 */
md_status md_choices_import(int64_t *n_unknown, md_context *context, const char *text)
{
    md_api_ops held = {0};
    int64_t unknown = 0;
    if (!context || !text)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", context ? "text" : "context");
    md_status s = md_api_hold_ops(&held, context);
    if (s == MD_OK)
        s = md_ss_choices_take(&unknown, held.op, held.n, text);
    md_api_release_ops(&held, context);
    if (n_unknown)
        *n_unknown = unknown;
    return s;
}
