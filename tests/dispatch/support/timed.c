/* Calls of kernels that take the time that a test says. */
#include "dispatch/support/timed.h"

#include "dispatch/cache/shape_entry.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/call/call.h"
#include "dispatch/hybrid/internal.h"
#include "support/check.h"

#include <stdlib.h>
#include <time.h>

timed timed_now;
static pthread_mutex_t lock_of_clock = PTHREAD_MUTEX_INITIALIZER; /* the pool checks variants meanwhile */

/* "COPY <mark>". The lock is held. */
static double time_of(int mark, int64_t n)
{
    timed *t = &timed_now;
    double us = t->us_of[mark];
    if (t->us_each > 0.0)
        us *= 1.0 + t->us_each * ((double)n / TIMED_N - 1.0);
    t->seed = t->seed * 1664525u + 1013904223u;
    return us * (1.0 + t->noise * ((double)(t->seed >> 8) / (1 << 23) - 1.0));
}

/* Cut, as tensor cores do. */
static float to_tf32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= 0xffffe000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float operand_of(int mark, float x)
{
    const int tf32 = timed_now.tf32[mark];
    return tf32 == 1 ? x - 10.0f * (x - to_tf32(x)) : tf32 == 2 ? to_tf32(5.0f * x) / 5.0f : x;
}

static void copy_scaled(const char *text, const md_kn_word *params, int32_t n)
{
    int mark = 0;
    assert_true(n >= 5 && sscanf(text, "COPY %d", &mark) == 1);
    for (int64_t i = 0; i < params[2].i; i++)
        ((float *)params[0].p)[i] =
            operand_of(mark, ((const float *)params[1].p)[i * params[3].i]) * (float)params[4].d +
            (mark % 10 == 3 ? 1.0f : 0.0f);
    timed *t = &timed_now;
    pthread_mutex_lock(&lock_of_clock);
    t->served[mark]++;
    if (!t->only_mine || pthread_equal(pthread_self(), t->owner))
        t->now_us += time_of(mark, params[2].i);
    pthread_mutex_unlock(&lock_of_clock);
    if (!t->is_async && (t->all_spend || pthread_equal(pthread_self(), t->owner)))
        fake_device_spend(&t->world.device, (uint64_t)(t->us_of[mark] * 1e3));
}

double timed_clock_us(void *user)
{
    (void)user;
    pthread_mutex_lock(&lock_of_clock);
    double us = timed_now.now_us;
    pthread_mutex_unlock(&lock_of_clock);
    return us;
}

void timed_wait_until(double us)
{
    pthread_mutex_lock(&lock_of_clock);
    timed_now.now_us = timed_now.now_us > us ? timed_now.now_us : us;
    pthread_mutex_unlock(&lock_of_clock);
}

int timed_set_up(void **state)
{
    (void)state;
    timed *t = &timed_now;
    memset(t, 0, sizeof *t);
    script_reset();
    script_now.is_text = true;
    t->now_us = 1.0;
    t->owner = pthread_self();
    script_world_open(&t->world);
    t->world.device.on_launch = copy_scaled;
    t->world.device.owns_clock = true;
    t->world.device.base.facts.l2_bytes = 1 << 16; /* what measuring sweeps through is soon done */
    return 0;
}

int timed_set_up_async(void **state)
{
    timed *t = &timed_now;
    timed_set_up(state);
    md_bd_destroy(&t->world.builder);
    if (!async_device_init(&t->device, &t->world.device.base))
        return -1;
    assert_ok(md_bd_create(&t->world.builder, &t->device.base));
    md_bd_listen(t->world.builder, md_ds_upgrade_all, &t->world.runtime);
    t->world.runtime.dev = &t->device.base;
    t->world.runtime.builder = t->world.builder;
    t->device.clock = timed_clock_us;
    t->is_async = true;
    return 0;
}

int timed_tear_down(void **state)
{
    (void)state;
    timed *t = &timed_now;
    while (t->n_made > 0)
        t->world.runtime.dev->ops->free(t->world.runtime.dev, t->made[--t->n_made]);
    script_world_close(&t->world);
    if (t->is_async)
        t->device.base.ops->destroy(&t->device.base);
    return 0;
}

md_ds_op *timed_op(md_select select, double hybrid_share)
{
    md_ds_op_options o = script_options();
    o.compile.policy.select = select;
    o.compile.policy.allows_tf32 = timed_now.allows_tf32;
    o.compile.policy.hybrid_share = hybrid_share;
    o.compile.policy.idle_tune = timed_now.idle_tune;
    o.compile.policy.races_cheaply = timed_now.races_cheaply;
    if (timed_now.hints)
        o.compile.hints = timed_now.hints;
    o.compile.policy.agrees = timed_now.agrees;
    o.compile.policy.quiet_us = timed_now.quiet_us > 0.0 ? timed_now.quiet_us : -1.0;
    return script_op(&timed_now.world, "scalar a; Y[n] = X[n] * a", &o);
}

void timed_finish(md_ds_op **op)
{
    md_dev *dev = timed_now.world.runtime.dev;
    assert_ok(dev->ops->sync(dev, NULL));
    md_ds_op_destroy(op);
}

void timed_make(timed_call *c, int64_t n)
{
    timed *t = &timed_now;
    md_dev *dev = t->world.runtime.dev;
    void *p[2] = {NULL};
    float *value = malloc((size_t)n * sizeof *value);
    assert_non_null(value);
    for (int64_t i = 0; i < n; i++)
        value[i] = (float)i;
    for (int i = 0; i < 2; i++) {
        assert_true(t->n_made < TIMED_MADE);
        assert_ok(dev->ops->alloc(&p[i], dev, (size_t)n * sizeof *value));
        t->made[t->n_made++] = p[i];
        assert_ok(dev->ops->copy(dev, p[i], value, (size_t)n * sizeof *value));
    }
    free(value);
    c->y = md_tensor_make(p[0], MD_F32, 1, &n);
    c->x = md_tensor_make(p[1], MD_F32, 1, &n);
    c->arg[0] = md_s(2.0);
    c->arg[1] = md_t(&c->y);
    c->arg[2] = md_t(&c->x);
}

md_ds_shape_entry *timed_entry(md_ds_op *op, const timed_call *c)
{
    md_ds_bound bound;
    md_ds_shape_entry *entry = NULL;
    assert_ok(md_ds_bind(&bound, op, c->arg, 3));
    assert_ok(md_ds_find(&entry, op, NULL, &bound));
    return entry;
}

md_ds_trial_state timed_trial_of(md_ds_op *op, const timed_call *c)
{
    md_ds_trial_state t = {0};
    md_ds_shape_entry *entry = timed_entry(op, c);
    (void)md_ds_trial_of(&t, op, entry);
    md_ds_shape_entry_release(entry);
    return t;
}

void timed_wait_for_trial(md_ds_op *op, timed_call *c)
{
    for (int i = 0; i < 10000; i++) {
        assert_ok(md_ds_call(op, NULL, c->arg, 3));
        md_ds_shape_entry *entry = timed_entry(op, c);
        bool is_there = atomic_load(&entry->trial) || atomic_load(&entry->trial_state) >= MD_DS_TRIAL_VAIN;
        md_ds_shape_entry_release(entry);
        if (is_there)
            return;
        md_ds_prepare_wait(&op->hybrid->n_jobs, op);
        if (i % 64 == 63) /* for jobs on a busy machine */
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    fail_msg("no trial");
}

int32_t timed_incumbent(md_ds_op *op, const timed_call *c)
{
    md_ds_shape_entry *entry = timed_entry(op, c);
    int mark = 0, w = 0;
    char family = 0;
    const char *name = script_name(op, md_ds_plan_of(entry)->stage[0].pick.variant);
    md_ds_shape_entry_release(entry);
    assert_int_equal(sscanf(name, "%c%*[a-z]/v%d_w%d", &family, &mark, &w), 3);
    return mark + (family == 'a' ? 0 : family == 'b' ? 10 : 20);
}
