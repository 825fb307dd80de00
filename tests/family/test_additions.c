/* Additions that a term of a stage's sums goes through, by device and kind, and what results may be off by. */
#include "family/cuda/target_fixture.h"

#include "base/dtype.h"
#include "base/number/sum.h"
#include "family/additions.h"

enum { LONG = 1 << 20 };

/* CUT: by runs, as the manual says; IN_ORDER: one after another. */
enum { NONE, CUT, IN_ORDER };

static double expected(int how, int64_t n)
{
    return how == NONE ? 0.0 : how == CUT ? md_sum_additions((double)n) : (double)n;
}

static void sums_are_cut_or_in_order(void **state)
{
    (void)state;
    static const struct {
        const char *formula;
        md_dtype dtype;
        int on_host, on_gpu;
    } row[] = {
        {"Y[i,j] = exp(X[i,j])", MD_F32, NONE, NONE},
        {"Y[i] = max[j](X[i,j])", MD_F32, NONE, NONE},
        {"Y[i] = sum[j](X[i,j])", MD_F32, CUT, CUT},
        {"Y[i] = sum[j](X[j,i])", MD_F64, CUT, CUT},
        {"Y[i] = mean[j](X[i,j])", MD_F32, CUT, CUT},
        {"Y[i,j] = cumsum[j](X[i,j])", MD_F32, CUT, CUT},
        {"Y[i,j] = cumsum[j](X[i,j])", MD_F64, IN_ORDER, IN_ORDER},
        {"Y[i,k] = sum[j](A[i,j] * B[j,k])", MD_F32, CUT, IN_ORDER},
    };
    for (int32_t i = 0; i < MD_COUNT(row); i++) {
        fixture f;
        int64_t size[MD_FX_MAX_DIMS];
        open_fixture(&f, row[i].formula, row[i].dtype);
        for (int32_t d = 0; d < f.formula->n_dims; d++)
            size[d] = strcmp(f.formula->dim[d].name, "j") == 0 ? LONG : 3;
        if (md_fa_additions(&f.target, size) != expected(row[i].on_gpu, LONG))
            fail_msg("%s on a GPU: %g", row[i].formula, md_fa_additions(&f.target, size));
        f.facts.kind = MD_DEV_HOST;
        if (md_fa_additions(&f.target, size) != expected(row[i].on_host, LONG))
            fail_msg("%s on a CPU: %g", row[i].formula, md_fa_additions(&f.target, size));
        close_fixture(&f);
    }
}

/* A scatter rounds an update at a time, wherever it goes. */
static void each_update_counts(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, "Y[I[i]] += X[i]", MD_F32);
    int64_t size[MD_FX_MAX_DIMS];
    for (int32_t d = 0; d < f.formula->n_dims; d++)
        size[d] = 5000;
    assert_true(md_fa_additions(&f.target, size) == 5000.0);
    close_fixture(&f);
}

static void errors_grow_with_additions(void **state)
{
    (void)state;
    static const md_dtype reals[] = {MD_F64, MD_F32, MD_F16, MD_BF16, MD_F8E4M3, MD_F8E5M2};
    for (int32_t i = 0; i < MD_COUNT(reals); i++) {
        const double u = reals[i] == MD_F64 ? 0x1p-53 : 0x1p-24, none = md_fa_allowed_error(reals[i], 0.0);
        assert_true(none >= 2.0 * md_dtype_roundoff(reals[i]) && none < 0.4);
        assert_true(fabs(md_fa_allowed_error(reals[i], 1e6) - none - 1e6 * u) < 1e-15);
    }
    assert_true(md_fa_allowed_error(MD_I32, 1e6) == 0.0 && md_fa_allowed_error(MD_BOOL, 1e6) == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_cut_or_in_order),
        cmocka_unit_test(each_update_counts),
        cmocka_unit_test(errors_grow_with_additions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
