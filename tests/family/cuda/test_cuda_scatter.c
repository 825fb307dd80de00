/* Scatters on a GPU: writes, sums, maxima and minima through indices, atomic and owned, of every type. */
#include "family/cuda/cuda_runs.h"

static const cuda_run list[] = {
    {"C[slot[t],d] = K[t,d]", MD_F32, {{7, 5}, {333, 100}, {1000, 64}, {1, 8}}},
    {"C[slot[t],d] += K[t,d]", MD_F32, {{7, 5}, {333, 100}, {1000, 64}, {1, 8}}},
    {"C[slot[t],d] += K[t,d]", MD_BF16, {{7, 5}, {33, 100}, {100, 64}, {1, 8}}},
    {"C[slot[t],d] += K[t,d] * w[t]", MD_F16, {{7, 5}, {33, 100}, {100, 64}, {1, 8}}},
    {"C[slot[t],d] max= K[t,d]", MD_F32, {{7, 5}, {333, 100}, {1000, 64}, {1, 8}}},
    {"C[slot[t],d] min= K[t,d]", MD_BF16, {{7, 5}, {333, 100}, {1000, 64}, {1, 8}}},
    {"C[slot[t],d] *= K[t,d]", MD_F32, {{7, 5}, {333, 100}, {1000, 64}, {1, 8}}},
    {"C[slot[t],d] *= K[t,d]", MD_BF16, {{7, 5}, {33, 100}, {100, 64}, {1, 8}}},
    {"C:i32[slot[t]] *= K:i32[t]", MD_F32, {{7}, {3001}, {4096}, {1}}},
    {"C[slot[t]] += K[t]", MD_F32, {{7}, {3001}, {4096}, {1}}},
    {"C:i32[slot[t]] += K:i32[t]", MD_F32, {{7}, {3001}, {4096}, {1}}},
    {"C:u8[slot[t]] max= K:u8[t]", MD_F32, {{7}, {3001}, {4096}, {1}}},
    {"C[slot[t],d] += K[t,d]", MD_F64, {{7, 5}, {333, 100}, {1000, 64}, {1, 8}}},
};

int main(void)
{
    return cuda_runs(list, MD_COUNT(list), "scatter");
}
