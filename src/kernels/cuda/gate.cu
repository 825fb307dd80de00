/* Holds a stream until the host opens the gate, at most for some time: what is enqueued after it then runs without
 * delays by the host (src/device/cuda/time.c). */
struct md_params {
    volatile int *is_open; /* pinned host memory */
    long long limit_ns;
};

static __device__ __forceinline__ long long md_now()
{
    long long t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
}

extern "C" __global__ void __launch_bounds__(32) md_gate(const __grid_constant__ md_params p)
{
    if (threadIdx.x != 0 || p.limit_ns == 0)
        return;
    long long end = md_now() + p.limit_ns;
    while (!*p.is_open && md_now() < end)
        ;
}
