/* Options of contexts and ops that are out of range or nonsense: a status and a message; odd ones that are allowed. */
#include "api/refused.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>

static md_context *context;

static int set_up(void **state)
{
    (void)state;
    /* No compiler: the reference serves, and nothing here is about kernels. */
    const md_context_options o = {.device = "host", .cc = "/nonexistent/cc", .threads = 1};
    return md_context_create(&context, &o) == MD_OK ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    md_context_destroy(&context);
    return 0;
}

static void op_options_that_are_none(void **state)
{
    (void)state;
    static const struct {
        md_op_options o;
        const char *part;
    } row[] = {
        {{.dtype = (md_dtype)99}, "dtype"},
        {{.dtype = (md_dtype)-1}, "dtype"},
        {{.dtype = MD_I32}, "expected f32"},
        {{.dtype = MD_U64}, "u64"},
        {{.select = (md_select)77}, "77"},
        {{.select = (md_select)-1}, "-1"},
        {{.metric = (md_metric)9}, "9"},
        {{.persistent = (md_persistent)9}, "9"},
        {{.bounds = (md_bounds)9}, "9"},
        {{.bounds = (md_bounds)-9}, "-9"},
        {{.sizes = "n"}, "n"},
        {{.sizes = "z=4"}, "z"},
        {{.hints = ""}, "no hint"},
        {{.hints = "q=1"}, "no dim 'q'"},
        {{.weights = "q=1"}, "no dim 'q'"},
        {{.weights = "i=inf"}, "number"},
        {{.weights = "i="}, "number"},
        {{.pin = "5:nest"}, "no stage"},
        {{.max_variants = -1}, "max_variants: -1; 0 (the default) or more"},
        {{.hybrid_share = 1.5}, "hybrid_share: 1.5"},
        {{.hybrid_share = -0.1}, "hybrid_share: -0.1"},
        {{.hybrid_share = NAN}, "hybrid_share"},
        {{.hybrid_cap_ms = -1.0}, "hybrid_cap_ms: -1"},
        {{.uncovered = -1.0}, "uncovered: -1"},
        {{.numeric = (md_numeric)9}, "numeric: 9"},
        {{.numeric = (md_numeric)-1}, "numeric: -1"},
        {{.tune = (md_tune)9}, "tune: 9"},
        {{.tune = (md_tune)-1}, "tune: -1"},
        {{.tune_budget_ms = -1.0}, "tune_budget_ms: -1"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_op *o = NULL;
        REFUSED(md_op_create(&o, context, "Y[i] = X[i]", &row[i].o), row[i].part);
        assert_null(o);
    }
}

static void odd_options_that_are_fine(void **state)
{
    (void)state;
    static const md_op_options strange[] = {
        {.hybrid_share = 1.0}, {.hybrid_cap_ms = 1e9},
        {.uncovered = 1e9},    {.max_variants = INT_MAX},
        {.max_variants = 1},   {.pin = ""},
        {.pin = " ;; "},       {.name = ""},
        {.weights = ""},       {.sizes = ""},
        {.weights = " , "},    {.without_library = -1},
    };
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        md_op *o = NULL;
        assert_ok(md_op_create(&o, context, "Y[i] = X[i]", &strange[i]));
        md_op_destroy(&o);
    }
}

static void context_options_that_are_none(void **state)
{
    (void)state;
    md_context *c = NULL;
    static const struct {
        md_context_options o;
        const char *part;
    } bad[] = {
        {{.select = (md_select)-1}, "select"},
        {{.metric = (md_metric)9}, "metric"},
        {{.persistent = (md_persistent)9}, "persistent"},
        {{.hints = "0"}, "1..2^40"},
        {{.hints = ""}, "no hint"},
        {{.device = ""}, "device ''"},
        {{.device = "tpu"}, "tpu"},
        {{.alloc_user = &context, .free = NULL, .alloc = (void *(*)(void *, size_t, size_t))(uintptr_t)&set_up},
         "alloc and free"},
        {{.device_free = (void (*)(void *, int32_t, md_stream, void *, size_t))(uintptr_t)&set_up},
         "device_alloc and device_free"},
        {{.threads = 100000}, "100000"},
        {{.threads = -1}, "threads: -1; 0 (the default) to 1024"},
        {{.max_shapes = -7}, "max_shapes: -7; 0 (the default) or more"},
        {{.pin = "zzz"}, "option pin: 'zzz'"},
        {{.pin = "softmax:"}, "op:variant"},
        {{.pin = "softmax.0:nest; :nest"}, "op:variant"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        REFUSED(md_context_create(&c, &bad[i].o), bad[i].part);
        assert_null(c);
    }
}

/* Of each enum the first and the last value are taken, and what lies beyond is refused by its name. */
static void enums_end_where_they_end(void **state)
{
    (void)state;
#define AT(type, field) offsetof(type, field)
    static const struct {
        const char *part;
        size_t of_context, of_op;
        int last;
        bool is_of_op_alone;
    } row[] = {
        {"select", AT(md_context_options, select), AT(md_op_options, select), MD_SELECT_HYBRID, false},
        {"metric", AT(md_context_options, metric), AT(md_op_options, metric), MD_METRIC_INDUCTOR, false},
        {"persistent", AT(md_context_options, persistent), AT(md_op_options, persistent), MD_PERSISTENT_NEVER, false},
        {"numeric", AT(md_context_options, numeric), AT(md_op_options, numeric), MD_NUMERIC_BATCH_INVARIANT, false},
        {"tune", AT(md_context_options, tune), AT(md_op_options, tune), MD_TUNE_EXHAUSTIVE, false},
        {"bounds", 0, AT(md_op_options, bounds), MD_BOUNDS_ZERO, true},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        for (int value = -1; value <= row[i].last + 1; value++) {
            md_context_options o = {.device = "host", .cc = "/nonexistent/cc", .threads = 1};
            md_op_options of_op = {0};
            md_context *c = NULL;
            md_op *op = NULL;
            memcpy((char *)&o + row[i].of_context, &value, row[i].is_of_op_alone ? 0 : sizeof value);
            memcpy((char *)&of_op + row[i].of_op, &value, sizeof value);
            const bool is_good = value >= 0 && value <= row[i].last;
            if (is_good || row[i].is_of_op_alone)
                assert_ok(md_context_create(&c, &o));
            else
                REFUSED(md_context_create(&c, &o), row[i].part);
            md_context_destroy(&c);
            if (is_good)
                assert_ok(md_op_create(&op, context, "Y[i] = X[i]", &of_op));
            else
                REFUSED(md_op_create(&op, context, "Y[i] = X[i]", &of_op), row[i].part);
            md_op_destroy(&op);
        }
#undef AT
}

/* A pin is for the op of that name, and for no other of the same length. */
static void pins_of_other_ops(void **state)
{
    (void)state;
    md_context *c = NULL;
    const md_context_options o = {.device = "host", .cc = "/nonexistent/cc", .threads = 1, .pin = "first:no_family"};
    assert_ok(md_context_create(&c, &o));
    static const char *const names[] = {"other", "firs", "first_of_all", "f"};
    for (int i = 0; i < 4; i++) {
        md_op *op = NULL;
        assert_ok(md_op_create(&op, c, "Y[i] = X[i]", &(md_op_options){.name = names[i]}));
        md_op_destroy(&op);
    }
    md_op *op = NULL;
    assert_int_equal(md_op_create(&op, c, "Y[i] = X[i]", &(md_op_options){.name = "first"}), MD_NOT_FOUND);
    assert_non_null(strstr(md_last_error(), "no_family"));
    md_context_destroy(&c);
}

/* What can be seen without an op is refused with the context, whoever said it. */
static void pins_of_the_environment(void **state)
{
    (void)state;
    md_context *c = NULL;
    static const char *const bad[] = {"zzz", "softmax:", ":nest", "softmax:nest; zzz"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("MD_PIN", bad[i], 1);
        REFUSED(md_context_create(&c, &(md_context_options){.device = "host", .threads = 1}), "MD_PIN");
        assert_null(c);
    }
    unsetenv("MD_PIN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(op_options_that_are_none),
        cmocka_unit_test(odd_options_that_are_fine),
        cmocka_unit_test(context_options_that_are_none),
        cmocka_unit_test(enums_end_where_they_end),
        cmocka_unit_test(pins_of_other_ops),
        cmocka_unit_test(pins_of_the_environment),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
