/* What the GPU families share: occupancy, and the part of the memory rate that a launch reaches. */
#ifndef MD_FAMILY_CUDA_CUDA_H
#define MD_FAMILY_CUDA_CUDA_H

#include "family/family.h"

/** Blocks along x. More than a grid has room for are -1, which the launch refuses: never a part of the work in
 * silence. */
static inline int32_t md_fa_cuda_grid(int64_t blocks)
{
    return blocks > INT32_MAX ? -1 : blocks > 0 ? (int32_t)blocks : 1;
}

/* One launch as the planner sees it. */
typedef struct md_fa_cuda_load {
    double blocks;
    int32_t threads; /* of a block */
    int32_t registers; /* of a thread, about; 0: 40 */
    int64_t shared_bytes; /* of a block */
    double bytes; /* that a thread asks for before it uses the first: its loads in flight */
    int32_t cluster; /* blocks that must be resident together; 0: 1 */
} md_fa_cuda_load;

/** Blocks of this kind that an SM holds at once; 0 where not even one fits. */
int32_t md_fa_cuda_resident(const md_dev_facts *facts, const md_fa_cuda_load *load);
/** Part of the device's memory rate that the launch can reach: enough bytes in flight an SM (48 KB on Hopper), and
 * full waves. (0, 1]. */
double md_fa_cuda_rate(const md_dev_facts *facts, const md_fa_cuda_load *load);
/** Elements of a 16-byte vector of the narrowest type that the stage reads or writes along the lanes: MD_VL of GPU
 * kernels (4 for f32 and wider, 8 for f16, bf16, u8 and bool). */
int32_t md_fa_cuda_width(const md_st_program *program, int32_t stage);

#endif
