/* For programs that are no tests: ends with the library's message where a call fails. */
#ifndef MD_TESTS_SUPPORT_OR_EXIT_H
#define MD_TESTS_SUPPORT_OR_EXIT_H

#include <md/md.h>

#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) != MD_OK) {                                                                                         \
            fprintf(stderr, "%s: %s\n", #call, md_last_error());                                                       \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
