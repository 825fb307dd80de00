#include "api/context.h"
#include "base/dtype.h"
#include "base/status.h"
#include "expr/catalogue.h"
#include "stats/capture.h"
#include "stats/explain.h"

#include <errno.h>
#include <string.h>

md_status md_api_write(const md_strbuf *text, md_write_fn write, void *user)
{
    if (text->failed)
        return md_fail_memory();
    if (!write)
        return md_fail(MD_INVALID_ARGUMENT, "write is NULL");
    if (write(user, md_strbuf_text(text), text->size))
        return md_fail(MD_IO, "the caller's write function stopped the output");
    return MD_OK;
}

static void add_rows(void *user, md_ds_op *op)
{
    md_ss_rows_add(user, op);
}

/* Rows of all ops, alive and gone. */
static void rows_of_all(md_ss_rows *out, md_context *context)
{
    pthread_mutex_lock(&context->lock_of_ops);
    *out = (md_ss_rows){.failed = context->retired.failed};
    md_ss_rows_append(out, &context->retired);
    md_api_each_op(context, add_rows, out);
    pthread_mutex_unlock(&context->lock_of_ops);
    md_ss_rows_sort(out);
}

static md_status stats_text(md_strbuf *out, md_context *context, const char *format)
{
    md_ss_rows rows;
    rows_of_all(&rows, context);
    md_status s = md_ss_print(out, &rows, format);
    md_ss_rows_finish(&rows);
    return s;
}

md_status md_stats_print(md_context *context, FILE *file)
{
    md_strbuf text = {0};
    if (!context || !file)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", context ? "file" : "context");
    md_status s = stats_text(&text, context, "table");
    if (s == MD_OK && fwrite(md_strbuf_text(&text), 1, text.size, file) != text.size)
        s = md_fail(MD_IO, "the statistics could not be written");
    md_strbuf_finish(&text);
    return s;
}

static const char *format_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    if (dot && !strcmp(dot, ".json"))
        return "json";
    return dot && !strcmp(dot, ".csv") ? "csv" : "table";
}

/* An existing file is replaced: statistics are written again and again to one place. */
static md_status write_file(const char *path, const md_strbuf *text)
{
    FILE *file = strcmp(path, "-") ? fopen(path, "w") : stdout;
    if (!file)
        return md_fail(MD_IO, "statistics: cannot write '%s': %s", path, strerror(errno));
    bool ok = fwrite(md_strbuf_text(text), 1, text->size, file) == text->size && !fflush(file);
    if (file != stdout && fclose(file))
        ok = false;
    return ok ? MD_OK : md_fail(MD_IO, "statistics: '%s' could not be written", path);
}

md_status md_stats_write(md_context *context, const char *path, const char *format)
{
    md_strbuf text = {0};
    if (!context || !path)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", context ? "path" : "context");
    md_status s = stats_text(&text, context, format ? format : format_of(path));
    if (s == MD_OK)
        s = write_file(path, &text);
    md_strbuf_finish(&text);
    return s;
}

md_status md_explain(md_op *op, const char *sizes, int32_t json, md_write_fn write, void *user)
{
    md_ds_bound bound;
    md_strbuf text = {0};
    if (!op)
        return md_fail(MD_INVALID_ARGUMENT, "op is NULL");
    md_status s = md_api_bind_sizes(&bound, op, sizes, MD_API_MEMORY_TO_MEASURE);
    if (s == MD_OK)
        s = md_ss_explain(&text, op->ds, &bound, json != 0);
    if (s == MD_OK)
        s = md_api_write(&text, write, user);
    md_api_unbind_sizes(&bound, op);
    md_strbuf_finish(&text);
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
    const md_ds_pool *c = &op->ds->stage[stage];
    const md_fa_family *family;
    md_fa_config config;
    md_kn_source source = {0};
    int32_t n = md_op_n_variants(op, stage);
    for (int32_t i = 0; i < n; i++)
        if (!strcmp(c->variant[i]->name, variant))
            return md_bd_variant_source(out, c->variant[i]);
    if (md_fa_parse(&family, &config, c->target.facts->kind, variant) != MD_OK)
        return MD_NOT_FOUND;
    if (!family->applies(&c->target))
        return md_fail(MD_NOT_FOUND, "family %s does not apply to stage %d of op %s", family->name, stage,
                       op->ds->name);
    md_status s = family->emit(&source, &c->target, &config);
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

/* Every argument once; a target that is updated is read and written. Gathered tables count as far as the stage says. */
static double argument_bytes(const md_ds_bound *b, const md_fx_formula *f)
{
    double sum = 0.0;
    for (int32_t t = 0; t < f->n_tensors; t++) {
        if (f->tensor[t].role == MD_FX_TEMP)
            continue;
        double n = (double)md_dtype_size(f->tensor[t].dtype) * (f->tensor[t].is_updated ? 2.0 : 1.0);
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
