/* Looks for overlaps between items. Spans are sorted by their first byte; a sweep keeps those that are still open, so
 * that only spans which overlap are compared element-wise. */
#include "base/status.h"
#include "combo/combo.h"
#include "dispatch/bind/bind.h"

#include <stdlib.h>

typedef struct span {
    uintptr_t lo, hi; /* [lo, hi) */
    int64_t item; /* of the part */
    int32_t part, operand;
} span;

/* Spans that are open: outputs, and inputs. */
typedef struct open_spans {
    const span **span;
    int64_t n;
} open_spans;

static int by_place(const void *a, const void *b)
{
    const span *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

static int64_t count_spans(const md_cb *cb)
{
    int64_t n = 0;
    for (int32_t p = 0; p < cb->n_parts; p++)
        n += cb->part[p].n_items * cb->part[p].n_operands;
    return n;
}

static int64_t list_spans(span *out, const md_cb *cb)
{
    int64_t n = 0;
    for (int32_t p = 0; p < cb->n_parts; p++)
        for (int64_t i = 0; i < cb->part[p].n_items; i++)
            for (int32_t s = 0; !cb->part[p].is_empty[i] && s < cb->part[p].n_operands; s++) {
                const md_tensor t = md_cb_tensor(&cb->part[p], &cb->part[p].operand[s], i);
                const size_t n_bytes = md_ds_span(&t);
                if (n_bytes > 0)
                    out[n++] = (span){(uintptr_t)t.data, (uintptr_t)t.data + n_bytes, i, p, s};
            }
    return n;
}

static const char *name_of(const md_cb *cb, const span *s)
{
    const md_cb_part *p = &cb->part[s->part];
    return p->op->formula->tensor[p->operand[s->operand].tensor].name;
}

static md_status fail(const md_cb *cb, const span *output, const span *other)
{
    const md_cb_part *p = &cb->part[other->part];
    return md_fail(MD_INVALID_ARGUMENT,
                   "output '%s' of part %d, item %lld (op %s) overlaps %s '%s' of part %d, item %lld (op %s)",
                   name_of(cb, output), (int)output->part, (long long)output->item, cb->part[output->part].op->name,
                   p->operand[other->operand].is_output ? "output" : "input", name_of(cb, other), (int)other->part,
                   (long long)other->item, p->op->name);
}

/* Compares a span with those that are open, and closes what ends before it. */
static const span *find_overlap(open_spans *open, const span *s, const md_cb *cb)
{
    const md_tensor own = md_cb_tensor(&cb->part[s->part], &cb->part[s->part].operand[s->operand], s->item);
    const span *found = NULL;
    int64_t n = 0;
    for (int64_t i = 0; i < open->n; i++) {
        const span *o = open->span[i];
        if (o->hi <= s->lo)
            continue;
        open->span[n++] = o;
        if (found || (o->item == s->item && o->part == s->part))
            continue;
        const md_tensor other = md_cb_tensor(&cb->part[o->part], &cb->part[o->part].operand[o->operand], o->item);
        if (md_ds_may_overlap(&own, &other))
            found = o;
    }
    open->n = n;
    return found;
}

static md_status sweep(const md_cb *cb, const span *spans, int64_t n, open_spans open[2])
{
    for (int64_t i = 0; i < n; i++) {
        const span *s = &spans[i], *other;
        const bool is_output = cb->part[s->part].operand[s->operand].is_output;
        if ((other = find_overlap(&open[1], s, cb)) != NULL)
            return fail(cb, is_output ? s : other, is_output ? other : s);
        if (is_output && (other = find_overlap(&open[0], s, cb)) != NULL)
            return fail(cb, s, other);
        open[is_output].span[open[is_output].n++] = s;
    }
    return MD_OK;
}

md_status md_cb_check_overlaps(const md_cb *cb)
{
    const int64_t most = MD_MAX(count_spans(cb), 1);
    span *spans = malloc((size_t)most * sizeof *spans);
    open_spans open[2] = {{malloc((size_t)most * sizeof *open->span), 0},
                          {malloc((size_t)most * sizeof *open->span), 0}};
    md_status status = MD_OK;
    if (!spans || !open[0].span || !open[1].span) {
        status = md_fail_memory();
    } else {
        const int64_t n = list_spans(spans, cb);
        qsort(spans, (size_t)n, sizeof *spans, by_place);
        status = sweep(cb, spans, n, open);
    }
    free(spans);
    free(open[0].span);
    free(open[1].span);
    return status;
}
