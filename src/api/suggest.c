/* Suggests hints for the shapes that a service met, and digests what it chose. */
#include "api/context.h"
#include "api/operation.h"
#include "base/json.h"
#include "base/status.h"
#include "dispatch/pool/suggest.h"
#include "stats/digest.h"

#include <stdlib.h>

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
