/* The kind of the GPU families of chains: a block has a tile of rows, whose keys may be split among several. */
#ifndef MD_FAMILY_CUDA_CHAIN_CHAIN_KIND_H
#define MD_FAMILY_CUDA_CHAIN_CHAIN_KIND_H

#include "family/cuda/chain/few_rows.h"

enum { MD_FA_CHAIN_DEFINES = 12 };

/* What a config of such a family comes to. */
typedef struct md_fa_chain_spec {
    md_fa_cuda_chain_text text; /* chain_wgmma's own `emit` adds maps and functions */
    int32_t depth, width;
    int64_t most_rows; /* of all batches together */
    int32_t least_size; /* of every dim */
    md_fa_few_rows few; /* rows 0: it has not this form, and the fields below hold */
    int32_t rows, split, threads; /* of a tile; parts of its keys; of a block */
    int32_t most_blocks; /* that are launched; 0: one for each part */
    int64_t shared, part; /* bytes of a block; floats of a part */
    int32_t n_defines;
    struct {
        const char *name; /* without MD_ */
        int64_t value;
    } define[MD_FA_CHAIN_DEFINES]; /* of the template */
    char function[48]; /* a function of the template as a macro; "": none */
} md_fa_chain_spec;

extern const md_fa_kind md_fa_cuda_chain_kind;

void md_fa_chain_define(md_fa_chain_spec *spec, const char *name, int64_t value);
void md_fa_chain_print_defines(md_strbuf *out, const md_fa_chain_spec *spec);

#endif
