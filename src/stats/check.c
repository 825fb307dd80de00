/* What a formula becomes: dims, stages, families, what is slow, what is checked at run time. The report is made as
 * JSON, and its text is printed from that. */
#include "stats/report.h"

#include "base/json.h"
#include "dispatch/select/select.h"
#include "expr/node.h"

#include <string.h>

/* ---- dims */

/* Adds the first argument whose axis must be as long as the dim; else one that must be at least as long. */
static void print_origin(md_strbuf *out, const md_fx_formula *f, int32_t dim)
{
    for (int32_t at_least = 0; at_least < 2; at_least++)
        for (int32_t i = 0; i < f->n_args; i++) {
            const md_fx_tensor *t = f->args[i].is_scalar ? NULL : &f->tensor[f->args[i].id];
            for (int32_t a = 0; t && a < t->rank; a++)
                if (t->dim[a] == dim && t->at_least[a] == (at_least == 1)) {
                    md_strbuf_printf(out, "axis %d of argument %d, %s%s", a, i, t->name,
                                     at_least ? ", which must only be long enough" : "");
                    return;
                }
        }
    for (int32_t i = 0; i < f->n_args; i++)
        if (f->args[i].is_scalar && f->scalar[f->args[i].id].is_size && f->scalar[f->args[i].id].dim == dim) {
            md_strbuf_printf(out, "argument %d, which is the size", i);
            return;
        }
    md_strbuf_add(out, "no argument");
}

static json_t *take_text(md_strbuf *text)
{
    json_t *j = text->failed ? NULL : md_json_text(md_strbuf_text(text));
    md_strbuf_finish(text);
    return j;
}

static json_t *dim_json(const md_fx_formula *f, int32_t dim)
{
    const md_fx_dim *d = &f->dim[dim];
    md_strbuf origin = {0};
    if (d->size >= 0)
        md_strbuf_add(&origin, "static");
    else
        print_origin(&origin, f, dim);
    return json_pack("{s:s, s:o, s:I, s:o, s:o}", "name", d->name, "size",
                     d->size >= 0 ? json_integer(d->size) : json_null(), "low", (json_int_t)d->lo, "high",
                     d->hi < INT64_MAX ? json_integer(d->hi) : json_null(), "from", take_text(&origin));
}

/* ---- stages */

static bool has_many_bound(void *user, const md_fx_node *node)
{
    (void)user;
    return node->kind != MD_FX_REDUCE || node->n_bound == 1;
}

/* True unless a reduction may have many elements, which is slow where one thread does it alone. */
static bool has_few_elements(void *user, const md_fx_node *node)
{
    static const double FEW = 1024;
    const md_st_program *program = user;
    double most = 1;
    for (int32_t i = 0; node->kind == MD_FX_REDUCE && i < node->n_bound; i++) {
        const md_fx_dim *dim = &program->formula->dim[program->index[node->bound[i]].dim];
        most *= (double)(dim->size >= 0 ? dim->size : dim->hi);
    }
    return most <= FEW;
}

/* A thread of these families does a whole reduction. */
static bool reduces_alone(const char *family)
{
    return !strcmp(family, "nest") || !strcmp(family, "cells");
}

/* True if the family is fast for the stage. */
static bool is_fast(const md_ds_compiled *c, int32_t stage, const char *family)
{
    const md_st_stage *s = &c->program->stage[stage];
    if (!reduces_alone(family))
        return true;
    return strcmp(family, "nest") != 0 && md_fx_visit(s->store[0].value, has_few_elements, (void *)c->program);
}

/* Why a stage is slow; NULL: it is not. */
static const char *why_slow(const md_st_stage *s, bool has_fast_family)
{
    if (s->kind == MD_ST_NEST && has_fast_family)
        return NULL;
    if (s->kind == MD_ST_NEST && s->has_scatter)
        return "a loop nest over single elements, since a scatter stores more than pointwise values";
    if (s->kind == MD_ST_NEST && !md_fx_visit(s->store[0].value, has_many_bound, NULL))
        return "a loop nest over single elements, since a reduction runs over several indices at once";
    if (s->kind == MD_ST_NEST)
        return "a loop nest over single elements, since its reductions and scans are no row, product or scan together, "
               "or stand in an arm of a where that guards what they read";
    if (s->has_duplicates)
        return "several points may update one element, so they do it one after the other";
    return has_fast_family ? NULL : "no family but the loop nest serves it";
}

static json_t *stage_json(const md_ds_compiled *c, int32_t stage)
{
    const md_fa_target target = md_ds_target_of(c, stage);
    json_t *families = json_array();
    md_strbuf kind = {0};
    bool has_fast_family = false;
    for (const md_fa_family *const *f = md_fa_families(c->facts->kind); *f; f++) {
        if (!md_ds_family_allowed(*f, &target, &c->policy))
            continue;
        has_fast_family |= is_fast(c, stage, (*f)->name);
        families = md_json_add(families, json_string((*f)->name));
    }
    md_st_describe(&kind, c->program, stage);
    const char *slow = why_slow(&c->program->stage[stage], has_fast_family);
    return json_pack("{s:o, s:o, s:o}", "kind", take_text(&kind), "families", families, "slow",
                     md_json_text_or_null(slow));
}

static json_t *temporary_json(const md_fx_formula *f, const md_fx_tensor *t)
{
    md_strbuf text = {0};
    md_strbuf_printf(&text, "%s:%s[", t->name, md_dtype_name(t->dtype));
    for (int32_t a = 0; a < t->rank; a++)
        md_strbuf_printf(&text, "%s%s", a ? "," : "", f->dim[t->dim[a]].name);
    md_strbuf_add(&text, "]");
    return take_text(&text);
}

/* ---- checks */

static json_t *check_json(const md_fx_formula *f, int32_t tensor, int32_t axis, const md_fx_node *subscript,
                          const char *when)
{
    md_strbuf text = {0};
    md_fx_print_node(&text, f, subscript);
    return json_pack("{s:s, s:i, s:o, s:s}", "tensor", f->tensor[tensor].name, "axis", axis, "subscript",
                     take_text(&text), "when", when);
}

typedef struct checks {
    const md_fx_formula *formula;
    json_t *list;
} checks;

static const char in_kernel[] = "in the kernel, at each access";

/* A subscript that reads a tensor; the others are among the formula's reaches. */
static void note_subscript(checks *c, int32_t tensor, int32_t axis, const md_fx_node *subscript)
{
    if (md_fx_has_kind(subscript, MD_FX_LOAD) && !md_fx_has_kind(subscript, MD_FX_CHECK))
        c->list = md_json_add(c->list, check_json(c->formula, tensor, axis, subscript, in_kernel));
}

static bool note_load(void *user, const md_fx_node *node)
{
    for (int32_t a = 0; node->kind == MD_FX_LOAD && a < node->n_args; a++)
        note_subscript(user, node->id, a, node->arg[a]);
    return true;
}

static json_t *checks_json(const md_fx_formula *f)
{
    checks c = {.formula = f, .list = json_array()};
    for (int32_t i = 0; i < f->n_reaches; i++) {
        const md_fx_reach *r = &f->reach[i];
        c.list = md_json_add(c.list, check_json(f, r->tensor, r->axis, r->subscript,
                                                r->is_checked ? in_kernel : "once, before each call"));
    }
    for (int32_t i = 0; i < f->n_stmts; i++) {
        const md_fx_stmt *s = &f->stmt[i];
        for (int32_t a = 0; a < f->tensor[s->tensor].rank; a++)
            note_subscript(&c, s->tensor, a, s->subscript[a]);
        (void)md_fx_visit(s->value, note_load, &c);
    }
    return c.list;
}

/* ---- the report */

/* Orders at the last hint, which has the largest sizes if hints go up. */
static json_t *orders_json(const md_ds_compiled *c, char *at, size_t n)
{
    int64_t size[MD_FX_MAX_DIMS];
    md_ds_hint_sizes(size, &c->space, c->space.n_hints - 1);
    at[0] = '\0';
    if (c->space.n > 0 && c->orders.n > 0)
        md_ds_shape_text(at, n, c->formula, size);
    return md_ss_orders_json(c, size);
}

json_t *md_ss_check_report(const md_ds_compiled *c)
{
    char at[160];
    json_t *orders = orders_json(c, at, sizeof at);
    const md_fx_formula *f = c->formula;
    json_t *dims = json_array(), *stages = json_array(), *temporaries = json_array(), *warnings = json_array();
    for (int32_t d = 0; d < f->n_dims; d++)
        dims = md_json_add(dims, dim_json(f, d));
    for (int32_t s = 0; s < c->program->n_stages; s++)
        stages = md_json_add(stages, stage_json(c, s));
    for (int32_t t = 0; t < f->n_tensors; t++)
        if (c->program->is_temp_stored[t])
            temporaries = md_json_add(temporaries, temporary_json(f, &f->tensor[t]));
    for (int32_t i = 0; i < f->n_warnings; i++)
        warnings = md_json_add(warnings, md_json_text(f->warning[i]));
    return json_pack(
        "{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:s, s:o}", "formula", md_json_text(md_strbuf_text(&c->printed)), "device",
        c->facts->kind == MD_DEV_CUDA ? "cuda" : "host", "dims", dims, "temporaries", temporaries, "stages", stages,
        "checked", checks_json(f), "orders", orders, "orders_at", at, "warnings", warnings);
}

static void print_dim(md_strbuf *out, const json_t *dim)
{
    const json_t *size = json_object_get(dim, "size"), *high = json_object_get(dim, "high");
    const long long low = md_json_integer_at(dim, "low");
    md_strbuf_printf(out, "  %s: ", md_json_text_at(dim, "name"));
    if (json_is_integer(size))
        md_strbuf_printf(out, "%lld, ", (long long)json_integer_value(size));
    else if (json_is_integer(high))
        md_strbuf_printf(out, "%lld to %lld, ", low, (long long)json_integer_value(high));
    else if (low > 0)
        md_strbuf_printf(out, "%lld or more, ", low);
    md_strbuf_printf(out, "%s\n", md_json_text_at(dim, "from"));
}

static void print_stage(md_strbuf *out, size_t number, const json_t *stage)
{
    const json_t *families = json_object_get(stage, "families");
    md_strbuf_printf(out, "  %zu %s\n    families:", number, md_json_text_at(stage, "kind"));
    for (size_t i = 0; i < json_array_size(families); i++)
        md_strbuf_printf(out, "%s %s", i ? "," : "", json_string_value(json_array_get(families, i)));
    if (!strncmp(md_json_text_at(stage, "kind"), "chain", 5))
        md_strbuf_add(out, json_array_size(families) > 0
                               ? "\n    it or its parts serve, by their times: mdctl explain --sizes says which"
                               : "\n    its parts serve: no family takes it");
    md_strbuf_add(out, "\n");
    if (*md_json_text_at(stage, "slow"))
        md_strbuf_printf(out, "    slow: %s\n", md_json_text_at(stage, "slow"));
}

void md_ss_check_print(md_strbuf *out, const json_t *j)
{
    const json_t *dims = json_object_get(j, "dims"), *stages = json_object_get(j, "stages"),
                 *temporaries = json_object_get(j, "temporaries"), *checked = json_object_get(j, "checked"),
                 *warnings = json_object_get(j, "warnings");
    md_strbuf_printf(out, "%s\nsizes\n", md_json_text_at(j, "formula"));
    for (size_t i = 0; i < json_array_size(dims); i++)
        print_dim(out, json_array_get(dims, i));
    md_strbuf_printf(out, "stages on %s\n", md_json_text_at(j, "device"));
    for (size_t i = 0; i < json_array_size(stages); i++)
        print_stage(out, i, json_array_get(stages, i));
    for (size_t i = 0; i < json_array_size(temporaries); i++)
        md_strbuf_printf(out, "%s%s",
                         i ? ", " : "in memory between stages: ", json_string_value(json_array_get(temporaries, i)));
    md_strbuf_add(out, json_array_size(temporaries) ? "\n" : "");
    md_ss_orders_print(out, json_object_get(j, "orders"), md_json_text_at(j, "orders_at"));
    md_strbuf_add(out, json_array_size(checked) ? "checked at run time\n" : "");
    for (size_t i = 0; i < json_array_size(checked); i++) {
        const json_t *c = json_array_get(checked, i);
        md_strbuf_printf(out, "  axis %lld of %s at %s: %s\n", md_json_integer_at(c, "axis"),
                         md_json_text_at(c, "tensor"), md_json_text_at(c, "subscript"), md_json_text_at(c, "when"));
    }
    for (size_t i = 0; i < json_array_size(warnings); i++)
        md_strbuf_printf(out, "warning: %s\n", json_string_value(json_array_get(warnings, i)));
}
