/* What measuring on the host device is given, borrows and waits for: inputs, memory, the device's lock. */
#include "tune/host_search.h"

#include "base/log.h"
#include "base/status.h"
#include "tune/search/internal.h"
#include "tune/tune.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* Numbers that were given are what a gather reads; any of them is brought into range. */
static void given_indices_are_used(void **state)
{
    (void)state;
    static const int64_t given[] = {5, 1 << 20, -7, 3};
    md_tn_patterns patterns = {.indices = {4, given}, .seed = 1};
    md_tn_data data;
    host_search search;
    host_search_open(&search, "Y[t,d] = E[ids[t],d]", 100, 16, BEND_NOTHING, NULL);
    assert_ok(md_tn_data_make(&data, &patterns, &(md_fa_target){search.program, 0, &search.dev->facts},
                              search.point.size, false, 64 << 20));
    int32_t ids = -1, table = -1;
    for (int32_t t = 0; t < search.formula->n_tensors; t++) {
        ids = strcmp(search.formula->tensor[t].name, "ids") ? ids : t;
        table = strcmp(search.formula->tensor[t].name, "E") ? table : t;
    }
    assert_true(ids >= 0 && table >= 0);
    const int64_t rows = data.shape.extent[table][0];
    assert_true(rows > 1);
    for (int32_t i = 0; i < 100; i++) {
        const int64_t v = ((const int64_t *)data.image[ids])[i];
        assert_int_equal(v, ((given[i % 4] % rows) + rows) % rows);
    }
    md_tn_data_finish(&data);
    patterns.indices.n = 0;
    md_tn_patterns_finish(&patterns);
    assert_ok(md_tn_data_make(&data, &patterns, &(md_fa_target){search.program, 0, &search.dev->facts},
                              search.point.size, false, 64 << 20));
    for (int32_t i = 0; i < 100; i++) {
        const int64_t v = ((const int64_t *)data.image[ids])[i];
        assert_true(v >= 0 && v < data.shape.extent[table][0]);
    }
    md_tn_data_finish(&data);
    md_tn_patterns_finish(&patterns);
    host_search_close(&search);
}

/* Which tensors hold numbers of elements: what is measured on must lie in range there. */
static void tensors_of_indices_are_known(void **state)
{
    (void)state;
    static const struct {
        const char *formula, *names;
    } row[] = {
        {"Y[t,d] = E[ids[t],d]", "ids "},
        {"Y[i] = X[i] * n[i]", ""},
        {"G[ids[i], idx[d]] += D[i,d]", "ids idx "},
        {"Y[t] = E[ids[idx[t]]] + ids[0]", "ids idx "},
        {"Y[t] = E[2 * ids[t] + 1]", "ids "},
        {"Y[t,d] = where(w[t] > 0, E[t,d-1], B[k[t],d])", "k "},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_fx_formula *f = NULL;
        char names[100] = "";
        assert_ok(md_fx_formula_create(&f, row[i].formula, NULL));
        const uint32_t tensors = md_tn_data_index_tensors(f);
        for (int32_t t = 0; t < f->n_tensors; t++)
            if (tensors >> t & 1)
                snprintf(names + strlen(names), sizeof names - strlen(names), "%s ", f->tensor[t].name);
        assert_string_equal(names, row[i].names);
        md_fx_formula_destroy(&f);
    }
}

static int64_t a_gigabyte(md_dev *dev)
{
    (void)dev;
    return 1 << 30;
}

static int64_t not_known(md_dev *dev)
{
    (void)dev;
    return -1;
}

static void memory_has_a_limit(void **state)
{
    (void)state;
    md_tn_patterns patterns = {.seed = 1};
    md_tn_data data;
    host_search search;
    host_search_open(&search, HOST_SEARCH_SILU, 1 << 12, 1 << 12, BEND_NOTHING, NULL);
    assert_fails(md_tn_data_make(&data, &patterns, &(md_fa_target){search.program, 0, &search.dev->facts},
                                 search.point.size, false, 64 << 20),
                 MD_OUT_OF_MEMORY, "bytes");
    assert_true(md_tn_bench_limit(search.dev) <= 256 << 20);
    search.dev->facts.global_bytes = (int64_t)141 << 30; /* as if it were a GPU: what others left of it counts */
    host_search_bent.ops.free_bytes = a_gigabyte;
    assert_int_equal(md_tn_bench_limit(search.dev), (1 << 30) / 20);
    host_search_bent.ops.free_bytes = not_known;
    assert_int_equal(md_tn_bench_limit(search.dev), 0);
    md_tn_patterns_finish(&patterns);
    host_search_close(&search);
}

/* Where f32 may be rounded to tf32, inputs are such that it changes none, and kernels of both kinds are right. */
static void inputs_for_tf32_have_few_bits(void **state)
{
    (void)state;
    for (int is_for = 0; is_for <= 1; is_for++) {
        md_tn_patterns patterns = {.seed = 1, .for_tf32 = is_for != 0};
        md_tn_data data;
        host_search search;
        host_search_open(&search, HOST_SEARCH_SILU, 64, 256, BEND_NOTHING, NULL);
        assert_ok(md_tn_data_make(&data, &patterns, &(md_fa_target){search.program, 0, &search.dev->facts},
                                  search.point.size, false, 64 << 20));
        int64_t n_other = 0, n = 0;
        for (int32_t t = 0; t < MD_KN_MAX_TENSORS; t++)
            for (int64_t i = 0; data.image[t] && i < data.bytes[t] / 4; i++) {
                uint32_t bits;
                memcpy(&bits, (const char *)data.image[t] + 4 * i, sizeof bits);
                n_other += (bits & 0x1fff) != 0;
                n++;
            }
        assert_true(n >= 64 * 256);
        assert_true(is_for ? n_other == 0 : n_other > n / 2);
        md_tn_data_finish(&data);
        md_tn_patterns_finish(&patterns);
        host_search_close(&search);
    }
}

/* Points of all sizes: what measuring borrows stays below its limit, comes back, and a point beyond it is counted. */
static void measuring_borrows_no_more_than_it_may(void **state)
{
    (void)state;
    static const int64_t rows[] = {64, 1024, 4096, 6000, 12000};
    for (int32_t k = 0; k < MD_COUNT(rows); k++) {
        host_search search;
        host_search_open(&search, HOST_SEARCH_SILU, rows[k], 4096, BEND_NOTHING, NULL);
        const int64_t limit = md_tn_bench_limit(search.dev), bytes = 2 * rows[k] * 4096 * 4;
        search.job.rigor = MD_TUNE_MEASURE;
        search.job.max_builds = 1;
        assert_ok(md_tn_tune(&search.job));
        assert_int_equal(host_search_bent.live, 0);
        assert_true(host_search_bent.peak <= limit && host_search_bent.peak <= 256 << 20);
        assert_int_equal(atomic_load(&search.count.out_of_memory), bytes > limit);
        /* of inputs there may be images alone */
        assert_true(bytes > limit ? host_search_bent.peak < limit : host_search_bent.peak >= bytes / 2);
        host_search_close(&search);
    }
}

typedef struct tuner {
    host_search *search;
    md_status status;
} tuner;

static void *tune(void *user)
{
    tuner *t = user;
    t->status = md_tn_tune(&t->search->job);
    return NULL;
}

/* Where an operation is defined for positive numbers only, inputs are such; elsewhere both signs occur. */
static void inputs_are_where_the_formula_is_defined(void **state)
{
    (void)state;
    static const struct {
        const char *formula;
        bool is_positive;
    } row[] = {{"Y[i,j] = log(X[i,j])", true},         {"Y[i,j] = sqrt(X[i,j]) + 1", true},
               {"Y[i] = sum[j](rsqrt(X[i,j]))", true}, {"Y[i,j] = exp(X[i,j])", false},
               {"Y[i,j] = X[i,j] / 3", false},         {"Y[i] = max[j](abs(X[i,j]))", false}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_tn_patterns patterns = {.seed = 1};
        md_tn_data data;
        host_search search;
        int64_t n_negative = 0, n_zero = 0;
        host_search_open(&search, row[i].formula, 64, 256, BEND_NOTHING, NULL);
        assert_ok(md_tn_data_make(&data, &patterns, &(md_fa_target){search.program, 0, &search.dev->facts},
                                  search.point.size, false, 64 << 20));
        int32_t t = 0;
        while (strcmp(search.formula->tensor[t].name, "X"))
            t++;
        for (int64_t k = 0; k < data.bytes[t] / 4; k++) {
            n_negative += ((const float *)data.image[t])[k] < 0;
            n_zero += ((const float *)data.image[t])[k] == 0;
        }
        assert_int_equal(data.bytes[t], 64 * 256 * 4);
        if (row[i].is_positive ? n_negative + n_zero > 0 : n_negative < 1000)
            fail_msg("%s: %d negative, %d zeros", row[i].formula, (int)n_negative, (int)n_zero);
        md_tn_data_finish(&data);
        md_tn_patterns_finish(&patterns);
        host_search_close(&search);
    }
}

/* What a shape of contiguous tensors says of the alignment of rows, by their length in f32. */
static void rows_are_aligned_by_their_length(void **state)
{
    (void)state;
    static const struct {
        int64_t i, j;
        bool is_aligned, is_aligned16;
    } row[] = {{4, 16, true, true},  {4, 12, false, true}, {4, 10, false, false},
               {1, 10, true, false}, {1, 12, true, true},  {4, 20, false, true},
               {4, 64, true, true},  {3, 1, false, false}, {4, 15, false, false}};
    host_search search;
    host_search_open(&search, HOST_SEARCH_SILU, 64, 256, BEND_NOTHING, NULL);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        md_kn_shape shape;
        int64_t size[MD_FX_MAX_DIMS] = {0};
        for (int32_t d = 0; d < search.formula->n_dims; d++)
            size[d] = search.formula->dim[d].name[0] == 'i' ? row[i].i : row[i].j;
        md_tn_shape(&shape, search.program, size);
        if (shape.aligned != (row[i].is_aligned ? 3 : 0) || shape.aligned16 != (row[i].is_aligned16 ? 3 : 0))
            fail_msg("row %zu: %x, %x", i, (unsigned)shape.aligned, (unsigned)shape.aligned16);
        assert_int_equal(shape.contiguous, 3);
        assert_int_equal(shape.unit, 3);
    }
    host_search_close(&search);
}

static void hear(void *user, md_log_level level, const char *message)
{
    (void)level;
    snprintf(user, 600, "%s", message);
}

/* The lock's file and its folder must be this user's alone; else measuring goes on without it, and says so. */
static void locks_of_others_are_not_trusted(void **state)
{
    (void)state;
    static const struct {
        const char *made; /* by a shell: $D is the folder, $F the file */
        const char *said; /* NULL: the lock is held */
        bool needs_root;
    } row[] = {
        {":", NULL, false},
        {"touch $F; chmod 600 $F", NULL, false},
        {"touch $F; chmod 644 $F", NULL, false},
        {"touch $F; chmod 666 $F", "others may write to it", false},
        {"touch $F; chmod 620 $F", "others may write to it", false},
        {"touch $F; chmod 602 $F", "others may write to it", false},
        {"touch $F; chown 12345 $F", "it belongs to another user", true},
        {"ln -s elsewhere $F", "ymbolic link", false},
        {"mkdir $F", "directory", false},
        {"chmod 770 $D", "others may write to it", false},
        {"chmod 707 $D", "others may write to it", false},
        {"chown 12345 $D", "it belongs to another user", true},
        {"rmdir $D", "No such file", false},
    };
    char *const before = getenv("XDG_RUNTIME_DIR") ? strdup(getenv("XDG_RUNTIME_DIR")) : NULL;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char folder[] = "/tmp/md-test-lock-XXXXXX", file[100], said[600] = "";
        if (row[i].needs_root && geteuid() != 0)
            continue;
        assert_non_null(mkdtemp(folder));
        setenv("XDG_RUNTIME_DIR", folder, 1);
        md_dev_ops ops = {0};
        md_log_said once = {0};
        const md_log log = {.fn = hear, .user = said, .level = MD_LOG_WARN, .said = &once};
        md_dev dev = {.ops = &ops, .facts = {.board = 0x123}, .log = &log};
        md_tn_work w = {.dev = &dev, .lock = -1}, late = {.dev = &dev, .lock = -1};
        snprintf(file, sizeof file, "%s/multidispatch-0000000000000123.lock", folder);
        setenv("D", folder, 1);
        setenv("F", file, 1);
        assert_int_equal(system(row[i].made), 0); /* NOLINT: in a folder of this test */
        assert_true(md_tn_lock(&w));
        if ((w.lock >= 0) != !row[i].said || (row[i].said ? !strstr(said, row[i].said) : said[0] != 0))
            fail_msg("row %zu: lock %d, said '%s'", i, w.lock, said);
        if (!row[i].said) { /* another waits until its time is over */
            assert_false(md_tn_lock(&late));
            assert_non_null(strstr(said, "another process of this user"));
            md_tn_unlock(&w);
            assert_true(md_tn_lock(&late) && late.lock >= 0);
            md_tn_unlock(&late);
        }
        assert_int_equal(system("rm -rf $D"), 0); /* NOLINT: a folder of this test */
    }
    if (before)
        setenv("XDG_RUNTIME_DIR", before, 1);
    else
        unsetenv("XDG_RUNTIME_DIR");
    free(before);
}

/* The device's lock is a file's: threads with their own descriptors meet there as processes do. */
static void two_at_a_time_take_turns(void **state)
{
    (void)state;
    host_search search;
    host_search_open(&search, HOST_SEARCH_SILU, 64, 256, BEND_NOTHING, NULL);
    host_search other = search;
    md_tn_wisdom *second = NULL;
    assert_ok(md_tn_wisdom_create(&second));
    other.job.wisdom = second;
    other.job.count = NULL;
    tuner a = {&search, MD_INTERNAL}, b = {&other, MD_INTERNAL};
    pthread_t thread[2];
    assert_int_equal(pthread_create(&thread[0], NULL, tune, &a), 0);
    assert_int_equal(pthread_create(&thread[1], NULL, tune, &b), 0);
    pthread_join(thread[0], NULL);
    pthread_join(thread[1], NULL);
    assert_ok(a.status);
    assert_ok(b.status);
    md_tn_wisdom_destroy(&second);
    host_search_close(&search);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_for_tf32_have_few_bits),
        cmocka_unit_test(tensors_of_indices_are_known),
        cmocka_unit_test(given_indices_are_used),
        cmocka_unit_test(memory_has_a_limit),
        cmocka_unit_test(measuring_borrows_no_more_than_it_may),
        cmocka_unit_test(two_at_a_time_take_turns),
        cmocka_unit_test(locks_of_others_are_not_trusted),
        cmocka_unit_test(inputs_are_where_the_formula_is_defined),
        cmocka_unit_test(rows_are_aligned_by_their_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
