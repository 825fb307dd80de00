/* What combos did, written by hand: how kinds of items and whole lists are told apart, merged and printed. */
#include "stats/combos.h"
#include "support/check.h"

/* Each differs from the first in one thing. */
static md_ss_combo_kind kind_of(int which)
{
    md_ss_combo_kind k = {.part = which == 1, .level = which == 2, .how = which == 3 ? "loop" : "one launch"};
    snprintf(k.op, sizeof k.op, "op%d", which == 4);
    snprintf(k.shape, sizeof k.shape, "i=%d", which == 5);
    snprintf(k.variant, sizeof k.variant, "v%d", which == 6);
    k.items = 10 + which;
    k.calls = (uint64_t)(1 + which);
    return k;
}

static void kinds_of_combos_are_merged(void **state)
{
    (void)state;
    md_ss_combo c = {.hash = 7,
                     .ops = "a*3",
                     .n_parts = 1,
                     .n_items = 3,
                     .n_empty = 1,
                     .runs = 5,
                     .n_timed = 2,
                     .timed_us = 8.0,
                     .runs_by_calls = 1};
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 7; i++) {
            md_ss_combo_kind k = kind_of(i);
            k.items += round && i == 3 ? -4 : 0; /* the most counts */
            assert_true(md_ss_combo_count(&c, &k));
            assert_int_equal(c.n_kinds, round ? 7 : i + 1);
        }
    for (int i = 0; i < 7; i++) {
        assert_int_equal(c.kind[i].calls, 2 * (1 + i));
        assert_int_equal(c.kind[i].items, 10 + i);
    }
    for (int i = 7; i < MD_SS_COMBO_KINDS + 3; i++) { /* those beyond are counted together */
        md_ss_combo_kind k = kind_of(0);
        snprintf(k.shape, sizeof k.shape, "i=1%d", i);
        assert_true(md_ss_combo_count(&c, &k));
    }
    assert_int_equal(c.n_kinds, MD_SS_COMBO_KINDS);
    assert_int_equal(c.n_more, 3);
    md_ss_combos all = {0}, twice = {.n_busy = 2};
    md_strbuf text = {0};
    c.n_kinds = 1;
    md_ss_combos_add(&all, &c);
    md_ss_combos_append(&twice, &all);
    md_ss_combos_append(&twice, &all);
    assert_int_equal(twice.n, 1);
    assert_int_equal(twice.n_busy, 2 + 2 * all.n_busy);
    json_t *rows = md_ss_combos_json(&twice);
    md_ss_combos_print(&text, rows);
    json_decref(rows);
    assert_string_equal(md_strbuf_text(&text), "combo a*3: 3 items, 10 runs, 4.00 us a run (of 4)\n"
                                               "  part 0, launch 0: 4 calls, one launch: 10 items of op0 i=0, v0\n"
                                               "  6 calls of more kinds\n");
    md_strbuf_finish(&text);
    md_ss_combos_finish(&all);
    md_ss_combos_finish(&twice);
    free(c.kind);
}

/* The same list has the same hash, ops and number of items; 256 lists have rows of their own. */
static void combos_are_told_apart(void **state)
{
    (void)state;
    md_ss_combos all = {0};
    md_ss_combo_kind kind = kind_of(0);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < MD_SS_COMBOS + 4; i++) {
            md_ss_combo c = {.hash = i == 1 ? 9 : 8,
                             .n_parts = 2,
                             .n_items = i < 3 ? 5 : 5 + i,
                             .runs = 1,
                             .n_kinds = 1,
                             .kind = &kind};
            snprintf(c.ops, sizeof c.ops, "%s", i == 2 ? "b*5" : "a*5");
            md_ss_combos_add(&all, &c);
        }
    assert_false(all.failed);
    assert_int_equal(all.n, MD_SS_COMBOS + 1);
    for (int i = 0; i < MD_SS_COMBOS; i++) {
        assert_int_equal(all.combo[i].runs, 2);
        assert_int_equal(all.combo[i].n_kinds, 1);
        assert_int_equal(all.combo[i].kind[0].calls, 2);
    }
    const md_ss_combo *others = &all.combo[MD_SS_COMBOS];
    assert_string_equal(others->ops, "other lists");
    assert_int_equal(others->runs, 8);
    assert_int_equal(others->n_more, 8);
    assert_int_equal(others->n_kinds, 0);
    json_t *json = md_ss_combos_json(&all);
    assert_non_null(json);
    assert_int_equal(json_array_size(json), all.n);
    json_decref(json);
    md_ss_combos_finish(&all);
    assert_int_equal(all.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_of_combos_are_merged),
        cmocka_unit_test(combos_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
