/* Valgrind computes long double as double, keeps to one rounding mode, and does not return to registers that a
 * signal's handler changed. */
#ifndef MD_TESTS_SUPPORT_VALGRIND_H
#define MD_TESTS_SUPPORT_VALGRIND_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool is_under_valgrind(void)
{
    const char *loaded = getenv("LD_PRELOAD");
    return loaded && strstr(loaded, "vgpreload");
}

#endif
