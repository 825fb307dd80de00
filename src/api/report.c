/* What the library tells about an op, a graph, the catalogue and the environment. */
#include "api/context.h"
#include "base/dtype.h"
#include "base/status.h"
#include "expr/catalogue.h"
#include "expr/list/list.h"
#include "stats/report.h"

#include <string.h>

static md_status explain(md_op *op, const char *sizes, int32_t json, md_write_fn write, void *user)
{
    md_ds_bound bound;
    md_strbuf text = {0};
    md_status s = md_api_bind_sizes(&bound, op, sizes, MD_API_MEMORY_TO_MEASURE);
    if (s == MD_OK)
        s = md_ss_explain(&text, op->ds, &bound, json != 0);
    if (s == MD_OK)
        s = md_api_write(&text, write, user);
    md_api_unbind_sizes(&bound, op);
    md_strbuf_finish(&text);
    return s;
}

/* Contiguous tensors are served by the merged op, if there is one. */
md_status md_explain(md_op *op, const char *sizes, int32_t json, md_write_fn write, void *user)
{
    md_op merged;
    md_strbuf merged_sizes = {0};
    if (!op)
        return md_fail(MD_INVALID_ARGUMENT, "op is NULL");
    const bool is_merged = md_api_merged(&merged, &merged_sizes, op, sizes);
    md_status s =
        explain(is_merged ? &merged : op, is_merged ? md_strbuf_text(&merged_sizes) : sizes, json, write, user);
    md_strbuf_finish(&merged_sizes);
    return s;
}

static md_status check_text(json_t **report, const md_context *context, const char *text, const md_op_options *o)
{
    md_ds_compiled *compiled = NULL;
    const md_ds_compile_options compile = md_api_compile_options(context, o);
    MD_TRY(md_ds_compile(&compiled, &context->dev->facts, text, &compile));
    *report = md_ss_check_report(compiled);
    md_ds_compiled_destroy(&compiled);
    return *report ? MD_OK : md_fail_memory();
}

/* ---- A formula over lists: what each step becomes */

static const struct step_kind {
    const char *name, *what;
} step_kinds[] = {
    [MD_FX_STEP_REDUCE] = {"reduce", "a combo over the list, which reduces each item (tiles of 4096 elements)"},
    [MD_FX_STEP_SCALARS] = {"scalars", "one small kernel, which ends the reductions"},
    [MD_FX_STEP_ITEMS] = {"items", "a combo over the list, which computes each item"},
};

static md_status add_check(json_t **list, const md_context *context, const char *text, const md_op_options *o)
{
    json_t *report = NULL;
    const md_status s = text ? check_text(&report, context, text, o) : MD_OK;
    if (report)
        *list = md_json_add(*list, report);
    return s == MD_OK && !*list ? md_fail_memory() : s;
}

static md_status check_step(json_t **step, const md_context *context, const md_fx_list *formula, int32_t i,
                            const md_op_options *o)
{
    json_t *list = json_array();
    md_status s = add_check(&list, context, formula->step[i].text, o);
    for (int32_t r = 0; r < formula->n_reductions && s == MD_OK; r++)
        if (formula->reduction[r].step == i)
            s = add_check(&list, context,
                          formula->reduction[r].flat ? formula->reduction[r].flat : formula->reduction[r].whole, o);
    *step = json_pack("{s:s, s:o}", "kind", step_kinds[formula->step[i].kind].name, "formulas", list);
    return s == MD_OK && !*step ? md_fail_memory() : s;
}

static md_status check_lists(json_t **report, const md_context *context, const char *text, const md_op_options *o)
{
    md_fx_list *list = NULL;
    const md_fx_options fx = {.dtype = o->dtype, .bounds = o->bounds};
    MD_TRY(md_fx_list_create(&list, text, &fx));
    json_t *steps = json_array();
    md_status s = MD_OK;
    for (int32_t i = 0; i < list->n_steps && s == MD_OK; i++) {
        json_t *step = NULL;
        s = check_step(&step, context, list, i, o);
        steps = md_json_add(steps, step);
    }
    md_fx_list_destroy(&list);
    *report = json_pack("{s:b, s:o}", "lists", true, "steps", steps);
    return s;
}

static void print_check(md_strbuf *out, const json_t *report)
{
    const json_t *steps = json_object_get(report, "steps");
    if (!steps) {
        md_ss_check_print(out, report);
        return;
    }
    md_strbuf_printf(out, "a formula over lists, in %zu steps\n", json_array_size(steps));
    for (size_t i = 0; i < json_array_size(steps); i++) {
        const json_t *step = json_array_get(steps, i), *formulas = json_object_get(step, "formulas");
        for (int32_t k = 0; k < MD_COUNT(step_kinds); k++)
            if (!strcmp(step_kinds[k].name, md_json_text_at(step, "kind")))
                md_strbuf_printf(out, "\nstep %zu: %s\n", i + 1, step_kinds[k].what);
        for (size_t k = 0; k < json_array_size(formulas); k++)
            md_ss_check_print(out, json_array_get(formulas, k));
    }
}

md_status md_check_formula(md_context *context, const char *formula, const md_op_options *options, int32_t json,
                           md_write_fn write, void *user)
{
    static const md_op_options no_options = {0};
    const md_op_options *o = options ? options : &no_options;
    const char *text, *name;
    md_strbuf out = {0};
    if (!context || !formula)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", context ? "formula" : "context");
    MD_TRY(md_api_check_options(o));
    MD_TRY(md_api_find_formula(&text, &name, formula));
    json_t *report = NULL;
    md_status s =
        md_fx_has_lists(text) ? check_lists(&report, context, text, o) : check_text(&report, context, text, o);
    if (s == MD_OK)
        s = md_json_report(&out, report, json != 0, print_check);
    else
        json_decref(report);
    if (s == MD_OK)
        s = md_api_write(&out, write, user);
    md_strbuf_finish(&out);
    return s;
}

md_status md_capture_list(md_context *context, md_stream stream, void *graph, int32_t json, md_write_fn write,
                          void *user)
{
    md_strbuf text = {0};
    if (!context)
        return md_fail(MD_INVALID_ARGUMENT, "context is NULL");
    md_status s = md_ss_capture(&text, &context->runtime, stream, graph, json != 0);
    if (s == MD_OK)
        s = md_api_write(&text, write, user);
    md_strbuf_finish(&text);
    return s;
}

static md_status source_text(md_strbuf *out, const md_op *op, int32_t stage, const char *variant)
{
    const md_ds_pool *pool = &op->ds->stage[stage];
    const md_fa_family *family;
    md_fa_config config;
    md_kn_source source = {0};
    const int32_t number = md_ds_pool_find(pool, variant);
    if (number >= 0)
        return md_bd_variant_source(out, pool->variant[number]);
    if (md_fa_parse(&family, &config, pool->target.facts->kind, variant) != MD_OK)
        return MD_NOT_FOUND;
    if (!md_fa_applies(family, &pool->target))
        return md_fail(MD_NOT_FOUND, "family %s does not apply to stage %d of op %s", family->name, stage,
                       op->ds->name);
    md_status s = md_fa_emit(&source, family, &pool->target, &config);
    for (int32_t i = 0; s == MD_OK && i < source.n_launches; i++)
        md_strbuf_add(out, source.launch[i].code == MD_KN_TEXT ? md_strbuf_text(&source.launch[i].text)
                                                               : "/* a library call */\n");
    md_kn_source_finish(&source);
    return s;
}

md_status md_op_source(md_op *op, int32_t stage, const char *variant, md_write_fn write, void *user)
{
    md_strbuf text = {0};
    if (!op || !variant)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", op ? "variant" : "op");
    if (stage < 0 || stage >= op->ds->n_stages)
        return md_fail(MD_INVALID_ARGUMENT, "op %s has %d stages, there is no number %d", op->ds->name,
                       op->ds->n_stages, stage);
    md_status s = source_text(&text, op, stage, variant);
    if (s == MD_OK)
        s = md_api_write(&text, write, user);
    md_strbuf_finish(&text);
    return s;
}

/* Bytes of all arguments, each counted once. A tensor that is updated is both read and written. */
static double argument_bytes(const md_ds_bound *b, const md_fx_formula *f)
{
    double sum = 0.0;
    for (int32_t t = 0; t < f->n_tensors; t++) {
        if (f->tensor[t].role == MD_FX_TEMP)
            continue;
        double n = md_dtype_bytes(f->tensor[t].dtype) * (f->tensor[t].is_updated ? 2.0 : 1.0);
        for (int32_t a = 0; a < f->tensor[t].rank; a++)
            n *= (double)b->binding.tensor[t].size[a];
        sum += n;
    }
    return sum;
}

md_status md_op_work(double *flops, double *bytes, md_op *op, const char *sizes)
{
    md_ds_bound bound;
    if (!op || !flops || !bytes)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", !op ? "op" : flops ? "bytes" : "flops");
    md_status s = md_api_bind_sizes(&bound, op, sizes, MD_API_NO_MEMORY);
    if (s == MD_OK) {
        double sum = 0.0, stage_flops = 0.0, stage_bytes = 0.0;
        for (int32_t i = 0; i < op->ds->n_stages; i++) {
            md_st_work(&stage_flops, &stage_bytes, op->ds->program, i, bound.shape.size);
            sum += stage_flops;
        }
        *flops = sum;
        *bytes = op->ds->n_stages == 1 ? stage_bytes : argument_bytes(&bound, op->ds->formula);
    }
    return s;
}

static void give(const char **out, const char *text)
{
    if (out)
        *out = text;
}

void md_catalogue(int32_t i, const char **name, const char **formula, const char **description)
{
    static const md_catalogue_entry none = {NULL, NULL, NULL};
    const md_catalogue_entry *e = md_catalogue_at(i);
    if (!e)
        e = &none;
    give(name, e->name);
    give(formula, e->formula);
    give(description, e->description);
}

void md_variables(int32_t i, const char **name, const char **values, const char **meaning)
{
    const char *text[3];
    (void)md_env_describe(i, &text[0], &text[1], &text[2]);
    give(name, text[0]);
    give(values, text[1]);
    give(meaning, text[2]);
}
