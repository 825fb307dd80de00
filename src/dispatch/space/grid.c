/* Finds the nearest hint of the grid, and sizes near a hint that are aligned as a call's. */
#include "dispatch/space/space.h"

#include "base/status.h"

#include <math.h>
#include <string.h>

/* Alignment beyond so many powers of two changes nothing: rows of 64 elements start at boundaries of memory, and tiles
 * are multiples of less. */
enum { MOST_TWOS = 6 };

double md_ds_nearest_on_grid(int64_t hint[MD_DS_MAX_DYNAMIC], const md_ds_space *space, md_metric metric,
                             const int64_t *size)
{
    memset(hint, 0, MD_DS_MAX_DYNAMIC * sizeof *hint);
    for (int32_t i = 0; i < space->n; i++) {
        const md_fx_dim *d = &space->formula->dim[space->dim[i]];
        const int64_t v = size[space->dim[i]];
        const int64_t at = v > 0 ? llround(exp2(round(MD_DS_GRID_STEPS * log2((double)v)) / MD_DS_GRID_STEPS)) : v;
        hint[i] = v > 0 ? MD_MAX(d->lo, MD_MIN(d->hi, at)) : v;
    }
    return md_ds_distance(space, metric, size, hint);
}

/* The size nearest to `at` that two divides as often as `size`. */
static int64_t aligned_like(int64_t size, int64_t at)
{
    if (size <= 0 || at <= 0)
        return at;
    const int32_t twos = MD_MIN(__builtin_ctzll((uint64_t)size), (int32_t)MOST_TWOS);
    const int64_t unit = INT64_C(1) << twos;
    return twos == MOST_TWOS ? MD_MAX((at + unit / 2) / unit, 1) * unit : at / (2 * unit) * 2 * unit + unit;
}

bool md_ds_sizes_at_hint(int64_t out[MD_FX_MAX_DIMS], const md_ds_space *space, const int64_t *size,
                         const int64_t *hint)
{
    bool is_hint = true;
    memcpy(out, size, (size_t)space->formula->n_dims * sizeof *out);
    for (int32_t i = 0; i < space->n; i++) {
        out[space->dim[i]] = aligned_like(size[space->dim[i]], hint[i]);
        is_hint = is_hint && out[space->dim[i]] == hint[i];
    }
    return is_hint;
}

void md_ds_point_label(char out[MD_DS_LABEL], const md_ds_space *space, const int64_t *point)
{
    size_t used = 0;
    out[0] = 0;
    for (int32_t k = 0; k < space->n && used < MD_DS_LABEL; k++)
        used += (size_t)snprintf(out + used, MD_DS_LABEL - used, "%s%s=%lld", k ? " " : "",
                                 space->formula->dim[space->dim[k]].name, (long long)point[k]);
    if (space->n == 0)
        snprintf(out, MD_DS_LABEL, "static");
}
