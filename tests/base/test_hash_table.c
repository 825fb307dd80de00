/* Hashes and hash tables. */
#include "support/check.h"

#include "base/hash.h"
#include "base/table.h"

/* xxHash's published values of the empty input, seed 0. */
static void hashes_are_xxh3(void **state)
{
    (void)state;
    char text[33];
    assert_true(md_hash64("", 0) == UINT64_C(0x2d06800538d394c2));
    md_digest_text(text, md_hash128("", 0));
    assert_string_equal(text, "99aa06d3014798d86001c324468d497f");
    assert_true(md_hash64("a", 1) != md_hash64("b", 1));
}

static int n_dropped;

static void count_drop(void *value)
{
    (void)value;
    n_dropped++;
}

static void collect(void *user, const void *key, size_t n_bytes, void *value)
{
    (void)value;
    char *order = user;
    strncat(order, key, n_bytes);
}

static void table_does_what_it_says(void **state)
{
    (void)state;
    md_table *table = md_table_create();
    assert_non_null(table);
    int one = 1, two = 2;
    void *old = &one;
    assert_null(md_table_find(table, "x", 1));
    assert_ok(md_table_put(table, "x", 1, &one, &old));
    assert_null(old);
    assert_ok(md_table_put(table, "x", 1, &two, &old));
    assert_ptr_equal(old, &one);
    assert_int_equal(md_table_count(table), 1);
    assert_ptr_equal(md_table_find(table, "x", 1), &two);
    assert_null(md_table_find(table, "x\0", 2));
    assert_ok(md_table_put(table, "a", 1, &one, NULL));
    assert_ok(md_table_put(table, "m", 1, &one, NULL));
    char order[8] = "";
    md_table_each(table, collect, order);
    assert_string_equal(order, "xam");
    assert_ptr_equal(md_table_remove(table, "x", 1), &two);
    assert_null(md_table_remove(table, "x", 1));
    md_table_destroy(&table, count_drop);
    assert_null(table);
    assert_int_equal(n_dropped, 2);
    md_table_destroy(&table, NULL);
    md_table_destroy(NULL, NULL);
}

enum { N_KEYS = 2000 };

static void table_agrees_with_an_array(void **state)
{
    (void)state;
    uint64_t seed = check_seed();
    static char there[N_KEYS];
    static int values[N_KEYS];
    md_table *table = md_table_create();
    size_t count = 0;
    for (int i = 0; i < 100000; i++) {
        uint64_t r = check_random(&seed);
        int64_t key = (int64_t)(r % N_KEYS);
        if (r >> 63) {
            assert_ok(md_table_put(table, &key, sizeof key, &values[key], NULL));
            count += !there[key];
            there[key] = 1;
        } else {
            void *expected = there[key] ? &values[key] : NULL;
            assert_ptr_equal(md_table_find(table, &key, sizeof key), expected);
            assert_ptr_equal(md_table_remove(table, &key, sizeof key), expected);
            count -= (size_t)there[key];
            there[key] = 0;
        }
        assert_int_equal(md_table_count(table), count);
    }
    md_table_destroy(&table, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hashes_are_xxh3),
        cmocka_unit_test(table_does_what_it_says),
        cmocka_unit_test(table_agrees_with_an_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
