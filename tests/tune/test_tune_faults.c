/* Every allocation fails in turn while a stage is tuned and while wisdom is kept, found, exported, imported and
 * searched in files that came along: a status that says so or a right result, nothing lost (the sanitizers look),
 * and nothing broken for good. */
#include "support/check.h"
#include "support/fault.h"

#include "base/status.h"
#include "support/devices/sim_device.h"
#include "store/scratch.h"
#include "tune/wisdom/internal.h"
#include "tune/search/search.h"
#include "tune/wisdom/shipped.h"
#include "tune/wisdom/wisdom.h"
#include "device/open.h"

enum { MOST_POINTS = 200000, EACH = 40 }; /* the first points one by one, then ever fewer */

static int64_t next_point(int64_t n)
{
    return n < EACH ? n + 1 : n + n / 5;
}

static void check_status(md_status s)
{
    if (s != MD_OK && s != MD_OUT_OF_MEMORY && s != MD_NOT_FOUND)
        fail_msg("%s: %s", md_status_name(s), md_last_error());
    if (s == MD_OUT_OF_MEMORY)
        assert_non_null(strstr(md_last_error(), "memory"));
}

/* ---- A search */

typedef struct world {
    md_dev_facts facts;
    md_fx_formula *formula;
    md_st_program *program;
    md_fa_target target;
    md_pool *pool;
    md_dev *dev;
    md_bd *builder;
    md_sr *store;
    md_tn_wisdom *wisdom;
    md_tn_counters count;
} world;

static double price(void *user, const char *variant, const md_kn_call *call)
{
    (void)user, (void)call;
    return 1.0 + (double)(strlen(variant) % 7) + 0.125 * variant[strlen(variant) - 1];
}

static void world_open(world *w, scratch *s, const char *formula)
{
    memset(w, 0, sizeof *w);
    assert_ok(md_dev_cuda_assume(&w->facts, 90));
    assert_ok(md_fx_formula_create(&w->formula, formula, &(md_fx_options){.dtype = MD_F32}));
    assert_ok(md_st_program_create(&w->program, w->formula));
    w->target = (md_fa_target){w->program, 0, &w->facts};
    assert_ok(md_pool_create(&w->pool, 2));
    const sim_device_options sim = {
        .facts = &w->facts, .price = price, .seed = 5, .compile_ms = 1.0, .timing_us = 20.0, .pool = w->pool};
    assert_ok(sim_device_open(&w->dev, &sim));
    assert_ok(md_bd_create(&w->builder, w->dev));
    assert_ok(md_tn_wisdom_create(&w->wisdom));
    w->store = scratch_open(s, "here");
    md_tn_wisdom_use_store(w->wisdom, w->store, "device");
}

static void world_close(world *w)
{
    md_bd_destroy(&w->builder);
    md_tn_wisdom_destroy(&w->wisdom);
    md_sr_close(&w->store);
    md_dev_close(&w->dev);
    md_pool_destroy(&w->pool);
    md_st_program_destroy(&w->program);
    md_fx_formula_destroy(&w->formula);
}

static md_status tune(world *w)
{
    md_tn_point p[2] = {{.is_ragged = false}, {.is_ragged = true}};
    p[0].size[0] = p[0].size[1] = 256;
    p[1].size[0] = p[1].size[1] = 1001;
    const md_tn_job job = {.builder = w->builder,
                           .target = w->target,
                           .wisdom = w->wisdom,
                           .count = &w->count,
                           .rigor = MD_TUNE_MEASURE,
                           .budget_ms = 1e7,
                           .max_builds = 3,
                           .n_points = 2,
                           .point = p,
                           .seed = 1};
    return md_tn_tune(&job);
}

static void searching(void **state)
{
    scratch *s = *state;
    int64_t n = 1, n_done = 0;
    for (bool happened = true; happened && n < MOST_POINTS; n = next_point(n), n_done++) {
        world w;
        const int64_t living = fault_living();
        scratch_shell("rm -rf '%s'", s->root);
        world_open(&w, s, "Y[i,j] = X[i,j] - max[k](X[i,k])");
        fault_after(n);
        check_status(tune(&w));
        happened = fault_happened();
        fault_after(0);
        assert_ok(tune(&w)); /* with memory again: nothing stands in its way */
        assert_true(happened || atomic_load(&w.count.found) == 2);
        assert_int_equal(w.wisdom->count.unreadable, 0);
        world_close(&w);
        assert_int_equal(fault_living(), living);
    }
    printf("%d points of failure\n", (int)n_done);
    assert_true(n > EACH && n < MOST_POINTS);
}

/* ---- Wisdom */

static md_tn_record make(const char *key, int which)
{
    md_tn_record r = {.us = 1.5 * which,
                      .spread = 0.25,
                      .count = 9,
                      .rigor = MD_TUNE_MEASURE,
                      .is_complete = true,
                      .source = {5, 6},
                      .date = 1700000000};
    const md_tn_candidate c = {.name = "row_looped/lanes1", .verdict = MD_TN_TIMED, .us = 2.0, .count = 3};
    r.key = strdup(key);
    assert_non_null(r.key);
    snprintf(r.family, sizeof r.family, "row_looped");
    snprintf(r.variant, sizeof r.variant, "row_looped/lanes%d", which);
    assert_ok(md_tn_record_add(&r, &c));
    return r;
}

/* What was said to be kept is found, now and by another process. */
static void expect(md_tn_wisdom *w, const char *key, int which)
{
    md_tn_record r = {0};
    int lanes = 0;
    assert_ok(md_tn_wisdom_find(&r, w, key, "row_looped", MD_TUNE_MEASURE));
    assert_int_equal(sscanf(r.variant, "row_looped/lanes%d", &lanes), 1);
    assert_int_equal(lanes, which);
    md_tn_record_finish(&r);
}

static md_tn_wisdom *open_wisdom(md_sr *store)
{
    md_tn_wisdom *w = NULL;
    assert_ok(md_tn_wisdom_create(&w));
    md_tn_wisdom_use_store(w, store, "device");
    return w;
}

static void keeping_and_finding(void **state)
{
    scratch *s = *state;
    const md_digest128 source = {1, 2};
    int64_t n = 1;
    for (bool happened = true; happened && n < MOST_POINTS; n++) {
        scratch_shell("rm -rf '%s'", s->root);
        md_sr *store = scratch_open(s, "here");
        md_tn_wisdom *w = open_wisdom(store);
        md_tn_record r = make("b", 3), found = {0};
        md_tn_record first = make("a", 2);
        assert_ok(md_tn_wisdom_put(w, &first));
        md_tn_wisdom_destroy(&w);
        w = open_wisdom(store); /* what is known lies in the store */
        fault_after(n);
        const md_status put = md_tn_wisdom_put(w, &r),
                        find = md_tn_wisdom_find(&found, w, "a", "row_looped", MD_TUNE_MEASURE);
        const md_status out = md_tn_wisdom_quarantine(w, "row_looped/lanes66", source, "wrong");
        happened = fault_happened();
        fault_after(0);
        check_status(put);
        check_status(find);
        check_status(out);
        assert_true((find == MD_OK) == (found.key != NULL));
        if (put == MD_OK)
            expect(w, "b", 3);
        assert_true(out != MD_OK || md_tn_wisdom_is_quarantined(w, "row_looped/lanes66", source));
        expect(w, "a", 2);
        assert_ok(md_tn_wisdom_put(w, &r));
        expect(w, "b", 3);
        md_tn_record_finish(&r);
        md_tn_record_finish(&first);
        md_tn_record_finish(&found);
        md_tn_wisdom_destroy(&w);
        md_sr_close(&store);
    }
    assert_true(n > 20 && n < MOST_POINTS);
}

/* Six records, their text, and a folder with a file of it. */
static void make_text(md_strbuf *text, char folder[4400], const scratch *s, md_tn_wisdom *w)
{
    char path[4500];
    for (int i = 0; i < 6; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        md_tn_record r = make(key, i + 1);
        assert_ok(md_tn_wisdom_put(w, &r));
        md_tn_record_finish(&r);
    }
    assert_ok(md_tn_wisdom_print(text, w));
    snprintf(folder, 4400, "%s/came", s->folder);
    scratch_shell("mkdir -m 700 '%s'", folder);
    snprintf(path, sizeof path, "%s/x.jsonl", folder);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(text->text, 1, text->size, f);
    fclose(f);
    scratch_shell("chmod 600 '%s'", path);
}

static void text_out_and_in(void **state)
{
    scratch *s = *state;
    md_strbuf text = {0};
    md_sr *store = scratch_open(s, "here");
    md_tn_wisdom *w = open_wisdom(store);
    char key[8], path[4400];
    int64_t n = 1;
    make_text(&text, path, s, w);
    for (bool happened = true; happened && n < MOST_POINTS; n++) {
        md_strbuf again = {0}, problems = {0};
        md_tn_merged merged = {0};
        md_tn_record found = {0};
        md_tn_wisdom *other = NULL, *reader = NULL;
        md_tn_shipped *shipped = NULL;
        assert_ok(md_tn_wisdom_create(&other));
        md_tn_wisdom_use_store(other, store, "device");
        fault_after(n);
        const md_status print = md_tn_wisdom_print(&again, w);
        const md_status open = md_tn_shipped_open(&shipped, path, NULL);
        const md_status merge = md_tn_wisdom_merge(&merged, &problems, other, text.text, text.size);
        const md_status create = md_tn_wisdom_create(&reader);
        happened = fault_happened();
        fault_after(0);
        check_status(print);
        check_status(open);
        check_status(merge);
        check_status(create);
        assert_true(print != MD_OK || (again.size == text.size && !memcmp(again.text, text.text, text.size)));
        assert_true((open == MD_OK) == (shipped != NULL));
        assert_true((create == MD_OK) == (reader != NULL));
        assert_int_equal(merged.n_bad, 0);
        for (int i = 0; merge == MD_OK && i < 6; i++) {
            snprintf(key, sizeof key, "k%d", i);
            expect(other, key, i + 1);
        }
        md_tn_record_finish(&found);
        md_tn_shipped_close(&shipped);
        md_strbuf_finish(&again);
        md_strbuf_finish(&problems);
        md_tn_wisdom_destroy(&other);
        md_tn_wisdom_destroy(&reader);
    }
    assert_true(n > 20 && n < MOST_POINTS);
    md_strbuf_finish(&text);
    md_tn_wisdom_destroy(&w);
    md_sr_close(&store);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {TEST(searching), TEST(keeping_and_finding), TEST(text_out_and_in)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
