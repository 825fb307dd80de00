/* What families of packed products on the host share: tiles and the cost of a region (kernels/host/region.h). */
#ifndef MD_FAMILY_HOST_PRODUCT_REGION_H
#define MD_FAMILY_HOST_PRODUCT_REGION_H

#include "family/product.h"

#include "kernels/host/split.h"

typedef struct md_fa_host_tile {
    int32_t rows, vecs, depth;
} md_fa_host_tile;

/* Spec of the kind of packed products: gemm and gemm_packed, whose B is packed once. */
typedef struct md_fa_host_gemm_spec {
    md_cg_product p;
    md_fa_config config; /* with the fields of gemm */
    uint32_t packs; /* md_kn_source.packs; 0: of gemm */
} md_fa_host_gemm_spec;
_Static_assert(sizeof(md_fa_host_gemm_spec) <= sizeof(md_fa_spec), "there is room for it");
extern const md_fa_kind md_fa_host_gemm_kind;
/** The stage as a product, and the config; packs 0. False: it is none. */
bool md_fa_host_gemm_spec_of(md_fa_host_gemm_spec *out, const md_fa_target *target, const md_fa_config *config);
/** The class of its sums. */
md_fa_class md_fa_host_gemm_class(const md_fa_target *target, const md_fa_config *config);
/** True if the tile can be packed and fits into registers. */
bool md_fa_host_gemm_is_legal(const md_fa_target *target, const md_fa_host_gemm_spec *spec);

md_tiling md_fa_host_tiling(const md_fa_target *target, const md_cg_product *product, const md_fa_host_tile *tile);
/** True if the tile's sums fit into registers, and packing can fill it. */
bool md_fa_host_tile_is_legal(const md_fa_target *target, const md_cg_product *product, const md_fa_host_tile *tile);
/** Sets an envelope that holds at no shape where tiles are higher than the vectors that A is packed by. */
void md_fa_host_tile_limit(md_kn_envelope *out, const md_tiling *tiling);
/** Prints MD_ROWS, MD_VECS, MD_DEPTH, MD_GROUP and MD_NEAR. */
void md_fa_host_tile_print(md_strbuf *defines, const md_fa_target *target, const md_cg_product *product,
                           const md_fa_host_tile *tile);
/** Cycles of the largest region of a product that is cut like this, packing of A and B with them. */
double md_fa_host_region_cycles(const md_fa_target *target, const md_fa_product *work, const md_tiling *tiling,
                                md_split split);

#endif
