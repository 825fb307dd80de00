/* The device is lost at each of its operations in turn, while an op is made, shapes are chosen, measured and tried,
 * and calls run: everything after that fails and says so, nothing waits for ever, and all can be destroyed. */
#include "base/status.h"
#include "dispatch/support/script.h"
#include "dispatch/bind/bind.h"
#include "dispatch/call/call.h"
#include "support/devices/async_device.h"
#include "support/check.h"

#include <time.h>

enum { N = 300, N_CALLS = 40, MOST_POINTS = 5000 };

static script_world world;
static async_device device;
static md_dev_ops lost_ops;
static const md_dev_ops *real;
static _Atomic int64_t left; /* operations until it is lost */
static const char *const formula = "scalar a; Y[n] = X[n] * a";

static bool is_lost(void)
{
    return atomic_fetch_sub(&left, 1) <= 0;
}

/* An operation of the device with the parameters `types` called `names`. */
#define LOSES(op, types, names)                                                                                        \
    static md_status lost_##op types                                                                                   \
    {                                                                                                                  \
        return is_lost() ? md_fail(MD_DEVICE, "the device is lost") : real->op names;                                  \
    }
LOSES(alloc, (void **out, md_dev *dev, size_t n), (out, dev, n))
LOSES(copy, (md_dev * dev, void *to, const void *from, size_t n), (dev, to, from, n))
LOSES(sync, (md_dev * dev, md_stream s), (dev, s))
LOSES(load, (md_dev_kernel * *out, md_dev *dev, const void *b, size_t n, const md_kn_launch_source *source),
      (out, dev, b, n, source))
LOSES(launch,
      (md_dev * dev, md_stream s, const md_dev_kernel *k, const md_kn_geometry *g, md_dev_params p,
       const md_kn_call *call),
      (dev, s, k, g, p, call))
LOSES(workspace, (void **out, md_dev *dev, md_stream s, size_t n), (out, dev, s, n))
LOSES(counters, (void **out, md_dev *dev, md_stream s), (out, dev, s))
LOSES(copy_background, (md_dev * dev, md_stream s, void *to, const void *from, size_t n), (dev, s, to, from, n))
LOSES(copy_tensor, (md_dev * dev, md_stream s, const md_tensor *to, const md_tensor *from), (dev, s, to, from))
LOSES(report_create, (md_dev_report * out, md_dev *dev), (out, dev))
LOSES(report_clear, (md_dev * dev, const md_dev_report *report), (dev, report))
LOSES(time, (double *us, md_dev *dev, md_stream s, md_status (*body)(void *user), void *user), (us, dev, s, body, user))
LOSES(mark_create, (md_dev_mark * *out, md_dev *dev), (out, dev))
LOSES(mark_put, (md_dev * dev, md_dev_mark *mark, md_stream s), (dev, mark, s))
LOSES(mark_time, (double *us, md_dev *dev, md_dev_mark *from, md_dev_mark *to), (us, dev, from, to))
LOSES(check_pointer, (md_dev * dev, const void *p), (dev, p))
#undef LOSES

static void lose_after(int64_t n)
{
    atomic_store(&left, n > 0 ? n : INT64_MAX / 2);
}

static void copy_scaled(const char *text, const md_kn_word *params, int32_t n)
{
    (void)text;
    assert_true(n >= 5);
    for (int64_t i = 0; i < params[2].i; i++)
        ((float *)params[0].p)[i] = ((const float *)params[1].p)[i * params[3].i] * (float)params[4].d;
}

static void open_world(void)
{
    script_world_open(&world);
    world.device.on_launch = copy_scaled;
    md_bd_destroy(&world.builder);
    assert_true(async_device_init(&device, &world.device.base));
    real = device.base.ops;
    lost_ops = *real;
#define PUT(op) lost_ops.op = lost_##op
    PUT(alloc);
    PUT(copy);
    PUT(sync);
    PUT(load);
    PUT(launch);
    PUT(workspace);
    PUT(counters);
    PUT(copy_background);
    PUT(copy_tensor);
    PUT(report_create);
    PUT(report_clear);
    PUT(time);
    PUT(mark_create);
    PUT(mark_put);
    PUT(mark_time);
    PUT(check_pointer);
#undef PUT
    device.base.ops = &lost_ops;
    assert_ok(md_bd_create(&world.builder, &device.base));
    world.runtime.dev = &device.base;
    world.runtime.builder = world.builder;
}

static void close_world(void)
{
    script_world_close(&world);
    real->destroy(&device.base);
}

static void check_status(md_status s)
{
    if (s != MD_OK && !strstr(md_last_error(), "lost"))
        fail_msg("%s: %s", md_status_name(s), md_last_error());
}

/* Returns how many calls went well; once one did not, none does. */
static int32_t call_often(md_ds_op *op, md_arg arg[3])
{
    int32_t n_good = 0;
    for (int i = 0; i < N_CALLS; i++) {
        md_status s = md_ds_call(op, NULL, arg, 3);
        check_status(s);
        if (s == MD_OK && i % 3 == 0)
            check_status(device.base.ops->sync(&device.base, NULL));
        n_good += s == MD_OK;
        if (i == 3)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* trials are made meanwhile */
    }
    return n_good;
}

static void make_call(md_arg arg[3], void *p[2])
{
    static const float x[N] = {1, 2, 3};
    const int64_t n = N;
    for (int i = 0; i < 2; i++) {
        assert_ok(real->alloc(&p[i], &device.base, sizeof x));
        assert_ok(real->copy(&device.base, p[i], x, sizeof x));
    }
    static md_tensor t[2];
    t[0] = md_tensor_make(p[0], MD_F32, 1, &n);
    t[1] = md_tensor_make(p[1], MD_F32, 1, &n);
    arg[0] = md_s(2.0);
    arg[1] = md_t(&t[0]);
    arg[2] = md_t(&t[1]);
}

static void lose_everywhere(md_select mode, bool is_async, const char *numbers)
{
    int64_t n = 1, n_failed = 0;
    for (bool happened = true; happened && n < MOST_POINTS; n++) {
        md_ds_op_options o = script_options();
        md_ds_op *op = NULL;
        md_arg arg[3];
        void *p[2] = {NULL};
        o.compile.policy.select = mode;
        o.is_async = is_async;
        open_world();
        make_call(arg, p);
        lose_after(n);
        md_status s = md_ds_op_create(&op, &world.runtime, formula, &o);
        check_status(s);
        assert_true((op != NULL) == (s == MD_OK));
        const int32_t n_good = op ? call_often(op, arg) : 0;
        happened = atomic_load(&left) <= 0;
        n_failed += n_good < N_CALLS;
        assert_true(happened || n_good == N_CALLS);
        if (op) {
            check_status(md_ds_check(op));
            md_ds_op_wait(op);
            assert_int_equal(op->count.quarantined, 0); /* no variant is blamed */
        }
        md_ds_op_destroy(&op);
        lose_after(0);
        for (int i = 0; i < 2; i++)
            real->free(&device.base, p[i]);
        close_world();
    }
    printf("%s: lost at each of %d operations, %d times with calls under way\n", numbers, (int)n - 1, (int)n_failed);
    assert_true(n > 20 && n < MOST_POINTS && n_failed > 0);
}

static int set_up(void **state)
{
    (void)state;
    script_reset();
    script_now.is_text = true;
    script_now.with_memory = true;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.1);
    script_allow(SCRIPT_GAMMA, 0, 1.2);
    return 0;
}

static void the_model_picks(void **state)
{
    (void)state;
    lose_everywhere(MD_SELECT_MODEL, false, "model");
    lose_everywhere(MD_SELECT_MODEL, true, "model, asynchronous");
}

static void the_clock_picks(void **state)
{
    (void)state;
    lose_everywhere(MD_SELECT_MEASURE, false, "measure");
}

static void trials_pick(void **state)
{
    (void)state;
    lose_everywhere(MD_SELECT_HYBRID, false, "hybrid");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_model_picks, set_up, NULL),
        cmocka_unit_test_setup_teardown(the_clock_picks, set_up, NULL),
        cmocka_unit_test_setup_teardown(trials_pick, set_up, NULL),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
