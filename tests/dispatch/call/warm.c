/* Calls of Y[n] = X[n] * a on the fake device, whose kernels compute it. */
#include "dispatch/call/warm.h"

#include "dispatch/cache/table.h"
#include "dispatch/call/call.h"
#include "support/check.h"

script_world warm_world;
_Atomic int64_t warm_launched;
const char *const warm_formula = "scalar a; Y[n] = X[n] * a";

void warm_copy_scaled(const char *text, const md_kn_word *params, int32_t n)
{
    assert_true(!strncmp(text, "COPY ", 5) && n >= 5);
    float *y = params[0].p;
    const float *x = params[1].p;
    for (int64_t i = 0; i < params[2].i; i++)
        y[i] = x[i * params[3].i] * (float)params[4].d;
    if (script_now.with_memory)
        memset(params[5].p, 0x5a, 64);
    atomic_fetch_add(&warm_launched, 1);
}

int warm_set_up(void **state)
{
    (void)state;
    script_reset();
    script_now.is_text = true;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_world_open(&warm_world);
    warm_world.device.on_launch = warm_copy_scaled;
    atomic_store(&warm_launched, 0);
    return 0;
}

int warm_tear_down(void **state)
{
    (void)state;
    script_world_close(&warm_world);
    return 0;
}

md_ds_op *warm_op(int64_t max_shapes)
{
    md_ds_op_options o = script_options();
    o.max_shapes = max_shapes;
    return script_op(&warm_world, warm_formula, &o);
}

/* Argument `a` is the first: the warm_formula names it first. */
void warm_shape(warm_vectors *v, int64_t n, int64_t stride, int offset)
{
    v->ty = md_tensor_make(v->y + offset, MD_F32, 1, &n);
    v->tx = md_tensor_make(v->x, MD_F32, 1, &n);
    v->tx.stride[0] = stride;
    v->arg[1] = md_t(&v->ty);
    v->arg[2] = md_t(&v->tx);
}

void warm_order(const md_ds_op *op, warm_vectors *v, md_arg out[3], double a)
{
    const md_fx_formula *f = op->formula;
    for (int32_t i = 0; i < f->n_args; i++)
        out[i] = f->args[i].is_scalar ? md_s(a) : f->tensor[f->args[i].id].role == MD_FX_OUTPUT ? v->arg[1] : v->arg[2];
}

md_status warm_call(md_ds_op *op, warm_vectors *v, double a)
{
    md_arg arg[3];
    warm_order(op, v, arg, a);
    return md_ds_call(op, NULL, arg, 3);
}

bool warm_is_right(const warm_vectors *v, int64_t n, int64_t stride, int offset, double a)
{
    for (int64_t i = 0; i < n; i++)
        if (v->y[offset + i] != v->x[i * stride] * (float)a)
            return false;
    return true;
}

uint64_t warm_slow_calls(md_ds_op *op)
{
    return atomic_load(&op->count.calls);
}

void warm_add_calls(void *user, const md_ds_shape_entry *entry)
{
    warm_sum *s = user;
    s->calls += atomic_load(&entry->calls);
    s->n_timed += atomic_load(&entry->n_timed);
    s->ns += atomic_load(&entry->time_ns);
}

uint64_t warm_all_calls(md_ds_op *op)
{
    warm_sum s = {0};
    md_ds_table_each(op, warm_add_calls, &s);
    return s.calls + atomic_load(&op->count.forgotten_calls);
}
