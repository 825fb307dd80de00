/* What the families on Hopper's tensor cores share (kernels/cuda/gemm_wgmma.cu): tiles, tensor maps, text, cost. */
#ifndef MD_FAMILY_CUDA_PRODUCT_WGMMA_SHAPE_H
#define MD_FAMILY_CUDA_PRODUCT_WGMMA_SHAPE_H

#include "family/cuda/product/gemm.h"
#include "family/cuda/product/wgmma_cost.h"

/* A config, and values derived from it. */
typedef struct md_fa_wgmma_shape {
    int32_t rows, columns; /* of a tile, for each product; if it is swapped, of the transposed result */
    int32_t split, cluster; /* slices of K; blocks that share an operand */
    bool is_pingpong, is_swapped, has_copies;
    bool is_cluster_reduced; /* the blocks of a cluster add up the slices of a tile */
    bool gathers; /* rows of A lie anywhere: threads copy them (kernels/cuda/gemm_wgmma_rows.cu) */
    int32_t sorts_here; /* gathers: most rows of groups that every block sorts for itself; 0: they are sorted before */
    int32_t line_bytes; /* gathers: of shared memory for the places of rows */
    int32_t slice; /* reals of 8 bits: columns whose sums of a stage are made at once, by rows in registers; 0: all */
    /* has_result: the epilogue works in registers; by_words: and stores from there */
    bool has_result, by_words;
    /* derived; deep: a stage has so many times 128 bytes of K */
    int32_t consumers, panel, panels, stages, threads, low, high, n_products, deep;
    bool shares_a;
    int64_t stage_bytes, shared;
} md_fa_wgmma_shape;

/** Computes what is derived. */
void md_fa_wgmma_shape_derive(md_fa_wgmma_shape *shape, const md_cg_product *product);
/** The stage as a product that the copy engine and the tensor cores take, padded copies allowed. */
bool md_fa_wgmma_product_of(md_cg_product *out, const md_fa_target *target);
/** The same of products whose K has bounds by batch, too, if both operands lie along their rows. */
bool md_fa_wgmma_any_product_of(md_cg_product *out, const md_fa_target *target);
/** Tensor maps of the operands, of 8 bits or more. False if one has none. */
bool md_fa_wgmma_maps(md_kn_map map[MD_FA_CUDA_MAPS], const md_cg_product *product);
/** The tensor map of the result. False if the epilogue cannot work in registers. */
bool md_fa_wgmma_map_result(md_kn_map *out, const md_cg_product *product);
/** Registers and stages allow the tile. */
bool md_fa_wgmma_shape_fits(const md_fa_wgmma_shape *shape, const md_fa_target *target, const md_cg_product *product);
void md_fa_wgmma_envelope(md_kn_envelope *out, const md_fa_target *target, const md_fa_wgmma_shape *shape,
                          const md_cg_product *product);
void md_fa_wgmma_geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_wgmma_shape *shape,
                          const md_fa_product *work);
/* What is fixed of a config whatever the sizes (md_fa_fixed). */
typedef struct md_fa_wgmma_fixed {
    bool takes; /* the family takes the stage */
    int32_t launches;
    md_fa_wgmma variant;
} md_fa_wgmma_fixed;
void md_fa_wgmma_fix(md_fa_fixed *out, const md_fa_wgmma_shape *shape, int32_t launches);
/** Features of a config by what is fixed of it. */
void md_fa_wgmma_features(md_fa_features *out, const md_fa_target *target, const md_fa_wgmma_fixed *fixed,
                          const int64_t *size);
md_status md_fa_wgmma_emit(md_kn_source *out, const md_fa_target *target, const md_fa_wgmma_shape *shape,
                           const md_cg_product *product);
/* What the device knows of a tile when it picks one: ns of 64 of K, and of the tile's end. */
typedef struct md_fa_wgmma_tile_time {
    int32_t step_ns, end_ns;
} md_fa_wgmma_tile_time;
/** Those of the two tiles by the model, where all SMs make such tiles. */
void md_fa_wgmma_pick_table(md_fa_wgmma_tile_time time[2], const md_fa_target *target, const md_cg_product *product,
                            const md_fa_wgmma_shape *shape, const md_fa_wgmma_shape *second);
/** The same as md_fa_wgmma_emit for rows of groups with two tiles, of which the device picks one; `second`, of 64 rows,
 * has no more threads than the first one. NULL: there is none. */
md_status md_fa_wgmma_emit_picked(md_kn_source *out, const md_fa_target *target, const md_fa_wgmma_shape *shape,
                                  const md_fa_wgmma_shape *second, const md_cg_product *product);

typedef struct md_fa_wgmma_spec {
    md_cg_product product;
    md_fa_wgmma_shape shape;
} md_fa_wgmma_spec;
_Static_assert(sizeof(md_fa_wgmma_spec) <= sizeof(md_fa_spec), "there is room for it");
/** The kind of these families; its spec is md_fa_wgmma_spec. */
extern const md_fa_kind md_fa_wgmma_kind;

#endif
