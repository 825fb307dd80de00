/* A growing text. After a failed allocation it ignores all additions and `failed` stays set: check once, at the end. */
#ifndef MD_BASE_STRBUF_H
#define MD_BASE_STRBUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct md_strbuf {
    char *text; /* 0-terminated; NULL before the first addition */
    size_t size;
    size_t capacity;
    bool failed;
} md_strbuf; /* a zeroed struct is an empty buffer */

void md_strbuf_finish(md_strbuf *b);
void md_strbuf_add(md_strbuf *b, const char *text);
void md_strbuf_bytes(md_strbuf *b, const char *bytes, size_t n);
void md_strbuf_printf(md_strbuf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void md_strbuf_vprintf(md_strbuf *b, const char *format, va_list args);
/** Adds a JSON string literal with quotes. */
void md_strbuf_json(md_strbuf *b, const char *text);
/** The text, never NULL. */
const char *md_strbuf_text(const md_strbuf *b);

#endif
