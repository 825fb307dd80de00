/* Convolutions by planes on an assumed GPU, whose kernels are neither compiled nor launched: which shapes are served by
 * kernels for channels last and by copies, and which as they lie. */
#include "dispatch/support/gpu_ops.h"
#include "device/dnn/dnn.h"
#include "dispatch/select/select.h"
#include "tune/tune.h"

#define GUARD "y+r >= 1 and y+r <= size(X.2) and x+s >= 1 and x+s <= size(X.3)"
static const char conv[] = "Y[n,o,y,x] = sum[c,r,s](where(" GUARD ", X[n,c,y+r-1,x+s-1], 0) * W[o,c,r,s])";
static const char residual[] =
    "Y[n,o,y,x] = relu(sum[c,r,s](where(" GUARD ", X[n,c,y+r-1,x+s-1], 0) * W[o,c,r,s]) + v[o] + R[n,o,y,x])";

typedef struct sizes {
    int64_t batch, in, out, image;
} sizes;
static const sizes large = {32, 64, 64, 56}, few_channels = {32, 3, 64, 56}, tiny = {1, 8, 8, 7},
                   many_filters = {1, 512, 512, 7};

typedef struct how {
    const char *pin, *constant;
    md_numeric numeric;
    md_env_axes axes;
    const char *sizes;
} how;

static md_status create(md_ds_op **out, const char *formula, const how *h)
{
    const md_ds_op_options o = {.compile = {.dtype = MD_BF16,
                                            .sizes = h->sizes,
                                            .hints = "1,16,64,256",
                                            .hints_source = "default hints",
                                            .constant = h->constant,
                                            .policy = {.select = MD_SELECT_MODEL,
                                                       .numeric = h->numeric,
                                                       .axes = h->axes,
                                                       .metric = MD_METRIC_LOG2,
                                                       .persistent = MD_PERSISTENT_AUTO}},
                                .pin = h->pin,
                                .max_shapes = 1000};
    const md_status s = md_ds_op_create(out, &w.runtime, formula, &o);
    if (s == MD_OK)
        md_ds_op_wait(*out);
    return s;
}

static md_ds_op *op_with(const char *formula, how h)
{
    md_ds_op *op = NULL;
    h.sizes = "r=3, s=3";
    assert_ok(create(&op, formula, &h));
    return op;
}

static int64_t size_of(const sizes *at, const char *name)
{
    static const char names[] = "ncoyx";
    const int64_t size[] = {at->batch, at->in, at->out, at->image, at->image};
    const char *found = name[1] ? NULL : strchr(names, name[0]);
    return found ? size[found - names] : at->image; /* X.2, X.3 */
}

static void bind_at(md_ds_bound *out, const md_ds_op *op, const sizes *at, uintptr_t offset)
{
    const md_fx_formula *f = op->formula;
    memset(out, 0, sizeof *out);
    for (int32_t d = 0; d < f->n_dims; d++)
        out->binding.size[d] = f->dim[d].size >= 0 ? f->dim[d].size : size_of(at, f->dim[d].name);
    bind_tensors(out, op, offset);
}

/* The plan of a shape, as a call finds or makes it, and what a report says of it: in `text`. */
static md_ds_shape_entry *plan_at(char text[2000], md_ds_op *op, const sizes *at)
{
    md_ds_bound bound;
    md_ds_shape_entry *e = NULL;
    md_strbuf out = {0};
    bind_at(&bound, op, at, 0);
    assert_ok(md_ds_find(&e, op, NULL, &bound));
    const md_ds_plan *plan = md_ds_plan_of(e);
    assert_true(md_ds_runs_all_once(plan, op));
    for (int32_t s = 0; s < op->n_stages; s++)
        md_strbuf_printf(&out, "%s ", md_ds_pick_name(op, plan, s));
    md_ds_print_fused(&out, op, plan, 0, &bound.shape, bound.shape.size);
    snprintf(text, 2000, "%s", md_strbuf_text(&out));
    md_strbuf_finish(&out);
    return e;
}

static void check_has(md_ds_op *op, const sizes *at, const char *part)
{
    char text[2000];
    md_ds_shape_entry_release(plan_at(text, op, at));
    if (!strstr(text, part))
        fail_msg("'%s' is not in '%s'", part, text);
}

/* Copies of narrow rows and of few channels are not worth it; where the filter is most of the bytes, it is if the
 * filter's copy is kept. */
static void copies_are_priced(void **state)
{
    (void)state;
    md_ds_op *op = op_with(conv, (how){0});
    assert_int_equal(op->n_stages, 5);
    check_has(op, &large, "idle pointwise/flat0_strided0_transpose3");
    check_has(op, &large, " gemm_rows/");
    check_has(op, &large, "a product with axes moved (model): ");
    check_has(op, &large, "; moving axes takes ");
    check_has(op, &few_channels, "the product as its operands lie (model): ");
    check_has(op, &tiny, "the product as its operands lie (model): ");
    md_ds_op_destroy(&op);
    op = op_with(residual, (how){0});
    assert_int_equal(op->n_stages, 6);
    check_has(op, &large, "a product with axes moved (model): ");
    md_ds_op_destroy(&op);
}

static void copies_of_constants_are_kept(void **state)
{
    char text[2000];
    (void)state;
    md_ds_op *op = op_with(conv, (how){.constant = "W"}), *other = op_with(conv, (how){0});
    assert_int_equal(op->kept_stages, 1 << 2);
    assert_int_equal(other->kept_stages, 0);
    check_has(op, &many_filters, "a product with axes moved (model): ");
    check_has(other, &many_filters, "the product as its operands lie (model): ");
    md_ds_shape_entry *e = plan_at(text, op, &many_filters);
    assert_int_equal(md_ds_plan_of(e)->n_packing, 1);
    md_ds_shape_entry_release(e);
    md_ds_op_destroy(&op);
    md_ds_op_destroy(&other);
}

static void pins_choose_the_way(void **state)
{
    static const struct {
        const char *pin, *part;
    } cases[] = {{"gemm_window", "the product as its operands lie, which a pin says"},
                 {"0:gemm_window", "the product as its operands lie, which a pin says"},
                 {"3:gemm_rows", "a product with axes moved, which a pin says"},
                 {"3:gemm_window", "a product with axes moved, which a pin says"}};
    md_ds_op *op = NULL;
    (void)state;
    for (int32_t i = 0; i < MD_COUNT(cases); i++) {
        op = op_with(conv, (how){.pin = cases[i].pin});
        check_has(op, &tiny, cases[i].part);
        check_has(op, &large, cases[i].part);
        md_ds_op_destroy(&op);
    }
    assert_fails(create(&op, conv, &(how){.pin = "5:gemm_rows", .sizes = "r=3, s=3"}), MD_INVALID_ARGUMENT,
                 "'5' is no stage");
}

static void policies_keep_the_layout(void **state)
{
    (void)state;
    md_ds_op *op = op_with(conv, (how){.numeric = MD_NUMERIC_DETERMINISTIC});
    check_has(op, &large, "the product as its operands lie, which serves wherever it fits under a numeric policy");
    md_ds_op_destroy(&op);
    op = op_with(conv, (how){.axes = MD_AXES_WRITTEN});
    assert_int_equal(op->n_stages, 1);
    md_ds_op_destroy(&op);
}

/* Stages of formulas: one where nothing is gained. */
static void only_what_gains_is_moved(void **state)
{
    static const struct {
        const char *formula, *sizes;
        int32_t n_stages;
    } cases[] = {
        {"Y[n,o,x] = sum[c,s](X[n,c,x+s] * W[o,c,s])", "s=3", 5},
        {"Y[n,o,z,y,x] = sum[c,q,r,s](X[n,c,z+q,y+r,x+s] * W[o,c,q,r,s])", "q=2,r=2,s=2", 5},
        {"Y[n,o,y,x] = sum[c](X[n,c,y*2,x*2] * W[o,c])", NULL, 4}, /* the filter lies well */
        {"D[n,c,y,x] = sum[o,r,s](where(y >= r and x >= s, G[n,o,y-r,x-s], 0) * W[o,c,r,s])", "r=3,s=3", 5},
        {"Y[n,y,x,o] = sum[c,r,s](X[n,c,y+r,x+s] * W[o,c,r,s])", "r=3,s=3", 4}, /* so does the result */
        {"Y[n,o,y,x] = sum[r,s,c](X[n,y+r,x+s,c] * W[o,r,s,c])", "r=3,s=3", 1}, /* the image does */
        {"Y:f32[n,o,y,x] = sum[c,r,s](X:f32[n,c,y+r,x+s] * W:f32[o,c,r,s])", "r=3,s=3", 1}, /* no kernel for f32 */
        {"D[o,c,r,s] = sum[n,y,x](G[n,o,y,x] * X[n,c,y+r,x+s])", "r=3,s=3", 1}, /* it sums along rows */
        {"Y[n,g,o,y,x] = sum[c,r,s](X[n,g,c,y+r,x+s] * W[g,o,c,r,s])", "r=3,s=3", 5},
        {"Y[n,y,x,o] = sum[r,s,c](X[n,y+r,x+s,c] * W[o,r,s,c])", "r=3,s=3,c=24", 1}, /* pieces without zeros */
        {"Y[n,y,x,o] = sum[r,s,c](X[n,y+r,x+s,c] * W[o,r,s,c])", "r=3,s=3,c=20", 4},
        {"Y[n,y,x,o] = sum[r,s,c](exp(X[n,y+r,x+s,c]) * W[o,r,s,c])", "r=3,s=3,c=20", 1}, /* of zeros come ones */
        {"Y[m,n] = sum[k](A[m,k] * B[n,k])", "k=20", 1},
        {"Y[m,n] = sum[k](A[k,m] * B[k,n])", NULL, 1},
        {"Y[b,h,i,d] = sum[j](P[b,h,i,j] * V[b,h,j,d])", NULL, 1},
    };
    (void)state;
    for (int32_t i = 0; i < MD_COUNT(cases); i++) {
        md_ds_op *op = NULL;
        assert_ok(create(&op, cases[i].formula, &(how){.sizes = cases[i].sizes}));
        if (op->n_stages != cases[i].n_stages)
            fail_msg("%s has %d stages", cases[i].formula, (int)op->n_stages);
        md_ds_op_destroy(&op);
    }
}

/* Planes of a 1 x 1 filter are a matrix for each image, whose products need no copies. */
static void planes_are_matrices(void **state)
{
    static const char text[] = "Y[n,o,y,x] = sum[c](X[n,c,y,x] * W[o,c])";
    static const sizes aligned = {32, 64, 256, 56}, unaligned = {32, 256, 1024, 14};
    md_ds_op *op = NULL;
    (void)state;
    assert_ok(create(&op, text, &(how){.sizes = NULL}));
    assert_int_equal(op->n_stages, 4);
    assert_int_equal(op->program->stage[0].product.n_batch, 1);
    check_has(op, &aligned, "gemm_wgmma/");
    check_has(op, &aligned, "the product as its operands lie (model): ");
    check_has(op, &unaligned, "a product with axes moved (model): ");
    md_ds_op_destroy(&op);
}

/* Zeros behind three channels make whole pieces of them, for planes and for pixels, on the devices that want pieces. */
static void few_channels_get_zeros(void **state)
{
    static const char planes[] = "Y[n,o,y,x] = sum[c,r,s](where(2*y+r >= 3 and 2*y+r <= size(X.2)+2 and 2*x+s >= 3 and "
                                 "2*x+s <= size(X.3)+2, X[n,c,2*y+r-3,2*x+s-3], 0) * W[o,c,r,s])",
                      pixels[] = "Y[n,y,x,o] = sum[r,s,c](where(2*y+r >= 3 and 2*y+r <= size(X.1)+2 and 2*x+s >= 3 and "
                                 "2*x+s <= size(X.2)+2, X[n,2*y+r-3,2*x+s-3,c], 0) * W[o,r,s,c])";
    static const sizes images = {32, 3, 64, 112};
    static const struct {
        const char *formula;
        int32_t n_stages;
    } cases[] = {{planes, 5}, {pixels, 4}};
    (void)state;
    for (int32_t i = 0; i < MD_COUNT(cases); i++) {
        md_ds_op *op = NULL;
        assert_ok(create(&op, cases[i].formula, &(how){.sizes = "c=3, r=7, s=7"}));
        assert_int_equal(op->n_stages, cases[i].n_stages);
        assert_int_equal(op->program->stage[0].product.n_k, 3);
        check_has(op, &images, " gemm_rows/");
        check_has(op, &images, "a product with axes moved (model): ");
        md_ds_op_destroy(&op);
    }
}

/* A library is a candidate although no hint says how large an image is: of gradients of filters, in both layouts. */
static void libraries_take_gradients(void **state)
{
    static const char *const texts[] = {
        "D[o,c,r,s] = sum[n,y,x](where(" GUARD ", X[n,c,y+r-1,x+s-1], 0) * G[n,o,y,x])",
        "D[o,r,s,c] = sum[n,y,x](where(y+r >= 1 and y+r <= size(X.1) and x+s >= 1 and x+s <= size(X.2), "
        "X[n,y+r-1,x+s-1,c], 0) * G[n,y,x,o])"};
    md_ds_op *op = NULL;
    (void)state;
    for (int32_t i = 0; i < MD_COUNT(texts) && md_dev_cuda_has_conv(); i++) {
        assert_ok(create(&op, texts[i], &(how){.sizes = "r=3, s=3"}));
        assert_int_equal(op->n_stages, 1);
        assert_true(count_of(op, "conv_lib") > 0);
        md_ds_op_destroy(&op);
    }
}

/* While the parts' kernels are built the product serves as it is. */
static void the_product_serves_meanwhile(void **state)
{
    (void)state;
    char text[2000];
    md_ds_op *op = NULL;
    const md_ds_op_options o = {
        .compile = {.dtype = MD_BF16,
                    .sizes = "r=3, s=3",
                    .hints = "1,16,64,256",
                    .hints_source = "default hints",
                    .policy = {.select = MD_SELECT_MODEL, .metric = MD_METRIC_LOG2, .persistent = MD_PERSISTENT_AUTO}},
        .is_async = true,
        .max_shapes = 1000};
    w.device.compile_ms = 30;
    assert_ok(md_ds_op_create(&op, &w.runtime, conv, &o));
    md_ds_shape_entry_release(plan_at(text, op, &large));
    md_ds_op_wait(op);
    check_has(op, &large, "a product with axes moved (model): ");
    w.device.compile_ms = 0;
    md_ds_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(copies_are_priced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(copies_of_constants_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pins_choose_the_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(policies_keep_the_layout, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_what_gains_is_moved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(planes_are_matrices, set_up, tear_down),
        cmocka_unit_test_setup_teardown(few_channels_get_zeros, set_up, tear_down),
        cmocka_unit_test_setup_teardown(libraries_take_gradients, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_product_serves_meanwhile, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
