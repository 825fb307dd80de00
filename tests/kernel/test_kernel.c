/* Packing parameters, envelopes, and the files of MD_DUMP. */
#include "support/check.h"

#include "base/file.h"
#include "kernel/kernel.h"
#include "support/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_pack(void **state)
{
    (void)state;
    md_kn_shape shape = {.size = {[5] = 77}, .stride = {[2] = {10, 1}}, .extent = {[2] = {4, 10}}};
    float data = 0;
    char space[64];
    md_kn_report report = {0};
    md_kn_call call = {.shape = &shape,
                       .data = {[2] = &data},
                       .scalar = {[1] = {.d = 0.5}, [2] = {.i = -3}},
                       .workspace = space,
                       .report = &report,
                       .blocks = 9};
    const md_kn_param list[] = {{MD_KN_POINTER, 2, 0, 0},    {MD_KN_STRIDE, 2, 0, 0}, {MD_KN_EXTENT, 2, 1, 0},
                                {MD_KN_SIZE, 5, 0, 0},       {MD_KN_SCALAR, 1, 0, 1}, {MD_KN_SCALAR, 2, 0, 0},
                                {MD_KN_WORKSPACE, 0, 16, 0}, {MD_KN_REPORT, 0, 0, 0}, {MD_KN_BLOCKS, 0, 0, 0},
                                {MD_KN_STAGE, 0, 0, 0}};
    md_kn_word word[10];
    md_kn_pack(word, list, 10, &call);
    assert_ptr_equal(word[0].p, &data);
    assert_int_equal(word[1].i, 10);
    assert_int_equal(word[2].i, 10);
    assert_int_equal(word[3].i, 77);
    assert_true(word[4].d == 0.5);
    assert_int_equal(word[5].i, -3);
    assert_ptr_equal(word[6].p, space + 16);
    assert_ptr_equal(word[7].p, &report);
    assert_int_equal(word[8].i, 9);
    assert_ptr_equal(word[9].p, &call);
    call.workspace = NULL;
    md_kn_pack(word, list + 6, 1, &call);
    assert_null(word[0].p);
}

static void test_envelope(void **state)
{
    (void)state;
    md_kn_shape shape = {.size = {8, 100, 30}, .unit = 3, .contiguous = 1, .aligned = 2};
    assert_null(md_kn_envelope_miss(&(md_kn_envelope){0}, &shape));
    assert_null(md_kn_envelope_miss(
        &(md_kn_envelope){.unit = 3, .contiguous = 1, .aligned = 2, .lo = {8}, .hi = {8, 100}}, &shape));
    assert_string_equal(md_kn_envelope_miss(&(md_kn_envelope){.unit = 4}, &shape), "last axis is not contiguous");
    assert_string_equal(md_kn_envelope_miss(&(md_kn_envelope){.contiguous = 2}, &shape), "strided tensor");
    assert_string_equal(md_kn_envelope_miss(&(md_kn_envelope){.aligned = 1}, &shape), "unaligned tensor");
    assert_string_equal(md_kn_envelope_miss(&(md_kn_envelope){.hi = {0, 99}}, &shape), "dim larger than compiled");
    assert_string_equal(md_kn_envelope_miss(&(md_kn_envelope){.lo = {0, 101}}, &shape), "dim smaller than compiled");
    md_kn_envelope rows = {.row_points_max = 3000, .n_row_dims = 2, .row_dim = {1, 2}};
    assert_null(md_kn_envelope_miss(&rows, &shape));
    rows.row_points_max = 2999;
    assert_string_equal(md_kn_envelope_miss(&rows, &shape), "longer than it was compiled for");
    /* Products beyond 64 bits are long, empty rows are not. */
    shape.size[1] = shape.size[2] = INT64_C(1) << 40;
    assert_non_null(md_kn_envelope_miss(&rows, &shape));
    shape.size[1] = 0;
    assert_null(md_kn_envelope_miss(&rows, &shape));
}

/* A source gives the texts of all its launches back, the first and the last. */
static void test_source(void **state)
{
    const int64_t before = fault_living();
    md_kn_source source = {0};
    (void)state;
    for (int32_t i = 0; i < MD_KN_MAX_LAUNCHES; i++)
        md_strbuf_printf(&source.launch[i].text, "text %d", (int)i);
    md_kn_source_finish(&source);
    assert_int_equal(fault_living(), before);
    for (int32_t i = 0; i < MD_KN_MAX_LAUNCHES; i++)
        assert_true(!source.launch[i].text.text && source.launch[i].text.size == 0);
}

typedef struct heard {
    int n;
    char text[6000];
} heard;

static void hear(void *user, md_log_level level, const char *message)
{
    heard *h = user;
    assert_int_equal(level, MD_LOG_ERROR);
    h->n++;
    snprintf(h->text, sizeof h->text, "%s", message);
}

/* Names are made such that no file lies elsewhere or is hidden; what cannot be written is said once, and no failure. */
static void test_dump(void **state)
{
    static const char *const names[][2] = {{"gelu.v1", "gelu.v1.c"},
                                           {"row/looped", "row.looped.c"},
                                           {"../above", "_..above.c"},
                                           {".hidden", "_hidden.c"},
                                           {"a b;c\n$(d)", "a_b_c___d_.c"}};
    char root[] = "/tmp/md-test-dump-XXXXXX", folder[100], path[4500], command[200], longest[224] = "", *bytes = NULL;
    heard h = {0};
    const md_log log = {.fn = hear, .user = &h, .level = MD_LOG_WARN};
    struct stat facts;
    size_t n = 0;
    md_dump *dump = NULL;
    (void)state;
    assert_non_null(mkdtemp(root));
    snprintf(folder, sizeof folder, "%s/made", root);
    for (int round = 0; round < 2; round++) { /* it is made, it is there */
        assert_ok(md_dump_open(&dump, folder, &log));
        assert_non_null(dump);
        assert_int_equal(stat(folder, &facts), 0);
        assert_int_equal(facts.st_mode & 0777, 0700);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            for (int k = 0; k < 2; k++) { /* the later one replaces the earlier one */
                md_dump_put(dump, names[i][0], ".c", k ? "new" : "earlier", k ? 3 : 7);
                snprintf(path, sizeof path, "%s/%s", folder, names[i][1]);
                assert_ok(md_file_read(&bytes, &n, path));
                assert_int_equal(n, k ? 3 : 7);
                assert_memory_equal(bytes, k ? "new" : "earlier", n);
                free(bytes);
            }
        md_dump_close(&dump);
        assert_null(dump);
    }
    snprintf(command, sizeof command, "test $(ls -A %s | wc -l) = 5", folder); /* nothing is left beside them */
    assert_int_equal(system(command), 0); /* NOLINT: a folder of this test */
    assert_int_equal(h.n, 0);
    md_dump_put(NULL, "x", ".c", "x", 1);
    assert_ok(md_dump_open(&dump, "/dev/null/no", &log));
    assert_true(h.n == 1 && strstr(h.text, strerror(ENOTDIR))); /* at once, not with the first file */
    for (int k = 0; k < 3; k++)
        md_dump_put(dump, "name", ".c", "x", 1);
    assert_true(h.n == 1 && strstr(h.text, "MD_DUMP=/dev/null/no: not all files are written: "));
    md_dump_close(&dump);
    h.n = 0;
    snprintf(path, sizeof path, "%s", root); /* so deep that a short name has place, and a long one has not */
    for (size_t used = strlen(path); used < 3900; used += 201) {
        snprintf(path + used, sizeof path - used, "/%0200d", 1);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    assert_ok(md_dump_open(&dump, path, &log));
    md_dump_put(dump, "short", ".c", "x", 1);
    assert_int_equal(h.n, 0);
    memset(longest, 'n', sizeof longest - 1);
    for (int k = 0; k < 3; k++)
        md_dump_put(dump, longest, ".c", "x", 1);
    assert_int_equal(h.n, 1);
    md_dump_close(&dump);
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0); /* NOLINT: a folder of this test */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pack), cmocka_unit_test(test_envelope),
                                       cmocka_unit_test(test_source), cmocka_unit_test(test_dump)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
