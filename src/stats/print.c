/* Prints statistics as a table, as JSON or as CSV. */
#include "base/json.h"
#include "base/plain.h"
#include "base/status.h"
#include "stats/rows.h"

#include <stdlib.h>
#include <string.h>

static double mean_us(const md_ss_row *r)
{
    return r->calls ? r->time_us / (double)r->calls : 0.0;
}

/* Whether the time is measured in full, sampled, or the model's. */
static const char *clock_name(const md_ss_row *r)
{
    return r->n_timed == 0 ? "model" : r->n_timed < r->calls ? "sampled" : "measured";
}

/* Octaves, or "-" if no distance applies. */
static void distance_text(char out[16], double distance)
{
    if (distance < 0)
        snprintf(out, 16, "-");
    else
        md_snprintf(out, 16, "%.2f", distance);
}

typedef struct widths {
    int op, shape, variant;
} widths;

static widths measure(const md_ss_rows *rows)
{
    widths w = {2, 5, 7};
    for (int64_t i = 0; i < rows->n; i++) {
        w.op = MD_MAX(w.op, (int)strlen(rows->row[i].op));
        w.shape = MD_MAX(w.shape, (int)strlen(rows->row[i].shape));
        for (int32_t s = 0; s < rows->row[i].n_stages; s++)
            w.variant = MD_MAX(w.variant, (int)strlen(rows->row[i].stage[s].variant));
    }
    return w;
}

/* "softmax: 12 shapes, 40 variants; calls 300, hits 288, misses 12": zeros are left out. */
static void print_ops(md_strbuf *out, const md_ss_rows *rows)
{
    for (int64_t i = 0; i < rows->ops.n; i++) {
        const md_ss_op *o = &rows->ops.op[i];
        const char *between = "; ";
        if (!o->count[0])
            continue;
        md_strbuf_printf(out, "%s: %d shapes, %d variants", o->name, o->n_shapes, o->n_variants);
        for (int32_t k = 0; md_ss_count_name(k); k++) {
            if (o->count[k])
                md_strbuf_printf(out, "%s%s %llu", between, md_ss_count_name(k), (unsigned long long)o->count[k]);
            between = o->count[k] ? ", " : between;
        }
        md_strbuf_add(out, "\n");
    }
}

static void print_table(md_strbuf *out, const md_ss_rows *rows)
{
    widths w = measure(rows);
    md_strbuf_printf(out, "%-*s  %-*s  %-*s  %-9s  %8s  %8s  %10s  %10s  %-8s  %s\n", w.op, "op", w.shape, "shape",
                     w.variant, "variant", "why", "distance", "calls", "total ms", "us a call", "time",
                     "runner-up (by)");
    for (int64_t i = 0; i < rows->n; i++) {
        const md_ss_row *r = &rows->row[i];
        for (int32_t s = 0; s < r->n_stages; s++) {
            const md_ss_stage *stage = &r->stage[s];
            char distance[16];
            distance_text(distance, stage->distance);
            md_strbuf_printf(out, "%-*s  %-*s  %-*s  %-9s  %8s", w.op, s ? "" : r->op, w.shape,
                             s ? "  next stage" : r->shape, w.variant, stage->variant, stage->source, distance);
            if (s == 0)
                md_strbuf_printf(out, "  %8llu  %10.3f  %10.2f  %-8s", (unsigned long long)r->calls, r->time_us / 1e3,
                                 mean_us(r), clock_name(r));
            else
                md_strbuf_printf(out, "  %8s  %10s  %10s  %8s", "", "", "", "");
            if (stage->runner_up[0])
                md_strbuf_printf(out, "  %s (%.2f)", stage->runner_up, stage->margin);
            md_strbuf_add(out, r->is_uncovered && s == 0 ? "  uncovered\n" : "\n");
        }
    }
    print_ops(out, rows);
    json_t *combos = md_ss_combos_json(&rows->combos);
    md_ss_combos_print(out, combos);
    json_decref(combos);
    if (rows->combos.n_busy)
        md_strbuf_printf(out, "%d combos were running, and are left out\n", (int)rows->combos.n_busy);
    if (rows->n == 0)
        md_strbuf_add(out, "no op was called\n");
    if (md_ss_rows_failed(rows))
        md_strbuf_add(out, "rows are missing: memory was short\n");
}

/* Adds a field that a user may have named: valid UTF-8, quoted as RFC 4180 says. */
static void add_csv(md_strbuf *out, const char *text)
{
    char *valid = md_json_valid(text);
    const bool is_quoted = valid && strpbrk(valid, ",\"\r\n");
    out->failed |= !valid;
    md_strbuf_add(out, is_quoted ? "\"" : "");
    for (const char *c = valid; c && *c; c++)
        md_strbuf_printf(out, *c == '"' ? "\"%c" : "%c", *c);
    md_strbuf_add(out, is_quoted ? "\"" : "");
    free(valid);
}

static void print_csv(md_strbuf *out, const md_ss_rows *rows)
{
    md_strbuf_add(out, "op,shape,stage,variant,why,distance,runner_up,margin,calls,total_us,us,time,nearest,uncovered,"
                       "trials,switches,demotions\n");
    for (int64_t i = 0; i < rows->n; i++) {
        const md_ss_row *r = &rows->row[i];
        for (int32_t s = 0; s < r->n_stages; s++) {
            const md_ss_stage *stage = &r->stage[s];
            add_csv(out, r->op);
            md_strbuf_printf(out, ",%s,%d,%s,%s,", r->shape, s, stage->variant, stage->source);
            if (stage->distance >= 0)
                md_strbuf_printf(out, "%.6g", stage->distance);
            md_strbuf_printf(out, ",%s,%.6g,%llu,%.3f,%.3f,%s,", stage->runner_up, stage->margin,
                             (unsigned long long)r->calls, r->time_us, mean_us(r), clock_name(r));
            if (r->nearest >= 0)
                md_strbuf_printf(out, "%.6g", r->nearest);
            md_strbuf_printf(out, ",%d,%d,%d,%d\n", r->is_uncovered, r->trial.timed, r->trial.switches,
                             r->trial.demotions);
        }
    }
}

static json_t *stage_json(const md_ss_stage *stage)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "variant", stage->variant, "why", stage->source, "distance",
                     stage->distance >= 0 ? md_json_real(stage->distance) : json_null(), "runner_up",
                     stage->runner_up[0] ? json_string(stage->runner_up) : json_null(), "margin",
                     md_json_real(stage->margin), "roof", md_ss_roof_json(&stage->shortfall));
}

static json_t *trial_json(const md_ss_row *r)
{
    const md_ds_trial_state *t = &r->trial;
    return r->has_trial ? json_pack("{s:i, s:i, s:i, s:i, s:b}", "rivals", t->challengers, "timed", t->timed,
                                    "switches", t->switches, "demotions", t->demotions, "over", t->is_over)
                        : json_null();
}

static json_t *row_json(const md_ss_row *r)
{
    json_t *stages = json_array();
    for (int32_t s = 0; s < r->n_stages; s++)
        stages = md_json_add(stages, stage_json(&r->stage[s]));
    return json_pack("{s:o, s:s, s:I, s:o, s:o, s:s, s:o, s:b, s:o, s:o}", "op", md_json_text(r->op), "shape", r->shape,
                     "calls", (json_int_t)r->calls, "total_us", md_json_real(r->time_us), "us",
                     md_json_real(mean_us(r)), "time", clock_name(r), "nearest",
                     r->nearest >= 0 ? md_json_real(r->nearest) : json_null(), "uncovered", r->is_uncovered, "trial",
                     trial_json(r), "stages", stages);
}

static json_t *indices_json(const md_ss_op *o)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < o->n_indices; i++) {
        const md_ss_indices *indices = &o->indices[i];
        json_t *values = json_array();
        for (int64_t k = 0; k < indices->n && indices->value; k++)
            values = md_json_add(values, json_integer((json_int_t)indices->value[k]));
        list = md_json_add(list, json_pack("{s:s, s:I, s:o}", "tensor", indices->tensor, "seen",
                                           (json_int_t)indices->seen, "values", values));
    }
    return list;
}

static json_t *op_json(const md_ss_op *o)
{
    json_t *counts = json_object();
    bool ok = counts != NULL;
    for (int32_t k = 0; md_ss_count_name(k) && ok; k++)
        ok = json_object_set_new(counts, md_ss_count_name(k), json_integer((json_int_t)o->count[k])) == 0;
    if (!ok || !o->formula || !o->hints) {
        json_decref(counts);
        return NULL;
    }
    return json_pack("{s:o, s:o, s:o, s:b, s:i, s:i, s:o, s:o}", "op", md_json_text(o->name), "formula",
                     md_json_text(o->formula), "hints", md_json_text(o->hints), "tf32", (int)o->allows_tf32, "shapes",
                     o->n_shapes, "variants", o->n_variants, "counts", counts, "indices", indices_json(o));
}

static json_t *ops_json(const md_ss_rows *rows)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < rows->ops.n; i++)
        list = md_json_add(list, op_json(&rows->ops.op[i]));
    return list;
}

static void print_json(md_strbuf *out, const md_ss_rows *rows)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < rows->n; i++)
        list = md_json_add(list, row_json(&rows->row[i]));
    md_json_print_document(out, json_pack("{s:s, s:o, s:o, s:b, s:o, s:o, s:o, s:i}", "version", md_version(), "device",
                                          md_json_text_or_null(rows->device), "hardware",
                                          md_json_text_or_null(rows->hardware), "complete", !md_ss_rows_failed(rows),
                                          "ops", ops_json(rows), "shapes", list, "combos",
                                          md_ss_combos_json(&rows->combos), "busy_combos", rows->combos.n_busy));
}

md_status md_ss_print(md_strbuf *out, const md_ss_rows *rows, const char *format)
{
    static const struct {
        const char *name;
        void (*print)(md_strbuf *out, const md_ss_rows *rows);
    } format_of[] = {{"table", print_table}, {"json", print_json}, {"csv", print_csv}};
    for (int32_t i = 0; i < MD_COUNT(format_of); i++) {
        if (strcmp(format_of[i].name, format))
            continue;
        format_of[i].print(out, rows);
        return out->failed ? md_fail_memory() : MD_OK;
    }
    return md_fail(MD_INVALID_ARGUMENT, "statistics format '%s': expected table, json or csv", format);
}
