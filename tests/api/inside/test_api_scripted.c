/* Public functions over scripted families and a scripted device: which way a launch takes, what memory is asked for. */
#include "api/context.h"
#include "base/dtype.h"
#include "device/open.h"
#include "dispatch/cache/table.h"
#include "dispatch/support/script.h"
#include "support/check.h"

enum { MOST_ALLOCS = 64 };

static fake_device device;
static md_dev_ops ops;
static md_context *context;
static size_t asked[MOST_ALLOCS];
static int n_asked;

static md_status note_alloc(void **out, md_dev *dev, size_t n_bytes)
{
    if (n_asked < MOST_ALLOCS)
        asked[n_asked++] = n_bytes;
    fake_device plain;
    fake_device_init(&plain, dev->pool, dev->log);
    return plain.base.ops->alloc(out, dev, n_bytes);
}

/* In the place of src/device/open.c. */
md_status md_dev_open(md_dev **out, const md_dev_options *options)
{
    fake_device_init(&device, options->pool, options->log);
    ops = *device.base.ops;
    ops.alloc = note_alloc;
    device.base.ops = &ops;
    *out = &device.base;
    return MD_OK;
}

void md_dev_close(md_dev **dev)
{
    *dev = NULL;
}

static void store_mark(const char *text, const md_kn_word *params, int32_t n)
{
    assert_true(n >= 4 && !strncmp(text, "COPY ", 5));
    for (int64_t i = 0; i < params[2].i; i++)
        ((float *)params[0].p)[i] = (float)atoi(text + 5);
}

static int set_up(void **state)
{
    (void)state;
    script_reset();
    script_allow(SCRIPT_BETA, 1, 1.0);
    return 0;
}

static void open_context(md_select select)
{
    assert_ok(md_context_create(&context, &(md_context_options){.hints = "64", .select = select}));
    device.on_launch = store_mark;
}

static int tear_down(void **state)
{
    (void)state;
    md_context_destroy(&context);
    return 0;
}

static uint64_t calls_that_looked(const md_op *op)
{
    return atomic_load(&op->ds->count.calls);
}

static void count_shape(void *user, const md_ds_shape_entry *entry)
{
    (void)entry;
    ++*(int *)user;
}

/* A launch whose arguments are as every call's leaves a launch plan: no later call or run of the shape looks anything
 * up. */
static void launches_take_the_warm_way(void **state)
{
    (void)state;
    static _Alignas(64) float x[100], y[100];
    const int64_t n = 100;
    md_op *op = NULL;
    md_launch *launch = NULL;
    md_tensor tx = md_tensor_make(x, MD_F32, 1, &n), ty = md_tensor_make(y, MD_F32, 1, &n);
    script_now.is_text = true;
    open_context(MD_SELECT_MODEL);
    assert_ok(md_op_create(&op, context, "scalar a; Y[n] = X[n] * a", NULL));
    const md_arg arg[] = {md_s(1.0), md_t(&ty), md_t(&tx)};
    assert_ok(md_resolve(&launch, op, arg, 3));
    const uint64_t before = calls_that_looked(op);
    for (int i = 0; i < 3; i++) {
        memset(y, 0, sizeof y);
        assert_ok(md_launch_run(launch, NULL, NULL, 0));
        assert_true(y[0] == 11.0f && y[99] == 11.0f);
        memset(y, 0, sizeof y);
        assert_ok(md_launch_run(launch, NULL, arg, 3));
        assert_true(y[0] == 11.0f && y[99] == 11.0f);
        assert_ok(md_call(op, NULL, arg, 3));
    }
    assert_int_equal(calls_that_looked(op), before);
    md_launch_destroy(&launch);
    md_op_destroy(&op);
}

/* A call finds the shape that was prepared, also where an axis must only be long enough. */
static void prepared_shapes_are_found(void **state)
{
    (void)state;
    static _Alignas(64) float x[32], y[30];
    md_op *op = NULL;
    int n_shapes = 0;
    open_context(MD_SELECT_MODEL);
    assert_ok(md_op_create(&op, context, "Y[n] = X[n+2]", NULL));
    assert_ok(md_prepare(op, "n=30"));
    md_tensor tx = md_tensor_make(x, MD_F32, 1, &(int64_t){32}), ty = md_tensor_make(y, MD_F32, 1, &(int64_t){30});
    assert_ok(md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
    assert_true(y[0] == 11.0f && y[29] == 11.0f);
    md_ds_table_each(op->ds, count_shape, &n_shapes);
    assert_int_equal(n_shapes, 1);
    md_op_destroy(&op);
}

/* Memory to measure on has the size of the tensors. */
static void memory_to_measure_on_is_whole(void **state)
{
    (void)state;
    md_op *op = NULL;
    int n_whole = 0;
    open_context(MD_SELECT_MEASURE);
    assert_ok(md_op_create(&op, context, "Y[n,m] = X[n,m]", NULL));
    n_asked = 0;
    assert_ok(md_prepare(op, "n=30, m=50"));
    for (int i = 0; i < n_asked; i++) {
        n_whole += asked[i] == 30 * 50 * sizeof(float);
        if (asked[i] < 30 * 50 * sizeof(float) && asked[i] > 1024)
            fail_msg("%zu bytes", asked[i]);
    }
    assert_true(n_whole >= 2);
    md_op_destroy(&op);
}

/* What is measured on has numbers that every kernel takes: reals within -1 .. 1 that differ, and zeros. */
static void memory_to_measure_on_is_filled(void **state)
{
    (void)state;
    md_op *op = NULL;
    md_ds_bound b;
    open_context(MD_SELECT_MEASURE);
    assert_ok(md_op_create(&op, context, "Y[i] = X[i] * n:i32[i]", NULL));
    assert_ok(md_api_bind_sizes(&b, op, "i=1000", MD_API_MEMORY_TO_MEASURE));
    for (int32_t t = 0; t < op->ds->formula->n_tensors; t++) {
        const md_tensor *x = &b.binding.tensor[t];
        int64_t n_equal = 0;
        for (int64_t i = 0; i < 1000; i++) {
            const double v = md_dtype_load(x->dtype, x->data, i);
            assert_true(x->dtype == MD_F32 ? v >= -1.0 && v <= 1.0 : v == 0.0);
            n_equal += x->dtype == MD_F32 && i > 0 && v == md_dtype_load(x->dtype, x->data, i - 1);
        }
        assert_in_range(n_equal, 0, 10);
    }
    md_api_unbind_sizes(&b, op);
    md_op_destroy(&op);
}

/* Sizes in words give each axis a size, also those that no dim of its own is asked for; and tensors are as large. */
static void sizes_in_words_make_whole_tensors(void **state)
{
    (void)state;
    static const struct {
        const char *formula, *sizes;
    } row[] = {
        {"Y[ids[i]] = X[i]", "i=5"},
        {"Y[t,d] = E[ids[t],d]", "t=4, d=8"},
        {"Y[i] = X[i+2] + X[2*i]", "i=7"},
        {"Y[u[i], v[i] + 1] += sum[j](X[i,j])", "i=6, j=2"},
        {"size n=3; Y[b,n] = sum[k](X[b,k] * W[n,k])", "b=2, k=9"},
    };
    open_context(MD_SELECT_MODEL);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_op *op = NULL;
        md_ds_bound b;
        assert_ok(md_op_create(&op, context, row[i].formula, NULL));
        const md_fx_formula *f = op->ds->formula;
        assert_ok(md_api_bind_sizes(&b, op, row[i].sizes, MD_API_NO_MEMORY));
        for (int32_t t = 0; t < f->n_tensors; t++)
            for (int32_t a = 0; a < f->tensor[t].rank; a++) {
                const int64_t size = b.binding.size[f->tensor[t].dim[a]];
                assert_true(size >= 0 && size == b.binding.tensor[t].size[a]);
            }
        md_op_destroy(&op);
    }
}

/* Blank parts of a list of shapes are skipped; one that is blank as a whole names no sizes. */
static void blank_parts_are_skipped(void **state)
{
    (void)state;
    md_op *op = NULL;
    int n_shapes = 0;
    open_context(MD_SELECT_MODEL);
    assert_ok(md_op_create(&op, context, "Y[n] = X[n]", NULL));
    assert_ok(md_prepare(op, "n=30;; n=50 ; \t;\n; n=60;"));
    md_ds_table_each(op->ds, count_shape, &n_shapes);
    assert_int_equal(n_shapes, 3);
    static const char *const blank[] = {";", " ; ", " ;\n;", "\t"};
    for (size_t i = 0; i < sizeof blank / sizeof *blank; i++)
        assert_fails(md_prepare(op, blank[i]), MD_INVALID_ARGUMENT, "the size of dim 'n' is missing");
    md_op_destroy(&op);
}

/* Rows of ops that are gone are merged now and then: neither many shapes of few ops nor many ops need ever more
 * memory, and no call is forgotten. */
static void ops_that_are_gone_need_little_memory(void **state)
{
    (void)state;
    static const struct {
        int n_ops, n_shapes;
    } row[] = {{120, 60}, {4600, 0}};
    for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
        uint64_t n_calls = 0, n_ops = 0;
        float y[64], x[64] = {0};
        open_context(MD_SELECT_MODEL);
        for (int i = 0; i < row[r].n_ops; i++) {
            md_op *op = NULL;
            assert_ok(md_op_create(&op, context, "Y[n] = X[n]", NULL));
            for (int64_t n = 1; n <= row[r].n_shapes; n++) {
                const md_tensor ty = md_tensor_make(y, MD_F32, 1, &n), tx = md_tensor_make(x, MD_F32, 1, &n);
                assert_ok(md_call(op, NULL, (md_arg[]){md_t(&ty), md_t(&tx)}, 2));
            }
            md_op_destroy(&op);
        }
        const md_ss_rows *gone = &context->retired;
        for (int64_t i = 0; i < gone->n; i++)
            n_calls += gone->row[i].calls;
        for (int64_t i = 0; i < gone->ops.n; i++)
            n_ops += gone->ops.op[i].count[0];
        assert_int_equal(n_calls, row[r].n_ops * row[r].n_shapes);
        assert_int_equal(n_ops, n_calls);
        assert_true(gone->n < 2500 && gone->ops.n < 2500);
        md_context_destroy(&context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(launches_take_the_warm_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(blank_parts_are_skipped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(sizes_in_words_make_whole_tensors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_to_measure_on_is_filled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(prepared_shapes_are_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_to_measure_on_is_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ops_that_are_gone_need_little_memory, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
