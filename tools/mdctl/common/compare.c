/* Compares a result with the reference. */
#include "common/compare.h"

#include <math.h>
#include <stdbool.h>

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

/* Additions that an element of a sum goes through, at most or nearly so: multidispatch(3), "Accuracy". A sum has no
 * more terms than there are combinations of elements of the inputs. */
static double additions(const data_set *set)
{
    double doublings = 0.0;
    for (int32_t i = 0; i < set->n; i++)
        if (!set->info[i].is_scalar && !set->info[i].is_output)
            doublings += log2(fmax(1.0, (double)data_count(set, i)));
    return 64.0 + doublings;
}

/* Errors are judged against the largest value of the output, which sums of either sign may cancel below: two roundings
 * of the store, and one of each addition. Functions and products add little to that, but f64's are less exact than its
 * additions. */
static double allowed(const data_set *set, int32_t i)
{
    const bool is_f64 = set->tensor[i].dtype == MD_F64;
    return 2.0 * roundoff(set->tensor[i].dtype) + additions(set) * (is_f64 ? 16.0 * 0x1p-53 : 0x1p-24);
}

comparison compare_tensors(const data_set *got, const data_set *want, int32_t i)
{
    comparison c = {0.0, allowed(got, i), -1, data_count(got, i)};
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
