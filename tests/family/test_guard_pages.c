/* Kernels that read whole vectors and several columns at once read no byte past the end of an input: behind each input
 * is a page that traps. */
#include "support/check.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

/* n floats that end at the end of a page, behind which nothing may be read. */
static float *before_a_trap(int64_t n, size_t *n_mapped, void **mapped)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), n_bytes = (size_t)n * sizeof(float),
                 room = (n_bytes + page - 1) / page * page;
    char *p = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    assert_int_equal(mprotect(p + room, page, PROT_NONE), 0);
    *n_mapped = room + page;
    *mapped = p;
    return (float *)(void *)(p + room - n_bytes);
}

static void check(md_context *c, const char *formula, const char *pin, const int64_t sizes[3])
{
    md_op *op = NULL;
    md_choice choice;
    float *data[3];
    void *mapped[3];
    size_t n_mapped[3];
    md_tensor t[3];
    md_arg arg[3];
    const bool turned = strstr(formula, "B[j,k]") != NULL;
    const int64_t i = sizes[0], j = sizes[1], k = sizes[2],
                  shape[3][2] = {{i, j}, {i, k}, {turned ? j : k, turned ? k : j}};
    for (int x = 0; x < 3; x++) {
        data[x] = before_a_trap(shape[x][0] * shape[x][1], &n_mapped[x], &mapped[x]);
        for (int64_t e = 0; e < shape[x][0] * shape[x][1]; e++)
            data[x][e] = 1.0f;
        t[x] = md_tensor_make(data[x], MD_F32, 2, shape[x]);
        arg[x] = md_t(&t[x]);
    }
    assert_ok(md_op_create(&op, c, formula, &(md_op_options){.pin = pin}));
    assert_ok(md_choice_of(&choice, op, arg, 3));
    assert_string_equal(choice.source[0], "pinned");
    assert_ok(md_call(op, NULL, arg, 3));
    for (int64_t e = 0; e < i * j; e++)
        assert_true(data[0][e] == (float)k);
    md_op_destroy(&op);
    for (int x = 0; x < 3; x++)
        munmap(mapped[x], n_mapped[x]);
}

static void products_stay_inside(void **state)
{
    (void)state;
    md_context *c = NULL;
    static const char *const formulas[] = {"Y[i,j] = sum[k](A[i,k] * B[j,k])", "Y[i,j] = sum[k](A[i,k] * B[k,j])"};
    static const char *const pins[] = {"gemv/swap_ab0_columns128", "gemm/rows8_vecs1_depth256_block480"};
    static const int64_t sizes[][3] = {{3, 5, 64}, {1, 1, 64}, {4, 6, 33}, {8, 7, 17}, {2, 131, 16}};
    assert_ok(md_context_create(&c, &(md_context_options){.device = "host", .threads = 1, .cc = getenv("MD_CC")}));
    for (int f = 0; f < 2; f++)
        for (int p = 0; p < 2; p++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
                check(c, formulas[f], pins[p], sizes[s]);
    md_context_destroy(&c);
}

/* Places of 3 points around `at` that lie in an axis. */
static int inside(int64_t at, int64_t size)
{
    int n = 0;
    for (int64_t i = at - 1; i <= at + 1; i++)
        n += i >= 0 && i < size;
    return n;
}

/* A convolution of ones, whose results count the points that are not padding. */
static void check_window(md_context *c, int64_t step, int64_t channels, int64_t rows, int64_t columns)
{
    char formula[256];
    md_op *op = NULL;
    float *data[3];
    void *mapped[3];
    size_t n_mapped[3];
    md_tensor t[3];
    md_arg arg[3];
    const int64_t high = (rows - 1) / step + 1, wide = (columns - 1) / step + 1;
    const int64_t shape[3][4] = {{2, 5, high, wide}, {2, channels, rows, columns}, {5, channels, 3, 3}};
    for (int x = 0; x < 3; x++) {
        const int64_t n = shape[x][0] * shape[x][1] * shape[x][2] * shape[x][3];
        data[x] = before_a_trap(n, &n_mapped[x], &mapped[x]);
        for (int64_t e = 0; e < n; e++)
            data[x][e] = 1.0f;
        t[x] = md_tensor_make(data[x], MD_F32, 4, shape[x]);
        arg[x] = md_t(&t[x]);
    }
    snprintf(formula, sizeof formula,
             "Y[n,o,y,x] = sum[c,r,s](where(%d*y+r >= 1 and %d*y+r <= size(X.2) and %d*x+s >= 1 and %d*x+s <= "
             "size(X.3), X[n,c,%d*y+r-1,%d*x+s-1], 0) * W[o,c,r,s])",
             (int)step, (int)step, (int)step, (int)step, (int)step, (int)step);
    assert_ok(md_op_create(&op, c, formula, &(md_op_options){.pin = "gemm"}));
    assert_ok(md_call(op, NULL, arg, 3));
    for (int64_t e = 0; e < 2 * 5 * high * wide; e++)
        assert_true(data[0][e] ==
                    (float)(channels * inside(e / wide % high * step, rows) * inside(e % wide * step, columns)));
    md_op_destroy(&op);
    for (int x = 0; x < 3; x++)
        munmap(mapped[x], n_mapped[x]);
}

static void windows_stay_inside(void **state)
{
    (void)state;
    md_context *c = NULL;
    static const int64_t columns[] = {1, 2, 7, 15, 16, 17, 31, 33, 47};
    assert_ok(md_context_create(&c, &(md_context_options){.device = "host", .threads = 1, .cc = getenv("MD_CC")}));
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        for (int64_t step = 1; step <= 3; step++)
            check_window(c, step, 1 + (int64_t)i % 3, 4, columns[i]);
    md_context_destroy(&c);
}

/* Windows of a row of `size` elements, of which the last one ends at the trap. */
static void check_placed(md_context *c, const char *formula, int64_t columns, int64_t size)
{
    md_op *op = NULL;
    float *data[2];
    void *mapped[2];
    size_t n_mapped[2];
    md_tensor t[2];
    md_arg arg[2];
    const int64_t shape[2][2] = {{3, columns}, {3, size}};
    for (int x = 0; x < 2; x++) {
        data[x] = before_a_trap(shape[x][0] * shape[x][1], &n_mapped[x], &mapped[x]);
        for (int64_t e = 0; e < shape[x][0] * shape[x][1]; e++)
            data[x][e] = 1.0f;
        t[x] = md_tensor_make(data[x], MD_F32, 2, shape[x]);
        arg[x] = md_t(&t[x]);
    }
    assert_ok(md_op_create(&op, c, formula, &(md_op_options){.pin = "gather/strided2_nontemporal0"}));
    assert_ok(md_call(op, NULL, arg, 2));
    for (int64_t e = 0; e < 3 * columns; e++)
        assert_true(data[0][e] == 1.0f);
    md_op_destroy(&op);
    for (int x = 0; x < 2; x++)
        munmap(mapped[x], n_mapped[x]);
}

static void placed_rows_stay_inside(void **state)
{
    (void)state;
    md_context *c = NULL;
    static const int64_t columns[] = {1, 2, 15, 16, 17, 33, 47};
    assert_ok(md_context_create(&c, &(md_context_options){.device = "host", .threads = 1, .cc = getenv("MD_CC")}));
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        check_placed(c, "Y[i,j] = X[i,j // 2]", columns[i], (columns[i] + 1) / 2);
        check_placed(c, "Y[i,j] = X[i,size(X.1) - 1 - abs(j - 2)]", columns[i], columns[i] + 2);
    }
    md_context_destroy(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products_stay_inside), cmocka_unit_test(windows_stay_inside),
                                       cmocka_unit_test(placed_rows_stay_inside)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
