/* Ops that are made asynchronously: creation picks configs for the middle hint, the pool's threads for all others,
 * while calls are served. */
#include "dispatch/select/async_fill.h"
#include "dispatch/cache/table.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/cache/shape_entry.h"
#include "dispatch/support/script.h"
#include "dispatch/call/call.h"
#include "support/check.h"

#include <stdlib.h>

static script_world world;

/* alpha has another best config at each hint. */
static int set_up(void **state)
{
    (void)state;
    script_reset();
    script_now.is_text = true;
    script_allow(SCRIPT_ALPHA, 0, 1.0)->us_each = 0.1;
    script_allow(SCRIPT_ALPHA, 1, 10.0)->us_each = 0.05;
    script_allow(SCRIPT_ALPHA, 2, 50.0)->us_each = 0.001;
    script_allow(SCRIPT_BETA, 0, 500.0);
    script_world_open(&world);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    script_world_close(&world);
    return 0;
}

static md_ds_op *make(int round, bool is_async, const char *pin)
{
    char formula[80];
    md_ds_op_options o = script_options();
    o.is_async = is_async;
    o.pin = pin;
    snprintf(formula, sizeof formula, "scalar a; Y[n] = X[n] * a + %d", round);
    return script_op(&world, formula, &o);
}

static void call(md_ds_op *op, int64_t n)
{
    md_tensor ty = md_tensor_make((void *)(uintptr_t)0x100000, MD_F32, 1, &n),
              tx = md_tensor_make((void *)(uintptr_t)0x40000000, MD_F32, 1, &n);
    assert_ok(md_ds_call(op, NULL, (md_arg[]){md_s(1.0), md_t(&ty), md_t(&tx)}, 3));
}

static void pick_is(md_ds_op *op, int64_t n, const char *name)
{
    md_ds_bound bound;
    md_ds_shape_entry *entry = NULL;
    md_tensor ty = md_tensor_make((void *)(uintptr_t)0x100000, MD_F32, 1, &n),
              tx = md_tensor_make((void *)(uintptr_t)0x40000000, MD_F32, 1, &n);
    assert_ok(md_ds_bind(&bound, op, (md_arg[]){md_s(1.0), md_t(&ty), md_t(&tx)}, 3));
    assert_ok(md_ds_find(&entry, op, NULL, &bound));
    assert_string_equal(script_name(op, md_ds_plan_of(entry)->stage[0].pick.variant), name);
    assert_false(md_ds_plan_of(entry)->is_stand_in);
    md_ds_shape_entry_release(entry);
}

/* As if it had been made at once; what was chosen early is chosen anew. */
static void pools_become_whole(void **state)
{
    (void)state;
    world.device.compile_ms = 2;
    for (int round = 0; round < 20; round++) {
        md_ds_op *op = make(round, true, NULL), *whole = make(1000 + round, false, NULL);
        assert_null(whole->async_fill);
        call(op, 4096);
        call(op, 70);
        call(op, 4096);
        md_ds_op_wait(op);
        assert_false(md_ds_is_filling(op));
        assert_int_equal(op->stage[0].n_variants, whole->stage[0].n_variants);
        const int32_t middle = op->space.n_hints / 2;
        const md_bd_variant *best = whole->stage[0].variant[whole->stage[0].draft->of[middle][0].variant];
        assert_string_equal(op->stage[0].variant[0]->name, best->name);
        assert_string_not_equal(best->name, whole->stage[0].variant[0]->name);
        for (int32_t h = 0; h < op->space.n_hints; h++) {
            const md_ds_ranks *a = md_ds_ranks_of(&op->stage[0]), *b = md_ds_ranks_of(&whole->stage[0]);
            assert_int_equal(a->n[h], b->n[h]);
            assert_string_equal(script_name(op, a->of[h][0].variant), script_name(whole, b->of[h][0].variant));
        }
        pick_is(op, 4096, "alpha/v2_w0");
        pick_is(op, 70, "alpha/v0_w0");
        assert_int_equal(op->n_waiting, 0);
        md_ds_op_destroy(&op);
        md_ds_op_destroy(&whole);
    }
}

/* A thread that needs the whole pool fills it, if no job has begun to. */
static void who_waits_helps(void **state)
{
    (void)state;
    md_ds_op *op = make(0, true, NULL);
    md_ds_async_fill_wait(op);
    assert_false(md_ds_is_filling(op));
    md_ds_async_fill_wait(op);
    md_ds_op_wait(op);
    pick_is(op, 4096, "alpha/v2_w0");
    md_ds_op_destroy(&op);
}

static void ops_may_go_at_once(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        md_ds_op *op = make(round, true, NULL);
        if (round % 2)
            call(op, 300 + round);
        md_ds_op_destroy(&op);
    }
}

static void pins_and_waiting_contexts_have_all_at_once(void **state)
{
    (void)state;
    md_ds_op *op = make(0, true, "alpha/v0_w0");
    assert_null(op->async_fill);
    md_ds_op_destroy(&op);
    world.runtime.waits = true;
    op = make(1, true, NULL);
    assert_null(op->async_fill);
    assert_int_equal(op->stage[0].n_variants, 4);
    md_ds_op_destroy(&op);
}

/* A choice that is given to an op whose pool is being filled waits for that: its variant is in the pool once, as if it
 * had been made at once, and the choice stays. */
static void given_choices_wait_for_the_pool(void **state)
{
    (void)state;
    static const char *const name = "alpha/v2_w0"; /* the first hint does not have it */
    world.device.compile_ms = 1;
    for (int round = 0; round < 20; round++) {
        md_ds_bound bound;
        md_ds_key key;
        md_ds_shape_entry *entry = NULL;
        md_ds_op *op = make(round, true, NULL), *whole = make(1000 + round, false, NULL);
        const int64_t n = 70;
        md_tensor ty = md_tensor_make((void *)(uintptr_t)0x100000, MD_F32, 1, &n),
                  tx = md_tensor_make((void *)(uintptr_t)0x40000000, MD_F32, 1, &n);
        assert_ok(md_ds_bind(&bound, op, (md_arg[]){md_s(1.0), md_t(&ty), md_t(&tx)}, 3));
        md_ds_key_of(&key, op, &bound.shape, &bound.as);
        assert_ok(md_ds_assign_make(&entry, op, &key, &name));
        assert_false(md_ds_is_filling(op));
        assert_ok(md_ds_assign(op, &key, entry));
        md_ds_op_wait(op);
        assert_int_equal(op->stage[0].n_variants, whole->stage[0].n_variants);
        call(op, n);
        pick_is(op, n, name);
        pick_is(op, 4096, name);
        pick_is(op, 71, "alpha/v0_w0");
        md_ds_op_destroy(&op);
        md_ds_op_destroy(&whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pools_become_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_waits_helps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ops_may_go_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pins_and_waiting_contexts_have_all_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(given_choices_wait_for_the_pool, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
