/* Chooses how the items of a combo run: each by the plan that a call of it would get, all launches listed by level. */
#include "base/grow.h"
#include "base/status.h"
#include "base/table.h"
#include "combo/axis.h"
#include "combo/merge.h"
#include "dispatch/bind/bind.h"
#include "dispatch/call/call.h"

#include <stdlib.h>
#include <string.h>

/* Items with more memory of their own than this, all together, run one after the other instead. */
#define MOST_MEMORY ((size_t)256 << 20)

typedef struct scheduler {
    md_cb *cb;
    md_cb_schedule *plan;
    md_table *shapes; /* shape entry -> the combo's shape */
    md_stream stream;
    const md_bd_variant *leader[MD_MAX_STAGES]; /* of this part: by stage, that of the heaviest item; NULL: none */
    const md_ds_op *leader_op; /* that the heaviest item was bound to */
} scheduler;

/* ---- Shapes */

/* Takes the entry over. */
static md_status add_shape(md_cb_shape **out, scheduler *s, md_ds_op *op, md_ds_shape_entry *entry)
{
    md_cb_schedule *plan = s->plan;
    const uintptr_t number = (uintptr_t)md_table_find(s->shapes, &entry, sizeof(md_ds_shape_entry *));
    if (number > 0) {
        md_ds_shape_entry_release(entry);
        *out = &plan->shape[number - 1];
        (*out)->n_items++;
        return MD_OK;
    }
    if (!md_grow(&plan->shape, (size_t)plan->n_shapes, sizeof *plan->shape)) {
        md_ds_shape_entry_release(entry);
        return md_fail_memory();
    }
    plan->shape[plan->n_shapes++] = (md_cb_shape){op, entry, md_ds_plan_to_serve(entry), 1};
    *out = &plan->shape[plan->n_shapes - 1];
    plan->is_stand_in |= (*out)->plan->is_stand_in;
    plan->may_change |= (*out)->plan->is_stand_in || op->hybrid;
    return md_table_put(s->shapes, &entry, sizeof(md_ds_shape_entry *), (void *)(uintptr_t)plan->n_shapes, NULL);
}

/* ---- Items */

static const char *why_apart(const md_ds_op *op, const md_ds_plan *plan, const md_ds_bound *bound)
{
    if (plan->by_reference)
        return "the reference evaluator serves";
    if (bound->copies.n > 0)
        return "an input is copied first";
    if (plan->n_packing > 0)
        return "an operand is packed once";
    for (int32_t s = 0; s < op->n_stages; s++) {
        if (plan->stage[s].is_idle)
            continue;
        const md_bd_variant *v = op->stage[s].variant[plan->stage[s].pick.variant];
        for (int32_t l = 0; l < v->n_launches; l++) {
            const char *why = md_cb_why_not(v, l, &plan->stage[s].geometry.launch[l], op);
            if (why)
                return why;
        }
    }
    return NULL;
}

static double bytes_of(const md_cb_part *part, int64_t item)
{
    double sum = 0;
    for (int32_t s = 0; s < part->n_operands; s++) {
        const md_tensor t = md_cb_tensor(part, &part->operand[s], item);
        double n = (double)md_dtype_size(t.dtype);
        for (int32_t a = 0; a < t.rank; a++)
            n *= (double)t.size[a];
        sum += n;
    }
    return sum;
}

static md_status add_unit(scheduler *s, const md_cb_unit *unit)
{
    md_cb_schedule *plan = s->plan;
    if (!md_grow(&plan->unit, (size_t)plan->n_units, sizeof *plan->unit))
        return md_fail_memory();
    plan->unit[plan->n_units] = *unit;
    plan->unit[plan->n_units++].params = plan->n_words;
    plan->n_words += unit->variant->n_params[unit->launch];
    return MD_OK;
}

/* On a GPU: the variant of the heaviest item, if it gives the same bits, so that few kernels take many items. */
static const md_bd_variant *follow(md_kn_geometries *geometry, const scheduler *s, const md_bd_variant *own,
                                   int32_t stage, const md_kn_shape *shape)
{
    const md_bd_variant *v = s->leader[stage];
    md_kn_geometries g;
    if (!v || v == own || v->n_launches != 1 || own->n_launches != 1 || v->numeric_class != own->numeric_class ||
        geometry->workspace_bytes > 0 || md_kn_envelope_miss(&v->envelope, shape))
        return own;
    md_fa_geometry_of(&g, v->family, &v->target, &v->config, shape);
    if (g.workspace_bytes > 0 || g.launch[0].blocks <= 0 || g.launch[0].cluster > 1 || g.launch[0].is_cooperative)
        return own;
    *geometry = g;
    return v;
}

static md_status add_units(scheduler *s, int32_t p, int64_t item, const md_cb_shape *of, const md_kn_shape *shape)
{
    const md_ds_plan *plan = of->plan;
    const md_cb_part *part = &s->cb->part[p];
    md_ds_op *op = of->op;
    md_cb_unit unit = {.op = op,
                       .plan = plan,
                       .entry = of->entry,
                       .part = p,
                       .item = part->first + item,
                       .bytes = bytes_of(part, item)};
    for (int32_t stage = 0; stage < op->n_stages; stage++) {
        md_kn_geometries geometry = plan->stage[stage].geometry;
        if (plan->stage[stage].is_idle)
            continue;
        unit.stage = stage;
        unit.variant = op->stage[stage].variant[plan->stage[stage].pick.variant];
        if (op == s->leader_op)
            unit.variant = follow(&geometry, s, unit.variant, stage, shape);
        unit.variant = md_cb_choose(&geometry, s->cb, unit.variant, op, shape);
        for (unit.launch = 0; unit.launch < unit.variant->n_launches; unit.launch++) {
            unit.geometry = geometry.launch[unit.launch];
            if (!md_cb_axis_suits_warp(&unit.points, &unit.rows, unit.variant, &unit.geometry, shape))
                unit.points = unit.rows = 0;
            if (unit.geometry.blocks > 0)
                MD_TRY(add_unit(s, &unit));
            unit.level++;
        }
    }
    s->plan->n_levels = MD_MAX(s->plan->n_levels, unit.level);
    s->plan->memory[unit.item] = s->plan->memory_bytes;
    s->plan->memory_bytes += md_ds_align(plan->workspace_bytes);
    return MD_OK;
}

/* Binds an item, and finds its shape entry. */
static md_status find_item(md_ds_shape_entry **out, md_ds_op **op, md_ds_bound *bound, const scheduler *s, int32_t p,
                           int64_t item)
{
    MD_TRY(md_cb_bind_item(op, bound, &s->cb->part[p], item));
    return md_ds_find(out, *op, s->stream, bound);
}

static md_status plan_item(scheduler *s, int32_t p, int64_t item)
{
    md_ds_bound bound;
    md_ds_shape_entry *entry = NULL;
    md_ds_op *op = NULL;
    md_cb_shape *shape = NULL;
    const md_cb_part *part = &s->cb->part[p];
    MD_TRY(find_item(&entry, &op, &bound, s, p, item));
    MD_TRY(add_shape(&shape, s, op, entry));
    const char *why = why_apart(op, shape->plan, &bound);
    if (!why && shape->plan->workspace_bytes > MOST_MEMORY - s->plan->memory_bytes)
        why = "all need too much memory at once";
    if (!why)
        return add_units(s, p, item, shape, &bound.shape);
    shape->n_items--; /* the item runs as a call, which counts itself */
    s->plan->why_apart[s->plan->n_apart] = why;
    s->plan->apart[s->plan->n_apart++] = part->first + item;
    return MD_OK;
}

/* Where the heaviest item is one block, blocks of fewer threads: more items are on the device at once. */
static const md_bd_variant *lighten(const md_bd_variant *v, const md_ds_pool *pool, const md_kn_shape *shape)
{
    const int32_t n = atomic_load_explicit(&pool->n_variants, memory_order_acquire);
    md_kn_geometries g;
    md_fa_geometry_of(&g, v->family, &v->target, &v->config, shape);
    if (v->n_launches != 1 || g.launch[0].blocks != 1 || g.workspace_bytes > 0)
        return v;
    int32_t least = g.launch[0].block[0];
    for (int32_t i = 0; i < n; i++) {
        const md_bd_variant *variant = pool->variant[i];
        if (atomic_load_explicit(&variant->state, memory_order_acquire) != MD_BD_READY || variant->n_launches != 1 ||
            variant->numeric_class != v->numeric_class || md_kn_envelope_miss(&variant->envelope, shape))
            continue;
        md_fa_geometry_of(&g, variant->family, &variant->target, &variant->config, shape);
        if (g.launch[0].blocks != 1 || g.launch[0].block[0] >= least || g.workspace_bytes > 0 ||
            g.launch[0].cluster > 1)
            continue;
        least = g.launch[0].block[0];
        v = variant;
    }
    return v;
}

/* A pointwise kernel of many items takes more registers than one alone, so that an SM holds one or two blocks of 512
 * threads: its like of 256 threads, if there is one. */
static const md_bd_variant *narrow(const md_bd_variant *v, const md_ds_pool *pool, const md_kn_shape *shape)
{
    const int32_t n = atomic_load_explicit(&pool->n_variants, memory_order_acquire);
    md_fa_config config = v->config;
    for (int32_t i = 0; i < v->family->n_fields; i++)
        if (!strcmp(v->family->name, "pointwise") && !strcmp(v->family->field[i].name, "threads") &&
            config.value[i] == 512)
            config.value[i] = 256;
    for (int32_t i = 0; i < n; i++) {
        const md_bd_variant *variant = pool->variant[i];
        if (variant->family == v->family && !memcmp(variant->config.value, config.value, sizeof config.value) &&
            atomic_load_explicit(&variant->state, memory_order_acquire) == MD_BD_READY &&
            variant->numeric_class == v->numeric_class && !md_kn_envelope_miss(&variant->envelope, shape))
            return variant;
    }
    return v;
}

/* The variants of the heaviest item of a part. */
static md_status choose_leader(scheduler *s, int32_t p)
{
    md_ds_bound bound;
    md_ds_shape_entry *entry = NULL;
    md_ds_op *op = NULL;
    const md_cb_part *part = &s->cb->part[p];
    int64_t heaviest = -1;
    double most = -1;
    memset(s->leader, 0, sizeof s->leader);
    s->leader_op = NULL;
    for (int64_t i = 0; s->cb->runtime->dev->facts.kind == MD_DEV_CUDA && i < part->n_items; i++) {
        const double bytes = part->is_empty[i] ? -1 : bytes_of(part, i);
        if (bytes > most) {
            most = bytes;
            heaviest = i;
        }
    }
    if (heaviest < 0)
        return MD_OK;
    MD_TRY(find_item(&entry, &op, &bound, s, p, heaviest));
    const md_ds_plan *plan = md_ds_plan_of(entry);
    s->leader_op = why_apart(op, plan, &bound) ? NULL : op;
    for (int32_t stage = 0; s->leader_op && stage < op->n_stages; stage++) {
        if (plan->stage[stage].is_idle)
            continue;
        const md_bd_variant *v = op->stage[stage].variant[plan->stage[stage].pick.variant];
        s->leader[stage] = plan->stage[stage].pick.source == MD_DS_PINNED
                               ? v
                               : narrow(lighten(v, &op->stage[stage], &bound.shape), &op->stage[stage], &bound.shape);
    }
    md_ds_shape_entry_release(entry);
    return MD_OK;
}

static md_status plan_items(scheduler *s)
{
    for (int32_t p = 0; p < s->cb->n_parts; p++) {
        const md_cb_part *part = &s->cb->part[p];
        memcpy(part->planned, part->data, (size_t)(part->n_items * part->n_operands) * sizeof *part->data);
        MD_TRY(choose_leader(s, p));
        for (int64_t i = 0; i < part->n_items; i++) {
            const md_status status = part->is_empty[i] ? MD_OK : plan_item(s, p, i);
            if (status != MD_OK)
                return md_fail_more(status, " (part %d, item %lld)", (int)p, (long long)i);
        }
    }
    return MD_OK;
}

/* ---- The plan */

static int by_level(const void *a, const void *b)
{
    const md_cb_unit *x = a, *y = b;
    if (x->level != y->level)
        return x->level < y->level ? -1 : 1;
    return (x->params > y->params) - (x->params < y->params);
}

static md_status finish(scheduler *s)
{
    md_cb_schedule *plan = s->plan;
    plan->word = malloc((size_t)MD_MAX(plan->n_words, 1) * sizeof *plan->word);
    if (!plan->word)
        return md_fail_memory();
    if (plan->n_levels > 1)
        qsort(plan->unit, (size_t)plan->n_units, sizeof *plan->unit, by_level);
    md_cb_fill(s->cb);
    return MD_OK;
}

md_status md_cb_schedule_make(md_cb *cb, md_stream stream)
{
    const size_t n = (size_t)MD_MAX(cb->n_items, 1);
    md_cb_schedule_free(cb);
    scheduler s = {.cb = cb, .plan = calloc(1, sizeof *s.plan), .shapes = md_table_create(), .stream = stream};
    cb->plan = s.plan;
    md_status status = s.plan && s.shapes ? MD_OK : md_fail_memory();
    if (status == MD_OK) {
        s.plan->apart = malloc(n * sizeof *s.plan->apart);
        s.plan->why_apart = malloc(n * sizeof *s.plan->why_apart);
        s.plan->memory = calloc(n, sizeof *s.plan->memory);
        if (!s.plan->apart || !s.plan->why_apart || !s.plan->memory)
            status = md_fail_memory();
    }
    if (status == MD_OK)
        status = plan_items(&s);
    if (status == MD_OK)
        status = finish(&s);
    if (s.shapes)
        md_table_destroy(&s.shapes, NULL);
    if (status != MD_OK)
        md_cb_schedule_free(cb);
    return status;
}

bool md_cb_schedule_is_old(const md_cb *cb)
{
    const md_cb_schedule *plan = cb->plan;
    for (int64_t i = 0; plan->may_change && i < plan->n_shapes; i++)
        if ((plan->shape[i].plan->is_stand_in || plan->shape[i].op->hybrid) &&
            md_ds_plan_of(plan->shape[i].entry) != plan->shape[i].plan)
            return true;
    return md_cb_choices_are_new(cb);
}

void md_cb_schedule_count(md_cb *cb)
{
    md_cb_schedule *plan = cb->plan;
    if (!plan || plan->uncounted == 0)
        return;
    for (int64_t i = 0; i < plan->n_shapes; i++) {
        const uint64_t n = plan->uncounted * (uint64_t)plan->shape[i].n_items;
        atomic_fetch_add_explicit(&plan->shape[i].entry->calls, n, memory_order_relaxed);
        atomic_fetch_add_explicit(&plan->shape[i].op->count.calls, n, memory_order_relaxed);
    }
    plan->uncounted = 0;
}

void md_cb_schedule_free(md_cb *cb)
{
    md_cb_schedule *plan = cb->plan;
    md_cb_tell(cb);
    md_cb_loops_free(cb);
    md_cb_merged_free(cb);
    if (!plan)
        return;
    md_cb_schedule_count(cb);
    for (int64_t i = 0; i < plan->n_shapes; i++)
        md_ds_shape_entry_release(plan->shape[i].entry);
    free(plan->unit);
    free(plan->word);
    free(plan->apart);
    free(plan->why_apart);
    free(plan->memory);
    free(plan->shape);
    free(plan);
    cb->plan = NULL;
    cb->decision.is_current = false;
}
