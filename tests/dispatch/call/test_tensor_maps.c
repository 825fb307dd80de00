/* Tensor maps of launch plans: made with the plan, and moved only when pointers change. */
#include "dispatch/call/warm.h"
#include "support/check.h"

/* Tensor maps are made from the call, whose workspace they may describe: a plan's call has it too. */
static md_kn_word map_seen[2 * MD_KN_MAP_WORDS];

static void copy_with_maps(const char *text, const md_kn_word *params, int32_t n)
{
    memcpy(map_seen, params, sizeof map_seen);
    warm_copy_scaled(text, params + 2 * MD_KN_MAP_WORDS, n - 2 * MD_KN_MAP_WORDS);
    map_seen[2].p = params[2 * MD_KN_MAP_WORDS + 5].p; /* the workspace, 64 bytes into it */
}

static void copy_with_tensor_maps(const char *text, const md_kn_word *params, int32_t n)
{
    memcpy(map_seen, params, sizeof map_seen);
    warm_copy_scaled(text, params + 2 * MD_KN_MAP_WORDS, n - 2 * MD_KN_MAP_WORDS);
}

/* Maps are made with the plan, and moved where pointers change, and only there; by a store where the device knows
 * that this is right. */
static void check_maps(bool are_known)
{
    const int32_t n_made = warm_world.device.n_maps_made, n_moved = warm_world.device.n_maps_moved;
    warm_world.device.maps_are_known = are_known;
    script_now.with_memory = script_now.with_maps = true;
    warm_world.device.on_launch = copy_with_maps;
    md_ds_op *op = warm_op(100);
    _Alignas(64) static warm_vectors v, w;
    warm_shape(&v, 30, 3, 0);
    warm_shape(&w, 30, 3, 0);
    assert_ok(warm_call(op, &v, 0.5)); /* a slow call: the device makes the maps */
    assert_ok(warm_call(op, &v, 0.5));
    assert_int_equal(warm_world.device.n_maps_made - n_made, 2);
    for (int i = 0; i < 20; i++) {
        warm_vectors *now = i / 5 % 2 ? &w : &v;
        assert_ok(warm_call(op, now, 0.5));
        assert_true(warm_is_right(now, 30, 3, 0, 0.5));
        assert_ptr_equal(map_seen[0].p, now->x);
        assert_int_equal(map_seen[1].i, 30);
        assert_int_equal(map_seen[15].i, 15);
        assert_ptr_equal(map_seen[MD_KN_MAP_WORDS].p, map_seen[2].p);
        assert_int_equal(map_seen[MD_KN_MAP_WORDS + 15].i, 115);
    }
    assert_int_equal(warm_world.device.n_maps_made - n_made, 2);
    /* the first time, and at each change of X */
    assert_int_equal(warm_world.device.n_maps_moved - n_moved, are_known ? 0 : 2 + 3);
    assert_int_equal(warm_slow_calls(op), 2);
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
    warm_world.device.maps_are_known = are_known;
    script_now.with_maps = warm_world.device.maps_tensors = true;
    warm_world.device.on_launch = copy_with_tensor_maps;
    md_ds_op *op = warm_op(100);
    _Alignas(64) static warm_vectors v, w;
    for (int i = 0; i < 400; i++)
        v.x[i] = w.x[i] = (float)i;
    for (int round = 0; round < ROUNDS; round++)
        for (int64_t n = 1; n <= (round % 3 ? 5 : SHAPES); n++)
            for (int i = 0; i < 6; i++) {
                warm_vectors *now = i / 3 % 2 ? &w : &v;
                warm_shape(now, n, 1, 0);
                assert_ok(warm_call(op, now, 0.5 * i));
                assert_true(warm_is_right(now, n, 1, 0, 0.5 * i));
                if (round == 0 && i < 2)
                    continue; /* a slow call: the device makes the maps */
                assert_ptr_equal(map_seen[0].p, now->x);
                assert_ptr_equal(map_seen[MD_KN_MAP_WORDS].p, now->y);
                assert_int_equal(map_seen[1].i, n);
                assert_int_equal(map_seen[MD_KN_MAP_WORDS + 15].i, 115);
            }
    assert_int_equal(warm_slow_calls(op), 2 * SHAPES);
    warm_shape(&v, 3, 1, 0);
    v.ty.data = v.x + 16; /* the output in the input's memory, apart from what is read: addresses are looked at anew */
    for (int i = 0; i < 4; i++) {
        assert_ok(warm_call(op, &v, 2.0));
        assert_true(v.x[18] == 2.0f * v.x[2]);
    }
    v.tx.data = v.x + 15;
    for (int i = 0; i < 3; i++)
        assert_fails(warm_call(op, &v, 2.0), MD_INVALID_ARGUMENT, "overlaps input 'X'");
    md_ds_op_destroy(&op);
}

static void maps_of_many_shapes(void **state)
{
    (void)state;
    check_many_maps(false);
    check_many_maps(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(maps_are_kept, warm_set_up, warm_tear_down),
        cmocka_unit_test_setup_teardown(maps_of_many_shapes, warm_set_up, warm_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
