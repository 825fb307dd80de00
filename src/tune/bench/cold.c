/* Cold caches: how many sets of memory, and the sweep. */
#include "tune/bench/bench.h"

#include "base/status.h"
#include "tune/bench/policy.h"

#include <math.h>

enum { ALIGNMENT = 256 };

int64_t md_tn_cold_bytes(const md_dev *dev)
{
    return dev->ops->time && !dev->ops->is_simulated ? (int64_t)(MD_TN_COLD * (double)dev->facts.l2_bytes) : 0;
}

int32_t md_tn_cold_sets(const md_dev *dev, double set_bytes, int32_t most)
{
    return (int32_t)fmax(1.0, fmin(ceil((double)md_tn_cold_bytes(dev) / set_bytes), most));
}

int64_t md_tn_sweep_bytes(const md_dev *dev)
{
    return dev->ops->copy_tensor ? md_tn_cold_bytes(dev) / ALIGNMENT * ALIGNMENT : 0;
}

void md_tn_sweep_make(md_tn_sweep *out, md_dev *dev, void *memory)
{
    *out = (md_tn_sweep){
        .dev = dev, .memory = memory, .n = memory ? md_tn_sweep_bytes(dev) / (2 * (int64_t)sizeof(float)) : 0};
}

md_status md_tn_sweep_run(const md_tn_sweep *sweep)
{
    if (!sweep->memory)
        return MD_OK;
    const md_tensor from = md_tensor_make(sweep->memory, MD_F32, 1, &sweep->n),
                    to = md_tensor_make((float *)sweep->memory + sweep->n, MD_F32, 1, &sweep->n);
    return sweep->dev->ops->copy_tensor(sweep->dev, sweep->dev->tuning, &to, &from);
}
