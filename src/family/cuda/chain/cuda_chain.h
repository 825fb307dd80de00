/* What the GPU families of chains share: which chains they take, envelopes, tensor maps of keys and values, the text of
 * a launch. */
#ifndef MD_FAMILY_CUDA_CHAIN_CUDA_CHAIN_H
#define MD_FAMILY_CUDA_CHAIN_CUDA_CHAIN_H

#include "family/chain.h"

/* Where chains have their counters: units of MD_KN_COUNTER_UNIT; and tickets of split tiles there, behind the first
 * few words. */
enum { MD_FA_CHAIN_COUNTERS = 32, MD_FA_CHAIN_TICKETS = 65520 };
/* The rows of all batches that can be counted in 32 bits. */
enum { MD_FA_CHAIN_ROWS = INT32_MAX - 1024 };

/* Depths and widths for which there are kernels. */
#define MD_FA_CHAIN_LENGTHS                                                                                            \
    16,                                                                                                                \
    {                                                                                                                  \
        128, 64, 256, 96, 80, 192, 32, 48, 112, 16, 144, 160, 176, 208, 224, 240                                       \
    }

/** True for a load whose last axis is the index, and no other: lines of it lie along the memory. */
bool md_fa_cuda_is_line(const md_fx_node *load, int32_t inner);

/** True for chains whose queries, keys and values are loads of one 16-bit type, with one sum of weights at most. */
bool md_fa_cuda_chain_any(md_cg_chain *out, const md_fa_target *target);
/** The same with a maximum and one sum, where weights are powers: rounded to the type of the operands, or not. */
bool md_fa_cuda_chain_of(md_cg_chain *out, const md_fa_target *target);
/** The class of a family whose `keys` and `split` alone decide about bits. */
md_fa_class md_fa_cuda_chain_class(const char *group, int32_t split);
/** True if scores are products times a factor, behind bounds alone: kernels need no names of places for them. */
bool md_fa_cuda_chain_folds(const md_cg_chain *chain);
/** 16-bit elements that a weight is split into for the tensor cores: 1 if it is rounded to their type, else 2. */
int32_t md_fa_cuda_chain_halves(const md_cg_chain *chain);
/** The index of depth, or of the values' columns. */
int32_t md_fa_cuda_chain_inner(const md_cg_chain *chain, md_st_side side);
/** The type of queries, keys, values and weights. */
md_dtype md_fa_cuda_chain_type(const md_cg_chain *chain);
/** Operands, and a result of 16 bits, have vectors of 16 bytes along depth and columns, which have these lengths. All
 * batches together have at most `most_rows` rows. */
void md_fa_cuda_chain_envelope(md_kn_envelope *out, const md_fa_target *target, int32_t depth, int32_t width,
                               int64_t most_rows);
/** All batches together have at most `most` rows. */
void md_fa_cuda_chain_limit_rows(md_kn_envelope *out, const md_cg_chain *chain, int64_t most);
/** Tiles of `rows` rows of all batches. */
int64_t md_fa_cuda_chain_tiles(const md_fa_chain *sized, int32_t rows);
/** Blocks of that much shared memory and so many warps on an SM: registers allow for one of 8 warps, or two. */
int32_t md_fa_cuda_chain_resident(const md_fa_target *target, int64_t shared, int32_t warps);
/** True if depth and columns have these lengths; `size` NULL: they may have. */
bool md_fa_cuda_chain_has(const md_fa_target *target, const md_cg_chain *chain, int32_t depth, int32_t width,
                          const int64_t *size);

/** What md_fa_family.takes says of families whose first two fields are the depth and the width of their kernels. */
bool md_fa_cuda_chain_takes(const md_fa_target *target, int32_t field, int32_t value, const int64_t *size);

/** A launch of splits along x, and of tiles of rows of all batches along y and z. */
md_kn_geometry md_fa_cuda_chain_grid(int64_t splits, int64_t items, int32_t threads);

/** The map of keys or values, whose axes are elements, keys, and what batch indices select; and how these are printed
 * as coordinates: one subscript an axis from the third on. False where the copy engine cannot read it like that. */
bool md_fa_cuda_chain_map(md_kn_map *map, md_strbuf *coordinates, const md_cg_chain *chain, md_st_side side);

/** The same of an operand of pairs; of one of rows, lines are those of the last row index. */
bool md_fa_cuda_pairs_map(md_kn_map *map, md_strbuf *coordinates, const md_cg_chain *pairs, int32_t operand);
/** Prints md_copy_<name>(to, p, b, element, key, bar), which copies a box by map `number` of the launch. */
void md_fa_cuda_chain_print_copy(md_strbuf *out, const char *name, int32_t number, const md_kn_map *map,
                                 const md_strbuf *coordinates);
/** The same of rows: md_copy_<name>(to, p, r, element, bar). */
void md_fa_cuda_pairs_print_copy(md_strbuf *out, const char *name, int32_t number, const md_kn_map *map,
                                 const md_strbuf *coordinates, const md_cg_chain *pairs);

/** True if keys and values have such maps. */
bool md_fa_cuda_chain_is_mapped(const md_cg_chain *chain);

/* What a launch of a chain is printed from. */
typedef struct md_fa_cuda_chain_text {
    const char *source; /* the template */
    int32_t n_maps;
    const md_kn_map *map;
    const md_strbuf *functions; /* which the template wants besides; NULL: none */
    bool keeps_bounds; /* of each row: md_cg_chain */
} md_fa_cuda_chain_text;

/* Operands of a wgmma instruction: both from shared memory, by lines; the same, across their lines; the left one in
 * registers, the right one across its lines. FROM_ZERO besides: what the results held before does not matter. */
typedef enum md_fa_wgmma {
    MD_FA_WGMMA_SCORES = 0,
    MD_FA_WGMMA_ACROSS = 1,
    MD_FA_WGMMA_VALUES = 2,
    MD_FA_WGMMA_FROM_ZERO = 4
} md_fa_wgmma;
/** Prints a function of one such instruction with this many columns. */
void md_fa_cuda_print_wgmma(md_strbuf *out, const char *name, const char *type, int32_t columns, md_fa_wgmma how);
/** Prints a launch. Its parameters are the maps, the stage's, the workspace and the stream's counters. `defines` is
 * freed here. */
md_status md_fa_cuda_chain_emit(md_kn_source *out, const md_fa_target *target, const md_fa_cuda_chain_text *text,
                                md_strbuf *defines);

#endif
