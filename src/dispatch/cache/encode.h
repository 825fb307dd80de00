/* What a slot holds of a plan: words that others may write meanwhile, as few lines of the cache as can be.
 *
 * Most plans are one launch without memory, maps or reports: they are brief, and launched from where they lie. The
 * words of a slot then are
 *   its sequence number
 *   what: the recipe's address, and in the bits that addresses leave MD_DS_BRIEF, MD_DS_TIMED and the logarithm of
 *   `every`
 *   6 words of geometry
 *   the key's last word
 *   halves: the others of the key; span of each tensor; alias of each output
 *   the literals of the recipe
 * Others are copied by whoever calls, and are
 *   its sequence number
 *   the number of words, and from bit 32 on that of words above 2^32; 0: an empty slot
 *   the lower half of each word; then the upper halves of those that have one: the number of the word in the upper
 *   part, the half in the lower. */
#ifndef MD_DISPATCH_CACHE_ENCODE_H
#define MD_DISPATCH_CACHE_ENCODE_H

#include "dispatch/cache/launch_plan.h"

typedef uint32_t __attribute__((__may_alias__)) md_ds_half;

enum {
    MD_DS_SEQUENCE,
    MD_DS_WHAT,
    MD_DS_BLOCKS,
    MD_DS_SCRATCH,
    MD_DS_GRID,
    MD_DS_ALIGNMENT_WORD = MD_DS_GRID + 4,
    MD_DS_HALVES
};
enum { MD_DS_MOST_LITERALS = 8, MD_DS_MOST_BRIEF_PARAMS = 64, MD_DS_ENCODED_WORDS = 256 };
#define MD_DS_BRIEF ((uint64_t)1 << 63)
#define MD_DS_TIMED ((uint64_t)1 << 62) /* whoever is to take a call's time does it beside the launch */
enum { MD_DS_EVERY_SHIFT = 56, MD_DS_NEVER = 63, MD_DS_PARAM_MAP_BITS = 56 };

typedef struct md_ds_encoded_plan {
    int32_t n;
    md_ds_word word[MD_DS_ENCODED_WORDS]; /* word[0] is not part of it: the sequence number's place */
} md_ds_encoded_plan;

/** Of a plan of n words. */
void md_ds_encoded_plan_make(md_ds_encoded_plan *out, const md_ds_op *op, md_ds_word *launch_plan, int32_t n_words);

/** The halves of a plan: its key but for the last word, spans, aliases. False where one is above 2^32. */
bool md_ds_encoded_plan_halves(md_ds_word *out, const md_ds_arg_layout *layout, const md_ds_word *launch_plan);

/** Whether calls of this plan are timed beside the launch, not by the long way. */
static inline bool md_ds_times_itself(const md_ds_op *op)
{
    return op->takes_times && !op->hybrid && !op->indices && !md_ds_is_async(op->runtime);
}

/* ---- What readers ask */

static inline uint64_t md_ds_slot_word(const _Atomic uint64_t *slot, uint32_t i)
{
    return atomic_load_explicit(&slot[i], memory_order_acquire);
}

static inline uint64_t md_ds_slot_half(const md_ds_half *halves, uint32_t i)
{
    return __atomic_load_n(&halves[i], __ATOMIC_ACQUIRE);
}

static inline const md_ds_half *md_ds_slot_halves(const _Atomic uint64_t *slot)
{
    return (const md_ds_half *)(const void *)(slot + MD_DS_HALVES);
}

static inline const md_ds_param_map *md_ds_param_map_in(uint64_t what)
{
    return (const md_ds_param_map *)(uintptr_t)(what & (((uint64_t)1 << MD_DS_PARAM_MAP_BITS) - 1));
}

/** `every` less 1. */
static inline uint64_t md_ds_every_mask(uint64_t what)
{
    return ((uint64_t)1 << (what >> MD_DS_EVERY_SHIFT & 63)) - 1;
}

/** Halves before the literals, made even. */
static inline uint32_t md_ds_halves_of(const md_ds_arg_layout *layout)
{
    return ((uint32_t)(layout->n_key - 1 + layout->n_tensors + layout->n_outputs) + 1) & ~1u;
}

/* The end of a geometry is words as it is. */
_Static_assert(offsetof(md_kn_geometry, grid) == 24 && sizeof(md_kn_geometry) == 24 + 4 * sizeof(md_ds_word),
               "a geometry is words");

static inline void md_ds_slot_geometry(md_kn_geometry *out, const _Atomic uint64_t *slot)
{
    const uint64_t blocks = md_ds_slot_word(slot, MD_DS_BLOCKS);
    md_ds_word *rest = (md_ds_word *)(void *)out->grid;
    out->blocks = (uint32_t)blocks;
    out->grain = (int64_t)(blocks >> 32);
    out->scratch_bytes = (int64_t)md_ds_slot_word(slot, MD_DS_SCRATCH);
    for (uint32_t i = 0; i < 4; i++)
        rest[i] = md_ds_slot_word(slot, MD_DS_GRID + i);
}

#endif
