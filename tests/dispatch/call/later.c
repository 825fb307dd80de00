/* Ops on an asynchronous device, whose memory traps when the CPU touches it. */
#include "dispatch/call/later.h"

#include "support/check.h"

script_world later_world;
async_device later_device;

int later_set_up(void **state)
{
    (void)state;
    script_reset();
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_world_open(&later_world);
    md_bd_destroy(&later_world.builder);
    if (!async_device_init(&later_device, &later_world.device.base))
        return -1;
    assert_ok(md_bd_create(&later_world.builder, &later_device.base));
    later_world.runtime.dev = &later_device.base;
    later_world.runtime.builder = later_world.builder;
    return 0;
}

int later_tear_down(void **state)
{
    (void)state;
    script_world_close(&later_world);
    assert_int_equal(later_device.n_pushed, later_device.n_popped);
    later_device.base.ops->destroy(&later_device.base);
    return 0;
}

void *later_alloc(const float *values, int64_t n)
{
    void *p = NULL;
    assert_ok(later_device.base.ops->alloc(&p, &later_device.base, (size_t)n * sizeof *values));
    assert_ok(later_device.base.ops->copy(&later_device.base, p, values, (size_t)n * sizeof *values));
    return p;
}

void later_make(later_vectors *v, int64_t n)
{
    float values[2 * LATER_N];
    for (int i = 0; i < 2 * LATER_N; i++)
        values[i] = (float)i;
    v->y = md_tensor_make(later_alloc(values, n), MD_F32, 1, &n);
    v->x = md_tensor_make(later_alloc(values, n), MD_F32, 1, &n);
    v->arg[0] = md_t(&v->y);
    v->arg[1] = md_t(&v->x);
}

float later_first_of(const md_tensor *t)
{
    float value = 0.0f;
    assert_ok(later_device.base.ops->copy(&later_device.base, &value, t->data, sizeof value));
    return value;
}

md_stream later_stream(int i)
{
    return (md_stream)(uintptr_t)(i * 16);
}

void later_finish(md_ds_op **op)
{
    assert_ok(later_device.base.ops->sync(&later_device.base, NULL));
    md_ds_op_destroy(op);
}
