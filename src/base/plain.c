/* Formats and reads numbers in the C locale: the thread has it for the moment. */
#include "base/plain.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

/* The C library keeps one object for the C locale, so that this allocates nothing. */
static locale_t enter(locale_t *plain)
{
    *plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return uselocale(*plain);
}

static void leave(locale_t before, locale_t plain)
{
    (void)uselocale(before);
    if (plain)
        freelocale(plain);
}

int md_vsnprintf(char *out, size_t n_bytes, const char *format, va_list args)
{
    locale_t plain, before = enter(&plain);
    const int n = vsnprintf(out, n_bytes, format, args);
    leave(before, plain);
    return n;
}

int md_snprintf(char *out, size_t n_bytes, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = md_vsnprintf(out, n_bytes, format, args);
    va_end(args);
    return n;
}

double md_strtod(const char *text, char **end)
{
    locale_t plain, before = enter(&plain);
    const double value = strtod(text, end);
    leave(before, plain);
    return value;
}
