/* Environment variables: numbers, texts, and what is refused. */
#include "support/check.h"

#include "base/env.h"

static int clear(void **state)
{
    (void)state;
    const char *name, *values, *meaning;
    for (int32_t i = 0; md_env_describe(i, &name, &values, &meaning); i++)
        unsetenv(name);
    unsetenv("MD_TEST_SEED");
    unsetenv("MD_HINT");
    return 0;
}

static void nothing_set_means_defaults(void **state)
{
    (void)state;
    md_env env;
    memset(&env, 0x55, sizeof env);
    assert_ok(md_env_read(&env, NULL));
    md_env zero;
    memset(&zero, 0, sizeof zero);
    assert_memory_equal(&env, &zero, sizeof env);
}

static void good_values_arrive(void **state)
{
    (void)state;
    setenv("MD_DEVICE", "host", 1);
    setenv("MD_HINTS", "64,256", 1);
    setenv("MD_SELECT", "measure", 1);
    setenv("MD_METRIC", "inductor", 1);
    setenv("MD_PIN", "softmax:nest", 1);
    setenv("MD_PERSISTENT", "never", 1);
    setenv("MD_NUMERIC", "batch_invariant", 1);
    setenv("MD_MAX_SHAPES", "12", 1);
    setenv("MD_THREADS", "3", 1);
    setenv("MD_RATES", "1,20,300,4000,1000000000", 1);
    setenv("MD_CC", "clang", 1);
    setenv("MD_STATS", "-", 1);
    setenv("MD_LOG", "info", 1);
    setenv("MD_VERIFY", "1", 1);
    setenv("MD_CACHE_DIR", "/x", 1);
    setenv("MD_SYSTEM_PATH", "/y:/z", 1);
    setenv("MD_TUNE", "off", 1);
    md_env env;
    assert_ok(md_env_read(&env, NULL));
    assert_string_equal(env.device, "host");
    assert_string_equal(env.hints, "64,256");
    assert_int_equal(env.select, MD_SELECT_MEASURE);
    assert_int_equal(env.metric, MD_METRIC_INDUCTOR);
    assert_string_equal(env.pin, "softmax:nest");
    assert_int_equal(env.persistent, MD_PERSISTENT_NEVER);
    assert_int_equal(env.numeric, MD_NUMERIC_BATCH_INVARIANT);
    assert_int_equal(env.max_shapes, 12);
    assert_int_equal(env.threads, 3);
    int64_t rates[MD_ENV_RATES] = {0};
    assert_true(md_env_rates(rates));
    assert_memory_equal(rates, ((int64_t[]){1, 20, 300, 4000, 1000000000}), sizeof rates);
    assert_memory_equal(rates, env.rates, sizeof rates);
    assert_string_equal(env.cc, "clang");
    assert_string_equal(env.stats, "-");
    assert_int_equal(env.log, MD_LOG_INFO);
    assert_int_equal(env.verify, 1);
    assert_string_equal(env.cache_dir, "/x");
    assert_string_equal(env.system_path, "/y:/z");
    assert_int_equal(env.tune, 1);
    assert_string_equal(env.unknown, "");
}

/* The first and the last word of every list are the first and the last value of the enum. */
static void words_are_the_enums(void **state)
{
    (void)state;
    md_env env;
    setenv("MD_SELECT", "distance", 1);
    setenv("MD_METRIC", "log2", 1);
    setenv("MD_PERSISTENT", "auto", 1);
    setenv("MD_LOG", "error", 1);
    setenv("MD_STATS_SIGNAL", "HUP", 1);
    assert_ok(md_env_read(&env, NULL));
    assert_int_equal(env.stats_signal, MD_STATS_SIGNAL_HUP);
    assert_int_equal(env.select, MD_SELECT_DISTANCE);
    assert_int_equal(env.metric, MD_METRIC_LOG2);
    assert_int_equal(env.persistent, MD_PERSISTENT_AUTO);
    assert_int_equal(env.log, MD_LOG_ERROR);
    setenv("MD_SELECT", "model", 1);
    setenv("MD_PERSISTENT", "only", 1);
    setenv("MD_LOG", "debug", 1);
    setenv("MD_STATS_SIGNAL", "USR2", 1);
    assert_ok(md_env_read(&env, NULL));
    assert_int_equal(env.stats_signal, MD_STATS_SIGNAL_USR2);
    assert_int_equal(env.select, MD_SELECT_MODEL);
    assert_int_equal(env.persistent, MD_PERSISTENT_ONLY);
    assert_int_equal(env.log, MD_LOG_DEBUG);
    setenv("MD_LOG", "none", 1);
    assert_ok(md_env_read(&env, NULL));
    assert_int_equal(env.log, MD_LOG_NONE);
}

static void bad_values_are_named(void **state)
{
    (void)state;
    const struct {
        const char *name, *value, *part;
    } cases[] = {
        {"MD_SELECT", "modell", "MD_SELECT=modell is not allowed; it takes distance|model|measure"},
        {"MD_SELECT", "mod", "MD_SELECT=mod "},
        {"MD_SELECT", "|", "MD_SELECT=| "},
        {"MD_SELECT", "distance|model", "MD_SELECT="},
        {"MD_CPU", "avx", "MD_CPU=avx is not allowed; it takes x86-64|avx2|avx512"},
        {"MD_THREADS", "0", "MD_THREADS=0 is not allowed; it takes 1 to 1024"},
        {"MD_THREADS", "1025", "MD_THREADS=1025"},
        {"MD_THREADS", "2x", "MD_THREADS=2x"},
        {"MD_THREADS", "-1", "MD_THREADS=-1"},
        {"MD_THREADS", " ", "MD_THREADS= "},
        {"MD_MAX_SHAPES", "99999999999999999999", "MD_MAX_SHAPES=9"},
        {"MD_VERIFY", "yes", "0 or 1"},
        {"MD_RATES", "1,2,3,4", "MD_RATES=1,2,3,4 is not allowed; it takes five whole numbers"},
        {"MD_RATES", "1,2,3,4,", "MD_RATES=1,2,3,4, is"},
        {"MD_RATES", "1,2,3,4,5,6", "MD_RATES=1,2,3,4,5,6 is"},
        {"MD_RATES", "1,2,0,4,5", "MD_RATES=1,2,0,4,5 is"},
        {"MD_RATES", "1,2,3,4,1e9", "MD_RATES=1,2,3,4,1e9 is"},
        {"MD_RATES", "1,2,3,4,1000000001", "five whole numbers"},
        {"MD_LOG", "loud", "error|warn|info|debug"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        md_env env;
        int64_t rates[MD_ENV_RATES];
        setenv(cases[i].name, cases[i].value, 1);
        assert_fails(md_env_read(&env, NULL), MD_INVALID_ARGUMENT, cases[i].part);
        assert_false(md_env_rates(rates));
        unsetenv(cases[i].name);
    }
}

static void an_empty_cache_folder_is_none(void **state)
{
    (void)state;
    md_env env;
    char folder[4096];
    setenv("MD_CACHE_DIR", "", 1);
    assert_ok(md_env_read(&env, NULL));
    assert_string_equal(env.cache_dir, "");
    setenv("HOME", "/home/x", 1);
    setenv("XDG_CACHE_HOME", "relative", 1);
    assert_true(md_env_cache_folder(folder, NULL));
    assert_string_equal(folder, "/home/x/.cache/multidispatch");
    setenv("XDG_CACHE_HOME", "/cache", 1);
    assert_true(md_env_cache_folder(folder, NULL));
    assert_string_equal(folder, "/cache/multidispatch");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_false(md_env_cache_folder(folder, NULL));
}

/* A folder that does not fit, or is none of the specification's, is none. */
static void a_runtime_folder_is_whole(void **state)
{
    (void)state;
    char folder[4096], wanted[4200];
    memset(wanted, 'a', sizeof wanted);
    wanted[0] = '/';
    for (size_t n = 4090; n < 4100; n++) {
        const char next = wanted[n];
        wanted[n] = 0;
        setenv("XDG_RUNTIME_DIR", wanted, 1);
        assert_int_equal(md_env_runtime_folder(folder, NULL), n < sizeof folder);
        if (n < sizeof folder)
            assert_string_equal(folder, wanted);
        wanted[n] = next;
    }
    setenv("XDG_RUNTIME_DIR", "relative", 1);
    assert_false(md_env_runtime_folder(folder, NULL));
    unsetenv("XDG_RUNTIME_DIR");
    assert_false(md_env_runtime_folder(folder, NULL));
}

static void empty_is_unset_and_unknown_is_told(void **state)
{
    (void)state;
    md_env env;
    setenv("MD_SELECT", "", 1);
    setenv("MD_TEST_EFFORT", "1", 1); /* of tests, which look at what is logged */
    assert_ok(md_env_read(&env, NULL));
    assert_int_equal(env.select, MD_SELECT_DEFAULT);
    assert_string_equal(env.unknown, "");
    setenv("MD_HINT", "64", 1);
    assert_ok(md_env_read(&env, NULL));
    assert_string_equal(env.unknown, "MD_HINT");
    unsetenv("MD_TEST_EFFORT");
}

/* What is read from a copy stays as it was, whatever the program sets, and ends where a name does. */
static void a_copy_stays(void **state)
{
    (void)state;
    md_env env;
    char folder[4096];
    setenv("MD_DEVICE", "host", 1);
    setenv("MD_CC_OF_OTHERS", "tcc", 1);
    setenv("XDG_RUNTIME_DIR", "/run/own", 1);
    setenv("OWN", "", 1);
    setenv("OWN_SECOND", "second", 1);
    char **copy = md_env_copy(), *before = strdup(md_env_path(copy));
    md_env_child child;
    assert_ok(md_env_child_make(&child, copy, NULL));
    char *path = strdup(getenv("PATH") ? getenv("PATH") : "");
    setenv("MD_DEVICE", "cuda", 1);
    setenv("MD_SELECT", "wrong", 1);
    setenv("MD_HINT", "64", 1);
    setenv("XDG_RUNTIME_DIR", "/run/other", 1);
    setenv("OWN_SECOND", "third", 1);
    setenv("OWN", "set", 1);
    setenv("PATH", "/nonexistent", 1);
    assert_ok(md_env_read(&env, copy));
    assert_string_equal(env.device, "host");
    assert_null(env.cc);
    assert_string_equal(env.unknown, "MD_CC_OF_OTHERS");
    assert_true(md_env_runtime_folder(folder, copy));
    assert_string_equal(folder, "/run/own");
    assert_null(md_env_foreign(copy, "OWN"));
    assert_null(md_env_foreign(copy, "OWN_"));
    assert_string_equal(md_env_foreign(copy, "OWN_SECOND"), "second");
    assert_string_equal(md_env_foreign(NULL, "OWN_SECOND"), "third");
    assert_string_equal(md_env_path(copy), before);
    assert_string_equal(md_env_path(NULL), "/nonexistent");
    assert_string_equal(child.path, before);
    bool is_passed_on = false;
    for (char **p = child.variables; *p; p++)
        is_passed_on = is_passed_on || strcmp(*p, "OWN_SECOND=second") == 0;
    assert_true(is_passed_on);
    md_env_child_finish(&child);
    free(copy);
    free(before);
    setenv("PATH", path, 1);
    free(path);
    unsetenv("OWN");
    unsetenv("OWN_SECOND");
    unsetenv("MD_CC_OF_OTHERS");
    unsetenv("XDG_RUNTIME_DIR");
}

static void table_ends(void **state)
{
    (void)state;
    const char *name = "", *values = "", *meaning = "";
    assert_true(md_env_describe(0, &name, &values, &meaning));
    assert_string_equal(name, "MD_DEVICE");
    assert_false(md_env_describe(-1, &name, &values, &meaning));
    assert_null(name);
    assert_false(md_env_describe(1000, &name, &values, &meaning));
    assert_null(meaning);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_set_means_defaults, clear),
        cmocka_unit_test_setup(good_values_arrive, clear),
        cmocka_unit_test_setup(words_are_the_enums, clear),
        cmocka_unit_test_setup(bad_values_are_named, clear),
        cmocka_unit_test_setup(a_copy_stays, clear),
        cmocka_unit_test_setup(an_empty_cache_folder_is_none, clear),
        cmocka_unit_test_setup(a_runtime_folder_is_whole, clear),
        cmocka_unit_test_setup(empty_is_unset_and_unknown_is_told, clear),
        cmocka_unit_test_setup(table_ends, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
