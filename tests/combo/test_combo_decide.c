/* One launch or many: by the model, by times that are given here, and as the store remembers. Nothing depends on the
 * clock. */
#include "support/check.h"

#include "api/context.h"
#include "combo/decide/combo_fit.h"
#include "combo/decide/decide.h"
#include "combo/merge.h"
#include "combo/stored.h"
#include "combo/tuning/tuning.h"

#include <dirent.h>
#include <math.h>
#include <md/combo.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 40, ROOM = 1 << 16 };

static char folder[64];
static md_context *context;
static md_op *op;
static md_tensor tensor[MOST][2];
static md_arg args[MOST][2];
static int output; /* number of that argument */
static float memory[MOST][2][ROOM / 256];

static void open_context(const char *device, md_select select)
{
    assert_ok(md_context_create(
        &context,
        &(md_context_options){.device = device, .threads = 2, .hints = "64", .select = select, .cache_dir = folder}));
    assert_ok(md_op_create(&op, context, "Y[i] = X[i] + 1", NULL));
    assert_ok(md_op_wait(op));
}

static void close_context(void)
{
    md_op_destroy(&op);
    md_context_destroy(&context);
}

/* Items of `size` elements; their memory is used where they are run. */
static md_cb *make(int n, int64_t size)
{
    md_cb *cb = NULL;
    md_arg_info info;
    for (int i = 0; i < n; i++)
        for (int32_t a = 0; a < 2; a++) {
            assert_ok(md_op_arg(&info, op, a));
            output = info.is_output ? a : output;
            void *data =
                size <= ROOM / 256 ? (void *)memory[i][a] : (char *)(void *)memory + (i * 2 + a) * (size * 4 + 4096);
            tensor[i][a] = md_tensor_make(data, MD_F32, 1, &size);
            args[i][a] = md_t(&tensor[i][a]);
        }
    const md_combo_part part = {op, &args[0][0], 2, n};
    for (int i = 1; i < n; i++) /* a combo wants them packed, as they are */
        assert_true(&args[i][0] == &args[i - 1][0] + 2);
    assert_ok(md_cb_create(&cb, &context->runtime, &part, &op->ds, 1));
    assert_ok(md_cb_prepare(cb));
    return cb;
}

static void give_times(md_cb *cb, double one, double each)
{
    assert_true(cb->decision.is_open);
    for (int k = 0; k < MD_CB_TIMES; k++) {
        md_cb_decide_add(cb, MD_CB_ONE, one + k);
        md_cb_decide_add(cb, MD_CB_EACH, each + k);
    }
    assert_false(cb->decision.is_open);
}

/* ---- Tests */

static void prefers_what_gains(void **state)
{
    (void)state;
    assert_int_equal(md_cb_prefer((double[]){96, 100}), MD_CB_ONE);
    assert_int_equal(md_cb_prefer((double[]){98, 100}), MD_CB_EACH);
    assert_int_equal(md_cb_prefer((double[]){101, 100}), MD_CB_EACH);
}

static void distance_keeps_the_rule(void **state)
{
    (void)state;
    open_context("host", MD_SELECT_DISTANCE);
    md_cb *cb = make(2, 64);
    assert_int_equal(cb->decision.by, MD_CB_BY_RULE);
    assert_int_equal(cb->decision.how, MD_CB_ONE);
    md_cb_destroy(&cb);
    close_context();
}

/* On a GPU small items are one launch; of large ones a launch is nothing. Nothing is run. */
static void the_model_weighs(void **state)
{
    (void)state;
    if (md_context_create(&context, &(md_context_options){.device = "sm_90a", .hints = "64"}) != MD_OK) {
        print_message("SKIPPED: %s\n", md_last_error());
        skip();
    }
    md_context_destroy(&context);
    open_context("sm_90a", MD_SELECT_MODEL);
    md_cb *small = make(MOST, 64);
    assert_int_equal(small->decision.by, MD_CB_BY_MODEL);
    assert_int_equal(small->decision.how, MD_CB_ONE);
    assert_true(small->decision.model_us[MD_CB_ONE] * 5 < small->decision.model_us[MD_CB_EACH]);
    md_cb_destroy(&small);
    md_cb *large = make(2, 1 << 28);
    assert_int_equal(large->decision.how, MD_CB_EACH);
    md_cb_destroy(&large);
    close_context();
}

/* Times of a list of items of two stages, which have their item's time together. */
static void expect_times(const char *device)
{
    double us[MD_CB_HOWS], work = 0;
    const bool is_gpu = strcmp(device, "host") != 0;
    assert_ok(md_context_create(&context, &(md_context_options){.device = device, .threads = 2, .hints = "64"}));
    assert_ok(md_op_create(&op, context, "let a[i] = cumsum[i](X[i]); Y[i] = a[i] + max[k](a[k])",
                           &(md_op_options){.tune = MD_TUNE_OFF, .max_variants = 1}));
    assert_ok(md_op_wait(op));
    md_cb *cb = make(3, 64);
    assert_int_equal(cb->plan->n_units, 3 * 2);
    for (int64_t i = 0; i < 3 * 2; i++)
        if (cb->plan->unit[i].stage == 0)
            work += fmax(cb->plan->unit[i].plan->model_us - (is_gpu ? GPU_LAUNCH : 0), 0.1);
    md_cb_predict(us, cb);
    assert_true(fabs(us[MD_CB_EACH] - work - (is_gpu ? GPU_LAUNCH + 6 * GPU_NEXT_LAUNCH : 6 * HOST_CALL)) < 1e-6);
    assert_true(is_gpu || fabs(us[MD_CB_ONE] - work - 6 * HOST_ITEM) < 1e-6);
    md_cb_destroy(&cb);
    close_context();
}

static void an_item_counts_once(void **state)
{
    (void)state;
    expect_times("host");
    if (md_context_create(&context, &(md_context_options){.device = "sm_90a"}) != MD_OK) {
        print_message("SKIPPED: %s\n", md_last_error());
        skip();
    }
    md_context_destroy(&context);
    expect_times("sm_90a");
}

/* Both ways give the same bits, whichever is chosen while runs go on. */
static void forced_times_decide(void **state)
{
    (void)state;
    open_context("host", MD_SELECT_MEASURE);
    for (int which = 0; which < 2; which++) {
        md_cb *cb = make(8 + which, 64);
        give_times(cb, which ? 10 : 100, which ? 100 : 10);
        assert_int_equal(cb->decision.how, which ? MD_CB_ONE : MD_CB_EACH);
        assert_int_equal(cb->decision.by, MD_CB_BY_TIMES);
        assert_true(cb->decision.us[cb->decision.how] >= 10 && cb->decision.us[cb->decision.how] <= 15);
        memory[3][!output][5] = (float)which;
        assert_ok(md_cb_run(cb, NULL));
        assert_true(memory[3][output][5] == (float)which + 1);
        md_cb_tell(cb);
        assert_string_equal(cb->stats.kind[0].how, which ? "loop" : "own launch");
        md_cb_destroy(&cb);
    }
    close_context();
}

/* Where nothing can be stored, times decide as well. */
static void no_store_is_needed(void **state)
{
    char own[sizeof folder];
    (void)state;
    memcpy(own, folder, sizeof own);
    folder[0] = 0;
    open_context("host", MD_SELECT_MEASURE);
    md_cb *cb = make(8, 64);
    give_times(cb, 100, 10);
    assert_int_equal(cb->decision.how, MD_CB_EACH);
    md_cb_destroy(&cb);
    close_context();
    memcpy(folder, own, sizeof own);
}

/* Real runs are timed in turns until it is known; then no more. */
static void measures_once(void **state)
{
    const int runs = 2 * MD_CB_TIMES;
    (void)state;
    open_context("host", MD_SELECT_MEASURE);
    md_cb *cb = make(12, 64);
    for (int k = 0; k < runs; k++) {
        assert_true(cb->decision.is_open);
        assert_ok(md_cb_run(cb, NULL));
        assert_int_equal(cb->decision.n[MD_CB_ONE] + cb->decision.n[MD_CB_EACH], k + 1);
    }
    assert_false(cb->decision.is_open);
    assert_int_equal(cb->decision.by, MD_CB_BY_TIMES);
    md_cb_destroy(&cb);
    close_context();
}

/* Hybrid begins with the model, and times some runs. */
static void hybrid_asks_the_model_first(void **state)
{
    (void)state;
    open_context("host", MD_SELECT_HYBRID);
    md_cb *cb = make(20, 64);
    assert_int_equal(cb->decision.by, MD_CB_BY_MODEL);
    assert_int_equal(cb->plan->n_apart, 0);
    for (int k = 0; k < 8; k++)
        assert_ok(md_cb_run(cb, NULL));
    assert_int_equal(cb->decision.n[MD_CB_ONE] + cb->decision.n[MD_CB_EACH], 2);
    give_times(cb, 50, 10);
    assert_int_equal(cb->decision.how, MD_CB_EACH);
    md_cb_destroy(&cb);
    close_context();
}

static void a_second_context_measures_nothing(void **state)
{
    forced_times_decide(state);
    open_context("host", MD_SELECT_MEASURE);
    for (int which = 0; which < 2; which++) {
        md_cb *cb = make(8 + which, 64);
        assert_int_equal(cb->decision.by, MD_CB_BY_STORE);
        assert_int_equal(cb->decision.how, which ? MD_CB_ONE : MD_CB_EACH);
        assert_ok(md_cb_run(cb, NULL));
        assert_int_equal(cb->decision.n[MD_CB_ONE] + cb->decision.n[MD_CB_EACH], 0);
        md_cb_destroy(&cb);
    }
    md_cb *other = make(11, 64);
    assert_true(other->decision.is_open);
    md_cb_destroy(&other);
    close_context();
}

/* Calls `visit` for each file below a folder. Returns their number. */
static int walk(const char *path, void (*visit)(const char *path))
{
    char below[1024];
    struct stat about;
    int n = 0;
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        snprintf(below, sizeof below, "%s/%s", path, e->d_name);
        if (e->d_name[0] == '.' || lstat(below, &about) != 0)
            continue;
        if (S_ISDIR(about.st_mode)) {
            n += walk(below, visit);
        } else if (!visit || strstr(below, "/measured/")) {
            n++;
            if (visit)
                visit(below);
        }
    }
    if (d)
        closedir(d);
    return n;
}

static void damage(const char *path)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -20, SEEK_END), 0);
    assert_true(fputs("one two three", f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void damaged_records_are_ignored(void **state)
{
    forced_times_decide(state);
    assert_true(walk(folder, damage) > 0);
    open_context("host", MD_SELECT_MEASURE);
    md_cb *cb = make(8, 64);
    assert_true(cb->decision.is_open);
    assert_int_equal(cb->decision.by, MD_CB_BY_MODEL);
    md_cb_destroy(&cb);
    close_context();
}

static void erase(const char *path)
{
    char command[1100];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/md-combo-decide-XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    erase(folder);
    return 0;
}

/* A way is taken for another if it gains 2%, and twice the larger spread; a way without a time never is. */
static void ways_are_faster_beyond_noise(void **state)
{
    (void)state;
    static const struct {
        double us, spread_us, than_us, than_spread_us;
        bool is_faster;
    } row[] = {{97, 0, 100, 0, true},  {98.5, 0, 100, 0, false}, {100, 0, 100, 0, false}, {103, 0, 100, 0, false},
               {90, 4, 100, 0, true},  {90, 6, 100, 0, false},   {90, 0, 100, 4, true},   {90, 0, 100, 6, false},
               {90, 4, 100, 4, true},  {90, 6, 100, 6, false},   {0, 0, 100, 0, false},   {-1, 0, 100, 0, false},
               {50, 24, 100, 1, true}, {50, 26, 100, 1, false},  {50, 1, 100, 24, true},  {50, 1, 100, 26, false}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const md_cb_way trial = {.us = row[i].us, .spread_us = row[i].spread_us},
                        than = {.us = row[i].than_us, .spread_us = row[i].than_spread_us};
        if (md_cb_is_faster(&trial, &than) != row[i].is_faster)
            fail_msg("row %d", (int)i);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(prefers_what_gains),
        TEST(distance_keeps_the_rule),
        TEST(the_model_weighs),
        TEST(an_item_counts_once),
        TEST(forced_times_decide),
        TEST(no_store_is_needed),
        TEST(measures_once),
        TEST(hybrid_asks_the_model_first),
        TEST(a_second_context_measures_nothing),
        TEST(damaged_records_are_ignored),
        TEST(ways_are_faster_beyond_noise),
    };
    return cmocka_run_group_tests_name("combo_decide", tests, NULL, NULL);
}
