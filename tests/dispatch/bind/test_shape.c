/* The classes of a shape: contiguous, unit stride, aligned to 64 bytes, to 16. */
#include "dispatch/bind/bind.h"
#include "dispatch/support/script.h"
#include "support/check.h"

static script_world world;

static int set_up(void **state)
{
    (void)state;
    script_reset();
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_world_open(&world);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    script_world_close(&world);
    return 0;
}

static void classes_of_views(void **state)
{
    (void)state;
    static const struct {
        int64_t at, rows, columns, row_stride, column_stride;
        bool contiguous, unit, aligned, aligned16;
    } row[] = {
        {0, 4, 16, 16, 1, true, true, true, true},
        {16, 4, 16, 16, 1, true, true, true, true},
        {4, 4, 16, 16, 1, true, true, false, true}, /* on 16 bytes */
        {8, 4, 16, 16, 1, true, true, false, true}, /* on 32 */
        {1, 4, 16, 16, 1, true, true, false, false},
        {2, 4, 16, 16, 1, true, true, false, false},
        {0, 4, 16, 32, 1, false, true, true, true},
        {0, 4, 16, 20, 1, false, true, false, true}, /* rows on 16 */
        {0, 4, 16, 18, 1, false, true, false, false},
        {0, 4, 12, 16, 1, false, true, true, true},
        {0, 4, 12, 12, 1, true, true, false, true},
        {0, 4, 14, 16, 1, false, true, true, false}, /* the last 16 bytes of a row are not whole */
        {0, 4, 16, 64, 2, false, false, true, true},
        {0, 1, 16, 18, 1, true, true, true, true}, /* the stride of one row does not count */
        {0, 4, 1, 16, 3, false, true, true, false}, /* nor that of one column */
    };
    static _Alignas(64) float x[1024], y[1024];
    md_ds_op *op = script_op(&world, "Y[i,j] = X[i,j]", NULL);
    const int32_t number = op->formula->tensor[0].role == MD_FX_INPUT ? 0 : 1;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_ds_bound bound;
        const int64_t size[] = {row[i].rows, row[i].columns};
        md_tensor ty = md_tensor_make(y, MD_F32, 2, size), tx = md_tensor_make(x + row[i].at, MD_F32, 2, size);
        tx.stride[0] = row[i].row_stride;
        tx.stride[1] = row[i].column_stride;
        assert_ok(md_ds_bind(&bound, op, (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
        const md_kn_shape *s = &bound.shape;
        const bool is[] = {s->contiguous >> number & 1, s->unit >> number & 1, s->aligned >> number & 1,
                           s->aligned16 >> number & 1};
        if (is[0] != row[i].contiguous || is[1] != row[i].unit || is[2] != row[i].aligned || is[3] != row[i].aligned16)
            fail_msg("row %zu: contiguous %d, unit %d, aligned %d, aligned16 %d", i, is[0], is[1], is[2], is[3]);
    }
    md_ds_op_destroy(&op);
}

/* What shapes are told apart by: sizes of dims, classes, lengths of axes that must only be long enough, strides where
 * there are gaps, sizes to select by. */
static void words_of_keys(void **state)
{
    (void)state;
    static const struct {
        const char *formula;
        int32_t rank;
        bool has_gaps;
        int32_t n_words;
    } row[] = {
        {"Y[i] = X[i]", 1, false, 1 + 2},
        {"Y[i] = X[i+2]", 1, false, 1 + 1 + 2 + 1},
        {"Y[a,b,c,d,e,f,g,h] = X[a,b,c,d,e,f,g,h]", 8, false, 8 + 2},
        {"Y[a,b,c,d,e,f,g,h] = X[a,b,c,d,e,f,g,h]", 8, true, 8 + 2 + 8},
        {"size i=4; Y[i,j] = X[i,j]", 2, false, 1 + 2},
    };
    static _Alignas(64) float x[1024], y[1024];
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_ds_op *op = script_op(&world, row[i].formula, NULL);
        md_ds_bound bound;
        md_ds_key key;
        int64_t size[8] = {1, 1, 1, 1, 1, 1, 1, 4};
        size[0] = row[i].rank < 8 ? 4 : 2;
        size[1] = row[i].rank == 2 ? 3 : size[1];
        md_tensor ty = md_tensor_make(y, MD_F32, row[i].rank, size);
        size[0] += strstr(row[i].formula, "i+2") ? 2 : 0;
        md_tensor tx = md_tensor_make(x, MD_F32, row[i].rank, size);
        tx.stride[0] *= row[i].has_gaps ? 2 : 1;
        assert_ok(md_ds_bind(&bound, op, (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
        md_ds_key_of(&key, op, &bound.shape, &bound.as);
        if (key.n != row[i].n_words)
            fail_msg("%s: %d words", row[i].formula, (int)key.n);
        md_ds_op_destroy(&op);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(classes_of_views, set_up, tear_down),
        cmocka_unit_test_setup_teardown(words_of_keys, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
