/* The format of an entry of the plan cache, and how to read one while other threads may write it.
 *
 * Word 0 of a plan entry is its sequence number, which is odd while the plan entry is written. A reader reads words one
 * by one and uses them only if the number is the same before and after.
 *
 * Most launch plans are one launch without memory, tensor maps or reports. Those are compact, and launched from where
 * they lie:
 *   MD_DS_SEQUENCE
 *   MD_DS_DESCRIPTOR  address of the param map; in the bits that addresses leave free MD_DS_COMPACT, MD_DS_TIMED and
 *                     the logarithm of the sample rate
 *   6 words           geometry
 *   the last word of the key
 *   halves            32 bits each: the other words of the key; the span of each tensor; the aliases of each output
 *   literals of the param map
 * Other launch plans are copied by the caller:
 *   MD_DS_SEQUENCE
 *   MD_DS_DESCRIPTOR  number of words; from bit 32 on the number of words that exceed 32 bits; 0: an empty entry
 *   lower halves of all words
 *   upper halves of the words that have one: number of the word in the upper 32 bits, the half in the lower. */
#ifndef MD_DISPATCH_CACHE_PLAN_ENTRY_H
#define MD_DISPATCH_CACHE_PLAN_ENTRY_H

#include "dispatch/args.h"

typedef uint32_t __attribute__((__may_alias__)) md_ds_half;

enum {
    MD_DS_SEQUENCE,
    MD_DS_DESCRIPTOR,
    MD_DS_BLOCKS,
    MD_DS_SCRATCH,
    MD_DS_GRID,
    MD_DS_ALIGNMENT_WORD = MD_DS_GRID + 4,
    MD_DS_HALVES
};
enum { MD_DS_MOST_LITERALS = 8, MD_DS_MOST_COMPACT_PARAMS = 64, MD_DS_PACKED_WORDS = 256 };
#define MD_DS_COMPACT ((uint64_t)1 << 63)
#define MD_DS_TIMED ((uint64_t)1 << 62) /* sampled calls are timed around the launch */
enum { MD_DS_EVERY_SHIFT = 56, MD_DS_NEVER = 63, MD_DS_PARAM_MAP_BITS = 56 };

struct md_ds_param_map; /* param_map.h */

/* What is written into a plan entry. */
typedef struct md_ds_packed_launch {
    int32_t n;
    md_ds_word word[MD_DS_PACKED_WORDS]; /* word[0], the sequence number's place, is not used */
} md_ds_packed_launch;

/** Packs the halves of a launch plan: its key but for the last word, spans, aliases. False if one exceeds 32 bits. */
bool md_ds_pack_halves(md_ds_word *out, const md_ds_arg_layout *layout, const md_ds_word *launch_plan);

static inline uint64_t md_ds_plan_entry_word(const _Atomic uint64_t *plan_entry, uint32_t i)
{
    return atomic_load_explicit(&plan_entry[i], memory_order_acquire);
}

static inline uint64_t md_ds_plan_entry_half(const md_ds_half *halves, uint32_t i)
{
    return __atomic_load_n(&halves[i], __ATOMIC_ACQUIRE);
}

static inline const md_ds_half *md_ds_plan_entry_halves(const _Atomic uint64_t *plan_entry)
{
    return (const md_ds_half *)(const void *)(plan_entry + MD_DS_HALVES);
}

static inline const struct md_ds_param_map *md_ds_param_map_in(uint64_t descriptor)
{
    return (const struct md_ds_param_map *)(uintptr_t)(descriptor & (((uint64_t)1 << MD_DS_PARAM_MAP_BITS) - 1));
}

/** The sample rate less 1: a mask, since rates are powers of two. */
static inline uint64_t md_ds_every_mask(uint64_t descriptor)
{
    return ((uint64_t)1 << (descriptor >> MD_DS_EVERY_SHIFT & 63)) - 1;
}

/** Number of halves, rounded up to an even one: the literals follow. */
static inline uint32_t md_ds_halves_of(const md_ds_arg_layout *layout)
{
    return ((uint32_t)(layout->n_key - 1 + layout->n_tensors + layout->n_outputs) + 1) & ~1u;
}

_Static_assert(offsetof(md_kn_geometry, grid) == 24 && sizeof(md_kn_geometry) == 24 + 4 * sizeof(md_ds_word),
               "the end of a geometry is 4 words");

static inline void md_ds_plan_entry_geometry(md_kn_geometry *out, const _Atomic uint64_t *plan_entry)
{
    const uint64_t blocks = md_ds_plan_entry_word(plan_entry, MD_DS_BLOCKS);
    md_ds_word *rest = (md_ds_word *)(void *)out->grid;
    out->blocks = (uint32_t)blocks;
    out->grain = (int64_t)(blocks >> 32);
    out->scratch_bytes = (int64_t)md_ds_plan_entry_word(plan_entry, MD_DS_SCRATCH);
    for (uint32_t i = 0; i < 4; i++)
        rest[i] = md_ds_plan_entry_word(plan_entry, MD_DS_GRID + i);
}

#endif
