/* Compares a result with the reference. */
#include "common/compare.h"

#include "common/explained.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* Unit roundoff of what an output is stored in. */
static double roundoff(md_dtype t)
{
    switch (t) {
    case MD_F64:
        return 0x1p-53;
    case MD_F32:
        return 0x1p-24;
    case MD_F16:
        return 0x1p-11;
    case MD_BF16:
        return 0x1p-8;
    case MD_F8E4M3:
        return 0x1p-4;
    case MD_F8E5M2:
        return 0x1p-3;
    default:
        return 0.0;
    }
}

static double largest(const data_set *set, int32_t i)
{
    double scale = 1e-30;
    for (int64_t k = 0; k < data_count(set, i); k++)
        if (isfinite(data_at(set, i, k)))
            scale = fmax(scale, fabs(data_at(set, i, k)));
    return scale;
}

md_status compare_additions(double *out, md_op *op, const char *sizes)
{
    size_t at;
    json_t *stage, *said = explained(op, sizes);
    *out = 0.0;
    json_array_foreach(json_object_get(said, "stages"), at, stage) *out +=
        json_number_value(json_object_get(stage, "additions"));
    json_decref(said);
    return said ? MD_OK : MD_INTERNAL;
}

/* Errors are judged against the largest value of the output, which sums of either sign may cancel below: two roundings
 * of the store, those of functions and products, and one of each addition. */
static double allowed(const data_set *set, int32_t i, double additions)
{
    const bool is_f64 = set->tensor[i].dtype == MD_F64;
    const double of_functions = is_f64 ? 1024.0 : 64.0; /* in roundings: f64's are less exact than its additions */
    return 2.0 * roundoff(set->tensor[i].dtype) + (of_functions + additions) * (is_f64 ? 0x1p-53 : 0x1p-24);
}

comparison compare_tensors(const data_set *got, const data_set *want, int32_t i, double additions)
{
    comparison c = {0.0, allowed(got, i, additions), -1, data_count(got, i)};
    double scale = largest(want, i);
    for (int64_t k = 0; k < c.n; k++) {
        double x = data_at(got, i, k), y = data_at(want, i, k);
        if (x == y || (isnan(x) && isnan(y)))
            continue;
        double e = isnan(x - y) ? (double)INFINITY : fabs(x - y) / scale;
        if (c.at < 0 || e > c.worst) {
            c.worst = e;
            c.at = k;
        }
    }
    return c;
}
