/* What the GPU families of matrix products share. */
#ifndef MD_FAMILY_CUDA_PRODUCT_GEMM_H
#define MD_FAMILY_CUDA_PRODUCT_GEMM_H

#include "family/product.h"

/** The stage as a product, to be printed for GPUs. */
bool md_fa_cuda_product_of(md_cg_product *out, const md_fa_target *target);

/* The launch of a product. */
typedef struct md_fa_cuda_product_text {
    const char *source; /* "cuda/gemm_simt.cu" */
    int32_t lanes; /* MD_VL */
    bool has_result; /* md_result, too */
    int32_t split; /* slices of K: above 1, a second launch adds them up */
    bool is_cluster_reduced; /* no: they do that among themselves */
    const char *end; /* the source of a second launch with the same defines, or NULL */
    bool has_copies; /* a launch before it copies A and B, as map[0] and map[1] want them */
    int32_t n_maps; /* of tensors */
    const md_kn_map *map;
} md_fa_cuda_product_text;

/** The numeric class of a tiled product: an accumulator an element, K in order by steps of one instruction, the same
 * for all tiles; slices are cut from K alone and added in order. */
md_fa_class md_fa_cuda_product_class(const char *group);
/** One launch, or two, from a template; entry md_kernel. `defines` is finished here. */
md_status md_fa_cuda_product_emit(md_kn_source *out, const md_fa_target *target, const md_cg_product *product,
                                  const md_fa_cuda_product_text *text, md_strbuf *defines);
/** The text of a launch that adds up slices of partial sums in the workspace (1: only an epilogue). */
md_status md_fa_cuda_product_emit_sum(md_kn_launch_source *out, const md_fa_target *target,
                                      const md_cg_product *product, int32_t slices);
/** How the features of every family of products begin: *out is of no work, and *work is measured. False where that is
 * all: a size is 0. */
bool md_fa_cuda_product_has_work(md_fa_features *out, md_fa_product *work, const md_fa_target *target,
                                 const md_cg_product *product, const int64_t *size);
/** The second launch, and the workspace, of a product whose K is split. */
void md_fa_cuda_product_sum(md_kn_plan_geometry *out, const md_fa_target *target, const md_fa_product *work,
                            int32_t split);
/** The launch that makes copies of both operands goes before launch 0, which becomes launch 1; and their workspace. */
void md_fa_cuda_product_copies(md_kn_plan_geometry *out, const md_fa_product *work, const md_kn_map map[2]);
/** Whether its launch gains by beginning early: half a microsecond where it is short. Long ones lose more (seen: up
 * to a sixth), since their blocks then lie on SMs in the order in which those become free, and neighbours no longer
 * ask the L2 for the same lines together. */
bool md_fa_cuda_product_overlaps(const md_fa_product *work);
/** Bytes of an accumulator. */
int32_t md_fa_cuda_product_bytes(const md_cg_product *product);
/** `#define MD_ALONG_<o>` for the operands. */
void md_fa_cuda_product_print_along(md_strbuf *out, const md_cg_product *product);

/** How an operand lies in memory, fastest first: K or the rows, then the other, then the batch. Boxes are the
 * caller's. False where it is no plain load or its axes are in another order. */
bool md_fa_cuda_map_operand(md_kn_map *out, const md_cg_product *product, int32_t operand);
/* Maps of A, B, a second B and the result. */
enum { MD_FA_CUDA_MAPS = 4 };
/** The dtype that operands are multiplied in: that of those of 16 bits or more. */
md_dtype md_fa_cuda_map_type(const md_cg_product *product);
/** Bytes of an element of it. */
int32_t md_fa_cuda_map_item_bytes(const md_cg_product *product);
/** Maps of A, B and the second B, all of one type. Operands of fewer bits need a copy of that type (is_copy). False
 * where an operand lies otherwise. */
bool md_fa_cuda_map_operands(md_kn_map map[MD_FA_CUDA_MAPS], const md_cg_product *product);
bool md_fa_cuda_map_needs_copies(const md_kn_map map[MD_FA_CUDA_MAPS], const md_cg_product *product);
/** The same of the first store: columns, rows, batch. */
bool md_fa_cuda_map_result(md_kn_map *out, const md_cg_product *product);
/** What a tensor must be to be read so. */
void md_fa_cuda_map_needs(md_kn_envelope *out, const md_kn_map *map, bool is_aligned);

/** Whether a 16-bit operand has lines that are not whole pieces of 16 bytes, as far as sizes tell. */
bool md_fa_cuda_product_is_ragged(const md_fa_product *work);

/* A tiled product as the model sees it. */
typedef struct md_fa_cuda_tiles {
    int32_t rows, columns; /* of a tile */
    int32_t split;
    bool is_cluster_reduced; /* slices add up among themselves */
    int32_t threads; /* of a block */
    int64_t shared_bytes; /* of a block */
    int32_t resident; /* blocks an SM */
    double flops; /* of an SM at full speed, as a part of its f32 peak (tensor cores: above 1) */
    double step_us; /* what a block takes at least for 64 steps of K, alone on its SM */
} md_fa_cuda_tiles;

void md_fa_cuda_product_features(md_fa_features *out, const md_fa_target *target, const md_fa_product *work,
                                 const md_fa_cuda_tiles *tiles);
/** A block a tile and slice of K, and the launch that adds up the slices. Nothing where a size is 0. */
void md_fa_cuda_product_geometry(md_kn_plan_geometry *out, const md_fa_target *target, const md_cg_product *product,
                                 const md_fa_cuda_tiles *tiles, const int64_t *size);
/** Whether a configuration deserves to be tried: tiles not far beyond the sizes, K split only where blocks are few
 * and K is long. */
bool md_fa_cuda_product_sensible(const md_fa_target *target, const md_cg_product *product,
                                 const md_fa_cuda_tiles *tiles, const int64_t *size);
/** Whether the order of tiles matters: there are more of them than run at once, in several rows. */
bool md_fa_cuda_product_has_waves(const md_fa_target *target, const md_cg_product *product,
                                  const md_fa_cuda_tiles *tiles, const int64_t *size);

#endif
