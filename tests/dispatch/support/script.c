/* Families whose every property a test writes down, on the fake device. */
#include "dispatch/support/script.h"

#include "base/clock.h"
#include "base/status.h"
#include "dispatch/cache/upgrade.h"
#include "dispatch/call/call.h"
#include "dispatch/open.h"
#include "family/numeric.h"
#include "support/check.h"

#include <sched.h>

script script_now;
static fake_device *clock_of; /* the device whose clock runs take time of; NULL: the real clock */

void script_reset(void)
{
    memset(&script_now, 0, sizeof script_now);
    clock_of = NULL;
    for (int32_t f = 0; f < SCRIPT_FAMILIES; f++)
        script_now.applies[f] = true;
}

script_row *script_allow(int32_t family, int32_t v, double us)
{
    script_row *row = &script_now.row[family][v];
    row->is_legal = true;
    row->us = us;
    return row;
}

void script_one_family_a_hint(void)
{
    static const int64_t hint[] = {64, 256, 4096};
    for (int32_t f = 0; f < 3; f++) {
        script_row *row = script_allow(f, 0, 1.0);
        row->legal_lo = row->legal_hi = hint[f];
    }
}

/* ---- What all families do */

static int64_t range_of(const md_fa_config *config)
{
    return 100 * (1 + config->value[0] * SCRIPT_W + config->value[1]);
}

static bool legal(int32_t f, const md_fa_config *config, const int64_t *size)
{
    const script_row *row = &script_now.row[f][config->value[0]];
    if (script_now.ranges && f != SCRIPT_LAST)
        return size[0] >= range_of(config) && size[0] < range_of(config) + 100;
    return row->is_legal && config->value[1] == 0 && size[0] >= row->legal_lo &&
           (row->legal_hi == 0 || size[0] <= row->legal_hi);
}

static void set_envelope(md_kn_envelope *out, int32_t f, const md_fa_target *target, const md_fa_config *config)
{
    const script_row *row = &script_now.row[f][config->value[0]];
    memset(out, 0, sizeof *out);
    out->lo[0] = row->lo;
    out->hi[0] = row->hi;
    out->unit = row->needs_unit ? ((uint32_t)1 << target->program->formula->n_tensors) - 1 : 0;
    if (script_now.ranges && f != SCRIPT_LAST) {
        out->lo[0] = range_of(config);
        out->hi[0] = range_of(config) + 99;
    }
}

static void set_features(md_fa_features *out, int32_t f, const md_fa_config *config, const int64_t *size)
{
    const script_row *row = &script_now.row[f][config->value[0]];
    *out = (md_fa_features){.ops_rate = 1.0, .parallel = 1.0};
    out->serial_us = row->us + row->us_each * (double)size[0];
}

static md_fa_class numeric_class(int32_t f, const md_fa_config *config)
{
    static const char *const group[] = {NULL, "class1", "class2", "class3", "class4", "class5", "class6", "class7"};
    const script_row *row = &script_now.row[f][config->value[0]];
    assert_in_range(row->numeric, 0, MD_COUNT(group) - 1);
    return (md_fa_class){
        .group = group[row->numeric], .is_repeatable = row->numeric > 0, .is_invariant = row->is_invariant};
}

static void geometry(md_kn_geometries *out, const md_fa_target *target, const md_fa_config *config,
                     const md_kn_shape *shape)
{
    (void)target;
    (void)config;
    (void)shape;
    memset(out, 0, sizeof *out);
    out->launch[0] = (md_kn_geometry){.blocks = 1, .grain = 1};
    out->workspace_bytes = script_now.is_text && !script_now.with_memory ? 0 : 128;
}

static void store_mark(const md_kn_call *call, int32_t tensor, float mark)
{
    const md_st_program *program = call->program;
    int64_t n = 1;
    for (int32_t a = 0; a < program->formula->tensor[tensor].rank; a++)
        n *= call->shape->extent[tensor][a];
    for (int64_t i = 0; i < n; i++)
        ((float *)call->data[tensor])[i] = mark;
}

static md_status run(const md_kn_call *call, int32_t f, int32_t v)
{
    script_row *row = &script_now.row[f][v];
    const md_st_stage *stage = call->stage;
    atomic_fetch_add(&row->n_runs, 1);
    if (atomic_load(&row->cannot_launch))
        return md_fail(MD_DEVICE, "scripted: v%d of family %d does not launch", v, f);
    if (clock_of)
        fake_device_spend(clock_of, (uint64_t)(row->slow_us + 1) * 1000);
    const uint64_t end = md_clock_ns() + (uint64_t)row->slow_us * 1000;
    while (!clock_of && row->slow_us && md_clock_ns() < end)
        ;
    if (atomic_load(&row->reports) && !atomic_load(&call->report->is_set)) {
        call->report->tensor = 1;
        call->report->axis = 0;
        call->report->value = 99;
        atomic_store(&call->report->is_set, 1);
    }
    memset(call->workspace, f, 128); /* must be there */
    for (int32_t i = 0; i < stage->n_tensors; i++)
        if (stage->is_stored[i])
            store_mark(call, stage->tensor[i], (float)(10 * f + v));
    return MD_OK;
}

/* ---- One set of functions a family */

#define RUN(f, v)                                                                                                      \
    static md_status run_##f##_##v(const md_kn_call *call)                                                             \
    {                                                                                                                  \
        return run(call, f, v);                                                                                        \
    }
#define FAMILY(f)                                                                                                      \
    RUN(f, 0) RUN(f, 1) RUN(f, 2) RUN(f, 3) static bool applies_##f(const md_fa_target *target)                        \
    {                                                                                                                  \
        (void)target;                                                                                                  \
        return script_now.applies[f];                                                                                  \
    }                                                                                                                  \
    static bool legal_##f(const md_fa_target *target, const md_fa_config *config, const int64_t *size)                 \
    {                                                                                                                  \
        (void)target;                                                                                                  \
        return legal(f, config, size);                                                                                 \
    }                                                                                                                  \
    static void envelope_##f(md_kn_envelope *out, const md_fa_target *target, const md_fa_config *config)              \
    {                                                                                                                  \
        set_envelope(out, f, target, config);                                                                          \
    }                                                                                                                  \
    static void features_##f(md_fa_features *out, const md_fa_target *target, const md_fa_config *config,              \
                             const int64_t *size)                                                                      \
    {                                                                                                                  \
        (void)target;                                                                                                  \
        set_features(out, f, config, size);                                                                            \
    }                                                                                                                  \
    static md_fa_class numeric_##f(const md_fa_target *target, const md_fa_config *config)                             \
    {                                                                                                                  \
        (void)target;                                                                                                  \
        return numeric_class(f, config);                                                                               \
    }                                                                                                                  \
    static md_status emit_##f(md_kn_source *out, const md_fa_target *target, const md_fa_config *config)               \
    {                                                                                                                  \
        static const md_kn_host_function function[] = {run_##f##_0, run_##f##_1, run_##f##_2, run_##f##_3};            \
        (void)target;                                                                                                  \
        return emit(out, &script_now.row[f][config->value[0]], function[config->value[0]], f, config);                 \
    }

static md_status emit(md_kn_source *out, const script_row *row, md_kn_host_function function, int32_t f,
                      const md_fa_config *config)
{
    if (row->cannot_emit)
        return md_fail(MD_UNSUPPORTED, "scripted: cannot be written");
    out->n_launches = 1;
    out->launch[0].code = row->cannot_compile || script_now.is_text ? MD_KN_TEXT : MD_KN_FUNCTION;
    out->launch[0].function = function;
    snprintf(out->launch[0].entry, sizeof out->launch[0].entry, "scripted");
    if (script_now.is_text) {
        static const md_kn_param list[] = {{MD_KN_POINTER, 0, 0, 0}, {MD_KN_POINTER, 1, 0, 0},
                                           {MD_KN_SIZE, 0, 0, 0},    {MD_KN_STRIDE, 1, 0, 0},
                                           {MD_KN_SCALAR, 0, 0, 1},  {MD_KN_WORKSPACE, 0, 64, 0}};
        md_kn_launch_source *l = &out->launch[0];
        for (int32_t i = 0; script_now.with_maps && i < 2 * MD_KN_MAP_WORDS; i++)
            l->param[l->n_params++] = (md_kn_param){
                .kind = MD_KN_MAP, .a = (uint8_t)(i / MD_KN_MAP_WORDS), .b = (uint8_t)(i % MD_KN_MAP_WORDS)};
        for (int32_t i = 0; i < (script_now.with_memory ? 6 : 5); i++)
            l->param[l->n_params++] = list[i];
        for (int32_t i = 0; i < row->extra; i++)
            /* a word of the plan each */
            out->launch[0].param[out->launch[0].n_params++] = (md_kn_param){.kind = MD_KN_BLOCKS};
        md_strbuf_printf(&out->launch[0].text, "COPY %d w%d%s\n", 10 * f + config->value[0], config->value[1],
                         row->hangs ? " HANG" : "");
    }
    if (row->cannot_compile)
        md_strbuf_printf(&out->launch[0].text, "FAIL_COMPILE %d %d %d\n", f, config->value[0], config->value[1]);
    return out->launch[0].text.failed ? md_fail_memory() : MD_OK;
}

/* ---- The library of gamma */

static int32_t library_calls(md_fa_library_call out[MD_FA_MAX_LIBRARY_CALLS], const md_fa_target *target,
                             const md_fa_config *config, const md_kn_shape *shape)
{
    (void)target;
    out[0].word[0] = (uint64_t)config->value[0];
    out[0].word[1] = (uint64_t)shape->size[0];
    return script_now.library_loads ? 1 : 0;
}

static md_status load_library_call(md_dev *dev, const md_fa_library_call *call, bool may_load)
{
    (void)dev;
    if (!may_load && script_now.defers_loads)
        return MD_NOT_FOUND;
    atomic_fetch_add(&script_now.n_loads, 1);
    while (!atomic_load(&script_now.may_load))
        sched_yield();
    return atomic_load(&script_now.load_fails)
               ? md_fail(MD_UNSUPPORTED, "scripted: no kernel of size %d", (int)call->word[1])
               : MD_OK;
}

static md_fa_answer library_answer(md_dev *dev, const md_dev_facts *facts, const md_fa_library_call *call)
{
    (void)dev, (void)facts, (void)call;
    return (md_fa_answer){.us = script_now.answered_us, .slices = script_now.is_cut ? 2 : 1};
}

FAMILY(0)
FAMILY(1)
FAMILY(2)
FAMILY(3)

#define TABLE(f, text, ...)                                                                                            \
    {                                                                                                                  \
        .name = text, .device = MD_DEV_SIM, .n_fields = 2,                                                             \
        .field = {{"v", 0, SCRIPT_V, {0, 1, 2, 3}}, {"w", 0, SCRIPT_W, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}}},       \
        .applies = applies_##f, .legal = legal_##f, .envelope = envelope_##f, .features = features_##f,                \
        .emit = emit_##f, .geometry = geometry, .numeric = numeric_##f, __VA_ARGS__                                    \
    }

static const md_fa_family families[] = {
    TABLE(0, "alpha", .is_reduction = true, .is_persistent = true),
    TABLE(1, "beta", .is_reduction = true),
    TABLE(2, "gamma", .is_library = true, .library_calls = library_calls, .load_library_call = load_library_call,
          .library_answer = library_answer),
    TABLE(3, "last", .is_last_resort = true),
};

/* In the place of the library's own table, which the linker then leaves out. */
const md_fa_family *const *md_fa_families(md_dev_kind device)
{
    static const md_fa_family *const all[] = {&families[0], &families[1], &families[2], &families[3], NULL};
    return device == MD_DEV_SIM ? all : all + SCRIPT_FAMILIES;
}

/* ---- The world around an op */

static void take_warning(void *user, md_log_level level, const char *message)
{
    script_world *w = user;
    if (level > MD_LOG_WARN)
        return;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* builds warn from several threads */
    atomic_fetch_add(&w->n_warnings, 1);
    pthread_mutex_lock(&lock);
    snprintf(w->warning, sizeof w->warning, "%s", message);
    pthread_mutex_unlock(&lock);
}

void script_world_open(script_world *out)
{
    memset(out, 0, sizeof *out);
    out->log = (md_log){take_warning, out, MD_LOG_INFO};
    assert_ok(md_pool_create(&out->pool, 2));
    fake_device_init(&out->device, out->pool, &out->log);
    assert_ok(md_bd_create(&out->builder, &out->device.base));
    md_ds_runtime_init(&out->runtime);
    out->runtime.dev = &out->device.base;
    out->runtime.builder = out->builder;
    out->runtime.log = &out->log;
    md_bd_listen(out->builder, md_ds_upgrade_all, &out->runtime);
}

void script_own_clock(script_world *w)
{
    w->device.owns_clock = true;
    clock_of = &w->device;
}

void script_world_close(script_world *w)
{
    md_bd_listen(w->builder, NULL, NULL);
    md_ds_runtime_finish(&w->runtime);
    md_bd_destroy(&w->builder);
    md_pool_destroy(&w->pool);
}

md_ds_op_options script_options(void)
{
    return (md_ds_op_options){
        .compile.hints = "64,256,4096",
        .compile.hints_source = "test",
        .compile.policy = {.select = MD_SELECT_MODEL, .metric = MD_METRIC_LOG2, .persistent = MD_PERSISTENT_AUTO},
        .max_shapes = 1000,
    };
}

md_ds_op *script_op(script_world *w, const char *formula, const md_ds_op_options *options)
{
    md_ds_op *op = NULL;
    md_ds_op_options o = options ? *options : script_options();
    assert_ok(md_ds_op_create(&op, &w->runtime, formula, &o));
    return op;
}

void script_vectors_make(script_vectors *v, int64_t n, int64_t stride)
{
    v->y = aligned_alloc(64, (size_t)(n + 16) / 16 * 64);
    v->x = aligned_alloc(64, (size_t)(n * stride + 16) / 16 * 64);
    assert_true(v->y && v->x);
    for (int64_t i = 0; i < n * stride; i++)
        v->x[i] = (float)i;
    for (int64_t i = 0; i < n; i++)
        v->y[i] = -7.0f;
    v->ty = md_tensor_make(v->y, MD_F32, 1, &n);
    v->tx = md_tensor_make(v->x, MD_F32, 1, &n);
    v->tx.stride[0] = stride;
    v->arg[0] = md_t(&v->ty);
    v->arg[1] = md_t(&v->tx);
}

void script_vectors_free(script_vectors *v)
{
    free(v->y);
    free(v->x);
}

int32_t script_call(md_status *status, md_ds_op *op, int64_t n, int64_t stride)
{
    script_vectors v;
    script_vectors_make(&v, n, stride);
    md_status s = md_ds_call(op, NULL, v.arg, 2);
    int32_t mark = s == MD_OK ? (int32_t)v.y[0] : -1;
    for (int64_t i = 0; i < n && s == MD_OK; i++)
        assert_true(v.y[i] == v.y[0]);
    script_vectors_free(&v);
    if (status)
        *status = s;
    else
        assert_ok(s);
    return mark;
}

md_ds_pick script_pick(md_ds_op *op, int64_t n, int64_t stride)
{
    script_vectors v;
    md_ds_bound bound;
    md_ds_shape_entry *entry = NULL;
    script_vectors_make(&v, n, stride);
    assert_ok(md_ds_bind(&bound, op, v.arg, 2));
    assert_ok(md_ds_find(&entry, op, NULL, &bound));
    md_ds_pick pick = md_ds_plan_of(entry)->stage[0].pick;
    md_ds_shape_entry_release(entry);
    script_vectors_free(&v);
    return pick;
}

const char *script_name(const md_ds_op *op, int32_t variant)
{
    return variant < 0 ? "-" : op->stage[0].variant[variant]->name;
}
