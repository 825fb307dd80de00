/* Which variant an item runs in place of its own, where tuning found a better config. Such a variant is of the same
 * family and numeric class, so that an item has the bits of a call of it in any case. */
#include "combo/axis.h"
#include "combo/combo.h"
#include "family/numeric.h"

#include <string.h>

const char *md_cb_why_not(const md_bd_variant *v, int32_t launch, const md_kn_geometry *g, const md_ds_op *op)
{
    if (v->is_function[launch])
        return "a library computes it";
    if (g->cluster > 1 || g->is_cooperative)
        return "its blocks work together";
    for (int32_t i = 0; i < v->n_params[launch]; i++) {
        const md_kn_param_kind kind = (md_kn_param_kind)v->param[launch][i].kind;
        if (kind == MD_KN_STAGE)
            return "it calls back";
        if (kind == MD_KN_MAP)
            return "it uses tensor maps";
        if (kind == MD_KN_COUNTERS)
            return "it counts on memory of its stream";
        if (kind == MD_KN_REPORT && !op->report.kernel)
            return "it reports indices out of range";
    }
    return NULL;
}

bool md_cb_is_alike(const md_bd_variant *own, const md_fa_config *config)
{
    md_fa_numeric numeric;
    md_fa_numeric_of(&numeric, &own->target, own->family, config);
    return numeric.id == own->numeric_class && md_fa_is_persistent(&own->target, own->family, config) ==
                                                   md_fa_is_persistent(&own->target, own->family, &own->config);
}

static bool is_same(const md_fa_family *f, const md_fa_config *a, const md_fa_config *b)
{
    return !memcmp(a->value, b->value, (size_t)f->n_fields * sizeof a->value[0]) && a->custom == b->custom;
}

static const md_cb_choice *find_choice(const md_cb_choices *c, const md_bd_variant *own, const md_ds_op *op)
{
    for (int32_t i = 0; i < c->n; i++)
        if (c->choice[i].op == op && c->choice[i].stage == own->target.stage && c->choice[i].family == own->family &&
            is_same(own->family, &c->choice[i].from, &own->config))
            return &c->choice[i];
    return NULL;
}

/* The largest value of a field that is at most `limit`; `initial` if none is. */
static int32_t lower(const md_fa_field *f, int64_t limit, int32_t initial)
{
    int32_t best = initial;
    bool is_found = false;
    for (int32_t i = 0; i < f->n + f->more; i++)
        if (f->value[i] <= limit && (!is_found || f->value[i] > best)) {
            best = f->value[i];
            is_found = true;
        }
    return best;
}

/* The config of a choice, with no block dim above an item's limit unless its own variant is above it, too. */
static md_fa_config clamp(const md_cb_choice *c, const md_bd_variant *own, const md_kn_shape *shape)
{
    int64_t size[MD_CB_BLOCK_AXES];
    md_fa_config config = c->to;
    md_cb_axis_sizes(size, &own->target, shape->size);
    for (int32_t i = 0; i < c->family->n_fields; i++) {
        const int32_t before = c->from.value[i];
        const int64_t limit = MD_MAX(md_cb_axis_limit(size, md_cb_axis_of(c->family, i)), before);
        if (config.value[i] > limit)
            config.value[i] = lower(&c->family->field[i], limit, before);
    }
    return config;
}

/* NULL: there is no room or no memory for it. */
static const md_bd_variant *make(md_cb *cb, const md_bd_variant *own, const md_fa_config *config)
{
    md_cb_choices *c = &cb->choices;
    md_fa_target target = own->target;
    for (int32_t i = 0; i < c->n_made; i++)
        if (c->made[i]->target.program == target.program && c->made[i]->target.stage == target.stage &&
            c->made[i]->family == own->family && is_same(own->family, &c->made[i]->config, config))
            return c->made[i];
    target.memo = NULL;
    if (c->n_made == MD_CB_MAX_MADE ||
        md_bd_variant_create(&c->made[c->n_made], cb->runtime->builder, &target, own->family, config) != MD_OK)
        return NULL;
    if (cb->runtime->waits)
        (void)md_bd_variant_wait(c->made[c->n_made]);
    return c->made[c->n_made++];
}

/* True if the variant can run beside others at a shape, in one launch as `own` does. */
static bool fits(md_kn_geometries *g, const md_bd_variant *v, const md_ds_op *op, const md_kn_shape *shape)
{
    if (v->n_launches != 1 || md_kn_envelope_miss(&v->envelope, shape))
        return false;
    md_fa_geometry_of(g, v->family, &v->target, &v->config, shape);
    return g->workspace_bytes == 0 && g->launch[0].blocks > 0 && !md_cb_why_not(v, 0, &g->launch[0], op);
}

const md_bd_variant *md_cb_choose(md_kn_geometries *geometry, md_cb *cb, const md_bd_variant *own, const md_ds_op *op,
                                  const md_kn_shape *shape)
{
    const md_cb_choice *choice = find_choice(&cb->choices, own, op);
    md_kn_geometries g;
    if (!choice || own->n_launches != 1 || op->stage[own->target.stage].pinned >= 0 || geometry->workspace_bytes > 0)
        return own;
    const md_fa_config config = clamp(choice, own, shape);
    if (is_same(own->family, &config, &own->config) || !md_fa_legal(own->family, &own->target, &config, shape->size) ||
        !md_cb_is_alike(own, &config))
        return own;
    const md_bd_variant *v = make(cb, own, &config);
    const int32_t state = v ? atomic_load_explicit(&v->state, memory_order_acquire) : MD_BD_FAILED;
    cb->plan->awaits_choices |= state == MD_BD_QUEUED;
    if (state != MD_BD_READY || !fits(&g, v, op, shape))
        return own;
    *geometry = g;
    return v;
}

bool md_cb_choices_are_new(const md_cb *cb)
{
    for (int32_t i = 0; cb->plan->awaits_choices && i < cb->choices.n_made; i++)
        if (atomic_load_explicit(&cb->choices.made[i]->state, memory_order_acquire) == MD_BD_QUEUED)
            return false;
    return cb->plan->awaits_choices;
}

void md_cb_choices_wait(const md_cb *cb)
{
    for (int32_t i = 0; i < cb->choices.n_made; i++)
        (void)md_bd_variant_wait(cb->choices.made[i]);
}

void md_cb_choices_finish(md_cb *cb)
{
    while (cb->choices.n_made > 0)
        md_bd_variant_destroy(&cb->choices.made[--cb->choices.n_made]);
    cb->choices.n = 0;
}
