/* Encodes launch plans for the entries of the plan cache. */
#include "dispatch/cache/encode.h"

#include <string.h>

static bool is_half(int64_t n)
{
    return n >= 0 && n <= UINT32_MAX;
}

static bool may_be_compact(const md_ds_param_map *map)
{
    if (map->n_maps > 0 || map->needs_counters || map->needs_report || map->needs_packed ||
        map->n_relocations > MD_DS_MOST_LITERALS || map->n_params > MD_DS_MOST_COMPACT_PARAMS ||
        (uint64_t)(uintptr_t)map >> MD_DS_PARAM_MAP_BITS)
        return false;
    for (int32_t i = 0; i < map->n_relocations; i++)
        if (map->relocation[i].plus != MD_DS_BASE + (int32_t)MD_DS_NOTHING)
            return false;
    return true;
}

static uint64_t log_of(uint32_t every)
{
    return every ? (uint64_t)__builtin_ctz(every) : MD_DS_NEVER;
}

static bool encode_compact(md_ds_packed_launch *out, const md_ds_op *op, md_ds_word *launch_plan)
{
    const md_ds_launch_head *head = md_ds_launch_head_of(op, launch_plan);
    const md_ds_launch_record *l = (const md_ds_launch_record *)(head + 1);
    if (head->n_launches != 1 || head->memory_bytes || !may_be_compact(l->param_map) || !is_half(l->geometry.blocks) ||
        !is_half(l->geometry.grain) || !md_ds_pack_halves(out->word + MD_DS_HALVES, &op->layout, launch_plan))
        return false;
    const md_kn_geometry *g = &l->geometry;
    const int32_t n = MD_DS_HALVES + (int32_t)md_ds_halves_of(&op->layout) / 2;
    out->word[MD_DS_DESCRIPTOR] = MD_DS_COMPACT | (head->has_slow_samples ? 0 : MD_DS_TIMED) |
                                  log_of(head->every) << MD_DS_EVERY_SHIFT | (uint64_t)(uintptr_t)l->param_map;
    out->word[MD_DS_BLOCKS] = (uint64_t)g->blocks | (uint64_t)g->grain << 32;
    out->word[MD_DS_SCRATCH] = (uint64_t)g->scratch_bytes;
    memcpy(out->word + MD_DS_GRID, g->grid, 4 * sizeof *out->word);
    out->word[MD_DS_ALIGNMENT_WORD] = launch_plan[op->layout.n_key - 1];
    memcpy(out->word + n, l + 1, (size_t)l->param_map->n_relocations * sizeof *out->word);
    out->n = n + l->param_map->n_relocations;
    return true;
}

void md_ds_encode(md_ds_packed_launch *out, const md_ds_op *op, md_ds_word *launch_plan, int32_t n_words)
{
    memset(out->word, 0, sizeof out->word[0] * MD_DS_HALVES);
    if (encode_compact(out, op, launch_plan))
        return;
    md_ds_word *half = out->word + MD_DS_DESCRIPTOR + 1, *upper = half + (n_words + 1) / 2;
    uint64_t n_upper = 0;
    for (int32_t k = 0; k < n_words; k += 2)
        *half++ = (uint32_t)launch_plan[k] | (k + 1 < n_words ? launch_plan[k + 1] : 0) << 32;
    for (int32_t k = 0; k < n_words; k++)
        if (launch_plan[k] >> 32)
            upper[n_upper++] = (uint64_t)k << 32 | launch_plan[k] >> 32;
    out->word[MD_DS_DESCRIPTOR] = n_upper << 32 | (uint64_t)n_words;
    out->n = (int32_t)(upper - out->word) + (int32_t)n_upper;
}
