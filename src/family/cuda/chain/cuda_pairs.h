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

/** Prints launches of one template: MD_PHASE is the number of each, from 1, or 2 where there is one. Several have the
 * workspace as parameter. `defines` is freed here. */
md_status md_fa_cuda_pairs_emit(md_kn_source *out, const md_fa_target *target, const char *source, int32_t n_launches,
                                md_strbuf *defines);

#endif
