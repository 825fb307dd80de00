/* Arrays that grow one element at a time. */
#include "support/check.h"

#include "base/grow.h"

static void elements_stay_as_arrays_grow(void **state)
{
    (void)state;
    int64_t *array = NULL;
    size_t n = 0;
    for (; n < 5000; n++) {
        assert_true(md_grow(&array, n, sizeof *array));
        array[n] = (int64_t)n * 7; /* sanitizers see what does not fit */
    }
    for (size_t i = 0; i < n; i++)
        assert_int_equal(array[i], (int64_t)i * 7);
    for (n = 16; n < 1000; n++) { /* after the array was cut to a power of two */
        assert_true(md_grow(&array, n, sizeof *array));
        array[n] = -1;
    }
    for (size_t i = 0; i < 16; i++)
        assert_int_equal(array[i], (int64_t)i * 7);
    free(array);
}

static void sizes_that_overflow_change_nothing(void **state)
{
    (void)state;
    int64_t one = 1, *array = &one;
    assert_false(md_grow(&array, (size_t)1 << 62, sizeof *array));
    assert_false(md_grow(&array, (size_t)1 << 63, 1));
    assert_ptr_equal(array, &one);
    assert_int_equal(one, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(elements_stay_as_arrays_grow),
                                       cmocka_unit_test(sizes_that_overflow_change_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
