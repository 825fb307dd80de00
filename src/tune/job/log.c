/* JSON lines of a search: every candidate, every winner. */
#include "tune/job/work.h"

#include <math.h>
#include <string.h>

static void write_line(const md_tn_work *w, md_strbuf *b)
{
    md_strbuf_add(b, "}\n");
    if (!b->failed)
        (void)w->job->write(w->job->user, b->text, b->size);
    md_strbuf_finish(b);
}

static void begin(md_strbuf *b, const md_tn_work *w, const md_tn_tuning_point *tuning_point, const char *event)
{
    const md_fx_formula *f = w->job->target.program->formula;
    md_strbuf_printf(b, "{\"event\": \"%s\", \"t_ms\": %.2f, \"stage\": %d, \"ragged\": %s, \"sizes\": {", event,
                     (double)(md_tn_now_ns(w->dev) - w->start_ns) * 1e-6, w->job->target.stage,
                     tuning_point->point->is_ragged ? "true" : "false");
    bool is_first = true;
    for (int32_t d = 0; d < f->n_dims; d++)
        if (f->dim[d].size < 0) {
            md_strbuf_printf(b, "%s\"%s\": %lld", is_first ? "" : ", ", f->dim[d].name,
                             (long long)tuning_point->point->size[d]);
            is_first = false;
        }
    md_strbuf_add(b, "}");
}

/* JSON has no infinities. */
static double plain_number(double x)
{
    return isfinite(x) ? x : -1.0;
}

void md_tn_log_candidate(const md_tn_work *w, const md_tn_tuning_point *tuning_point, int32_t trial)
{
    const md_tn_trial *t = &w->trial[trial];
    const md_tn_entry *e = &tuning_point->entry[trial];
    md_strbuf b = {0};
    if (!w->job->write)
        return;
    begin(&b, w, tuning_point, "candidate");
    md_strbuf_printf(&b,
                     ", \"round\": %d, \"variant\": \"%s\", \"verdict\": \"%s\", \"model_us\": %.5g, \"us\": %.5g, "
                     "\"spread\": %.4g, \"count\": %d, \"build_ms\": %.2f",
                     w->round, md_tn_trial_name(t), md_tn_verdict_name(t->is_out ? t->verdict : e->verdict),
                     plain_number(e->model_us), e->n ? e->us : e->first_us, e->spread, e->n,
                     t->variant && t->variant->build_ns != ~(uint64_t)0 ? (double)t->variant->build_ns * 1e-6 : 0.0);
    if (t->variant && t->is_out && t->variant->failure[0]) {
        md_strbuf_add(&b, ", \"why\": ");
        md_strbuf_json(&b, t->variant->failure);
    }
    write_line(w, &b);
}

void md_tn_log_try(const md_tn_work *w, const md_tn_tuning_point *tuning_point, const char *event, int32_t trial)
{
    md_strbuf b = {0};
    if (!w->job->write)
        return;
    begin(&b, w, tuning_point, event);
    md_strbuf_printf(&b, ", \"variant\": \"%s\"", md_tn_trial_name(&w->trial[trial]));
    write_line(w, &b);
}

static void log_record(const md_tn_work *w, const md_tn_tuning_point *tuning_point, const md_tn_record *r, bool is_best,
                       bool is_known)
{
    md_strbuf b = {0};
    if (!w->job->write)
        return;
    begin(&b, w, tuning_point, "winner");
    md_strbuf_printf(&b,
                     ", \"family\": \"%s\", \"variant\": \"%s\", \"us\": %.5g, \"spread\": %.4g, \"count\": %d, "
                     "\"complete\": %s, \"builds\": %d, \"best\": %s, \"known\": %s",
                     r->family, r->variant, r->us, r->spread, r->count, r->is_complete ? "true" : "false",
                     tuning_point->n_builds, is_best ? "true" : "false", is_known ? "true" : "false");
    write_line(w, &b);
}

void md_tn_log_winner(const md_tn_work *w, const md_tn_tuning_point *tuning_point, const md_tn_record *r)
{
    log_record(w, tuning_point, r,
               tuning_point->best >= 0 && !strcmp(md_tn_trial_name(&w->trial[tuning_point->best]), r->variant), false);
}

void md_tn_log_known(const md_tn_work *w, const md_tn_tuning_point *tuning_point)
{
    const md_tn_record *best = NULL;
    for (int32_t f = 0; f < w->n_families; f++)
        if (tuning_point->before[f].count > 0 && (!best || tuning_point->before[f].us < best->us))
            best = &tuning_point->before[f];
    for (int32_t f = 0; f < w->n_families; f++)
        if (tuning_point->before[f].variant[0])
            log_record(w, tuning_point, &tuning_point->before[f], &tuning_point->before[f] == best, true);
}

void md_tn_log_point(const md_tn_work *w, const md_tn_tuning_point *tuning_point, const char *event, const char *why)
{
    md_strbuf b = {0};
    if (!w->job->write)
        return;
    begin(&b, w, tuning_point, event);
    if (why) {
        md_strbuf_add(&b, ", \"why\": ");
        md_strbuf_json(&b, why);
    }
    write_line(w, &b);
}
