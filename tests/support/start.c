/* Part of every test program that uses CMocka (tests/meson.build); runs before its main. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* No test reads or fills the user's store, not even one that is started by hand; tests of stores make their own.
 * MD_TEST_CASE names the only cases to run, with * and ? (tools/test NAME::CASE). */
__attribute__((constructor)) static void start(void)
{
    (void)setenv("MD_CACHE_DIR", "", 0);
    if (getenv("MD_TEST_CASE"))
        cmocka_set_test_filter(getenv("MD_TEST_CASE"));
}
