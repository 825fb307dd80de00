/* Finds the expression over the dims that gives the numbers of several recordings. Simple ones come first. */
#include "base/status.h"
#include "sequence/recording/record.h"

#include <stdio.h>
#include <string.h>

enum { MAX_RECORDINGS = 16, MAX_TEXT = 96, MAX_SHIFT = 12 };

/* An expression that may be scaled and shifted, with its values. */
typedef struct term {
    char text[MAX_TEXT];
    int64_t value[MAX_RECORDINGS];
} term;

typedef struct fit {
    char *out;
    const md_sq *sq;
    const md_sq_records *records;
    const int64_t *value;
    int32_t n;
} fit;

/* value = factor * term + rest, with whole numbers. `plain`: only without a rest. */
static bool try_term(const fit *f, const term *t, bool plain)
{
    int64_t factor = 0, rest = 0;
    int32_t other = 0;
    while (other < f->n && t->value[other] == t->value[0])
        other++;
    if (other == f->n)
        return false;
    const int64_t run = t->value[other] - t->value[0], rise = f->value[other] - f->value[0];
    if (rise % run)
        return false;
    factor = rise / run;
    rest = f->value[0] - factor * t->value[0];
    if (factor == 0 || (plain && rest != 0))
        return false;
    for (int32_t k = 0; k < f->n; k++)
        if (f->value[k] != factor * t->value[k] + rest)
            return false;
    const int n = factor == 1 ? snprintf(f->out, 160, "%s", t->text)
                              : snprintf(f->out, 160, "%lld * (%s)", (long long)factor, t->text);
    if (rest)
        snprintf(f->out + n, 160 - (size_t)n, " %c %lld", rest < 0 ? '-' : '+', (long long)(rest < 0 ? -rest : rest));
    return true;
}

/* The product of some dims. False if it is too long, or too large. */
static bool product(term *out, const fit *f, uint32_t dims)
{
    size_t n = 0;
    for (int32_t k = 0; k < f->n; k++)
        out->value[k] = 1;
    for (int32_t d = 0; d < f->sq->n_dims; d++) {
        if (!(dims >> d & 1))
            continue;
        n += (size_t)snprintf(out->text + n, MAX_TEXT - n, "%s%s", n ? " * " : "", f->sq->dim[d].name);
        if (n >= MAX_TEXT)
            return false;
        for (int32_t k = 0; k < f->n; k++)
            if (__builtin_mul_overflow(out->value[k], f->records->recording[k]->size[d], &out->value[k]))
                return false;
    }
    return true;
}

static bool try_products(const fit *f, bool plain)
{
    const uint32_t end = (uint32_t)1 << MD_MIN(f->sq->n_dims, 8);
    term t;
    for (int32_t n_dims = 1; n_dims <= 4; n_dims++)
        for (uint32_t dims = 1; dims < end; dims++)
            if (__builtin_popcount(dims) == n_dims && product(&t, f, dims) && try_term(f, &t, plain))
                return true;
    return false;
}

static bool try_sums(const fit *f)
{
    term t;
    for (int32_t a = 0; a < f->sq->n_dims; a++)
        for (int32_t b = a + 1; b < f->sq->n_dims; b++) {
            snprintf(t.text, sizeof t.text, "%.40s + %.40s", f->sq->dim[a].name, f->sq->dim[b].name);
            for (int32_t k = 0; k < f->n; k++)
                t.value[k] = f->records->recording[k]->size[a] + f->records->recording[k]->size[b];
            if (try_term(f, &t, false))
                return true;
        }
    return false;
}

/* Quotients by powers of two, rounded down or up. Two recordings would prove nothing. */
static bool try_quotients(const fit *f)
{
    term t;
    for (int32_t d = 0; f->n >= 3 && d < f->sq->n_dims; d++)
        for (int32_t i = 2; i <= 2 * MAX_SHIFT + 1; i++) {
            const int32_t shift = i / 2, up = i % 2;
            const int64_t by = (int64_t)1 << shift, add = up ? by - 1 : 0;
            if (up)
                snprintf(t.text, sizeof t.text, "(%.40s + %lld) // %lld", f->sq->dim[d].name, (long long)add,
                         (long long)by);
            else
                snprintf(t.text, sizeof t.text, "%.40s // %lld", f->sq->dim[d].name, (long long)by);
            for (int32_t k = 0; k < f->n; k++)
                t.value[k] = (f->records->recording[k]->size[d] + add) / by;
            if (try_term(f, &t, false))
                return true;
        }
    return false;
}

static bool is_constant(const fit *f)
{
    for (int32_t k = 1; k < f->n; k++)
        if (f->value[k] != f->value[0])
            return false;
    snprintf(f->out, 160, "%lld", (long long)f->value[0]);
    return true;
}

md_status md_sq_fit(char out[160], const md_sq *sq, const md_sq_records *records, const int64_t *value)
{
    const fit f = {out, sq, records, value, MD_MIN(records->n, MAX_RECORDINGS)};
    if (is_constant(&f) || try_products(&f, true) || try_products(&f, false) || try_sums(&f) || try_quotients(&f))
        return MD_OK;
    return md_fail(MD_INVALID_ARGUMENT, "%lld and %lld in two recordings: no expression of the dims gives them",
                   (long long)value[0], (long long)value[1]);
}
