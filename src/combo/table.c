/* The tables of groups (text.h). */
#include "base/status.h"
#include "combo/merge.h"

#include <stdlib.h>
#include <string.h>

static uint64_t halves(int64_t low, int64_t high)
{
    return (uint64_t)(uint32_t)low | (uint64_t)high << 32;
}

/* Words that all items of a body share. False if they do not. */
static bool fill_shared(md_cb *cb, const md_cb_group *g, uint64_t *table)
{
    const uint64_t *start = table;
    int32_t at[MD_CB_BODIES], next = md_cb_text_head(&g->kernel);
    bool is_known[MD_CB_BODIES] = {false};
    for (int32_t i = 0; i < g->kernel.n; i++) {
        at[i] = next;
        next += g->kernel.body[i].n_shared;
    }
    for (int64_t i = 0; i < g->n; i++) {
        const int32_t b = g->body[i];
        const md_kn_word *word = cb->plan->word + cb->plan->unit[g->unit[i]].params;
        for (int32_t s = 0; s < g->kernel.body[b].n_shared; s++) {
            const uint64_t value = (uint64_t)word[g->kernel.body[b].shared[s]].i;
            if (is_known[b] && start[at[b] + s] != value)
                return false;
            table[at[b] + s] = value;
        }
        is_known[b] = true;
    }
    return true;
}

static uint64_t *fill_item(uint64_t *out, const md_cb *cb, const md_cb_group *g, int64_t i)
{
    const md_cb_unit *u = &cb->plan->unit[g->unit[i]];
    const md_cb_body *b = &g->kernel.body[g->body[i]];
    const md_kn_word *word = cb->plan->word + u->params;
    *out++ = halves(u->geometry.grid[0], MD_MAX(u->geometry.grid[1], 1));
    for (int32_t k = 0; k < b->n_own; k++)
        *out++ = (uint64_t)word[b->own[k]].i;
    return out;
}

static uint32_t reference(const md_cb_group *g, int64_t i, const uint64_t *start, const uint64_t *at)
{
    return (uint32_t)g->body[i] << 29 | (uint32_t)(at - start);
}

/* Blocks of an item as the grid has them: `blocks` counts what there is to do, which some families count otherwise. */
static int64_t blocks_of(const md_cb *cb, const md_cb_group *g, int64_t i)
{
    const md_kn_geometry *geometry = &cb->plan->unit[g->unit[i]].geometry;
    return (int64_t)geometry->grid[0] * MD_MAX(geometry->grid[1], 1);
}

/* First blocks and references as halves, then items. `start`: what references count from. */
static md_status fill_items(const md_cb *cb, md_cb_group *g, uint64_t *start, uint64_t *to)
{
    uint32_t *half = malloc((size_t)g->n * 2 * sizeof *half);
    if (!half)
        return md_fail_memory();
    uint64_t *item = to + g->n;
    g->blocks = 0;
    for (int64_t i = 0; i < g->n; i++) {
        half[i] = (uint32_t)g->blocks;
        half[g->n + i] = reference(g, i, start, item);
        item = fill_item(item, cb, g, i);
        g->blocks += blocks_of(cb, g, i);
    }
    memcpy(to, half, (size_t)g->n * 2 * sizeof *half);
    free(half);
    return MD_OK;
}

/* Items of `stride` words (text.h). */
static void fill_tiny(const md_cb *cb, md_cb_group *g, uint64_t *to)
{
    const int32_t stride = md_cb_text_stride(&g->kernel);
    memset(to, 0, (size_t)(g->n * stride) * sizeof *to);
    for (int64_t i = 0; i < g->n; i++) {
        const md_cb_unit *u = &cb->plan->unit[g->unit[i]];
        uint64_t *item = to + i * stride;
        (void)fill_item(item, cb, g, i);
        item[0] = (uint64_t)u->points | (uint64_t)u->rows << 24 | (uint64_t)g->body[i] << 61;
    }
    g->blocks = (g->n + MD_CB_WARP_THREADS / 32 - 1) / (MD_CB_WARP_THREADS / 32);
}

/* How many blocks share a start, as a power of two: so many that starts are no more than MOST_STARTS. */
enum { MOST_STARTS = 1 << 16 };

static int32_t shift_of(int64_t blocks)
{
    int32_t shift = 0;
    while (blocks >> shift > MOST_STARTS)
        shift++;
    return shift;
}

/* For each start the item of its first block; one more at the end, so that each start has a next one. */
static void fill_starts(uint32_t *start, int64_t n_starts, int32_t shift, const uint32_t *first, int64_t n)
{
    int64_t item = 0;
    for (int64_t i = 0; i < n_starts; i++) {
        while (item + 1 < n && first[item + 1] <= (uint64_t)i << shift)
            item++;
        start[i] = (uint32_t)item;
    }
}

/* Items of a table in device memory; `head`: the words of the parameters that say where they are. */
static md_status fill_far(const md_cb *cb, md_cb_group *g, uint64_t *head)
{
    int64_t blocks = 0, n_items = 0;
    for (int64_t i = 0; i < g->n; i++) {
        blocks += blocks_of(cb, g, i);
        n_items += 2 + g->kernel.body[g->body[i]].n_own;
    }
    const int32_t shift = shift_of(blocks);
    const int64_t n_starts = g->kernel.by_warps ? 0 : ((blocks - 1) >> shift) + 2, n_words = (n_starts + 1) / 2;
    if (g->kernel.by_warps)
        n_items = g->n * md_cb_text_stride(&g->kernel);
    uint64_t *to = (uint64_t *)(void *)md_cb_far_words(&g->far, n_words + n_items);
    if (!to)
        return md_fail_memory();
    head[2] = (uint64_t)shift | (uint64_t)n_starts << 32;
    if (g->kernel.by_warps) {
        fill_tiny(cb, g, to);
        return MD_OK;
    }
    memset(to, 0, (size_t)n_words * sizeof *to);
    MD_TRY(fill_items(cb, g, to, to + n_words));
    fill_starts((uint32_t *)(void *)to, n_starts, shift, (const uint32_t *)(const void *)(to + n_words), g->n);
    return MD_OK;
}

static md_status fill_rest(const md_cb *cb, md_cb_group *g, uint64_t *table)
{
    if (g->kernel.is_far)
        return fill_far(cb, g, table);
    if (!g->kernel.by_warps)
        return fill_items(cb, g, table, table + md_cb_head(&g->kernel));
    fill_tiny(cb, g, table + md_cb_head(&g->kernel));
    return MD_OK;
}

md_status md_cb_table_update(md_cb *cb, md_cb_group *g)
{
    if (!g->is_stale && !g->has_old_scalars)
        return MD_OK;
    if (!g->table)
        g->table = calloc((size_t)g->kernel.table_words, sizeof *g->table);
    if (!g->table)
        return md_fail_memory();
    bool needs_items = g->is_stale;
    for (int32_t i = 0; i < g->kernel.n; i++)
        needs_items |= !g->kernel.body[i].shares_scalars;
    uint64_t *table = (uint64_t *)(void *)g->table;
    if (!fill_shared(cb, g, table))
        return md_fail(MD_NOT_FOUND, "items have different scalars now");
    table[0] = (uint64_t)g->n;
    if (needs_items)
        MD_TRY(fill_rest(cb, g, table));
    g->geometry.blocks = g->blocks;
    g->geometry.grid[0] = (int32_t)g->blocks;
    g->geometry.grid[1] = g->geometry.grid[2] = 1;
    g->geometry.block[0] = g->kernel.threads;
    g->geometry.block[1] = g->geometry.block[2] = 1;
    g->is_stale = g->has_old_scalars = false;
    return MD_OK;
}
