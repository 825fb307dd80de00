/* Counters of ops by the names that people read. */
#include "stats/ops.h"

#include "base/grow.h"
#include "base/status.h"
#include "dispatch/cache/shape_entry.h"
#include "dispatch/cache/table.h"

#include <stdlib.h>
#include <string.h>

/* Counters of the dispatch layer. Two sums over the shapes come first. */
enum { CALLS, HITS, N_SUMS };
static const struct {
    const char *name;
    size_t at;
} counter[] = {
    {"misses", offsetof(md_ds_counters, misses)},
    {"measured", offsetof(md_ds_counters, measured)},
    {"stored", offsetof(md_ds_counters, stored)},
    {"stored_picks", offsetof(md_ds_counters, stored_picks)},
    {"stored_times", offsetof(md_ds_counters, stored_times)},
    {"adopted", offsetof(md_ds_counters, adopted)},
    {"evictions", offsetof(md_ds_counters, evictions)},
    {"captured_misses", offsetof(md_ds_counters, captured_misses)},
    {"nearest", offsetof(md_ds_counters, nearest)},
    {"upgrades", offsetof(md_ds_counters, upgrades)},
    {"waits", offsetof(md_ds_counters, waits)},
    {"frozen_misses", offsetof(md_ds_counters, frozen_misses)},
    {"trials", offsetof(md_ds_counters, trials)},
    {"switches", offsetof(md_ds_counters, switches)},
    {"demotions", offsetof(md_ds_counters, demotions)},
    {"quarantined", offsetof(md_ds_counters, quarantined)},
    {"by_reference", offsetof(md_ds_counters, by_reference)},
    {"empty", offsetof(md_ds_counters, empty)},
    {"packed", offsetof(md_ds_counters, packed)},
    {"packed_bytes", offsetof(md_ds_counters, packed_bytes)},
    {"packings", offsetof(md_ds_counters, packings)},
    {"unpacked", offsetof(md_ds_counters, unpacked)},
};
_Static_assert(N_SUMS + MD_COUNT(counter) <= MD_SS_MAX_COUNTS, "all counters have a place");

const char *md_ss_count_name(int32_t i)
{
    if (i < N_SUMS)
        return i == CALLS ? "calls" : "hits";
    return i - N_SUMS < MD_COUNT(counter) ? counter[i - N_SUMS].name : NULL;
}

static void add_calls(void *user, const md_ds_shape_entry *entry)
{
    md_ss_op *o = user;
    o->count[CALLS] += atomic_load_explicit(&entry->calls, memory_order_relaxed);
    o->n_shapes++;
}

static char *hints_text(const md_ds_op *op)
{
    md_strbuf text = {0};
    md_ds_print_hints(&text, &op->space, ~UINT64_C(0));
    char *copy = text.failed ? NULL : strdup(md_strbuf_text(&text));
    md_strbuf_finish(&text);
    return copy;
}

static void count_all(md_ss_op *o, md_ds_op *op)
{
    md_ds_table_each(op, add_calls, o);
    const uint64_t empty = atomic_load_explicit(&op->count.empty, memory_order_relaxed);
    o->count[CALLS] += atomic_load_explicit(&op->count.forgotten_calls, memory_order_relaxed) + empty;
    for (int32_t i = 0; i < MD_COUNT(counter); i++)
        o->count[N_SUMS + i] =
            atomic_load_explicit((_Atomic uint64_t *)((char *)&op->count + counter[i].at), memory_order_relaxed);
    const uint64_t misses = o->count[N_SUMS];
    o->count[HITS] = o->count[CALLS] > misses + empty ? o->count[CALLS] - misses - empty : 0;
    for (int32_t s = 0; s < op->n_stages; s++)
        o->n_variants += atomic_load_explicit(&op->stage[s].n_variants, memory_order_acquire);
}

static void add_indices(md_ss_ops *ops, md_ss_op *o, const char *tensor, const md_ds_index_sample *sample)
{
    md_ss_indices *indices = &o->indices[o->n_indices++];
    *indices = (md_ss_indices){.n = sample->n, .seen = sample->seen, .value = sample->value};
    snprintf(indices->tensor, sizeof indices->tensor, "%s", tensor);
    ops->failed |= !indices->value;
}

static void take_indices(md_ss_ops *ops, md_ss_op *o, md_ds_op *op)
{
    md_ds_index_sample sample;
    while (o->n_indices < MD_DS_INDEX_TENSORS && md_ds_indices_get(&sample, op->indices, o->n_indices))
        add_indices(ops, o, op->formula->tensor[sample.tensor].name, &sample);
}

/* Of two ops that are merged, keeps the larger sample of each index tensor. */
static void merge_indices(md_ss_op *to, md_ss_op *from)
{
    for (int32_t i = 0; i < MD_MIN(to->n_indices, from->n_indices); i++) {
        md_ss_indices *a = &to->indices[i], *b = &from->indices[i];
        if (b->seen > a->seen) {
            const md_ss_indices more = *b;
            *b = *a;
            *a = more;
        }
        a->seen += b->seen;
    }
}

static md_ss_op *new_op(md_ss_ops *ops)
{
    if (!md_grow(&ops->op, (size_t)ops->n, sizeof *ops->op)) {
        ops->failed = true;
        return NULL;
    }
    md_ss_op *o = &ops->op[ops->n++];
    memset(o, 0, sizeof *o);
    return o;
}

/* Takes over two texts. NULL means that memory was short. */
static void set_texts(md_ss_ops *ops, md_ss_op *o, char *formula, char *hints)
{
    o->formula = formula;
    o->hints = hints;
    ops->failed |= !formula || !hints;
}

void md_ss_ops_add(md_ss_ops *ops, md_ds_op *op)
{
    md_ss_op *o = new_op(ops);
    if (!o)
        return;
    snprintf(o->name, sizeof o->name, "%s", op->name);
    set_texts(ops, o, strdup(md_strbuf_text(&op->compiled->printed)), hints_text(op));
    o->allows_tf32 = op->policy.allows_tf32;
    count_all(o, op);
    take_indices(ops, o, op);
}

void md_ss_ops_append(md_ss_ops *ops, const md_ss_ops *from)
{
    for (int64_t i = 0; i < from->n; i++) {
        md_ss_op *o = new_op(ops);
        if (!o)
            return;
        *o = from->op[i];
        set_texts(ops, o, o->formula ? strdup(o->formula) : NULL, o->hints ? strdup(o->hints) : NULL);
        o->n_indices = 0;
        for (int32_t k = 0; k < from->op[i].n_indices; k++) {
            const md_ss_indices *indices = &from->op[i].indices[k];
            md_ds_index_sample copy = {.n = indices->n,
                                       .seen = indices->seen,
                                       .value = malloc((size_t)MD_MAX(indices->n, 1) * sizeof *indices->value)};
            if (copy.value && indices->value)
                memcpy(copy.value, indices->value, (size_t)indices->n * sizeof *indices->value);
            add_indices(ops, o, indices->tensor, &copy);
        }
    }
}

static void finish(md_ss_op *o)
{
    free(o->formula);
    free(o->hints);
    for (int32_t i = 0; i < o->n_indices; i++)
        free(o->indices[i].value);
}

static bool is_same(const md_ss_op *a, const md_ss_op *b)
{
    return a->allows_tf32 == b->allows_tf32 && a->formula && b->formula && a->hints && b->hints &&
           !strcmp(a->name, b->name) && !strcmp(a->formula, b->formula) && !strcmp(a->hints, b->hints);
}

static int by_text(const void *a, const void *b)
{
    const md_ss_op *one = a, *other = b;
    int c = strcmp(one->name, other->name);
    c = c ? c : strcmp(one->formula ? one->formula : "", other->formula ? other->formula : "");
    c = c ? c : strcmp(one->hints ? one->hints : "", other->hints ? other->hints : "");
    c = c ? c : one->allows_tf32 - other->allows_tf32;
    return c ? c : (one->order > other->order) - (one->order < other->order);
}

static int by_order(const void *a, const void *b)
{
    const md_ss_op *one = a, *other = b;
    return (one->order > other->order) - (one->order < other->order);
}

/* Sorts by age, the oldest first; the row that stands for many ops comes before all. */
static int by_age(const void *a, const void *b)
{
    const md_ss_op *one = a, *other = b;
    return (one->age > other->age) - (one->age < other->age);
}

/* Adds one op to another, and frees it. */
static void add_op(md_ss_op *to, md_ss_op *from)
{
    for (int32_t k = 0; k < MD_SS_MAX_COUNTS; k++)
        to->count[k] += from->count[k];
    to->n_shapes = (int32_t)MD_MIN((int64_t)to->n_shapes + from->n_shapes, (int64_t)INT32_MAX);
    to->n_variants = MD_MAX(to->n_variants, from->n_variants);
    to->age = MD_MAX(to->age, from->age);
    merge_indices(to, from);
    finish(from);
}

void md_ss_ops_merge(md_ss_ops *ops)
{
    int64_t kept = 0;
    if (ops->n < 2)
        return;
    for (int64_t i = 0; i < ops->n; i++)
        ops->op[i].order = i;
    qsort(ops->op, (size_t)ops->n, sizeof *ops->op, by_text);
    for (int64_t i = 1; i < ops->n; i++) {
        if (is_same(&ops->op[kept], &ops->op[i]))
            add_op(&ops->op[kept], &ops->op[i]);
        else
            ops->op[++kept] = ops->op[i];
    }
    ops->n = kept + 1;
    qsort(ops->op, (size_t)ops->n, sizeof *ops->op, by_order);
}

static void drop_indices(md_ss_op *o)
{
    for (int32_t i = 0; i < o->n_indices; i++)
        free(o->indices[i].value);
    o->n_indices = 0;
}

/* Makes an op the row that stands for many. */
static void become_many(md_ss_ops *ops, md_ss_op *o)
{
    drop_indices(o);
    free(o->formula);
    free(o->hints);
    snprintf(o->name, sizeof o->name, MD_SS_DESTROYED);
    set_texts(ops, o, strdup(""), strdup(""));
    o->allows_tf32 = false;
    o->age = 0;
}

void md_ss_ops_fold(md_ss_ops *ops, int64_t n)
{
    const int64_t n_over = ops->n - n;
    if (n_over <= 0)
        return;
    qsort(ops->op, (size_t)ops->n, sizeof *ops->op, by_age);
    if (ops->op[0].age)
        become_many(ops, &ops->op[0]);
    for (int64_t i = 1; i <= n_over; i++) {
        drop_indices(&ops->op[i]);
        add_op(&ops->op[0], &ops->op[i]);
    }
    ops->op[0].age = 0;
    memmove(&ops->op[1], &ops->op[1 + n_over], (size_t)(n - 1) * sizeof *ops->op);
    ops->n = n;
}

void md_ss_ops_finish(md_ss_ops *ops)
{
    for (int64_t i = 0; i < ops->n; i++)
        finish(&ops->op[i]);
    free(ops->op);
}
