/* Copies the elements of one strided tensor to another. A kernel of the device itself (src/device/cuda/copy.c), so
 * without the prelude. */
struct md_copy_axis {
    long long size, to, from;
};
struct md_params {
    void *to;
    const void *from;
    long long n_points, item;
    md_copy_axis axis[8]; /* the last axis first; unused ones have size 1 */
};

extern "C" __global__ void __launch_bounds__(256) md_copy_tensor(const __grid_constant__ md_params p)
{
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < p.n_points; i += step) {
        long long rest = i, to = 0, from = 0;
#pragma unroll 1
        for (int k = 0; k < 8; k++) {
            if (p.axis[k].size == 1)
                continue;
            long long outer = rest / p.axis[k].size, x = rest - outer * p.axis[k].size;
            to += x * p.axis[k].to;
            from += x * p.axis[k].from;
            rest = outer;
        }
        if (p.item == 1)
            ((unsigned char *)p.to)[to] = ((const unsigned char *)p.from)[from];
        else if (p.item == 2)
            ((unsigned short *)p.to)[to] = ((const unsigned short *)p.from)[from];
        else if (p.item == 4)
            ((unsigned *)p.to)[to] = ((const unsigned *)p.from)[from];
        else
            ((unsigned long long *)p.to)[to] = ((const unsigned long long *)p.from)[from];
    }
}
