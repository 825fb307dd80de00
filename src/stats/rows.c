/* Rows of statistics: one a shape and op, collected from entries, merged and sorted. */
#include "stats/rows.h"
#include "base/grow.h"

#include "dispatch/cache/shape_entry.h"
#include "dispatch/select/select.h"
#include "dispatch/cache/table.h"

#include <stdlib.h>
#include <string.h>

void md_ss_rows_finish(md_ss_rows *rows)
{
    md_ss_ops_finish(&rows->ops);
    md_ss_combos_finish(&rows->combos);
    for (int64_t i = 0; i < rows->n; i++)
        free(rows->row[i].stage);
    free(rows->row);
    memset(rows, 0, sizeof *rows);
}

static md_ss_row *new_row(md_ss_rows *rows, int32_t n_stages)
{
    const bool has_room = md_grow(&rows->row, (size_t)rows->n, sizeof *rows->row);
    md_ss_stage *stage = has_room ? calloc((size_t)n_stages, sizeof *stage) : NULL;
    if (!stage) {
        rows->failed = true;
        return NULL;
    }
    md_ss_row *r = &rows->row[rows->n++];
    *r = (md_ss_row){.n_stages = n_stages, .stage = stage};
    return r;
}

typedef struct visit {
    md_ss_rows *rows;
    const md_ds_op *op;
} visit;

/* Appends " as n=64": the sizes that the caller selected by. */
static void add_as(char *text, size_t n_bytes, const md_ds_space *space, const md_ds_as *as)
{
    size_t used = strlen(text);
    for (int32_t i = 0, n = 0; i < space->n && as->n > 0 && used < n_bytes; i++)
        if (as->size[i])
            used += (size_t)snprintf(text + used, n_bytes - used, "%s%s=%lld", n++ ? " " : " as ",
                                     space->formula->dim[space->dim[i]].name, (long long)as->size[i]);
}

static void add_entry(void *user, const md_ds_shape_entry *entry)
{
    const visit *v = user;
    const md_ds_plan *plan = md_ds_plan_of(entry);
    uint64_t calls = atomic_load_explicit(&entry->calls, memory_order_relaxed);
    md_ss_row *r = calls ? new_row(v->rows, v->op->n_stages) : NULL;
    if (!r)
        return;
    snprintf(r->op, sizeof r->op, "%s", v->op->name);
    md_ds_shape_text(r->shape, sizeof r->shape - 16, v->op->formula, entry->size);
    if (entry->is_strided)
        strcat(r->shape, " strided");
    add_as(r->shape, sizeof r->shape, &v->op->space, &entry->as);
    r->nearest = entry->nearest;
    r->is_uncovered = entry->is_uncovered;
    r->has_trial = md_ds_trial_visited(&r->trial, v->op, entry);
    r->calls = calls;
    r->time_us = (double)md_ds_shape_entry_ns(entry) / 1e3;
    r->n_timed = atomic_load_explicit(&entry->n_timed, memory_order_relaxed);
    for (int32_t s = 0; s < r->n_stages; s++) {
        const md_ds_pick *p = &plan->stage[s].pick;
        md_ss_stage *to = &r->stage[s];
        snprintf(to->variant, sizeof to->variant, "%s", md_ds_pick_name(v->op, plan, s));
        snprintf(to->runner_up, sizeof to->runner_up, "%s",
                 p->runner_up >= 0 ? md_ds_variant_name(v->op, s, p->runner_up) : "");
        to->source = md_ds_source_name(p->source);
        to->distance = p->distance;
        to->margin = p->margin;
        to->shortfall = md_ss_shortfall(v->op, plan, s, entry->size);
    }
}

/* A row for shapes of which only the sum of calls and times is known. */
static void become_other_shapes(md_ss_row *r, const char *why)
{
    snprintf(r->shape, sizeof r->shape, "other shapes");
    r->nearest = -1.0;
    r->is_uncovered = r->has_trial = false;
    r->n_stages = 1;
    snprintf(r->stage[0].variant, sizeof r->stage[0].variant, "forgotten");
    r->stage[0].runner_up[0] = 0;
    r->stage[0].source = why;
    r->stage[0].distance = -1.0;
    r->stage[0].margin = 0.0;
    r->stage[0].shortfall = (md_tn_shortfall){0};
}

/* One row for evicted shapes and calls without an entry: only their sum is known. */
static void add_forgotten(md_ss_rows *rows, const md_ds_op *op)
{
    uint64_t calls = atomic_load_explicit(&op->count.forgotten_calls, memory_order_relaxed);
    md_ss_row *r = calls ? new_row(rows, 1) : NULL;
    if (!r)
        return;
    snprintf(r->op, sizeof r->op, "%s", op->name);
    become_other_shapes(r, "evicted");
    r->calls = calls;
    r->time_us = (double)atomic_load_explicit(&op->count.forgotten_ns, memory_order_relaxed) / 1e3;
    r->n_timed = atomic_load_explicit(&op->count.forgotten_timed, memory_order_relaxed);
}

void md_ss_rows_add(md_ss_rows *rows, md_ds_op *op)
{
    visit v = {rows, op};
    md_ss_ops_add(&rows->ops, op);
    md_ds_trials_each(op, add_entry, &v);
    add_forgotten(rows, op);
}

void md_ss_rows_append(md_ss_rows *rows, const md_ss_rows *from)
{
    for (int64_t i = 0; i < from->n; i++) {
        const md_ss_row *old = &from->row[i];
        md_ss_row *r = new_row(rows, old->n_stages);
        if (!r)
            continue;
        md_ss_stage *stage = memcpy(r->stage, old->stage, (size_t)old->n_stages * sizeof *stage);
        *r = *old;
        r->stage = stage;
    }
    md_ss_ops_append(&rows->ops, &from->ops);
    md_ss_combos_append(&rows->combos, &from->combos);
}

static int by_time(const void *a, const void *b)
{
    const md_ss_row *one = a, *other = b;
    if (one->time_us != other->time_us)
        return one->time_us < other->time_us ? 1 : -1;
    int c = strcmp(one->op, other->op);
    return c ? c : strcmp(one->shape, other->shape);
}

static int by_choice(const void *a, const void *b)
{
    const md_ss_row *one = a, *other = b;
    int c = strcmp(one->op, other->op);
    c = c ? c : strcmp(one->shape, other->shape);
    c = c ? c : (one->n_stages > other->n_stages) - (one->n_stages < other->n_stages);
    for (int32_t s = 0; !c && s < one->n_stages; s++)
        c = strcmp(one->stage[s].variant, other->stage[s].variant);
    return c;
}

/* Entries of one shape may differ by alignment and strides. Those with equal variants are one row. */
static void merge_equal(md_ss_rows *rows)
{
    int64_t kept = 0;
    for (int64_t i = 1; i < rows->n; i++) {
        md_ss_row *last = &rows->row[kept];
        if (by_choice(last, &rows->row[i]) == 0) {
            last->calls += rows->row[i].calls;
            last->time_us += rows->row[i].time_us;
            last->n_timed += rows->row[i].n_timed;
            last->age = MD_MAX(last->age, rows->row[i].age);
            free(rows->row[i].stage);
        } else {
            rows->row[++kept] = rows->row[i];
        }
    }
    rows->n = kept + 1;
}

static void merge_rows(md_ss_rows *rows)
{
    md_ss_ops_merge(&rows->ops);
    if (rows->n < 2)
        return;
    qsort(rows->row, (size_t)rows->n, sizeof *rows->row, by_choice);
    merge_equal(rows);
}

void md_ss_rows_sort(md_ss_rows *rows)
{
    merge_rows(rows);
    if (rows->n > 1)
        qsort(rows->row, (size_t)rows->n, sizeof *rows->row, by_time);
}

/* ---- Rows of destroyed ops */

/* Sorts by age, the oldest first; the row that stands for many ops comes before all. */
static int by_age(const void *a, const void *b)
{
    const md_ss_row *one = a, *other = b;
    return (one->age > other->age) - (one->age < other->age);
}

static void fold(md_ss_rows *rows, int64_t n)
{
    const int64_t n_over = rows->n - n;
    if (n_over <= 0)
        return;
    qsort(rows->row, (size_t)rows->n, sizeof *rows->row, by_age);
    md_ss_row *to = &rows->row[0];
    for (int64_t i = 1; i <= n_over; i++) {
        to->calls += rows->row[i].calls;
        to->time_us += rows->row[i].time_us;
        to->n_timed += rows->row[i].n_timed;
        free(rows->row[i].stage);
    }
    snprintf(to->op, sizeof to->op, MD_SS_DESTROYED);
    become_other_shapes(to, "destroyed");
    to->age = 0;
    memmove(&rows->row[1], &rows->row[1 + n_over], (size_t)(n - 1) * sizeof *rows->row);
    rows->n = n;
}

void md_ss_rows_bound(md_ss_rows *rows, int64_t n_ops, int64_t n_rows)
{
    merge_rows(rows);
    md_ss_ops_fold(&rows->ops, n_ops);
    fold(rows, n_rows);
}

/* Merging takes longer the more rows there are, so it waits until there are many more than it left. */
static bool wants_bound(int64_t n, int64_t n_left, int64_t limit)
{
    enum { MORE = 2048 };
    return n > MD_MIN(2 * n_left + MORE, limit + limit / 4);
}

void md_ss_rows_retire(md_ss_rows *rows, md_ds_op *op)
{
    int64_t i = rows->n, k = rows->ops.n;
    md_ss_rows_add(rows, op);
    rows->age++;
    for (; i < rows->n; i++)
        rows->row[i].age = rows->age;
    for (; k < rows->ops.n; k++)
        rows->ops.op[k].age = rows->age;
    if (!wants_bound(rows->n, rows->n_bound, MD_SS_RETIRED_ROWS) &&
        !wants_bound(rows->ops.n, rows->n_bound_ops, MD_SS_RETIRED_OPS))
        return;
    md_ss_rows_bound(rows, MD_SS_RETIRED_OPS, MD_SS_RETIRED_ROWS);
    rows->n_bound = rows->n;
    rows->n_bound_ops = rows->ops.n;
}
