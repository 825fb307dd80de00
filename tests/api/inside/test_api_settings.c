/* Where settings go: of contexts and ops, from options, else from the environment, else the default. */
#include "api/context.h"
#include "base/cpu.h"
#include "device/open.h"
#include "dispatch/support/script.h"
#include "support/check.h"

static fake_device device;
static md_dev_options given; /* to the device that was opened last */
static char device_name[16], compiler[32];

/* In the place of src/device/open.c. */
md_status md_dev_open(md_dev **out, const md_dev_options *options)
{
    given = *options;
    snprintf(device_name, sizeof device_name, "%s", options->device ? options->device : "(none)");
    snprintf(compiler, sizeof compiler, "%s", options->cc ? options->cc : "(none)");
    fake_device_init(&device, options->pool, options->log);
    *out = &device.base;
    return MD_OK;
}

void md_dev_close(md_dev **dev)
{
    *dev = NULL;
}

typedef enum source { FROM_DEFAULTS, FROM_ENVIRONMENT, FROM_OPTIONS } source;

static const char *const variable[][2] = {
    {"MD_DEVICE", "cuda:3"},    {"MD_CC", "envcc"},
    {"MD_HINTS", "2,32"},       {"MD_SELECT", "hybrid"},
    {"MD_METRIC", "inductor"},  {"MD_PIN", "other:beta"},
    {"MD_PERSISTENT", "only"},  {"MD_NUMERIC", "deterministic"},
    {"MD_MAX_SHAPES", "77"},    {"MD_THREADS", "3"},
    {"MD_MAX_VARIANTS", "5"},   {"MD_VERIFY", "1"},
    {"MD_SYNC", "1"},           {"MD_IDLE_TUNE", "1"},
    {"MD_RUNTIME_LAUNCH", "1"}, {"MD_STATS_INDICES", "9"},
    {"MD_TUNE", "exhaustive"},  {"MD_TUNE_BUDGET_MS", "321"},
};
enum { VARIABLES = sizeof variable / sizeof *variable };

static int cancels(void *user)
{
    return user != NULL && *(int *)user;
}

static void *allocate(void *user, size_t n_bytes, size_t alignment)
{
    (void)user;
    return aligned_alloc(alignment, (n_bytes + alignment - 1) / alignment * alignment);
}

static void release(void *user, void *p, size_t n_bytes)
{
    (void)user, (void)n_bytes;
    free(p);
}

static int word;

/* The context has what is wanted: text and numbers that differ for each source. */
static void expect_context(const md_context *c, source from)
{
    static const char *const name[] = {"(none)", "cuda:3", "host"}, *const cc[] = {"(none)", "envcc", "optcc"},
                             *const hints[] = {"1,16,64,256,1024,4096", "2,32", "4,8"},
                             *const pin[] = {NULL, "other:beta", "mine:beta"},
                             *const hints_source[] = {"default hints", "MD_HINTS", "option hints"};
    static const md_select select[] = {MD_SELECT_MODEL, MD_SELECT_HYBRID, MD_SELECT_DISTANCE};
    static const md_persistent persistent[] = {MD_PERSISTENT_AUTO, MD_PERSISTENT_ONLY, MD_PERSISTENT_NEVER};
    static const md_numeric numeric[] = {MD_NUMERIC_FAST, MD_NUMERIC_DETERMINISTIC, MD_NUMERIC_BATCH_INVARIANT};
    static const md_tune tune[] = {MD_TUNE_ESTIMATE, MD_TUNE_EXHAUSTIVE, MD_TUNE_OFF};
    static const double budget_ms[] = {0.0, 321.0, 654.0};
    static const int64_t max_shapes[] = {16384, 77, 88};
    assert_string_equal(device_name, name[from]);
    assert_string_equal(compiler, cc[from]);
    assert_string_equal(c->hints, hints[from]);
    assert_string_equal(c->hints_source, hints_source[from]);
    assert_true(pin[from] ? c->pin && !strcmp(c->pin, pin[from]) : !c->pin);
    assert_int_equal(c->policy.select, select[from]);
    assert_int_equal(c->policy.metric, from == FROM_ENVIRONMENT ? MD_METRIC_INDUCTOR : MD_METRIC_LOG2);
    assert_int_equal(c->policy.persistent, persistent[from]);
    assert_int_equal(c->policy.numeric, numeric[from]);
    assert_int_equal(c->policy.tune, tune[from]);
    assert_true(c->policy.tune_budget_ms == budget_ms[from]);
    assert_int_equal(c->max_shapes, max_shapes[from]);
    assert_ptr_equal(c->policy.tune_count, &c->tune_count);
    assert_ptr_equal(c->policy.wisdom, c->wisdom);
    assert_ptr_equal(given.pool, c->pool);
    assert_ptr_equal(given.log, &c->log);
    assert_true(given.defers_rates && !given.is_bundled);
    assert_true(given.cancel.asked == (from == FROM_OPTIONS ? cancels : NULL));
    assert_ptr_equal(given.cancel.user, from == FROM_OPTIONS ? &word : NULL);
    assert_true(c->runtime.alloc == (from == FROM_OPTIONS ? allocate : NULL));
    assert_true(c->runtime.free == (from == FROM_OPTIONS ? release : NULL));
    assert_ptr_equal(c->runtime.alloc_user, from == FROM_OPTIONS ? &word : NULL);
    assert_ptr_equal(c->runtime.dev, c->dev);
    assert_ptr_equal(c->runtime.builder, c->builder);
    assert_ptr_equal(c->runtime.log, &c->log);
    md_cpu cpu;
    md_cpu_detect(&cpu);
    const int32_t threads[] = {MD_MAX(cpu.n_cpus, 1), 3, 2};
    assert_int_equal(md_pool_threads(c->pool), threads[from]);
}

/* What only the environment says. */
static void expect_environment(const md_context *c, bool is_set)
{
    assert_int_equal(c->policy.max_variants, is_set ? 5 : 0);
    assert_int_equal(c->policy.races_cheaply, !is_set);
    assert_int_equal(c->runtime.verifies, is_set);
    assert_int_equal(c->runtime.waits, is_set);
    assert_int_equal(c->runtime.n_indices, is_set ? 9 : 0);
    assert_int_equal(given.launches_by_runtime, is_set);
    assert_false(c->runtime.samples);
}

static void set_variables(bool are_set)
{
    for (int i = 0; i < VARIABLES; i++)
        if (are_set)
            setenv(variable[i][0], variable[i][1], 1);
        else
            unsetenv(variable[i][0]);
}

static const md_context_options all = {.device = "host",
                                       .cc = "optcc",
                                       .hints = "4,8",
                                       .select = MD_SELECT_DISTANCE,
                                       .metric = MD_METRIC_LOG2,
                                       .persistent = MD_PERSISTENT_NEVER,
                                       .numeric = MD_NUMERIC_BATCH_INVARIANT,
                                       .pin = "mine:beta",
                                       .threads = 2,
                                       .max_shapes = 88,
                                       .tune = MD_TUNE_OFF,
                                       .tune_budget_ms = 654.0,
                                       .alloc = allocate,
                                       .free = release,
                                       .alloc_user = &word,
                                       .cancel = cancels,
                                       .cancel_user = &word};

static void of_contexts(void **state)
{
    (void)state;
    for (int env = 0; env < 2; env++)
        for (int options = 0; options < 2; options++) {
            md_context *c = NULL;
            set_variables(env);
            assert_ok(md_context_create(&c, options ? &all : NULL));
            expect_context(c, options ? FROM_OPTIONS : env ? FROM_ENVIRONMENT : FROM_DEFAULTS);
            expect_environment(c, env);
            md_context_destroy(&c);
        }
    set_variables(false);
}

/* Ops take what their options say, else what their context has. */
static void of_ops(void **state)
{
    (void)state;
    md_context *c = NULL;
    static const md_custom custom;
    const md_op_options o = {.dtype = MD_F64,
                             .sizes = "n=3",
                             .bounds = MD_BOUNDS_ZERO,
                             .hints = "5",
                             .weights = "i=2",
                             .select = MD_SELECT_MEASURE,
                             .metric = MD_METRIC_INDUCTOR,
                             .persistent = MD_PERSISTENT_ONLY,
                             .numeric = MD_NUMERIC_DETERMINISTIC,
                             .tune = MD_TUNE_MEASURE,
                             .tune_budget_ms = 11.0,
                             .max_variants = 7,
                             .without_library = 1,
                             .hybrid_share = 0.25,
                             .hybrid_cap_ms = 3.0,
                             .idle_tune = 1,
                             .uncovered = 2.5,
                             .tf32 = 1,
                             .custom = &custom,
                             .n_custom = 1};
    assert_ok(md_context_create(&c, &all));
    md_ds_compile_options got = md_api_compile_options(c, &o);
    assert_int_equal(got.dtype, MD_F64);
    assert_string_equal(got.sizes, "n=3");
    assert_int_equal(got.bounds, MD_BOUNDS_ZERO);
    assert_string_equal(got.hints, "5");
    assert_string_equal(got.hints_source, "option hints");
    assert_string_equal(got.weights, "i=2");
    assert_ptr_equal(got.custom, &custom);
    assert_int_equal(got.n_custom, 1);
    const md_ds_policy *p = &got.policy;
    assert_int_equal(p->select, MD_SELECT_MEASURE);
    assert_int_equal(p->metric, MD_METRIC_INDUCTOR);
    assert_int_equal(p->persistent, MD_PERSISTENT_ONLY);
    assert_int_equal(p->numeric, MD_NUMERIC_DETERMINISTIC);
    assert_int_equal(p->tune, MD_TUNE_MEASURE);
    assert_true(p->tune_budget_ms == 11.0 && p->hybrid_share == 0.25 && p->hybrid_cap_ms == 3.0 && p->uncovered == 2.5);
    assert_int_equal(p->max_variants, 7);
    assert_true(p->without_library && p->idle_tune && p->allows_tf32);
    got = md_api_compile_options(c, &(md_op_options){0});
    assert_string_equal(got.hints, "4,8");
    assert_string_equal(got.hints_source, "option hints");
    assert_int_equal(p->select, MD_SELECT_DISTANCE);
    assert_int_equal(p->persistent, MD_PERSISTENT_NEVER);
    assert_int_equal(p->numeric, MD_NUMERIC_BATCH_INVARIANT);
    assert_int_equal(p->tune, MD_TUNE_OFF);
    assert_true(p->tune_budget_ms == 654.0 && p->uncovered == MD_DS_UNCOVERED && p->hybrid_share == 0.0);
    assert_true(p->max_variants == 0 && !p->without_library && !p->idle_tune && !p->allows_tf32);
    md_context_destroy(&c);
}

static int set_up(void **state)
{
    (void)state;
    script_reset();
    script_allow(SCRIPT_BETA, 1, 1.0);
    set_variables(false);
    return 0;
}

/* Who says nothing gets cheap races; who says how to pick, or which bits are allowed, gets none; who asks for races
 * gets all of them. */
static void of_races(void **state)
{
    (void)state;
    static const struct {
        const char *idle_tune, *select; /* variables */
        md_op_options o;
        bool races, cheaply;
    } cases[] = {
        {NULL, NULL, {0}, true, true},
        {"0", NULL, {0}, false, false},
        {"1", NULL, {0}, true, false},
        {NULL, "model", {0}, false, false},
        {"1", "model", {0}, true, false},
        {NULL, NULL, {.select = MD_SELECT_MODEL}, false, false},
        {"1", NULL, {.select = MD_SELECT_MODEL}, true, false},
        {NULL, NULL, {.numeric = MD_NUMERIC_DETERMINISTIC}, false, false},
        {NULL, NULL, {.numeric = MD_NUMERIC_BATCH_INVARIANT}, false, false},
        {"1", NULL, {.numeric = MD_NUMERIC_DETERMINISTIC}, true, false},
        {NULL, NULL, {.idle_tune = 1}, true, false},
        {"0", "model", {.idle_tune = 1}, true, false},
        {"1", NULL, {.idle_tune = -1}, false, false},
        {NULL, NULL, {.idle_tune = -1}, false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        md_context *c = NULL;
        if (cases[i].idle_tune)
            setenv("MD_IDLE_TUNE", cases[i].idle_tune, 1);
        if (cases[i].select)
            setenv("MD_SELECT", cases[i].select, 1);
        assert_ok(md_context_create(&c, NULL));
        const md_ds_policy p = md_api_compile_options(c, &cases[i].o).policy;
        assert_int_equal(p.idle_tune, cases[i].races);
        if (p.idle_tune)
            assert_int_equal(p.races_cheaply, cases[i].cheaply);
        md_context_destroy(&c);
        unsetenv("MD_IDLE_TUNE");
        unsetenv("MD_SELECT");
    }
    setenv("MD_IDLE_TUNE", "2", 1);
    md_context *c = NULL;
    assert_fails(md_context_create(&c, NULL), MD_INVALID_ARGUMENT, "MD_IDLE_TUNE=2 is not allowed; it takes 0|1");
    unsetenv("MD_IDLE_TUNE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_contexts), cmocka_unit_test(of_ops),
                                       cmocka_unit_test(of_races)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
