/* What a combo did, for statistics: how often each kind of item was run, and how. */
#include "combo/merge.h"
#include "dispatch/select/select.h"

/* A kind while its plan is there: pointers, which are compared faster than texts. */
typedef struct kind {
    const md_ds_shape_entry *entry; /* NULL: each item was a call of its own */
    const md_ds_op *op;
    const char *variant, *how; /* variant: its name; or why each item was a call */
    int32_t part, level;
    int64_t items;
    uint64_t calls;
} kind;

typedef struct kinds {
    int32_t n, last; /* last: where the kind is that was counted last */
    kind kind[MD_SS_COMBO_KINDS];
    uint64_t n_more; /* calls of kinds that have no place here */
} kinds;

static bool is_same(const kind *a, const kind *b)
{
    return a->entry == b->entry && a->variant == b->variant && a->how == b->how && a->part == b->part &&
           a->level == b->level;
}

static void count(kinds *all, const kind *one)
{
    int32_t i = all->last;
    if (one->calls == 0)
        return;
    if (i >= all->n || !is_same(&all->kind[i], one))
        for (i = 0; i < all->n && !is_same(&all->kind[i], one); i++) {
        }
    if (i == MD_SS_COMBO_KINDS) {
        all->n_more += one->calls;
        return;
    }
    if (i == all->n) {
        all->kind[all->n++] = *one;
    } else {
        all->kind[i].items++;
        all->kind[i].calls += one->calls;
    }
    all->last = i;
}

static void count_unit(kinds *all, const md_cb_unit *u, const char *how, uint64_t calls)
{
    count(all, &(kind){u->entry, u->op, u->variant->name, how, u->part, u->level, 1, calls});
}

static void count_units(kinds *all, const md_cb *cb)
{
    const md_cb_schedule *plan = cb->plan;
    struct md_cb_merged *m = cb->merged;
    for (int64_t i = 0; !m && i < plan->n_units; i++)
        count_unit(all, &plan->unit[i], "loop", plan->untold - plan->untold_each);
    for (int64_t i = 0; !m && i < plan->n_units; i++)
        count_unit(all, &plan->unit[i], "own launch", plan->untold_each);
    for (int64_t g = 0; m && g < m->n; g++) {
        md_cb_group *group = &m->group[g];
        for (int64_t i = 0; i < group->n; i++) {
            count_unit(all, &plan->unit[group->unit[i]], "one launch", group->n_merged);
            count_unit(all, &plan->unit[group->unit[i]], "own launch", group->n_single);
        }
        group->n_merged = group->n_single = 0;
    }
    for (int64_t i = 0; m && i < m->n_alone; i++)
        count_unit(all, &plan->unit[m->alone[i]], "own launch", plan->untold);
    for (int64_t i = 0, p = 0; i < plan->n_apart; i++) {
        while (plan->apart[i] >= cb->part[p].first + cb->part[p].n_items)
            p++;
        count(all, &(kind){NULL, cb->part[p].op, plan->why_apart[i], "own call", (int32_t)p, 0, 1, plan->untold});
    }
}

void md_cb_tell(md_cb *cb)
{
    kinds all = {.n = 0};
    if (!cb->plan || cb->plan->untold == 0)
        return;
    count_units(&all, cb);
    for (int32_t i = 0; i < all.n; i++) {
        const kind *k = &all.kind[i];
        const md_ds_op *op = k->op;
        md_ss_combo_kind to = {k->part, k->level, k->how, .items = k->items, .calls = k->calls};
        snprintf(to.op, sizeof to.op, "%s", op->name);
        snprintf(to.variant, sizeof to.variant, "%s", k->variant);
        if (k->entry)
            md_ds_shape_text(to.shape, sizeof to.shape, op->formula, k->entry->size);
        if (!md_ss_combo_count(&cb->stats, &to))
            cb->stats.n_more += k->calls;
    }
    cb->stats.n_more += all.n_more;
    cb->plan->untold = cb->plan->untold_each = 0;
}

void md_cb_name(md_cb *cb, uint64_t hash)
{
    md_ss_combo *s = &cb->stats;
    size_t used = 0;
    s->hash = hash;
    s->n_parts = cb->n_parts;
    s->n_items = cb->n_items;
    for (int32_t p = 0; p < cb->n_parts; p++) {
        const md_cb_part *part = &cb->part[p];
        for (int64_t i = 0; i < part->n_items; i++)
            s->n_empty += part->is_empty[i];
        if (used < sizeof s->ops)
            used += (size_t)snprintf(s->ops + used, sizeof s->ops - used, "%s%s*%lld", p ? " + " : "", part->op->name,
                                     (long long)part->n_items);
    }
}

void md_cb_stats(md_ss_combos *out, md_cb *cb)
{
    md_cb_tell(cb);
    if (cb->stats.runs > 0)
        md_ss_combos_add(out, &cb->stats);
}
