/* What the families of chains on both devices share. */
#ifndef MD_FAMILY_CHAIN_H
#define MD_FAMILY_CHAIN_H

#include "codegen/chain/pairs.h"
#include "family/family.h"

/* A chain, or pairs, at given sizes. */
typedef struct md_fa_chain {
    md_cg_chain c;
    int64_t batches, rows, keys, depth, columns;
    double part; /* the part of all pairs of rows and keys that bounds leave, as far as sizes tell */
    double bytes; /* of all tensors, each read or written once */
    double ops, transcendental; /* of each score, beside the products: e, terms and weight included */
} md_fa_chain;

/** False where the stage is neither. */
bool md_fa_chain_measure(md_fa_chain *out, const md_fa_target *target, const int64_t *size);
/** Number of pairs of rows and keys that are computed. */
static inline double md_fa_chain_pairs(const md_fa_chain *sized)
{
    return (double)sized->batches * (double)sized->rows * (double)sized->keys * sized->part;
}
/** Prints a launch from a template, of whose parameters `n_extra` follow the stage's. `defines` is freed here. */
md_status md_fa_chain_emit(md_kn_launch_source *out, const md_fa_target *target, const md_kn_param *extra,
                           int32_t n_extra, const char *template_name, md_strbuf *defines);

#endif
