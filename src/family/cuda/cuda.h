/* What all GPU families share: how many blocks an SM holds, the part of the memory rate that a launch reaches, and the
 * width of vectors. */
#ifndef MD_FAMILY_CUDA_CUDA_H
#define MD_FAMILY_CUDA_CUDA_H

#include "family/family.h"

/** Grid size along x. More blocks than a grid can have give -1, which the launch refuses with an error. */
static inline int32_t md_fa_cuda_grid(int64_t blocks)
{
    return blocks > INT32_MAX ? -1 : blocks > 0 ? (int32_t)blocks : 1;
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
/** The number of elements of a 16-byte vector of the narrowest type that the stage reads or writes along the lanes:
 * MD_VL of GPU kernels (4 for f32 and wider, 8 for f16, bf16, u8 and bool). */
int32_t md_fa_cuda_width(const md_st_program *program, int32_t stage);

#endif
