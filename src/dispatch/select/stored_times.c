/* Stored times, of this chip and of others of its architecture, and how the correction of the model learns them. */
#include "dispatch/select/stored.h"
#include "dispatch/select/stored_state.h"
#include "tune/tune.h"

#include <stdlib.h>
#include <string.h>

/* ---- Teaching */

static void teach_one(md_ds_pool *pool, int32_t variant, const struct md_ds_stored *stored, const md_tn_stored_time *t,
                      bool is_foreign)
{
    const md_ds_space *space = pool->space;
    const md_bd_variant *v = pool->variant[variant];
    int64_t size[MD_FX_MAX_DIMS] = {0};
    if (t->n_sizes != space->n)
        return;
    md_ds_point_sizes(size, space, t->size);
    md_tn_observation o = {.subject = md_tn_subject_of(v),
                           .clock =
                               !is_foreign && md_ds_stored_is_fact(stored, &t->at) ? t->clock : MD_TN_CLOCK_ESTIMATE,
                           .mhz = t->at.is_throttled ? -t->at.mhz : t->at.mhz,
                           .date = t->at.date,
                           .is_stored = true,
                           .is_foreign = is_foreign};
    const double model_us = md_tn_predict_us(&pool->target, v->family, &v->config, size);
    o.ratio = model_us > 0.0 ? t->us / model_us : 0.0;
    memcpy(o.size, t->size, sizeof o.size);
    md_tn_correction_add(pool->correction, &o, true);
}

/* Those of variants that joined the pool since, the newest last. Of another chip only the newest, so that they do not
 * crowd out its own. Returns how many. */
static int32_t teach_times(const struct md_ds_stored *stored, int32_t stage, const md_tn_stored_list *list,
                           bool is_foreign)
{
    enum { MOST_FOREIGN = MD_TN_MOST_OBSERVATIONS / 4 };
    md_ds_pool *pool = &stored->op->stage[stage];
    const int32_t n = atomic_load_explicit(&pool->n_variants, memory_order_acquire);
    int32_t n_taught = 0;
    for (int32_t i = (is_foreign ? MD_MIN(list->n_times, MOST_FOREIGN) : list->n_times) - 1; i >= 0; i--)
        for (int32_t v = stored->n_taught[stage]; v < n && list->time[i].stage == stage; v++)
            if (!strcmp(pool->variant[v]->name, list->time[i].variant)) {
                teach_one(pool, v, stored, &list->time[i], is_foreign);
                n_taught++;
            }
    return n_taught;
}

static void teach_stage(struct md_ds_stored *stored, int32_t stage)
{
    md_ds_pool *pool = &stored->op->stage[stage];
    const int32_t n = atomic_load_explicit(&pool->n_variants, memory_order_acquire);
    if (!pool->correction || n == stored->n_taught[stage])
        return;
    for (int32_t i = 0; i < stored->n_siblings; i++) {
        md_ds_sibling *s = &stored->sibling[i];
        s->n_taught[stage] += teach_times(stored, stage, &s->times, true);
    }
    (void)teach_times(stored, stage, &stored->times, false);
    stored->n_taught[stage] = n;
    stored->version[stage] = md_tn_correction_version(pool->correction);
}

void md_ds_stored_teach(md_ds_op *op)
{
    struct md_ds_stored *stored = op->stored;
    if (!stored)
        return;
    pthread_mutex_lock(&stored->lock);
    for (int32_t s = 0; s < op->n_stages; s++)
        teach_stage(stored, s);
    pthread_mutex_unlock(&stored->lock);
}

/* ---- Other chips */

static bool is_known_sibling(const struct md_ds_stored *stored, const char *name)
{
    bool is_known = !strcmp(name, stored->op->runtime->dev->facts.name);
    for (int32_t i = 0; i < stored->n_siblings; i++)
        is_known |= !strcmp(name, stored->sibling[i].name);
    return is_known;
}

void md_ds_stored_load_siblings(struct md_ds_stored *stored)
{
    const md_dev_facts *f = &stored->op->runtime->dev->facts;
    char name[MD_DS_SIBLINGS + 1][MD_TN_CHIP_NAME];
    const int32_t n = f->arch[0] ? md_tn_stored_chips(name, MD_DS_SIBLINGS + 1, stored->store, f->arch) : 0;
    for (int32_t i = 0; i < n && stored->n_siblings < MD_DS_SIBLINGS; i++) {
        md_ds_sibling *s = &stored->sibling[stored->n_siblings];
        char *key = is_known_sibling(stored, name[i]) ? NULL : md_ds_stored_make_key(stored->op, name[i]);
        if (!key)
            continue;
        md_tn_stored_load(&s->times, stored->store, key);
        memcpy(s->name, name[i], sizeof s->name);
        stored->n_siblings++;
        free(key);
    }
}

const char *md_ds_stored_sibling(int32_t *n_times, const md_ds_op *op, int32_t stage, int32_t i)
{
    const struct md_ds_stored *stored = op->stored;
    for (int32_t k = 0; stored && k < stored->n_siblings; k++) {
        *n_times = stored->sibling[k].n_taught[stage];
        if (*n_times > 0 && i-- == 0)
            return stored->sibling[k].name;
    }
    return NULL;
}
