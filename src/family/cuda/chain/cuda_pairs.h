/* What the GPU families of pairs share: which pairs they take, envelopes, the text of a launch. */
#ifndef MD_FAMILY_CUDA_CHAIN_CUDA_PAIRS_H
#define MD_FAMILY_CUDA_CHAIN_CUDA_PAIRS_H

#include "family/cuda/chain/cuda_chain.h"

/** True for pairs whose operands are lines of one 16-bit type, of two lengths at most. */
bool md_fa_cuda_pairs_of(md_cg_chain *out, const md_fa_target *target);
/** True if lines have these lengths; `size` NULL: they may have. Where all lines have one dim, both are the same. */
bool md_fa_cuda_pairs_has(const md_fa_target *target, const md_cg_chain *pairs, int32_t depth, int32_t width,
                          const int64_t *size);
/** What md_fa_family.takes says of families whose first two fields are these lengths. */
bool md_fa_cuda_pairs_takes(const md_fa_target *target, int32_t field, int32_t value, const int64_t *size);
/** Lines are whole pieces of 16 bytes and have these lengths. */
void md_fa_cuda_pairs_envelope(md_kn_envelope *out, const md_fa_target *target, int32_t depth, int32_t width);

/* A sum as kernels see it: own lines are those of its results. */
typedef struct md_fa_pair_part {
    bool is_towards_keys;
    int32_t n_products, product[MD_ST_MAX_PAIR_PRODUCTS]; /* that its weights need */
    int32_t width; /* elements of its values' lines */
    int32_t halves; /* products with values for each weight */
    int32_t own, other; /* elements of all operands' lines that it reads */
    int32_t terms; /* of a pair: multiplications */
} md_fa_pair_part;

/** The type of all operands. */
md_dtype md_fa_cuda_pairs_type(const md_cg_chain *pairs);
md_fa_pair_part md_fa_cuda_pairs_part(const md_cg_chain *pairs, int32_t sum, int32_t depth, int32_t width);

/** Bytes of shared memory: of lines of 16-bit elements, 64 of each side by side; of what is known of a row. */
int64_t md_fa_cuda_pairs_bytes(int64_t lines, int32_t length);
int64_t md_fa_cuda_pairs_note_bytes(const md_cg_chain *pairs);
/** Tiles of `own` lines of a batch's results towards rows, and of those towards keys. */
void md_fa_cuda_pairs_tiles(int64_t tiles[2], const md_fa_chain *sized, int32_t own);
/** The one launch, if there is a block. */
void md_fa_cuda_pairs_launch(md_kn_geometries *out, int64_t blocks, int32_t threads, int64_t shared_bytes);
/** Sets what tiles of `own` lines take besides their time: memory, and how many run side by side. */
void md_fa_cuda_pairs_features(md_fa_features *out, const md_fa_target *target, const md_fa_chain *sized, int32_t own);
/** Prints the macros of the operands' type; `lanes`: of results that are stored at a time. */
void md_fa_cuda_pairs_print_types(md_strbuf *defines, const md_cg_chain *pairs, int32_t lanes);
/** Prints the launch. `defines` is freed here. */
md_status md_fa_cuda_pairs_emit(md_kn_source *out, const md_fa_target *target, const char *source, md_strbuf *defines);

#endif
