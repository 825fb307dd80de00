/* Packs what entries of the plan cache and entries of threads keep as halves of words. */
#include "dispatch/cache/plan_entry.h"

bool md_ds_pack_halves(md_ds_word *out, const md_ds_arg_layout *layout, const md_ds_word *launch_plan)
{
    int32_t n = 0;
    for (int32_t k = 0; k < layout->n_key + layout->n_tensors + layout->n_outputs; k++) {
        if (k == layout->n_key - 1)
            continue;
        if (launch_plan[k] > UINT32_MAX)
            return false;
        out[n / 2] = n % 2 ? out[n / 2] | launch_plan[k] << 32 : launch_plan[k];
        n++;
    }
    return true;
}
