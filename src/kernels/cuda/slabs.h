/* What a block of slabs.cu takes, for its host, too. */
#ifndef MD_CUDA_SLABS_H
#define MD_CUDA_SLABS_H

#define MD_SLAB_BYTES 8192
#define MD_SLAB_STEP 16 /* whole vectors of all types */

#ifdef __CUDACC_RTC__
#define MD_SLAB_INLINE static __device__ __forceinline__
#else
#include <stdint.h>
#define MD_SLAB_INLINE static inline
#endif

/* Elements of the longer side, in equal parts, so that a part with all of the shorter side takes MD_SLAB_BYTES or a
 * little more. */
MD_SLAB_INLINE int64_t md_slab_part(int64_t length, int64_t across, int64_t item)
{
    const int64_t fit = MD_SLAB_BYTES / (across * item) / MD_SLAB_STEP * MD_SLAB_STEP,
                  most = fit > 0 ? fit : MD_SLAB_STEP, parts = (length + most - 1) / most,
                  part = parts > 0 ? (length + parts - 1) / parts : 0;
    return (part + MD_SLAB_STEP - 1) / MD_SLAB_STEP * MD_SLAB_STEP;
}

#endif
