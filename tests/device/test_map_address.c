/* Where a tensor map's address stands is found by what the driver does, or not at all. Fake drivers: one that puts
 * the address into a word, others that do something else besides. */
#include "support/check.h"

#include "device/map_address.h"

#include <string.h>

enum { NOWHERE = 4096, WORD = 3 };

static int n_moves;

static int64_t *words_of(void *map)
{
    n_moves++;
    return map;
}

static int stores(void *map, void *address)
{
    words_of(map)[WORD] = (int64_t)(uintptr_t)address;
    return 0;
}

static int refuses(void *map, void *address)
{
    (void)words_of(map), (void)address;
    return 1;
}

/* Half of its word above 2^32 is something else. */
static int stores_half(void *map, void *address)
{
    words_of(map)[WORD] = (int64_t)(uint32_t)(uintptr_t)address;
    return 0;
}

static int keeps_low_bits(void *map, void *address)
{
    int64_t *word = words_of(map);
    word[WORD] = (int64_t)((uint64_t)(uintptr_t)address & ~(uint64_t)0x3f);
    return 0;
}

static int counts_besides(void *map, void *address)
{
    int64_t *word = words_of(map);
    word[WORD] = (int64_t)(uintptr_t)address;
    word[MD_KN_MAP_WORDS - 1]++;
    return 0;
}

/* In the last byte, for addresses above 2^46 alone. */
static int sums_up_high_ones(void *map, void *address)
{
    int64_t *word = words_of(map);
    word[WORD] = (int64_t)(uintptr_t)address;
    if ((uint64_t)(uintptr_t)address >> 46)
        ((unsigned char *)map)[MD_KN_MAP_WORDS * 8 - 1] ^= 1;
    return 0;
}

static int refuses_high_ones(void *map, void *address)
{
    words_of(map)[WORD] = (int64_t)(uintptr_t)address;
    return (uint64_t)(uintptr_t)address >> 46 != 0;
}

static int shifts(void *map, void *address)
{
    words_of(map)[WORD] = (int64_t)((uint64_t)(uintptr_t)address >> 4);
    return 0;
}

static void make(md_kn_word map[MD_KN_MAP_WORDS], int64_t address)
{
    for (int32_t i = 0; i < MD_KN_MAP_WORDS; i++)
        map[i].i = (int64_t)(0x0123456789abcdefu * (uint64_t)(i + 1));
    map[WORD].i = address;
}

static void test_found(void **state)
{
    md_kn_word map[MD_KN_MAP_WORDS], before[MD_KN_MAP_WORDS];
    (void)state;
    make(map, NOWHERE);
    memcpy(before, map, sizeof map);
    n_moves = 0;
    assert_int_equal(md_dev_map_find_address(map, NOWHERE, stores), WORD + 1);
    assert_true(n_moves >= 2); /* it was asked */
    assert_memory_equal(before, map, sizeof map);
    map[0].i = map[WORD + 1].i = NOWHERE; /* sizes that look like it */
    assert_int_equal(md_dev_map_find_address(map, NOWHERE, stores), WORD + 1);
}

static void test_not_found(void **state)
{
    static const struct {
        const char *name;
        md_dev_map_mover move;
    } list[] = {{"refuses", refuses},
                {"half", stores_half},
                {"low bits", keeps_low_bits},
                {"counts", counts_besides},
                {"high, besides", sums_up_high_ones},
                {"high, refused", refuses_high_ones},
                {"shifts", shifts}};
    md_kn_word map[MD_KN_MAP_WORDS];
    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        make(map, NOWHERE);
        if (md_dev_map_find_address(map, NOWHERE, list[i].move) != 0)
            fail_msg("a driver that %s was believed", list[i].name);
    }
    make(map, NOWHERE >> 4); /* the address is nowhere as it is */
    assert_int_equal(md_dev_map_find_address(map, NOWHERE, shifts), 0);
    assert_int_equal(md_dev_map_find_address(map, NOWHERE, stores), 0);
}

static void test_store(void **state)
{
    static const uint64_t refused[] = {0x1008, 0x1001, (uint64_t)1 << 47, (uint64_t)1 << 63};
    md_kn_word map[MD_KN_MAP_WORDS], before[MD_KN_MAP_WORDS];
    (void)state;
    make(map, NOWHERE);
    memcpy(before, map, sizeof map);
    assert_false(md_dev_map_store(map, 0, 0x10000));
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_false(md_dev_map_store(map, WORD + 1, refused[i]));
    assert_memory_equal(before, map, sizeof map);
    assert_true(md_dev_map_store(map, WORD + 1, 0x7f0000000010));
    before[WORD].i = 0x7f0000000010;
    assert_memory_equal(before, map, sizeof map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_found), cmocka_unit_test(test_not_found),
                                       cmocka_unit_test(test_store)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
