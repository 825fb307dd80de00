/* Describes shapes and choices in words, for traces and reports. */
#include "dispatch/select/select.h"

#include "base/status.h"

#include <stdio.h>

/* Of variants that the log names for a stage. The file of MD_DUMP has all. */
enum { LOG_VARIANTS = 12 };

void md_ds_shape_text(char *out, size_t n_bytes, const md_fx_formula *formula, const int64_t *size)
{
    size_t used = 0;
    out[0] = 0;
    for (int32_t d = 0; d < formula->n_dims && used < n_bytes; d++)
        if (formula->dim[d].size < 0)
            used += (size_t)snprintf(out + used, n_bytes - used, "%s%s=%lld", used ? " " : "", formula->dim[d].name,
                                     (long long)size[d]);
    if (used == 0)
        snprintf(out, n_bytes, "static");
}

const char *md_ds_variant_name(const md_ds_op *op, int32_t stage, int32_t variant)
{
    return variant >= 0                ? op->stage[stage].variant[variant]->name
           : variant == MD_DS_BY_PARTS ? "its parts"
                                       : "reference";
}

static void trace_stage(const md_ds_op *op, int32_t stage, const md_ds_pick *p, const char *shape)
{
    const md_trace_arg args[] = {
        {.name = "shape", .text = shape},
        {.name = "stage", .number = stage},
        {.name = "variant", .text = md_ds_variant_name(op, stage, p->variant)},
        {.name = "why", .text = md_ds_source_name(p->source)},
        {.name = "us", .number = p->us},
        {.name = "distance", .number = p->distance},
        {.name = "runner_up", .text = p->runner_up >= 0 ? md_ds_variant_name(op, stage, p->runner_up) : "none"},
        {.name = "margin", .number = p->margin},
        {0}};
    md_trace_mark(op->runtime->dev->trace, "choice", op->name, args);
}

void md_ds_trace_choice(const md_ds_op *op, const int64_t *size, const md_ds_plan *plan)
{
    char shape[160];
    md_ds_log_choice(op, size, plan, "picked");
    if (!op->runtime->dev->trace)
        return;
    md_ds_shape_text(shape, sizeof shape, op->formula, size);
    for (int32_t s = 0; s < op->n_stages; s++)
        trace_stage(op, s, &plan->stage[s].pick, shape);
}

/* ---- The log and MD_DUMP */

static bool is_told(const md_ds_op *op)
{
    const md_log *log = op->runtime->log;
    return log && log->fn && log->level >= MD_LOG_DEBUG;
}

void md_ds_log_choice(const md_ds_op *op, const int64_t *size, const md_ds_plan *plan, const char *what)
{
    char shape[160];
    md_strbuf text = {0};
    if (!is_told(op))
        return;
    md_ds_shape_text(shape, sizeof shape, op->formula, size);
    for (int32_t s = 0; s < op->n_stages; s++) {
        const md_ds_pick *p = &plan->stage[s].pick;
        md_strbuf_printf(&text, "%s%s (%s", s ? "; " : "", md_ds_variant_name(op, s, p->variant),
                         md_ds_source_name(p->source));
        if (p->us > 0)
            md_strbuf_printf(&text, ", %.3g us", p->us);
        if (p->runner_up >= 0)
            md_strbuf_printf(&text, ", before %s", md_ds_variant_name(op, s, p->runner_up));
        md_strbuf_add(&text, ")");
    }
    md_log_at(op->runtime->log, MD_LOG_DEBUG, "op %s, %s: %s %s%s", op->name, shape, what, md_strbuf_text(&text),
              plan->is_stand_in ? ", until a better one is built" : "");
    md_strbuf_finish(&text);
}

/* "stage 0, row over j: 2 reductions, 1 level, online; 3 variants: a, b, c" */
static void describe_stage(md_strbuf *out, const md_ds_op *op, int32_t stage, int32_t most)
{
    const md_ds_pool *pool = &op->stage[stage];
    const int32_t n = atomic_load_explicit(&pool->n_variants, memory_order_acquire);
    md_strbuf_printf(out, "stage %d, ", stage);
    md_st_describe(out, op->program, stage);
    md_strbuf_printf(out, "; %d variant%s", n, n == 1 ? "" : "s");
    for (int32_t i = 0; i < MD_MIN(n, most); i++)
        md_strbuf_printf(out, "%s%s", i ? ", " : ": ", pool->variant[i]->name);
    if (n > most)
        md_strbuf_printf(out, " and %d more", n - most);
}

static void one_line(char *text)
{
    for (char *c = text; c && *c; c++)
        if (*c == '\n')
            *c = ' ';
}

static void log_op(const md_ds_op *op)
{
    md_strbuf text = {0};
    md_strbuf_printf(&text, "op %s: %d stage%s, %d hints: %.1000s", op->name, op->n_stages,
                     op->n_stages == 1 ? "" : "s", op->space.n_hints, md_strbuf_text(&op->compiled->printed));
    one_line(text.text);
    md_log_at(op->runtime->log, MD_LOG_DEBUG, "%s", md_strbuf_text(&text));
    md_strbuf_finish(&text);
    for (int32_t s = 0; s < op->n_stages; s++) {
        md_strbuf line = {0};
        describe_stage(&line, op, s, LOG_VARIANTS);
        one_line(line.text);
        md_log_at(op->runtime->log, MD_LOG_DEBUG, "op %s, %s", op->name, md_strbuf_text(&line));
        md_strbuf_finish(&line);
    }
}

static void dump_op(const md_ds_op *op)
{
    md_strbuf text = {0};
    md_strbuf_printf(&text, "op %s\n\n%s\n\nhints ", op->name, md_strbuf_text(&op->compiled->printed));
    md_ds_print_hints(&text, &op->space, ~UINT64_C(0));
    for (int32_t s = 0; s < op->n_stages; s++) {
        md_strbuf_add(&text, "\n");
        describe_stage(&text, op, s, MD_DS_MAX_VARIANTS);
    }
    md_strbuf_add(&text, "\n");
    md_dump_put(op->runtime->dev->dump, op->name, ".txt", md_strbuf_text(&text), text.size);
    md_strbuf_finish(&text);
}

void md_ds_tell_op(const md_ds_op *op)
{
    if (is_told(op))
        log_op(op);
    if (op->runtime->dev->dump)
        dump_op(op);
}
