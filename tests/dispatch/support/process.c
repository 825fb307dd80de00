/* Processes that keep measured picks in one store. */
#include "dispatch/support/process.h"

#include "dispatch/call/call.h"
#include "support/check.h"

scratch *process_disk;
md_dev_ops process_ops;
md_dev_clock process_clock;

void process_set_times(void)
{
    script_allow(SCRIPT_ALPHA, 0, 1.0);
    script_allow(SCRIPT_BETA, 0, 1.1);
    script_allow(SCRIPT_GAMMA, 0, 1.2);
    timed_now.us_of[0] = 250.0;
    timed_now.us_of[10] = 100.0;
    timed_now.us_of[20] = 200.0;
}

int process_set_up(void **state)
{
    void *s = NULL;
    const int failed = scratch_setup(&s) || timed_set_up_async(state);
    process_disk = s;
    if (!failed)
        process_ops = *timed_now.world.runtime.dev->ops;
    return failed;
}

int process_tear_down(void **state)
{
    void *s = process_disk;
    const int failed = timed_tear_down(state);
    return scratch_teardown(&s) || failed;
}

md_tn_stored *process_store(const char *root, const char *system, const char *environment)
{
    md_tn_stored *stored = NULL;
    assert_ok(md_tn_stored_open(
        &stored, &(md_tn_stored_options){
                     .root = root, .system_path = system, .environment = environment, .log = &process_disk->log}));
    return stored;
}

process process_start(md_select select, md_tn_stored *store, int64_t max_shapes)
{
    process p = {.store = store};
    md_ds_op_options o = script_options();
    o.compile.policy.select = select;
    o.compile.policy.stored = p.store;
    o.compile.policy.idle_tune = timed_now.idle_tune;
    o.compile.policy.races_cheaply = timed_now.races_cheaply;
    o.compile.policy.quiet_us = timed_now.quiet_us > 0.0 ? timed_now.quiet_us : -1.0;
    if (timed_now.hints)
        o.compile.hints = timed_now.hints;
    o.max_shapes = max_shapes;
    timed_now.world.runtime.dev->ops = &process_ops;
    p.op = script_op(&timed_now.world, "scalar a; Y[n] = X[n] * a", &o);
    return p;
}

process process_start_here(md_select select)
{
    process_set_times();
    return process_start(select, process_store(process_disk->root, NULL, "here"), 100);
}

void process_end(process *p)
{
    timed_finish(&p->op);
    md_tn_stored_close(&p->store);
}

void process_call(process *p, timed_call *c)
{
    assert_ok(md_ds_call(p->op, NULL, c->arg, 3));
}

md_ds_source process_why(process *p, const timed_call *c)
{
    md_ds_bound bound;
    md_ds_shape_entry *entry = NULL;
    assert_ok(md_ds_bind(&bound, p->op, c->arg, 3));
    assert_ok(md_ds_find(&entry, p->op, NULL, &bound));
    const md_ds_source source = md_ds_plan_of(entry)->stage[0].pick.source;
    md_ds_shape_entry_release(entry);
    return source;
}
