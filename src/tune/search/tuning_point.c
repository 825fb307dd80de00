/* A point of a search: what is known of it, the lease of its key, and the memory for measuring there. */
#include "tune/search/internal.h"

#include "base/status.h"
#include "tune/tune.h"

#include <stdlib.h>

/* True if all families are known completely; keeps the records that are there. */
static bool is_known(md_tn_work *w, md_tn_tuning_point *tuning_point)
{
    bool is_complete = true;
    for (int32_t f = 0; f < w->n_families; f++) {
        md_tn_record *r = &tuning_point->before[f];
        md_tn_record_finish(r);
        const bool is_there =
            md_tn_wisdom_find(r, w->job->wisdom, tuning_point->key, w->family[f]->name, w->job->rigor) == MD_OK;
        if (is_there ? !r->is_complete : is_complete && md_tn_has_config(w, tuning_point, w->family[f]))
            is_complete = false;
    }
    return is_complete;
}

/* False where another process has it. A search of one family leaves the others of the point to other processes. */
static bool take_lease(md_tn_work *w, md_tn_tuning_point *tuning_point)
{
    const md_fa_family *only = w->job->only;
    md_strbuf name = {0};
    md_strbuf_printf(&name, "%s%s%s", tuning_point->key, only ? "\n" : "", only ? only->name : "");
    const bool is_taken = name.failed || md_tn_wisdom_lease(&tuning_point->lease, w->job->wisdom, name.text);
    md_strbuf_finish(&name);
    return is_taken;
}

md_status md_tn_tuning_point_open(md_tn_work *w, md_tn_tuning_point *tuning_point)
{
    tuning_point->best = -1;
    tuning_point->lease = -1;
    MD_TRY(md_tn_key(&tuning_point->key, &w->job->target, tuning_point->point->size, tuning_point->point->is_ragged));
    MD_TN_COUNT(w, points);
    md_tn_shape(&tuning_point->shape, w->job->target.program, tuning_point->point->size);
    if (tuning_point->point->is_ragged)
        tuning_point->shape.aligned = tuning_point->shape.aligned16 = 0;
    if (is_known(w, tuning_point)) {
        MD_TN_COUNT(w, found);
        md_tn_log_known(w, tuning_point);
        return MD_OK;
    }
    tuning_point->has_lease = take_lease(w, tuning_point);
    if (!tuning_point->has_lease) {
        MD_TN_COUNT(w, busy);
        md_tn_log_point(w, tuning_point, "busy", "another process tunes it");
        return MD_OK;
    }
    if (is_known(w, tuning_point)) { /* meanwhile */
        MD_TN_COUNT(w, found);
        md_tn_log_known(w, tuning_point);
        return MD_OK;
    }
    tuning_point->is_open = true;
    return MD_OK;
}

bool md_tn_tuning_point_measure(md_tn_work *w, md_tn_tuning_point *tuning_point)
{
    const md_tn_job *job = w->job;
    const int64_t limit = md_tn_bench_limit(w->dev);
    md_kn_report *report = w->dev->ops->report_create ? w->report.kernel : NULL;
    md_status s = md_tn_data_make(&tuning_point->data, &w->patterns, &job->target, tuning_point->point->size,
                                  tuning_point->point->is_ragged, limit);
    if (s == MD_OK) {
        s = md_tn_bench_make(&tuning_point->bench, w->dev, &tuning_point->data, report, limit);
        if (s != MD_OK)
            md_tn_data_finish(&tuning_point->data);
    }
    if (s != MD_OK) {
        MD_TN_COUNT(w, out_of_memory);
        md_tn_log_point(w, tuning_point, "skipped", md_last_error());
        tuning_point->is_open = false;
        return false;
    }
    tuning_point->has_bench = true;
    return true;
}

void md_tn_tuning_point_rest(md_tn_tuning_point *tuning_point)
{
    if (!tuning_point->has_bench)
        return;
    md_tn_bench_finish(&tuning_point->bench);
    md_tn_data_finish(&tuning_point->data);
    tuning_point->has_bench = false;
}

void md_tn_tuning_point_close(md_tn_work *w, md_tn_tuning_point *tuning_point)
{
    md_tn_tuning_point_rest(tuning_point);
    md_tn_verify_leave(tuning_point);
    if (tuning_point->has_lease)
        md_tn_wisdom_unlease(w->job->wisdom, tuning_point->lease);
    for (int32_t f = 0; f < MD_TN_MAX_FAMILIES; f++) {
        free(tuning_point->space[f].choice);
        md_tn_record_finish(&tuning_point->before[f]);
    }
    free(tuning_point->entry);
    free(tuning_point->key);
}
