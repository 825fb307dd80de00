/* Convolutions by planes on an assumed GPU, whose kernels are neither compiled nor launched: which shapes are served by
 * kernels of channels last and copies, and which as they lie. */
#include "dispatch/support/gpu_ops.h"
#include "dispatch/select/select.h"
#include "tune/tune.h"

#define GUARD "y+r >= 1 and y+r <= size(X.2) and x+s >= 1 and x+s <= size(X.3)"
static const char conv[] = "Y[n,o,y,x] = sum[c,r,s](where(" GUARD ", X[n,c,y+r-1,x+s-1], 0) * W[o,c,r,s])";
static const char residual[] =
    "Y[n,o,y,x] = relu(sum[c,r,s](where(" GUARD ", X[n,c,y+r-1,x+s-1], 0) * W[o,c,r,s]) + v[o] + R[n,o,y,x])";

typedef struct sizes {
    int64_t batch, in, out, image;
} sizes;

static md_ds_op *op_with(const char *formula, const char *pin, md_numeric numeric)
{
    md_ds_op *op = NULL;
    const md_ds_op_options o = {
        .compile = {.dtype = MD_BF16,
                    .sizes = "r=3, s=3",
                    .hints = "1,16,64,256",
                    .hints_source = "default hints",
                    .policy = {.select = MD_SELECT_MODEL,
                               .numeric = numeric,
                               .metric = MD_METRIC_LOG2,
                               .persistent = MD_PERSISTENT_AUTO}},
        .pin = pin,
        .max_shapes = 1000};
    assert_ok(md_ds_op_create(&op, &w.runtime, formula, &o));
    md_ds_op_wait(op);
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
    for (int32_t t = 0; t < f->n_tensors; t++) {
        int64_t extent[MD_MAX_RANK];
        for (int32_t a = 0; a < f->tensor[t].rank; a++)
            extent[a] = out->binding.size[f->tensor[t].dim[a]];
        out->binding.tensor[t] = md_tensor_make((void *)(0x10000000000 * (uintptr_t)(t + 1) + offset),
                                                f->tensor[t].dtype, f->tensor[t].rank, extent);
    }
    md_ds_shape_of(&out->shape, op, &out->binding);
}

/* What serves the product, and what a report says of it. */
static void serves(char *out, size_t n, md_ds_op *op, const sizes *at)
{
    md_ds_bound bound;
    md_ds_shape_entry *e = NULL;
    md_strbuf text = {0};
    bind_at(&bound, op, at, 0);
    assert_ok(md_ds_find(&e, op, NULL, &bound));
    const md_ds_plan *plan = md_ds_plan_of(e);
    assert_true(md_ds_runs_all_once(plan, op));
    for (int32_t s = 0; s < op->n_stages; s++)
        md_strbuf_printf(&text, "%s ", md_ds_pick_name(op, plan, s));
    md_ds_print_fused(&text, op, plan, 0, &bound.shape, bound.shape.size);
    snprintf(out, n, "%s", md_strbuf_text(&text));
    md_strbuf_finish(&text);
    md_ds_shape_entry_release(e);
}

static void large_images_are_turned(void **state)
{
    static const sizes at[] = {{32, 64, 64, 56}, {32, 128, 128, 28}, {32, 512, 512, 7}, {1, 64, 64, 56}, {1, 512, 512, 7}, {32, 3, 64, 56}, {32, 8, 8, 56}, {1, 8, 8, 7}, {7,276,375,20}, {32,256,256,14}};
    char text[900];
    (void)state;
    md_ds_op *op = op_with(conv, NULL, MD_NUMERIC_FAST);
    for (int32_t i = 0; i < MD_COUNT(at); i++) {
        serves(text, sizeof text, op, &at[i]);
        printf("%s\n", text);
    }
    md_ds_op_destroy(&op);
    op = op_with(residual, NULL, MD_NUMERIC_FAST);
    for (int32_t i = 0; i < MD_COUNT(at); i++) {
        serves(text, sizeof text, op, &at[i]);
        printf("%s\n", text);
    }
    md_ds_op_destroy(&op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(large_images_are_turned, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
