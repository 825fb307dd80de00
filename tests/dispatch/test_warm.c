/* The warm path: what plans make of new pointers, scalars, views and mistakes; many threads on few records; who owns
 * what when threads and ops end. */
#include "base/status.h"
#include "dispatch/script.h"
#include "dispatch/call/thread_cache.h"
#include "dispatch/cache/table.h"
#include "dispatch/call/fast_call.h"
#include "support/check.h"

#include <pthread.h>

static script_world world;
static _Atomic int64_t n_launched;
static const char *const formula = "scalar a; Y[n] = X[n] * a";

/* Y[n] = X[n * stride] * a, and the memory that was asked for is there. */
static void copy_scaled(const char *text, const md_kn_word *params, int32_t n)
{
    assert_true(!strncmp(text, "COPY ", 5) && n >= 5);
    float *y = params[0].p;
    const float *x = params[1].p;
    for (int64_t i = 0; i < params[2].i; i++)
        y[i] = x[i * params[3].i] * (float)params[4].d;
    if (script_now.with_memory)
        memset(params[5].p, 0x5a, 64);
    atomic_fetch_add(&n_launched, 1);
}

static int set_up(void **state)
{
    (void)state;
    script_reset();
    script_now.is_text = true;
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_world_open(&world);
    world.device.on_launch = copy_scaled;
    atomic_store(&n_launched, 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    script_world_close(&world);
    return 0;
}

static md_ds_op *op_of(int64_t max_shapes)
{
    md_ds_op_options o = script_options();
    o.max_shapes = max_shapes;
    return script_op(&world, formula, &o);
}

typedef struct vectors {
    float y[80], x[400];
    md_tensor ty, tx;
    md_arg arg[3];
} vectors;

/* Argument `a` is the first: the formula names it first. */
static void shape(vectors *v, int64_t n, int64_t stride, int offset)
{
    v->ty = md_tensor_make(v->y + offset, MD_F32, 1, &n);
    v->tx = md_tensor_make(v->x, MD_F32, 1, &n);
    v->tx.stride[0] = stride;
    v->arg[1] = md_t(&v->ty);
    v->arg[2] = md_t(&v->tx);
}

static void order(const md_ds_op *op, vectors *v, md_arg out[3], double a)
{
    const md_fx_formula *f = op->formula;
    for (int32_t i = 0; i < f->n_args; i++)
        out[i] = f->args[i].is_scalar ? md_s(a) : f->tensor[f->args[i].id].role == MD_FX_OUTPUT ? v->arg[1] : v->arg[2];
}

static md_status call(md_ds_op *op, vectors *v, double a)
{
    md_arg arg[3];
    order(op, v, arg, a);
    return md_ds_call(op, NULL, arg, 3);
}

static bool is_right(const vectors *v, int64_t n, int64_t stride, int offset, double a)
{
    for (int64_t i = 0; i < n; i++)
        if (v->y[offset + i] != v->x[i * stride] * (float)a)
            return false;
    return true;
}

/* All calls that took the long way. */
static uint64_t long_calls(md_ds_op *op)
{
    return atomic_load(&op->count.calls);
}

typedef struct sum {
    uint64_t calls, n_timed, ns;
} sum;

static void add_calls(void *user, const md_ds_shape_entry *r)
{
    sum *s = user;
    s->calls += atomic_load(&r->calls);
    s->n_timed += atomic_load(&r->n_timed);
    s->ns += atomic_load(&r->time_ns);
}

static uint64_t all_calls(md_ds_op *op)
{
    sum s = {0};
    md_ds_table_each(op, add_calls, &s);
    return s.calls + atomic_load(&op->count.forgotten_calls);
}

static void a_known_shape_has_a_plan(void **state)
{
    (void)state;
    md_ds_op *op = op_of(100);
    _Alignas(64) static vectors v, w;
    for (int i = 0; i < 400; i++) {
        v.x[i] = (float)i;
        w.x[i] = (float)(3 * i);
    }
    shape(&v, 30, 1, 0);
    shape(&w, 30, 1, 0);
    for (int i = 0; i < 3; i++)
        assert_ok(call(op, &v, 1.0));
    assert_int_equal(long_calls(op), 2);
    for (int i = 0; i < 50; i++) { /* other pointers, other scalars */
        memset(w.y, 0, sizeof w.y);
        assert_ok(call(op, i % 2 ? &v : &w, 0.1 * i));
        assert_true(is_right(i % 2 ? &v : &w, 30, 1, 0, 0.1 * i));
    }
    assert_int_equal(long_calls(op), 2);
    shape(&w, 30, 3, 0); /* other strides are another shape */
    assert_ok(call(op, &w, 2.0));
    assert_true(is_right(&w, 30, 3, 0, 2.0));
    shape(&w, 30, 1, 1); /* and so is other alignment */
    assert_ok(call(op, &w, 2.0));
    assert_true(is_right(&w, 30, 1, 1, 2.0));
    assert_int_equal(long_calls(op), 4);
    assert_int_equal(all_calls(op), 55);
    for (int i = 0; i < 2000; i++)
        assert_ok(call(op, &v, 1.0));
    assert_int_equal(all_calls(op), 2055);
    assert_int_equal(long_calls(op), 4);
    sum s = {0};
    md_ds_table_each(op, add_calls, &s);
    assert_true(s.n_timed >= 4 + 6 && s.n_timed <= 4 + 10); /* the long ones, and one of 256 */
    assert_true(s.ns > 0);
    md_ds_op_destroy(&op);
}

static void mistakes_are_named_as_ever(void **state)
{
    (void)state;
    md_ds_op *op = op_of(100);
    _Alignas(64) static vectors v;
    md_arg arg[3];
    shape(&v, 30, 1, 0);
    for (int i = 0; i < 5; i++)
        assert_ok(call(op, &v, 1.0));
    v.tx.dtype = MD_I32;
    assert_fails(call(op, &v, 1.0), MD_INVALID_ARGUMENT, "dtype");
    shape(&v, 30, 1, 0);
    v.ty.data = NULL;
    assert_fails(call(op, &v, 1.0), MD_INVALID_ARGUMENT, "NULL");
    shape(&v, 30, 1, 0);
    v.ty.data = (char *)v.y + 2;
    assert_fails(call(op, &v, 1.0), MD_INVALID_ARGUMENT, "aligned");
    shape(&v, 30, 1, 0);
    v.tx.size[0] = 31;
    assert_fails(call(op, &v, 1.0), MD_INVALID_ARGUMENT, "size");
    shape(&v, 30, 1, 0);
    order(op, &v, arg, 1.0);
    assert_fails(md_ds_call(op, NULL, arg, 2), MD_INVALID_ARGUMENT, "2 arguments");
    assert_fails(md_ds_call(op, NULL, NULL, 3), MD_INVALID_ARGUMENT, "NULL");
    for (int i = 0; i < 3; i++)
        if (arg[i].kind == MD_ARG_REAL)
            arg[i] = md_i(3); /* an integer stands for a real */
    assert_ok(md_ds_call(op, NULL, arg, 3));
    assert_true(is_right(&v, 30, 1, 0, 3.0));
    md_ds_op_destroy(&op);
}

static void overlaps_take_the_long_way(void **state)
{
    (void)state;
    md_ds_op *op = op_of(100);
    _Alignas(64) static vectors v;
    shape(&v, 30, 1, 0);
    for (int i = 0; i < 5; i++)
        assert_ok(call(op, &v, 1.0));
    uint64_t before = long_calls(op);
    v.ty.data = v.x; /* in place: every element is read where it is written */
    for (int i = 0; i < 30; i++)
        v.x[i] = (float)i;
    assert_ok(call(op, &v, 2.0));
    assert_true(v.x[29] == 58.0f);
    assert_int_equal(long_calls(op), before);
    v.ty.data = v.x + 16;
    assert_fails(call(op, &v, 2.0), MD_INVALID_ARGUMENT, "overlaps input 'X'");
    md_ds_op_destroy(&op);
}

static void memory_of_calls(void **state)
{
    (void)state;
    script_now.with_memory = true;
    md_ds_op *op = op_of(100);
    _Alignas(64) static vectors v;
    shape(&v, 30, 1, 0);
    for (int i = 0; i < 20; i++)
        assert_ok(call(op, &v, 0.5));
    assert_true(is_right(&v, 30, 1, 0, 0.5));
    assert_int_equal(long_calls(op), 2);
    md_ds_op_destroy(&op);
}

/* Tensor maps are made from the call, whose workspace they may describe: a plan's call has it too. */
static md_kn_word map_seen[2 * MD_KN_MAP_WORDS];

static void copy_with_maps(const char *text, const md_kn_word *params, int32_t n)
{
    memcpy(map_seen, params, sizeof map_seen);
    copy_scaled(text, params + 2 * MD_KN_MAP_WORDS, n - 2 * MD_KN_MAP_WORDS);
    map_seen[2].p = params[2 * MD_KN_MAP_WORDS + 5].p; /* the workspace, 64 bytes into it */
}

static void copy_with_tensor_maps(const char *text, const md_kn_word *params, int32_t n)
{
    memcpy(map_seen, params, sizeof map_seen);
    copy_scaled(text, params + 2 * MD_KN_MAP_WORDS, n - 2 * MD_KN_MAP_WORDS);
}

/* Maps are made with the plan, and moved where pointers change, and only there; by a store where the device knows
 * that this is right. */
static void check_maps(bool are_known)
{
    const int32_t n_made = world.device.n_maps_made, n_moved = world.device.n_maps_moved;
    world.device.maps_are_known = are_known;
    script_now.with_memory = script_now.with_maps = true;
    world.device.on_launch = copy_with_maps;
    md_ds_op *op = op_of(100);
    _Alignas(64) static vectors v, w;
    shape(&v, 30, 3, 0);
    shape(&w, 30, 3, 0);
    assert_ok(call(op, &v, 0.5)); /* the long way: the device fills them in */
    assert_ok(call(op, &v, 0.5));
    assert_int_equal(world.device.n_maps_made - n_made, 2);
    for (int i = 0; i < 20; i++) {
        vectors *now = i / 5 % 2 ? &w : &v;
        assert_ok(call(op, now, 0.5));
        assert_true(is_right(now, 30, 3, 0, 0.5));
        assert_ptr_equal(map_seen[0].p, now->x);
        assert_int_equal(map_seen[1].i, 30);
        assert_int_equal(map_seen[15].i, 15);
        assert_ptr_equal(map_seen[MD_KN_MAP_WORDS].p, map_seen[2].p);
        assert_int_equal(map_seen[MD_KN_MAP_WORDS + 15].i, 115);
    }
    assert_int_equal(world.device.n_maps_made - n_made, 2);
    /* the first time, and at each change of X */
    assert_int_equal(world.device.n_maps_moved - n_moved, are_known ? 0 : 2 + 3);
    assert_int_equal(long_calls(op), 2);
    md_ds_op_destroy(&op);
}

static void maps_are_kept(void **state)
{
    (void)state;
    check_maps(false);
    check_maps(true);
}

/* Without memory of its own such a plan is an entry of the thread, whose maps lie in a copy that others may take. */
static void check_many_maps(bool are_known)
{
    enum { SHAPES = 60, ROUNDS = 12 };
    world.device.maps_are_known = are_known;
    script_now.with_maps = world.device.maps_tensors = true;
    world.device.on_launch = copy_with_tensor_maps;
    md_ds_op *op = op_of(100);
    _Alignas(64) static vectors v, w;
    for (int i = 0; i < 400; i++)
        v.x[i] = w.x[i] = (float)i;
    for (int round = 0; round < ROUNDS; round++)
        for (int64_t n = 1; n <= (round % 3 ? 5 : SHAPES); n++)
            for (int i = 0; i < 6; i++) {
                vectors *now = i / 3 % 2 ? &w : &v;
                shape(now, n, 1, 0);
                assert_ok(call(op, now, 0.5 * i));
                assert_true(is_right(now, n, 1, 0, 0.5 * i));
                if (round == 0 && i < 2)
                    continue; /* the long way: the device fills them in */
                assert_ptr_equal(map_seen[0].p, now->x);
                assert_ptr_equal(map_seen[MD_KN_MAP_WORDS].p, now->y);
                assert_int_equal(map_seen[1].i, n);
                assert_int_equal(map_seen[MD_KN_MAP_WORDS + 15].i, 115);
            }
    assert_int_equal(long_calls(op), 2 * SHAPES);
    shape(&v, 3, 1, 0);
    v.ty.data = v.x + 16; /* the output in the input's memory, apart from what is read: addresses are looked at anew */
    for (int i = 0; i < 4; i++) {
        assert_ok(call(op, &v, 2.0));
        assert_true(v.x[18] == 2.0f * v.x[2]);
    }
    v.tx.data = v.x + 15;
    for (int i = 0; i < 3; i++)
        assert_fails(call(op, &v, 2.0), MD_INVALID_ARGUMENT, "overlaps input 'X'");
    md_ds_op_destroy(&op);
}

static void maps_of_many_shapes(void **state)
{
    (void)state;
    check_many_maps(false);
    check_many_maps(true);
}

/* Plans hold their records; a shape that finds no place makes them all let go. */
static void plans_give_way(void **state)
{
    (void)state;
    md_ds_op *op = op_of(4);
    _Alignas(64) static vectors v;
    uint64_t calls = 0;
    for (int round = 0; round < 20; round++)
        for (int64_t n = 1; n < 40; n++) {
            shape(&v, n, 1, 0);
            for (int i = 0; i < 4; i++, calls++) {
                assert_ok(call(op, &v, 0.5 * (double)n));
                assert_true(is_right(&v, n, 1, 0, 0.5 * (double)n));
            }
        }
    assert_true(md_table_count(op->entries) <= 4);
    assert_true(op->count.evictions > 100);
    assert_int_equal(all_calls(op), calls);
    md_ds_op_destroy(&op);
}

/* Slots are as wide as the first plan needs, and somewhat more. */
static void wide_plans_after_narrow_ones(void **state)
{
    (void)state;
    script_now.row[SCRIPT_ALPHA][0].hi = 50;
    script_row *wide = script_allow(SCRIPT_BETA, 0, 2.0), *too_wide = script_allow(SCRIPT_GAMMA, 0, 3.0);
    wide->lo = 51;
    wide->hi = 70;
    wide->extra = 60;
    too_wide->lo = 71;
    too_wide->extra = 200;
    md_ds_op *op = op_of(100);
    _Alignas(64) static vectors v;
    for (int round = 0; round < 4; round++)
        for (int64_t n = 40; n <= 78; n += 19) { /* 40, 59, 78 */
            shape(&v, n, 1, 0);
            for (int i = 0; i < 5; i++) {
                assert_ok(call(op, &v, 0.25 * round));
                assert_true(is_right(&v, n, 1, 0, 0.25 * round));
            }
        }
    assert_int_equal(all_calls(op), 4 * 3 * 5);
    assert_int_equal(long_calls(op), 2 + 2 + 20 + 1); /* the narrow one is written anew once; the widest has no plan */
    md_ds_op_destroy(&op);
}

/* ---- Threads */

enum { THREADS = 6, ROUNDS = 4000 };

typedef struct worker {
    md_ds_op *const *op;
    int n_ops;
    uint64_t seed;
    int64_t n_calls[2];
    int n_wrong;
} worker;

static void *work(void *user)
{
    worker *w = user;
    vectors *v = aligned_alloc(64, (sizeof *v + 63) / 64 * 64);
    for (int i = 0; i < 400; i++)
        v->x[i] = (float)(i + 1);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t r = check_random(&w->seed);
        int which = (int)(r >> 60) % w->n_ops;
        int64_t n = r % 3 ? 1 + (int64_t)(r >> 8) % 6 : 1 + (int64_t)(r >> 8) % 60, stride = 1 + (int64_t)(r >> 16) % 2;
        double a = (double)(r >> 40 & 255);
        shape(v, n, stride, (int)(r >> 32 & 1));
        w->n_wrong += call(w->op[which], v, a) != MD_OK || !is_right(v, n, stride, (int)(r >> 32 & 1), a);
        w->n_calls[which]++;
    }
    free(v);
    return NULL;
}

static void *watch(void *user)
{
    md_ds_op *const *op = user;
    for (int i = 0; i < 200; i++)
        (void)all_calls(op[i % 2]);
    return NULL;
}

static void many_threads_few_records(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    md_ds_op *op[2] = {op_of(16), op_of(1000)};
    for (int round = 0; round < 3; round++) { /* threads end, and others take their places */
        pthread_t t[THREADS], watcher;
        worker w[THREADS];
        uint64_t before[2] = {all_calls(op[0]), all_calls(op[1])}, made[2] = {0, 0};
        for (int i = 0; i < THREADS; i++) {
            w[i] = (worker){.op = op, .n_ops = 2, .seed = check_random(&seed)};
            assert_int_equal(pthread_create(&t[i], NULL, work, &w[i]), 0);
        }
        assert_int_equal(pthread_create(&watcher, NULL, watch, op), 0);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(t[i], NULL);
            assert_int_equal(w[i].n_wrong, 0);
            made[0] += (uint64_t)w[i].n_calls[0];
            made[1] += (uint64_t)w[i].n_calls[1];
        }
        pthread_join(watcher, NULL);
        for (int k = 0; k < 2; k++)
            assert_int_equal(all_calls(op[k]) - before[k], made[k]);
    }
    int n = 0;
    for (const md_ds_thread *p = world.runtime.threads; p; p = p->next)
        n++;
    assert_true(n <= THREADS + 2);
    assert_true(long_calls(op[1]) < 3 * THREADS * ROUNDS / 4);
    md_ds_op_destroy(&op[0]);
    md_ds_op_destroy(&op[1]);
}

/* A new op may get the address of one that is gone: copies of its plans must not be taken for the new one's. */
static void plans_of_ops_that_are_gone(void **state)
{
    (void)state;
    _Alignas(64) static vectors v;
    shape(&v, 30, 1, 0);
    for (int i = 0; i < 30; i++) {
        md_ds_op *op = op_of(100);
        for (int k = 0; k < 5; k++)
            assert_ok(call(op, &v, 1.0 + i));
        assert_true(is_right(&v, 30, 1, 0, 1.0 + i));
        assert_int_equal(long_calls(op), 2);
        md_ds_op_destroy(&op);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_known_shape_has_a_plan, set_up, tear_down),
        cmocka_unit_test_setup_teardown(mistakes_are_named_as_ever, set_up, tear_down),
        cmocka_unit_test_setup_teardown(overlaps_take_the_long_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_of_calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(maps_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(maps_of_many_shapes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(plans_give_way, set_up, tear_down),
        cmocka_unit_test_setup_teardown(wide_plans_after_narrow_ones, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_threads_few_records, set_up, tear_down),
        cmocka_unit_test_setup_teardown(plans_of_ops_that_are_gone, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
