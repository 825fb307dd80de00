/* A text that a function of the library writes piece by piece. */
#ifndef MD_TESTS_SUPPORT_TEXT_H
#define MD_TESTS_SUPPORT_TEXT_H
#include <stddef.h>
#include <string.h>

typedef struct text {
    char bytes[16384];
    size_t n;
} text;

/** An md_write_fn; user: a text. Fails where the text is full. Allocates nothing. */
static inline int text_take(void *user, const char *bytes, size_t n)
{
    text *t = user;
    if (n >= sizeof t->bytes - t->n)
        return 1;
    memcpy(t->bytes + t->n, bytes, n);
    t->bytes[t->n += n] = 0;
    return 0;
}
#endif
