/* A point in work: what is known of it, the right to tune it, and the memory for measuring there. */
#include "tune/search/job.h"

#include "base/status.h"
#include "tune/tune.h"

#include <stdlib.h>

/* Whether all that the point can give is known; keeps what there is to go on from. */
static bool is_known(md_tn_work *w, md_tn_spot *spot)
{
    bool is_complete = true;
    for (int32_t f = 0; f < w->n_families; f++) {
        md_tn_record *r = &spot->before[f];
        md_tn_record_finish(r);
        const bool is_there = md_tn_wisdom_find(r, w->job->wisdom, spot->key, w->family[f]->name, w->job->rigor) == MD_OK;
        if (is_there ? !r->is_complete : is_complete && md_tn_has_config(w, spot, w->family[f]))
            is_complete = false;
    }
    return is_complete;
}

md_status md_tn_spot_open(md_tn_work *w, md_tn_spot *spot)
{
    spot->best = -1;
    spot->lease = -1;
    MD_TRY(md_tn_key(&spot->key, &w->job->target, spot->point->size, spot->point->is_ragged));
    MD_TN_COUNT(w, points);
    md_tn_shape(&spot->shape, w->job->target.program, spot->point->size);
    if (spot->point->is_ragged)
        spot->shape.aligned = spot->shape.aligned16 = 0;
    if (is_known(w, spot)) {
        MD_TN_COUNT(w, found);
        md_tn_log_known(w, spot);
        return MD_OK;
    }
    spot->has_lease = md_tn_wisdom_lease(&spot->lease, w->job->wisdom, spot->key);
    if (!spot->has_lease) {
        MD_TN_COUNT(w, busy);
        md_tn_log_spot(w, spot, "busy", "another process tunes it");
        return MD_OK;
    }
    if (is_known(w, spot)) { /* meanwhile */
        MD_TN_COUNT(w, found);
        md_tn_log_known(w, spot);
        return MD_OK;
    }
    spot->is_open = true;
    return MD_OK;
}

bool md_tn_spot_measure(md_tn_work *w, md_tn_spot *spot)
{
    const md_tn_job *job = w->job;
    const int64_t limit = md_tn_bench_limit(w->dev);
    md_kn_report *report = w->dev->ops->report_create ? w->report.kernel : NULL;
    md_status s = md_tn_data_make(&spot->data, &w->patterns, job->target.program, job->target.stage, spot->point->size, spot->point->is_ragged, limit);
    if (s == MD_OK) {
        s = md_tn_bench_make(&spot->bench, w->dev, &spot->data, report, limit);
        if (s != MD_OK)
            md_tn_data_finish(&spot->data);
    }
    if (s != MD_OK) {
        MD_TN_COUNT(w, out_of_memory);
        md_tn_log_spot(w, spot, "skipped", md_last_error());
        spot->is_open = false;
        return false;
    }
    spot->has_bench = true;
    return true;
}

void md_tn_spot_rest(md_tn_spot *spot)
{
    if (!spot->has_bench)
        return;
    md_tn_bench_finish(&spot->bench);
    md_tn_data_finish(&spot->data);
    spot->has_bench = false;
}

void md_tn_spot_close(md_tn_work *w, md_tn_spot *spot)
{
    md_tn_spot_rest(spot);
    md_tn_verify_leave(spot);
    if (spot->has_lease)
        md_tn_wisdom_unlease(w->job->wisdom, spot->lease);
    for (int32_t f = 0; f < MD_TN_MAX_FAMILIES; f++) {
        free(spot->space[f].choice);
        md_tn_record_finish(&spot->before[f]);
    }
    free(spot->entry);
    free(spot->key);
}
