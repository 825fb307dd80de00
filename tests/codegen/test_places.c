/* Where generated code reads: axes that run as one, and indices that are checked at run time. */
#include "support/check.h"
#include "support/variant.h"

#include "base/status.h"
#include "base/strbuf.h"
#include "device/open.h"

typedef struct fixture {
    md_pool *pool;
    md_dev *dev;
    uint64_t seed;
} fixture;

static int setup(void **state)
{
    static fixture f;
    assert_ok(md_pool_create(&f.pool, 2));
    assert_ok(md_dev_open(&f.dev, &(md_dev_options){.device = "host", .cc = getenv("MD_CC"), .pool = f.pool}));
    f.seed = check_seed();
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    md_dev_close(&f->dev);
    md_pool_destroy(&f->pool);
    return 0;
}

/* Axes run as one only where every tensor is exactly as long as they are: V reads beyond the columns of Y. */
static void test_axes_of_other_lengths(void **state)
{
    fixture *f = *state;
    static const char *const formulas[] = {
        "Y[i,j] = X[i,j]; V[j] = X[0,j+1]",
        "Y[i,j] = X[i,j] * W[i,j]; V[j] = W[0,j+1] + X[0,j]",
    };
    for (int32_t i = 0; i < MD_COUNT(formulas); i++) {
        variant_case c = {.formula = formulas[i], .dims = "i=9,j=53", .seed = f->seed};
        char text[1024] = "";
        if (variant_check_all(text, sizeof text, f->dev, &c, "pointwise") < 0)
            fail_msg("%s", text);
    }
}

/* An index is checked at run time unless all of its values are inside: 8 is not, of a size of 8. */
static void test_bounds_of_static_sizes(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *formula;
        bool is_checked;
    } row[] = {{"size j=8; S[i] = sum[j](X[i,j]) + X[i, where(ids[i] > 0, 8, 0)]", true},
               {"size j=8; S[i] = sum[j](X[i,j]) + X[i, where(ids[i] > 0, 7, 0)]", false},
               {"size j=8; S[i] = sum[j](X[i,j]) + X[i, where(ids[i] > 0, 7, -1)]", true},
               {"S[i] = sum[j](X[i,j]) + X[i, where(ids[i] > 0, 7, 0)]", true}};
    for (int32_t i = 0; i < MD_COUNT(row); i++) {
        md_strbuf text = {0};
        const variant_case c = {.formula = row[i].formula, .dims = "i=50,j=8", .seed = f->seed};
        assert_ok(variant_text(&text, f->dev, &c, "nest"));
        const char *check = strstr(md_strbuf_text(&text), "p->report, ");
        if (!!check != row[i].is_checked)
            fail_msg("%s: %s", row[i].formula, check ? "is checked" : "is not checked");
        md_strbuf_finish(&text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_axes_of_other_lengths),
        cmocka_unit_test(test_bounds_of_static_sizes),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
