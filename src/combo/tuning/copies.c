/* Private copies of all tensors of a combo: its runs change nothing of the caller's while it is tuned. */
#include "base/status.h"
#include "combo/tuning/tuning.h"
#include "dispatch/bind/bind.h"
#include "tune/bench/copies.h"

#include <stdlib.h>

enum {
    OFFSETS = 64
}; /* a copy has its tensor's offset from multiples of this, which is all that kernels know of an address */

static int64_t count_operands(const md_cb *cb)
{
    int64_t n = 0;
    for (int32_t p = 0; p < cb->n_parts; p++)
        n += cb->part[p].n_items * cb->part[p].n_operands;
    return n;
}

/* The bytes of an operand's memory, and the first operand of the item that has the same address: they share a copy. */
static size_t span_of(int32_t *first, const md_cb_part *part, int64_t item, int32_t operand, void *const *data)
{
    size_t most = 0;
    *first = operand;
    for (int32_t s = part->n_operands - 1; s >= 0; s--) {
        const md_tensor t = md_cb_tensor(part, &part->operand[s], item);
        if (data[s] != data[operand])
            continue;
        *first = s;
        most = MD_MAX(most, md_ds_span(&t));
    }
    return most;
}

/* Walks over all operands and counts the bytes of their copies; with memory it also makes them. */
static md_status walk(size_t *bytes, md_cb *cb, char *memory, void *const *before)
{
    const md_dev *dev = cb->runtime->dev;
    size_t at = 0;
    for (int32_t p = 0; p < cb->n_parts; p++) {
        const md_cb_part *part = &cb->part[p];
        for (int64_t i = 0; i < part->n_items; i++, before += part->n_operands) {
            void **data = part->data + i * part->n_operands;
            for (int32_t s = 0, first; !part->is_empty[i] && s < part->n_operands; s++) {
                const size_t n = span_of(&first, part, i, s, before), offset = (uintptr_t)before[s] % OFFSETS;
                if (memory)
                    data[s] = first < s ? data[first] : memory + at + offset;
                if (first < s)
                    continue;
                if (memory && n > 0)
                    MD_TRY(dev->ops->copy(cb->runtime->dev, data[s], before[s], n));
                at += md_ds_align(n + OFFSETS);
            }
        }
    }
    *bytes = at;
    return MD_OK;
}

static void keep_addresses(void **before, const md_cb *cb)
{
    for (int32_t p = 0; p < cb->n_parts; p++)
        for (int64_t k = 0; k < cb->part[p].n_items * cb->part[p].n_operands; k++)
            *before++ = cb->part[p].data[k];
}

static md_status copy_all(md_cb_copies *c, md_cb *cb, md_stream stream)
{
    md_dev *dev = cb->runtime->dev;
    size_t n = 0;
    keep_addresses(c->before, cb);
    MD_TRY(walk(&n, cb, NULL, c->before));
    const int64_t limit = md_tn_copies_limit(dev);
    if ((int64_t)n > limit)
        return md_fail(MD_OUT_OF_MEMORY, "tuning needs copies of all tensors: %zu bytes, more than %lld", n,
                       (long long)limit);
    MD_TRY(dev->ops->sync(dev, stream)); /* earlier work may still write what is to be copied */
    MD_TRY(dev->ops->alloc(&c->memory, dev, n + MD_DS_ALIGNMENT));
    char *start = c->memory;
    start += (MD_DS_ALIGNMENT - (uintptr_t)start % MD_DS_ALIGNMENT) % MD_DS_ALIGNMENT;
    return walk(&n, cb, start, c->before);
}

md_status md_cb_copies_make(md_cb_copies *out, md_cb *cb, md_stream stream)
{
    *out = (md_cb_copies){.before = malloc((size_t)MD_MAX(count_operands(cb), 1) * sizeof *out->before)};
    if (!out->before)
        return md_fail_memory();
    const md_status status = copy_all(out, cb, stream);
    if (status != MD_OK)
        md_cb_copies_finish(out, cb);
    return status;
}

void md_cb_copies_finish(md_cb_copies *c, md_cb *cb)
{
    void **before = c->before;
    for (int32_t p = 0; before && p < cb->n_parts; p++)
        for (int64_t k = 0; k < cb->part[p].n_items * cb->part[p].n_operands; k++)
            cb->part[p].data[k] = *before++;
    if (c->memory)
        cb->runtime->dev->ops->free(cb->runtime->dev, c->memory);
    free(c->before);
    *c = (md_cb_copies){NULL};
}
