/* What the GPU families of matrix products share. */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_H

#include "family/product.h"

/** The stage as a product, to be printed for GPUs. */
bool md_fa_cuda_product_of(md_cg_product *out, const md_fa_target *target);
/** The same of products whose K has bounds by batch (md_span_of), too. */
bool md_fa_cuda_any_product_of(md_cg_product *out, const md_fa_target *target);

/* What a launch of a product is printed from. */
typedef struct md_fa_cuda_product_text {
    const char *source; /* "cuda/gemm_simt.cu" */
    const char *role; /* of the launch (kernel.h); NULL: the variant's own */
    int32_t lanes; /* MD_VL */
    bool has_result; /* the text calls md_result, which works on registers */
    int32_t split; /* slices of K; above 1 a second launch adds them up */
    bool is_cluster_reduced; /* the blocks of a cluster add up the slices: no second launch */
    const char *end; /* the template of a second launch with the same defines, or NULL */
    const char *begin; /* the template of a launch before it with the same defines, or NULL */
    const char *begin_role, *begin_defines; /* of that launch; NULL: its own role, the same defines */
    bool packs; /* both launches have packed operands as a parameter */
    bool has_copies; /* a launch before it makes copies of A and B in the layout of map[0] and map[1] */
    int32_t n_maps; /* tensor maps */
    const md_kn_map *map;
} md_fa_cuda_product_text;

/** The numeric class of a tiled product: one accumulator for each element, K in order by steps of one instruction, the
 * same for all tiles. Slices depend on K alone and are added in order. */
md_fa_class md_fa_cuda_product_class(const char *group);
/** Prints all launches of a product; the entry is md_kernel. `defines` is freed here. */
md_status md_fa_cuda_product_emit(md_kn_source *out, const md_fa_target *target, const md_cg_product *product,
                                  const md_fa_cuda_product_text *text, md_strbuf *defines);
/** Prints the launch that adds up slices of partial sums in the workspace (slices = 1: only the epilogue). */
md_status md_fa_cuda_product_emit_sum(md_kn_launch_source *out, const md_fa_target *target,
                                      const md_cg_product *product, int32_t slices);
/** The product's work from the memo, else in `room`. NULL if the stage is no product. */
const md_fa_product *md_fa_cuda_product_at(md_fa_product *room, const md_fa_target *target, const int64_t *size);
/** Begins the features of a product: sets *out to no work, and returns the product's work from the memo, else in
 * `room`. NULL if the stage is no product or a size is 0, so that there is no more to do. */
const md_fa_product *md_fa_cuda_product_work(md_fa_features *out, md_fa_product *room, const md_fa_target *target,
                                             const int64_t *size);
/** Begins the geometry of a product: sets *out to no launch, and returns the product's work from the memo, else in
 * `room`. NULL if the stage is no product or a size is 0, so that there is no more to do. */
const md_fa_product *md_fa_cuda_product_launched(md_kn_geometries *out, md_fa_product *room, const md_fa_target *target,
                                                 const int64_t *size);
/** Adds the geometry of the launch that adds up the slices of K, and the workspace. */
void md_fa_cuda_product_sum(md_kn_geometries *out, const md_fa_target *target, const md_fa_product *work,
                            int32_t split);
/** Inserts the geometry of the launch that copies both operands before launch 0, and the workspace. */
void md_fa_cuda_product_copies(md_kn_geometries *out, const md_fa_product *work, const md_kn_map map[2]);
/** True if the launch gains by starting before the one before has ended: half a microsecond for short ones. Long ones
 * lose up to a sixth (measured): blocks are then placed on SMs in the order in which those become free, and neighbours
 * no longer share lines in the L2. */
bool md_fa_cuda_product_overlaps(const md_fa_product *work);
/** Bytes of an accumulator. */
int32_t md_fa_cuda_product_bytes(const md_cg_product *product);
/** Prints MD_ALONG_<o> for each operand: the direction in which it is contiguous. */
void md_fa_cuda_product_print_along(md_strbuf *out, const md_cg_product *product);

/** The tensor map of an operand, fastest dim first: K or the rows, then the other, then the batch. The caller sets the
 * boxes. False if it is no plain load or its axes have another order. */
bool md_fa_cuda_map_operand(md_kn_map *out, const md_cg_product *product, int32_t operand);
/* Tensor maps of A, B, a second B and the result. */
enum { MD_FA_CUDA_MAPS = 4 };
/** The dtype in which operands are multiplied: that of the operands of 16 bits or more. */
md_dtype md_fa_cuda_map_type(const md_cg_product *product);
/** Bytes of an element of that dtype. */
int32_t md_fa_cuda_map_item_bytes(const md_cg_product *product);
/** Tensor maps of A, B and the second B, all of one type. Narrower operands need a copy of that type (is_copy). False
 * if an operand has no such map. */
bool md_fa_cuda_map_operands(md_kn_map map[MD_FA_CUDA_MAPS], const md_cg_product *product);
/** Tensor maps of B and the second B alone, of the type of all operands. False if an operand has no such map. */
bool md_fa_cuda_map_columns(md_kn_map map[MD_FA_CUDA_MAPS], const md_cg_product *product);
/** Tensor maps of operands of 8 bits, all along K, of integers or of reals. False if an operand has no such map. */
bool md_fa_cuda_map_bytes(md_kn_map map[MD_FA_CUDA_MAPS], const md_cg_product *product);
bool md_fa_cuda_map_needs_copies(const md_kn_map map[MD_FA_CUDA_MAPS], const md_cg_product *product);
/** The tensor map of the first store: columns, rows, batch. */
bool md_fa_cuda_map_result(md_kn_map *out, const md_cg_product *product);
/** Adds what the map requires of the tensor's strides and, if `is_aligned`, of its address. */
void md_fa_cuda_map_needs(md_kn_envelope *out, const md_kn_map *map, bool is_aligned);

/** True if a 16-bit operand has rows that are no multiple of 16 bytes, judged by the sizes. */
bool md_fa_cuda_product_is_ragged(const md_fa_product *work);

/* A tiled product as its cost sees it. */
typedef struct md_fa_cuda_tiles {
    int32_t rows, columns; /* of a tile */
    int32_t split;
    bool is_cluster_reduced; /* the blocks of a cluster add up the slices */
    int32_t threads; /* of a block */
    int64_t shared_bytes; /* of a block */
    int32_t resident; /* blocks on an SM */
    double flops; /* rate of an SM as a part of its f32 peak (tensor cores: above 1) */
    double step_us; /* least time of a block for 64 steps of K, alone on its SM */
} md_fa_cuda_tiles;

void md_fa_cuda_product_features(md_fa_features *out, const md_fa_target *target, const md_fa_product *work,
                                 const md_fa_cuda_tiles *tiles);
/* What begins the spec of a family of tiled products. */
typedef struct md_fa_cuda_tiled {
    md_cg_product p;
    md_fa_cuda_tiles tiles;
} md_fa_cuda_tiled;
/** The geometry of such families: one block for each tile and slice of K, and the launch that adds up the slices.
 * Nothing if a size is 0. */
void md_fa_cuda_tiled_geometry(md_kn_geometries *out, const md_fa_target *target, const void *spec,
                               const md_kn_shape *shape);
/** True if a config is worth trying: K is split only if there are few blocks and K is long. */
bool md_fa_cuda_product_is_worth_trying(const md_fa_target *target, const md_cg_product *product,
                                        const md_fa_cuda_tiles *tiles, const int64_t *size);
/** True if the order of tiles matters: more of them than run at once, in several rows. */
bool md_fa_cuda_product_has_waves(const md_fa_target *target, const md_cg_product *product,
                                  const md_fa_cuda_tiles *tiles, const int64_t *size);

#endif
