/* What all GPU families share: how many blocks an SM holds, the part of the memory rate that a launch reaches, and the
 * width of vectors. */
#ifndef MD_FAMILY_CUDA_CUDA_H
#define MD_FAMILY_CUDA_CUDA_H

#include "family/family.h"

/* What the model of GPUs (tune/model) adds for a launch, us, and for each further one. */
#define MD_FA_CUDA_LAUNCH_US 1.5
#define MD_FA_CUDA_NEXT_LAUNCH_US 1.2

/** Grid size along x. More blocks than a grid can have give -1, which the launch refuses with an error. */
static inline int32_t md_fa_cuda_grid(int64_t blocks)
{
    return blocks > INT32_MAX ? -1 : blocks > 0 ? (int32_t)blocks : 1;
}

/** A launch of so many blocks along x, of so many threads. */
static inline md_kn_geometry md_fa_cuda_launch(int64_t blocks, int32_t threads)
{
    return (md_kn_geometry){
        .blocks = blocks, .grain = 1, .grid = {md_fa_cuda_grid(blocks), 1, 1}, .block = {threads, 1, 1}};
}

/* A launch as its occupancy sees it. */
typedef struct md_fa_cuda_load {
    double blocks;
    int32_t threads; /* of a block */
    int32_t registers; /* of a thread, estimated; 0: 40 */
    int64_t shared_bytes; /* of a block */
    double bytes; /* that a thread loads before it uses the first of them */
    int32_t cluster; /* blocks of a cluster, which must be resident together; 0: 1 */
} md_fa_cuda_load;

/** The number of such blocks that an SM holds at once; 0 if not even one fits. */
int32_t md_fa_cuda_resident(const md_dev_facts *facts, const md_fa_cuda_load *load);
/** The part of the device's memory rate that the launch can reach, (0, 1]. It takes enough bytes in flight on each SM
 * (48 KB on Hopper) and full waves of blocks. */
double md_fa_cuda_rate(const md_dev_facts *facts, const md_fa_cuda_load *load);
/** The part of the SMs that clusters of so many blocks can use: large ones do not fill GPCs of 16 or 18 SMs. */
static inline double md_fa_cuda_cluster_part(int32_t blocks)
{
    return blocks > 8 ? 0.85 : blocks > 2 ? 0.92 : 1.0;
}
/** Clusters that surely run at once, with so many blocks on each SM: for persistent ones, of which one that finds no
 * place waits until another has done all its work. Blocks of an SM are as many layers of clusters with one block on
 * each SM; 66 clusters of 8 blocks did not fit 132 SMs of an H100 with four blocks each. */
int64_t md_fa_cuda_clusters(const md_dev_facts *facts, int32_t cluster, int32_t blocks);
/** The device's memory rate, bytes in a us. */
static inline double md_fa_cuda_bytes_per_us(const md_dev_facts *facts)
{
    return (facts->memory_gbps > 0 ? facts->memory_gbps : 1000.0) * 1e3;
}
/** The device's rate of f32 fma, in a us. */
static inline double md_fa_cuda_fma_per_us(const md_dev_facts *facts)
{
    return (facts->gflops > 0 ? facts->gflops : 10000.0) * 1e3 / 2;
}
/** The number of elements of a 16-byte vector of the narrowest type that the stage reads or writes along the lanes:
 * MD_VL of GPU kernels (4 for f32 and wider, 8 for f16, bf16, u8 and bool). */
int32_t md_fa_cuda_width(const md_st_program *program, int32_t stage);

/* ---- map_params.c */

typedef struct md_fa_cuda_more_params {
    int32_t counters; /* the unit at which they begin; 0: none */
    bool packed; /* packed operands */
} md_fa_cuda_more_params;

/** The parameters of a launch that may read through tensor maps: the maps, which must be aligned to 64 bytes; those of
 * the stage; the workspace; `more`; and where there are maps, padding to a multiple of 64 bytes. UNSUPPORTED if a
 * kernel does not take so many. */
md_status md_fa_cuda_map_params(md_kn_launch_source *out, const md_fa_target *target, int32_t n_maps,
                                const md_kn_map *map, md_fa_cuda_more_params more);

#endif
