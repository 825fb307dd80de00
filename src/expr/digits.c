/* Numbers as text. */
#include "expr/digits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The shortest digits that read back as the same value, with a point whatever the locale. */
void md_fx_print_real(md_strbuf *out, double value, md_dtype type)
{
    char text[64];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        const double back = strtod(text, NULL);
        if (type == MD_F64 ? back == value : (float)back == (float)value)
            break;
    }
    bool was_point = false;
    for (const char *s = text; *s; s++) {
        const bool is_plain = strchr("0123456789+-e", *s);
        if (is_plain)
            md_strbuf_bytes(out, s, 1);
        else if (!was_point)
            md_strbuf_add(out, ".");
        was_point = !is_plain;
    }
}

void md_fx_print_number(md_strbuf *out, md_dtype type, int64_t integer, double real)
{
    if (type == MD_I64 && integer == INT64_MIN)
        md_strbuf_add(out, "(-9223372036854775807 - 1)"); /* the digits alone would not fit */
    else if (type == MD_I64)
        md_strbuf_printf(out, "%lld", (long long)integer);
    else if (isnan(real))
        md_strbuf_add(out, "nan");
    else if (isinf(real))
        md_strbuf_add(out, real < 0 ? "-inf" : "inf");
    else if (real == 0 && signbit(real))
        md_strbuf_add(out, "-0.0");
    else
        md_fx_print_real(out, real, type);
}
