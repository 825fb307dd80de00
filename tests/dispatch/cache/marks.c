/* Calls whose results tell which variant served them. */
#include "dispatch/cache/marks.h"

#include "dispatch/call/call.h"
#include "dispatch/select/async_fill.h"
#include "support/check.h"

script_world marks_world;
const char *const marks_formula = "scalar a; Y[n] = X[n] * a";

/* Stores the mark that the text names in every element. */
static void store_mark(const char *text, const md_kn_word *params, int32_t n)
{
    float *y = params[0].p;
    assert_true(!strncmp(text, "COPY ", 5) && n >= 5);
    for (int64_t i = 0; i < params[2].i; i++)
        y[i] = (float)atoi(text + 5);
}

int marks_set_up(void **state)
{
    (void)state;
    script_reset();
    script_now.is_text = true;
    script_allow(SCRIPT_ALPHA, 0, 1.0)->us_each = 0.01;
    script_allow(SCRIPT_BETA, 0, 11.0);
    script_world_open(&marks_world);
    marks_world.device.on_launch = store_mark;
    return 0;
}

int marks_tear_down(void **state)
{
    (void)state;
    marks_hold(NULL); /* a test that failed may not have come to that */
    script_world_close(&marks_world);
    return 0;
}

md_ds_op *marks_async_op(void)
{
    md_ds_op_options o = script_options();
    o.is_async = true;
    md_ds_op *op = script_op(&marks_world, marks_formula, &o);
    md_ds_async_fill_wait(op);
    return op;
}

void marks_hold(const char *text)
{
    atomic_store(&marks_world.device.held, text);
}

int32_t marks_call_status(md_status *status, md_ds_op *op, int64_t n)
{
    _Alignas(64) float y[4], x[4] = {0}; /* only the first elements are there: sizes below 4, strides of 0 for more */
    float *big = n > 4 ? aligned_alloc(64, (size_t)(n + 16) / 16 * 64) : NULL;
    md_tensor ty = md_tensor_make(big ? big : y, MD_F32, 1, &n), tx = md_tensor_make(x, MD_F32, 1, &n);
    tx.stride[0] = n > 4 ? 0 : 1;
    md_arg arg[3];
    for (int32_t i = 0; i < 3; i++) {
        const md_fx_formula *f = op->formula;
        arg[i] = f->args[i].is_scalar                            ? md_s(1.0)
                 : f->tensor[f->args[i].id].role == MD_FX_OUTPUT ? md_t(&ty)
                                                                 : md_t(&tx);
    }
    *status = md_ds_call(op, NULL, arg, 3);
    int32_t mark = *status == MD_OK ? (int32_t)((float *)ty.data)[n - 1] : -1;
    free(big);
    return mark;
}

int32_t marks_call(md_ds_op *op, int64_t n)
{
    md_status status;
    int32_t mark = marks_call_status(&status, op, n);
    assert_ok(status);
    return mark;
}
