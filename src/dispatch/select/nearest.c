/* Finds the hints of an op that are nearest to a shape. */
#include "dispatch/select/select.h"

#include "dispatch/space/space.h"

bool md_ds_has_grid(const md_ds_op *op)
{
    return op->policy.select == MD_SELECT_DISTANCE && op->policy.has_default_hints && op->space.n > 0;
}

double md_ds_nearest_octaves(const md_ds_op *op, const int64_t *sizes)
{
    int64_t on_grid[MD_DS_MAX_DYNAMIC];
    double distance = 0.0;
    if (md_ds_has_grid(op))
        return md_ds_nearest_on_grid(on_grid, &op->space, op->policy.metric, sizes);
    (void)md_ds_nearest_hint(&distance, &op->space, op->policy.metric, sizes);
    return distance;
}

int32_t md_ds_nearest_of(double *distance, const md_ds_op *op, uint64_t hints, const int64_t *sizes)
{
    int32_t best = -1;
    *distance = -1.0;
    for (int32_t h = 0; h < op->space.n_hints; h++) {
        if (!(hints >> h & 1))
            continue;
        const double d = md_ds_distance(&op->space, op->policy.metric, sizes, op->space.hint[h]);
        if (best >= 0 && d >= *distance)
            continue;
        best = h;
        *distance = d;
    }
    return best;
}
