/* Rows that are written by hand: how they are merged, sorted and printed, to the letter. */
#include "stats/report.h"
#include "stats/rows.h"
#include "support/check.h"

#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

static md_ss_row row_of(const char *op, const char *shape, const char *variant, uint64_t calls, double time_us)
{
    static md_ss_stage stages[32][2]; /* rows are copied when they are added */
    static int n_rows;
    md_ss_row r = {.n_stages = 1,
                   .stage = memset(stages[n_rows++ % 32], 0, sizeof *stages),
                   .calls = calls,
                   .time_us = time_us,
                   .n_timed = calls,
                   .nearest = 1.0};
    snprintf(r.op, sizeof r.op, "%s", op);
    snprintf(r.shape, sizeof r.shape, "%s", shape);
    snprintf(r.stage[0].variant, sizeof r.stage[0].variant, "%s", variant);
    r.stage[0].source = "model";
    r.stage[0].distance = 2.5;
    return r;
}

static void add(md_ss_rows *rows, md_ss_row r)
{
    const md_ss_rows one = {.n = 1, .row = &r};
    md_ss_rows_append(rows, &one);
}

static void add_op(md_ss_rows *rows, const char *name, const char *formula, uint64_t calls, int32_t n_variants)
{
    md_ss_op o = {.formula = (char *)(uintptr_t)formula, .hints = (char *)(uintptr_t) "n=1"};
    snprintf(o.name, sizeof o.name, "%s", name);
    o.n_shapes = 2;
    o.n_variants = n_variants;
    o.count[0] = calls;
    const md_ss_ops one = {.n = 1, .op = &o};
    md_ss_ops_append(&rows->ops, &one);
}

static void add_indices(md_ss_ops *ops, int64_t at, int64_t n, int64_t seen)
{
    md_ss_op *o = &ops->op[at];
    md_ss_indices *indices = &o->indices[o->n_indices++];
    *indices = (md_ss_indices){.n = n, .seen = seen, .value = calloc((size_t)n, sizeof(int64_t))};
    snprintf(indices->tensor, sizeof indices->tensor, "ids");
}

static md_ss_rows some_rows(void)
{
    md_ss_rows rows = {0};
    md_ss_row two_stages = row_of("soft", "b=3 n=7", "row/a", 4, 900.0),
              sampled = row_of("add", "n=9", "pw/x", 10, 5e3);
    two_stages.n_stages = 2;
    two_stages.stage[1] = two_stages.stage[0];
    snprintf(two_stages.stage[1].variant, sizeof two_stages.stage[1].variant, "row/longer_name");
    snprintf(two_stages.stage[1].runner_up, sizeof two_stages.stage[1].runner_up, "row/b");
    two_stages.stage[1].margin = 0.25;
    two_stages.stage[1].distance = -1.0;
    two_stages.is_uncovered = true;
    sampled.n_timed = 3;
    add(&rows, two_stages);
    add(&rows, sampled);
    add(&rows, row_of("add", "n=10", "pw/x", 2, 900.0));
    add(&rows, row_of("add", "n=10", "pw/y", 1, 900.0));
    sampled.n_timed = 0;
    sampled.nearest = -1.0;
    snprintf(sampled.shape, sizeof sampled.shape, "other shapes");
    add(&rows, sampled);
    add(&rows, row_of("add", "n=10", "pw/x", 3, 100.0)); /* the same shape and choice */
    add_op(&rows, "soft", "Y = 1", 4, 7);
    add_op(&rows, "add", "Y = 2", 15, 3);
    add_op(&rows, "never", "Y = 3", 0, 3);
    add_op(&rows, "soft", "Y = 1", 6, 9);
    add_op(&rows, "soft", "Y = 4", 1, 2);
    return rows;
}

static void expect(const md_ss_rows *rows, const char *format, const char *want)
{
    md_strbuf text = {0};
    assert_ok(md_ss_print(&text, rows, format));
    assert_string_equal(md_strbuf_text(&text), want);
    md_strbuf_finish(&text);
}

static void the_table(void **state)
{
    (void)state;
    md_ss_rows rows = some_rows(), none = {0};
    md_ss_rows_sort(&rows);
    expect(&rows, "table",
           "op    shape         variant          why        distance     calls    total ms   us a call  time      "
           "runner-up (by)\n"
           "add   n=9           pw/x             model          2.50        10       5.000      500.00  sampled \n"
           "add   other shapes  pw/x             model          2.50        10       5.000      500.00  model   \n"
           "add   n=10          pw/x             model          2.50         5       1.000      200.00  measured\n"
           "add   n=10          pw/y             model          2.50         1       0.900      900.00  measured\n"
           "soft  b=3 n=7       row/a            model          2.50         4       0.900      225.00  measured  "
           "uncovered\n"
           "        next stage  row/longer_name  model             -                                              "
           "row/b (0.25)\n"
           "soft: 4 shapes, 9 variants; calls 10\n"
           "add: 2 shapes, 3 variants; calls 15\n"
           "soft: 2 shapes, 2 variants; calls 1\n");
    expect(&rows, "csv",
           "op,shape,stage,variant,why,distance,runner_up,margin,calls,total_us,us,time,nearest,uncovered,trials,"
           "switches,demotions\n"
           "add,n=9,0,pw/x,model,2.5,,0,10,5000.000,500.000,sampled,1,0,0,0,0\n"
           "add,other shapes,0,pw/x,model,2.5,,0,10,5000.000,500.000,model,,0,0,0,0\n"
           "add,n=10,0,pw/x,model,2.5,,0,5,1000.000,200.000,measured,1,0,0,0,0\n"
           "add,n=10,0,pw/y,model,2.5,,0,1,900.000,900.000,measured,1,0,0,0,0\n"
           "soft,b=3 n=7,0,row/a,model,2.5,,0,4,900.000,225.000,measured,1,1,0,0,0\n"
           "soft,b=3 n=7,1,row/longer_name,model,,row/b,0.25,4,900.000,225.000,measured,1,1,0,0,0\n");
    expect(&none, "table",
           "op  shape  variant  why        distance     calls    total ms   us a call  time      "
           "runner-up (by)\nno op was called\n");
    md_ss_rows_finish(&rows);
}

/* Compares with JSON in which apostrophes stand for quotation marks; the order of fields does not count. */
static void expect_json(const json_t *got, const char *want)
{
    char text[4096];
    assert_true(strlen(want) < sizeof text);
    for (size_t i = 0; i <= strlen(want); i++)
        text[i] = want[i] == '\'' ? '"' : want[i];
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    char *dump = json_dumps(got, 0);
    if (!json_equal(got, root))
        fail_msg("%s", dump ? dump : "(none)");
    free(dump);
    json_decref(root);
}

static json_t *print_json(const md_ss_rows *rows)
{
    md_strbuf text = {0};
    assert_ok(md_ss_print(&text, rows, "json"));
    json_t *root = json_loads(md_strbuf_text(&text), 0, NULL);
    assert_non_null(root);
    md_strbuf_finish(&text);
    assert_string_equal(json_string_value(json_object_get(root, "version")), md_version());
    return root;
}

static void the_json(void **state)
{
    (void)state;
    md_ss_rows rows = {0};
    md_ss_row r = row_of("soft", "b=3", "row/a", 4, 900.0), plain = row_of("add", "n=9", "pw/x", 2, 100.0);
    r.n_stages = 2;
    r.stage[1] = r.stage[0];
    r.stage[1].distance = -1.0;
    r.stage[1].margin = 0.25;
    snprintf(r.stage[1].runner_up, sizeof r.stage[1].runner_up, "row/b");
    r.stage[0].distance = 0.0;
    r.stage[0].shortfall = (md_tn_shortfall){.us = 8.0, .roof_us = 2.0, .reason = "tails", .lost_us = 5.0};
    rows.device = "cuda:0";
    r.nearest = 0.0;
    r.n_timed = 3;
    r.is_uncovered = r.has_trial = true;
    r.trial = (md_ds_trial_state){.challengers = 5, .timed = 4, .switches = 3, .demotions = 2, .is_over = true};
    plain.nearest = -1.0;
    plain.n_timed = 0;
    add(&rows, r);
    add(&rows, plain);
    json_t *root = print_json(&rows);
    expect_json(json_object_get(root, "shapes"),
                "[{'op':'soft','shape':'b=3','calls':4,'total_us':900.0,'us':225.0,'time':'sampled','nearest':0.0,"
                "'uncovered':true,'trial':{'rivals':5,'timed':4,'switches':3,'demotions':2,'over':true},'stages':["
                "{'variant':'row/a','why':'model','distance':0.0,'runner_up':null,'margin':0.0,"
                "'roof':{'us':2.0,'limit':'memory','model_us':8.0,'reason':'tails','lost_us':5.0}},"
                "{'variant':'row/a','why':'model','distance':null,'runner_up':'row/b','margin':0.25,'roof':null}]},"
                "{'op':'add','shape':'n=9','calls':2,'total_us':100.0,'us':50.0,'time':'model','nearest':null,"
                "'uncovered':false,'trial':null,'stages':["
                "{'variant':'pw/x','why':'model','distance':2.5,'runner_up':null,'margin':0.0,'roof':null}]}]");
    assert_string_equal(json_string_value(json_object_get(root, "device")), "cuda:0");
    assert_true(json_is_null(json_object_get(root, "hardware")));
    assert_true(json_is_true(json_object_get(root, "complete")));
    json_decref(root);
    rows.failed = true;
    root = print_json(&rows);
    assert_true(json_is_false(json_object_get(root, "complete")));
    json_decref(root);
    md_ss_rows_finish(&rows);
}

static void ops_in_json(void **state)
{
    (void)state;
    md_ss_rows rows = {0};
    add_op(&rows, "soft", "Y = 1", 4, 7);
    add_op(&rows, "add", "Y = 2", 2, 3);
    rows.ops.op[1].allows_tf32 = true;
    for (int32_t i = 0; md_ss_count_name(i); i++)
        rows.ops.op[1].count[i] = (uint64_t)(100 + i);
    add_indices(&rows.ops, 0, 3, 30);
    rows.ops.op[0].indices[0].value[1] = 7;
    json_t *root = print_json(&rows), *ops = json_object_get(root, "ops");
    assert_int_equal(json_array_size(ops), 2);
    for (size_t i = 0; i < 2; i++) {
        json_t *counts = json_incref(json_object_get(json_array_get(ops, i), "counts"));
        int32_t n = 0;
        for (; md_ss_count_name(n); n++)
            assert_int_equal(json_integer_value(json_object_get(counts, md_ss_count_name(n))), i ? 100 + n : n ? 0 : 4);
        assert_int_equal(json_object_size(counts), n);
        json_decref(counts);
        json_object_del(json_array_get(ops, i), "counts");
    }
    expect_json(ops, "[{'op':'soft','formula':'Y = 1','hints':'n=1','tf32':false,'shapes':2,'variants':7,"
                     "'indices':[{'tensor':'ids','seen':30,'values':[0,7,0]}]},"
                     "{'op':'add','formula':'Y = 2','hints':'n=1','tf32':true,'shapes':2,'variants':3,'indices':[]}]");
    json_decref(root);
    md_ss_rows_finish(&rows);
}

/* Lists grow; rows are equal only with as many stages, and those that take as long are sorted by op and shape. */
static void many_rows(void **state)
{
    (void)state;
    enum { MANY = 100 };
    md_ss_rows rows = {0};
    md_ss_row one = row_of("a", "n=0", "v", 1, 10.0), two = row_of("a", "n=0", "v", 1, 10.0);
    two.n_stages = 2;
    two.stage[1] = two.stage[0];
    add(&rows, two);
    add(&rows, one);
    for (int i = MANY - 1; i > 0; i--) {
        char shape[16];
        snprintf(shape, sizeof shape, "n=%02d", i);
        add(&rows, row_of(i % 2 ? "a" : "b", shape, "v", 1, 10.0));
    }
    md_ss_rows_sort(&rows);
    assert_int_equal(rows.n, MANY + 1);
    assert_int_equal(rows.row[0].n_stages + rows.row[1].n_stages, 3);
    for (int i = 2; i <= MANY; i++)
        assert_true(
            strcmp(rows.row[i - 1].op, rows.row[i].op) < 0 ||
            (strcmp(rows.row[i - 1].op, rows.row[i].op) == 0 && strcmp(rows.row[i - 1].shape, rows.row[i].shape) < 0));
    md_ss_rows_finish(&rows);
}

static void paths(void **state)
{
    (void)state;
    char out[4096], want[128], folder[] = "/tmp/md-test-path-XXXXXX", file[64], pipe_name[64], *text = NULL;
    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/there.json", folder);
    snprintf(pipe_name, sizeof pipe_name, "%s/pipe.json", folder);
    FILE *f = fopen(file, "w");
    assert_true(f && !fclose(f) && !mkfifo(pipe_name, 0600));
    static const struct {
        const char *pattern, *path;
        int32_t number;
    } row[] = {{"a.json", "a.json", 1},
               {"a.json", "a.2.json", 2},
               {"a", "a.3", 3},
               {".hidden", ".hidden.2", 2},
               {"b.d/a", "b.d/a.2", 2},
               {"b.d/.a", "b.d/.a.2", 2},
               {"b.d/a.csv", "b.d/a.2.csv", 2},
               {"50%%.csv", "50%.2.csv", 2},
               {"a%q%", "a%q%", 1},
               {"-", "-", 2},
               {"/dev/null", "/dev/null", 2},
               {"%%p.x", "%p.x", 1}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        assert_ok(md_ss_path(out, row[i].pattern, row[i].number));
        assert_string_equal(out, row[i].path);
        assert_false(md_ss_path_has_pid(row[i].pattern));
    }
    assert_ok(md_ss_path(out, "x%p%%%p.json", 2));
    snprintf(want, sizeof want, "x%d%%%d.2.json", (int)getpid(), (int)getpid());
    assert_string_equal(out, want);
    assert_true(md_ss_path_has_pid("x%p") && md_ss_path_has_pid("%%%p") && !md_ss_path_has_pid("x%"));
    assert_ok(md_ss_path(out, file, 2)); /* a file is numbered, a pipe is not */
    snprintf(want, sizeof want, "%s/there.2.json", folder);
    assert_string_equal(out, want);
    assert_ok(md_ss_path(out, pipe_name, 2));
    assert_string_equal(out, pipe_name);
    for (int extra = 0; extra < 2; extra++) { /* 4095 bytes are the most */
        text = calloc(1, 4096 + 1);
        memset(text, 'x', (size_t)(4095 + extra));
        if (extra)
            assert_fails(md_ss_path(out, text, 1), MD_IO, "longer than 4095 bytes");
        else
            assert_ok(md_ss_path(out, text, 1));
        free(text);
    }
    assert_true(!unlink(file) && !unlink(pipe_name) && !rmdir(folder));
}

/* Digests tell sets of choices apart, whatever their order, and how often a choice is made. */
static void digests_are_of_sets(void **state)
{
    (void)state;
    static const struct {
        const char *letters, *same_as; /* a choice each */
    } row[] = {{"", ""},       {"a", "aaa"},   {"b", "b"},      {"ab", "ba"},      {"ac", "caac"},
               {"bc", "bccb"}, {"abc", "bca"}, {"abd", "dbaa"}, {"abcd", "dcbaab"}};
    enum { ROWS = sizeof row / sizeof *row };
    md_digest128 digest[ROWS][2];
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < 2; k++) {
            const char *letters = k ? row[i].same_as : row[i].letters;
            md_ss_choices c = {.n = (int64_t)strlen(letters)};
            c.choice = calloc(strlen(letters) + 1, sizeof *c.choice);
            assert_non_null(c.choice);
            for (size_t at = 0; letters[at]; at++)
                c.choice[at] = md_hash128(&letters[at], 1);
            assert_ok(md_ss_choices_digest(&digest[i][k], &c));
            assert_true(!c.choice && c.n == 0);
        }
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < ROWS; k++)
            assert_true((memcmp(&digest[i][0], &digest[k][1], sizeof **digest) == 0) == (i == k));
    assert_int_equal(md_ss_choices_digest(&digest[0][0], &(md_ss_choices){.failed = true}), MD_OUT_OF_MEMORY);
}

/* Two that share name, formula and hints are one; the larger sample of its indices is kept. */
static void ops_are_merged(void **state)
{
    (void)state;
    md_ss_rows rows = some_rows();
    add_indices(&rows.ops, 0, 3, 30);
    add_indices(&rows.ops, 3, 4, 50);
    add_indices(&rows.ops, 3, 5, 20);
    rows.ops.op[0].n_indices = 1;
    md_ss_rows_sort(&rows);
    assert_int_equal(rows.ops.n, 4);
    const md_ss_op *soft = &rows.ops.op[0];
    assert_string_equal(soft->name, "soft");
    assert_int_equal(soft->count[0], 10);
    assert_int_equal(soft->n_shapes, 4);
    assert_int_equal(soft->n_variants, 9);
    assert_int_equal(soft->n_indices, 1);
    assert_int_equal(soft->indices[0].n, 4);
    assert_int_equal(soft->indices[0].seen, 80);
    assert_string_equal(rows.ops.op[3].formula, "Y = 4");
    assert_int_equal(rows.ops.op[3].count[0], 1);
    md_ss_rows_finish(&rows);
}

/* Name, formula, hints and tf32 each tell ops apart, and equal ones find each other in whatever order they come. */
static void each_part_of_an_op_counts(void **state)
{
    (void)state;
    md_ss_rows rows = {0};
    enum { KINDS = 16, TURNS = 3 };
    int first[KINDS];
    for (int i = 0; i < KINDS * TURNS; i++) {
        const int kind = (7 * i + i / KINDS) % KINDS;
        if (i < KINDS)
            first[i] = kind;
        const char *const formula = kind & 2 ? "Y = 1" : "Y = 2", *const hints = kind & 4 ? "n=1" : "n=2";
        md_ss_op o = {.formula = (char *)(uintptr_t)formula,
                      .hints = (char *)(uintptr_t)hints,
                      .allows_tf32 = kind & 8,
                      .count[0] = (uint64_t)1 << kind};
        snprintf(o.name, sizeof o.name, "%s", kind & 1 ? "p" : "q");
        md_ss_ops_append(&rows.ops, &(md_ss_ops){.n = 1, .op = &o});
    }
    md_ss_ops_merge(&rows.ops);
    assert_int_equal(rows.ops.n, KINDS);
    for (int i = 0; i < KINDS; i++) {
        assert_int_equal(rows.ops.op[i].count[0], TURNS << first[i]);
        assert_string_equal(rows.ops.op[i].name, first[i] & 1 ? "p" : "q");
    }
    md_ss_rows_finish(&rows);
}

/* So many rows as may be stay; the oldest become one, which has their sums, and that one again. */
static void the_oldest_become_one(void **state)
{
    (void)state;
    md_ss_rows rows = {0};
    double us = 0.0;
    uint64_t calls = 0, calls_of_ops = 0;
    for (int i = 1; i <= 12; i++) {
        char shape[16], formula[16];
        snprintf(shape, sizeof shape, "n=%d", i % 10);
        snprintf(formula, sizeof formula, "Y = %d", i % 10);
        add(&rows, row_of("p", shape, "pw/x", 1, 10.0));
        add_op(&rows, "p", formula, 1, 1);
        rows.row[rows.n - 1].age = rows.ops.op[rows.ops.n - 1].age = (uint64_t)i;
        add_indices(&rows.ops, rows.ops.n - 1, 3, 30);
        if (i == 10 || i == 12)
            md_ss_rows_bound(&rows, 4, 5); /* twice: the second time one row is of many already */
    }
    assert_int_equal(rows.n, 5);
    assert_int_equal(rows.ops.n, 4);
    assert_string_equal(rows.row[0].op, MD_SS_DESTROYED);
    assert_string_equal(rows.row[0].shape, "other shapes");
    assert_string_equal(rows.ops.op[0].name, MD_SS_DESTROYED);
    assert_string_equal(rows.ops.op[0].formula, "");
    assert_int_equal(rows.ops.op[0].n_indices, 0);
    for (int64_t i = 0; i < rows.n; i++) {
        calls += rows.row[i].calls;
        us += rows.row[i].time_us;
        if (i > 0) /* the latest: 9, 0 (made as 10), 1 and 2 again */
            assert_non_null(strchr("9012", rows.row[i].shape[2]));
    }
    for (int64_t i = 0; i < rows.ops.n; i++)
        calls_of_ops += rows.ops.op[i].count[0];
    assert_int_equal(calls, 12);
    assert_int_equal(calls_of_ops, 12);
    assert_true(us == 120.0);
    md_ss_rows_finish(&rows);
}

/* An op that allows tf32 is another op. */
static void tf32_is_another_op(void **state)
{
    (void)state;
    md_ss_rows rows = {0};
    add_op(&rows, "p", "Y = 1", 1, 1);
    add_op(&rows, "p", "Y = 1", 2, 1);
    rows.ops.op[1].allows_tf32 = true;
    md_ss_ops_merge(&rows.ops);
    assert_int_equal(rows.ops.n, 2);
    md_ss_rows_finish(&rows);
}

/* Where memory was short for a formula or the hints, no one knows whether two ops are one. */
static void the_unknown_is_not_merged(void **state)
{
    (void)state;
    for (int lost = 0; lost < 4; lost++) {
        md_ss_rows rows = {0};
        add_op(&rows, "p", "Y = 1", 1, 1);
        add_op(&rows, "p", "Y = 1", 2, 1);
        char **text = lost & 1 ? &rows.ops.op[lost / 2].hints : &rows.ops.op[lost / 2].formula;
        free(*text);
        *text = NULL;
        md_ss_ops_merge(&rows.ops);
        assert_int_equal(rows.ops.n, 2);
        md_ss_rows_finish(&rows);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table),
        cmocka_unit_test(the_json),
        cmocka_unit_test(ops_in_json),
        cmocka_unit_test(many_rows),
        cmocka_unit_test(paths),
        cmocka_unit_test(digests_are_of_sets),
        cmocka_unit_test(ops_are_merged),
        cmocka_unit_test(each_part_of_an_op_counts),
        cmocka_unit_test(the_oldest_become_one),
        cmocka_unit_test(tf32_is_another_op),
        cmocka_unit_test(the_unknown_is_not_merged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
