/* Diagnostics of the formula language. */
#include "expr/diag.h"

#include "base/status.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN = 100, MESSAGE = 400, MAX_NAME = 64 };

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

static const char *line_start(const char *text, int32_t line)
{
    for (int32_t at = 1; at < line; at++) {
        const char *end = strchr(text, '\n');
        if (!end)
            break;
        text = end + 1;
    }
    return text;
}

/* Copies the characters [first, first + SHOWN) of a line; what does not print becomes a blank. */
static void copy_window(char *out, size_t capacity, const char *line, int32_t first)
{
    int32_t at = -1;
    size_t n = 0;
    for (; *line && *line != '\n'; line++) {
        at += !is_continuation(*line);
        if (at < first)
            continue;
        if (at >= first + SHOWN || n + 1 >= capacity)
            break;
        out[n++] = (unsigned char)*line < ' ' || *line == 127 ? ' ' : *line;
    }
    out[n] = 0;
}

enum { PLACED = MESSAGE + 10 * SHOWN };

/* The message with its place in front, the line below it, and a caret below that. */
static void place_message(char out[PLACED], const char *text, int32_t line, int32_t column, const char *format,
                          va_list args)
{
    char message[MESSAGE], shown[SHOWN * 4 + 1];
    vsnprintf(message, sizeof message, format, args);
    if (line < 1 || column < 1) {
        snprintf(out, PLACED, "%s", message);
        return;
    }
    /* A long line is cut so that the caret stays within sight. */
    const int32_t first = column > SHOWN * 3 / 4 ? column - SHOWN / 2 : 0;
    const char *const dots = first ? "..." : "";
    copy_window(shown, sizeof shown, line_start(text, line), first);
    snprintf(out, PLACED, "%d:%d: %s\n  %s%s\n  %*s^", line, column, message, dots, shown,
             (int)(column - 1 - first) + (int)strlen(dots), "");
}

md_status md_fx_complain(const char *text, int32_t line, int32_t column, const char *format, ...)
{
    char placed[PLACED];
    va_list args;
    va_start(args, format);
    place_message(placed, text, line, column, format, args);
    va_end(args);
    return md_fail(MD_INVALID_ARGUMENT, "%s", placed);
}

const char *md_fx_remark(md_arena *arena, const char *text, int32_t line, int32_t column, const char *format, ...)
{
    char placed[PLACED];
    va_list args;
    va_start(args, format);
    place_message(placed, text, line, column, format, args);
    va_end(args);
    return md_arena_text(arena, placed);
}

/* Edit distance with exchanges of neighbours, after Damerau (1964) as restricted by Oommen and Loke; a change of case
 * costs 1, every other edit 2. */
static int edit_cost(const char *a, const char *b)
{
    int row[3][MAX_NAME + 1];
    const int na = (int)strlen(a), nb = (int)strlen(b);
    for (int j = 0; j <= nb; j++)
        row[0][j] = 2 * j;
    for (int i = 1; i <= na; i++) {
        int *const now = row[i % 3];
        const int *const last = row[(i + 2) % 3], *const before = row[(i + 1) % 3];
        now[0] = 2 * i;
        for (int j = 1; j <= nb; j++) {
            const char x = a[i - 1], y = b[j - 1];
            const int change = x == y ? 0 : tolower((unsigned char)x) == tolower((unsigned char)y) ? 1 : 2;
            now[j] = MD_MIN(last[j - 1] + change, MD_MIN(last[j], now[j - 1]) + 2);
            if (i > 1 && j > 1 && x == b[j - 2] && a[i - 2] == y)
                now[j] = MD_MIN(now[j], before[j - 2] + 2);
        }
    }
    return row[na % 3][nb];
}

void md_fx_nearest_offer(md_fx_nearest *nearest, const char *candidate)
{
    const size_t n = strlen(nearest->wanted);
    if (n > MAX_NAME || strlen(candidate) > MAX_NAME)
        return;
    /* One edit for every three letters; a single letter may only differ in case. */
    const int limit = MD_MAX(1, 2 * (int)((n + 1) / 3));
    const int cost = edit_cost(nearest->wanted, candidate);
    if (cost == 0 || cost > limit || (nearest->best && cost >= nearest->cost))
        return;
    nearest->best = candidate;
    nearest->cost = cost;
}

const char *md_fx_word_here(const char *word)
{
    static const char *const words[][2] = {
        {"float", "f32(x)"},
        {"double", "f64(x)"},
        {"half", "f16(x)"},
        {"int", "i64(x)"},
        {"long", "i64(x)"},
        {"ln", "log(x)"},
        {"log10", "log(x) / log(10)"},
        {"arcsin", "asin(x)"},
        {"arccos", "acos(x)"},
        {"arctan", "atan(x)"},
        {"arctan2", "atan2(a, b)"},
        {"arcsinh", "asinh(x)"},
        {"arccosh", "acosh(x)"},
        {"arctanh", "atanh(x)"},
        {"fabs", "abs(x)"},
        {"fmin", "min(a, b)"},
        {"fmax", "max(a, b)"},
        {"minimum", "min(a, b)"},
        {"maximum", "max(a, b)"},
        {"clip", "clamp(x, low, high)"},
        {"mod", "a % b"},
        {"power", "pow(a, b)"},
        {"square", "x * x"},
        {"reciprocal", "1 / x"},
        {"rint", "round(x)"},
        {"sgn", "sign(x)"},
        {"select", "where(condition, a, b)"},
        {"if", "where(condition, a, b)"},
        {"cond", "where(condition, a, b)"},
        {"isfinite", "not (isnan(x) or isinf(x))"},
        {"len", "size(i)"},
        {"std", "sqrt(var[i](x))"},
        {"average", "mean[i](x)"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i][0]) == 0)
            return words[i][1];
    return NULL;
}
