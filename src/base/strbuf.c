/* A growing text buffer. */
#include "base/strbuf.h"

#include "base/plain.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void md_strbuf_finish(md_strbuf *b)
{
    free(b->text);
    *b = (md_strbuf){0};
}

/* Reserves n more bytes and the final 0. */
static bool reserve(md_strbuf *b, size_t n)
{
    if (b->failed)
        return false;
    if (n < b->capacity - b->size) /* size < capacity, or both are 0 */
        return true;
    if (n > SIZE_MAX / 2 - b->size - 1) {
        b->failed = true;
        return false;
    }
    size_t capacity = b->capacity ? b->capacity : 64;
    while (capacity <= b->size + n)
        capacity *= 2;
    char *text = realloc(b->text, capacity);
    if (!text) {
        b->failed = true;
        return false;
    }
    if (!b->text)
        text[0] = 0;
    b->text = text;
    b->capacity = capacity;
    return true;
}

void md_strbuf_bytes(md_strbuf *b, const char *bytes, size_t n)
{
    if (!reserve(b, n))
        return;
    if (n > 0)
        memcpy(b->text + b->size, bytes, n);
    b->size += n;
    b->text[b->size] = 0;
}

void md_strbuf_add(md_strbuf *b, const char *text)
{
    md_strbuf_bytes(b, text, strlen(text));
}

void md_strbuf_vprintf(md_strbuf *b, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    size_t room = b->text ? b->capacity - b->size : 0;
    int n = md_vsnprintf(b->text ? b->text + b->size : NULL, room, format, args);
    if (n < 0) {
        b->failed = true;
    } else if ((size_t)n < room && !b->failed) {
        b->size += (size_t)n;
    } else if (reserve(b, (size_t)n)) {
        md_vsnprintf(b->text + b->size, (size_t)n + 1, format, again);
        b->size += (size_t)n;
    }
    va_end(again);
    if (b->text)
        b->text[b->size] = 0; /* also removes a part that did not fit */
}

void md_strbuf_printf(md_strbuf *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    md_strbuf_vprintf(b, format, args);
    va_end(args);
}

void md_strbuf_json(md_strbuf *b, const char *text)
{
    md_strbuf_add(b, "\"");
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            md_strbuf_printf(b, "\\%c", c);
        else if (c == '\n')
            md_strbuf_add(b, "\\n");
        else if (c < 0x20 || c == 0x7f)
            md_strbuf_printf(b, "\\u%04x", c);
        else
            md_strbuf_bytes(b, p, 1);
    }
    md_strbuf_add(b, "\"");
}

const char *md_strbuf_text(const md_strbuf *b)
{
    return b->text ? b->text : "";
}
