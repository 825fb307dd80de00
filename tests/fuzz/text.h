/* What fuzz targets share. */
#ifndef MD_TESTS_FUZZ_TEXT_H
#define MD_TESTS_FUZZ_TEXT_H

#include <md/md.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void require(bool holds, const char *what, const char *text)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n%s\n%s\n", what, text, md_last_error());
    abort();
}

/** The bytes as a text; the caller frees it. */
static inline char *text_of(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = 0;
    return text;
}

#endif
