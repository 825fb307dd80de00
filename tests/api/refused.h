#ifndef MD_TESTS_API_REFUSED_H
#define MD_TESTS_API_REFUSED_H

#include "support/check.h"

/* Refused with a message that names what is wrong; the message before it was another one. */
#define REFUSED(call, part)                                                                                            \
    do {                                                                                                               \
        assert_int_equal(md_context_create(NULL, NULL), MD_INVALID_ARGUMENT);                                          \
        assert_fails(call, MD_INVALID_ARGUMENT, part);                                                                 \
        assert_null(strstr(md_last_error(), "no place for the context"));                                              \
    } while (0)

#endif
