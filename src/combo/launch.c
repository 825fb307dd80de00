/* Enqueues the units of a plan on a GPU: groups by one launch each, the others one by one. */
#include "base/status.h"
#include "combo/merge.h"

/* The kernel of a group, if it is built and its table is right; else NULL. */
static const md_dev_kernel *kernel_of(md_cb *cb, md_cb_group *g)
{
    const char *why = NULL;
    if (!g->text)
        return NULL;
    if (!g->ready) {
        const md_bd_state state = md_bd_text_state(&g->ready, &why, g->text);
        if (state == MD_BD_FAILED) {
            snprintf(g->why, sizeof g->why, "%.190s", why);
            g->text = NULL;
            /* so the next run forms the groups without this form */
            cb->refuses_far |= g->kernel.is_far && !g->kernel.min_blocks;
            cb->refuses_tight |= g->kernel.min_blocks > 0;
        }
        if (state != MD_BD_READY)
            return NULL;
    }
    const md_status status = md_cb_table_update(cb, g);
    if (status == MD_NOT_FOUND) {
        snprintf(g->why, sizeof g->why, "%.190s", md_last_error());
        g->text = NULL;
    }
    return status == MD_OK ? g->ready : NULL;
}

static md_status launch_unit(const md_cb *cb, const md_cb_unit *u, md_stream stream)
{
    md_dev *dev = cb->runtime->dev;
    const md_dev_params params = {cb->plan->word + u->params, u->variant->n_params[u->launch]};
    return dev->ops->launch(dev, stream, u->variant->kernel[u->launch], &u->geometry, params, NULL);
}

/* Decides how the group is run, and puts its items into device memory if its kernel reads them there. */
static md_status prepare_group(md_cb *cb, md_cb_group *g, md_stream stream)
{
    g->now = kernel_of(cb, g);
    if (!g->now || !g->kernel.is_far)
        return MD_OK;
    MD_TRY(md_cb_far_use(&g->far, cb->runtime, stream));
    g->table[1].p = g->far.there;
    return MD_OK;
}

static md_status launch_group(const md_cb *cb, md_cb_group *g, md_stream stream)
{
    md_dev *dev = cb->runtime->dev;
    g->n_merged += g->now != NULL;
    g->n_single += !g->now;
    if (g->now)
        return dev->ops->launch(dev, stream, g->now, &g->geometry, (md_dev_params){g->table, g->kernel.table_words},
                                NULL);
    for (int64_t i = 0; i < g->n; i++)
        MD_TRY(launch_unit(cb, &cb->plan->unit[g->unit[i]], stream));
    return MD_OK;
}

md_status md_cb_run_merged(md_cb *cb, md_stream stream)
{
    struct md_cb_merged *m = cb->merged;
    int64_t group = 0, alone = 0;
    for (int64_t g = 0; g < m->n;
         g++) /* before any launch, so that a lack of memory for a table leaves all outputs as they were */
        MD_TRY(prepare_group(cb, &m->group[g], stream));
    for (int32_t level = 0; level < cb->plan->n_levels; level++) {
        for (; group < m->n && m->group[group].level == level; group++)
            MD_TRY(launch_group(cb, &m->group[group], stream));
        for (; alone < m->n_alone && cb->plan->unit[m->alone[alone]].level == level; alone++)
            MD_TRY(launch_unit(cb, &cb->plan->unit[m->alone[alone]], stream));
    }
    return MD_OK;
}

md_status md_cb_run_each(md_cb *cb, md_stream stream)
{
    for (int64_t i = 0; i < cb->plan->n_units; i++)
        MD_TRY(launch_unit(cb, &cb->plan->unit[i], stream));
    for (int64_t g = 0; cb->merged && g < cb->merged->n; g++)
        cb->merged->group[g].n_single++;
    cb->plan->untold_each += !cb->merged;
    return MD_OK;
}
