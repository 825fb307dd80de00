/* What tests of races define, and else nothing: a sleep of random length, and NaN over shared memory that a copy is
 * about to fill, by a warp or by all threads together. */
#ifndef MD_TEST_PAUSE
#define MD_TEST_PAUSE(place)
#define MD_TEST_POISON(to, bytes)
#define MD_TEST_POISON_TOGETHER(to, bytes)
#endif
