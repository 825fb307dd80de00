/* Names the rank that differs from the others, and what differs. */
#include "stats/agree.h"

#include "base/status.h"
#include "dispatch/select/stored.h"

#include <stdlib.h>
#include <string.h>

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

void md_ss_ops_text(md_strbuf *out, md_ds_op *const *op, int32_t n_ops)
{
    const char **key = malloc((size_t)MD_MAX(n_ops, 1) * sizeof *key);
    out->failed |= !key;
    for (int32_t i = 0; key && i < n_ops; i++)
        key[i] = md_ds_stored_key(op[i]);
    if (key && n_ops > 0)
        qsort(key, (size_t)n_ops, sizeof *key, by_text);
    for (int32_t i = 0; key && i < n_ops; i++)
        if (i == 0 || strcmp(key[i - 1], key[i]) != 0)
            md_strbuf_printf(out, "%s\n", key[i]);
    free(key);
}

md_status md_ss_check_library(const md_ss_hello *hello, int32_t n_ranks)
{
    for (int32_t r = 1; r < n_ranks; r++)
        if (memcmp(hello[r].magic, hello[0].magic, sizeof hello->magic) != 0 ||
            strncmp(hello[r].library, hello[0].library, sizeof hello->library) != 0)
            return md_fail(MD_UNSUPPORTED, "agree: rank %d has version %.60s of the library, rank 0 %.60s", (int)r,
                           hello[r].library, hello[0].library);
    return MD_OK;
}

void md_ss_note_difference(md_agreement *out, const md_ss_hello *hello, int32_t n_ranks)
{
    out->differing = -1;
    for (int32_t r = 1; r < n_ranks && out->differing < 0; r++) {
        const bool is_device = strncmp(hello[r].device, hello[0].device, sizeof hello->device) != 0;
        if (!is_device && strncmp(hello[r].environment, hello[0].environment, sizeof hello->environment) == 0)
            continue;
        out->differing = r;
        if (is_device)
            snprintf(out->difference, sizeof out->difference,
                     "rank %d runs on '%.60s', rank 0 on '%.60s': they choose apart", (int)r, hello[r].device,
                     hello[0].device);
        else
            snprintf(out->difference, sizeof out->difference, "rank %d: %.100s; rank 0: %.100s", (int)r,
                     hello[r].environment, hello[0].environment);
    }
}

/* ---- Ops */

/* The line at `at`, without its end. */
static size_t line_of(const char *at)
{
    return strcspn(at, "\n");
}

static bool has_line(const char *text, const char *line, size_t n)
{
    for (const char *at = text; *at; at += line_of(at) + 1)
        if (line_of(at) == n && !memcmp(at, line, n))
            return true;
    return false;
}

/* The first line of one text that the other lacks; NULL. */
static const char *first_missing(const char *text, const char *in)
{
    for (const char *at = text; *at; at += line_of(at) + 1)
        if (!has_line(in, at, line_of(at)))
            return at;
    return NULL;
}

/* A line that begins with the same formula: the part before " | ". NULL. */
static const char *same_formula(const char *text, const char *line)
{
    const char *end = strstr(line, " | ");
    const size_t n = end && (size_t)(end - line) < line_of(line) ? (size_t)(end - line) + 3 : 0;
    for (const char *at = text; n && *at; at += line_of(at) + 1)
        if (line_of(at) >= n && !memcmp(at, line, n))
            return at;
    return NULL;
}

/* Bytes of the part at `at`, up to the next " | ". */
static size_t part_of(const char *at)
{
    const char *end = strstr(at, " | ");
    const size_t n = line_of(at);
    return end && (size_t)(end - at) < n ? (size_t)(end - at) : n;
}

static bool is_same_part(const char *a, const char *b)
{
    return part_of(a) == part_of(b) && !memcmp(a, b, part_of(a));
}

static md_status name_option(int32_t first, const char *line, int32_t rank, const char *other)
{
    const size_t n_formula = part_of(line);
    const char *a = line, *b = other;
    while (is_same_part(a, b) && a[part_of(a)] == ' ' && b[part_of(b)] == ' ') {
        a += part_of(a) + 3;
        b += part_of(b) + 3;
    }
    const bool is_longer = is_same_part(a, b); /* one line has parts that the other lacks */
    const size_t n_a = is_longer ? line_of(a) : part_of(a), n_b = is_longer ? line_of(b) : part_of(b);
    return md_fail(MD_INVALID_ARGUMENT, "agree: rank %d has '%.*s', rank %d '%.*s', of the op %.*s", (int)rank,
                   (int)MD_MIN(n_b, (size_t)60), b, (int)first, (int)MD_MIN(n_a, (size_t)60), a,
                   (int)MD_MIN(n_formula, (size_t)100), line);
}

md_status md_ss_check_ops(int32_t first, const char *first_ops, int32_t rank, const char *ops)
{
    const char *lacks = first_missing(first_ops, ops), *more = first_missing(ops, first_ops);
    if (!lacks && !more)
        return MD_OK;
    const char *other = lacks ? same_formula(ops, lacks) : same_formula(first_ops, more);
    if (other && !has_line(lacks ? first_ops : ops, other, line_of(other)))
        return lacks ? name_option(first, lacks, rank, other) : name_option(first, other, rank, more);
    const char *line = lacks ? lacks : more;
    return md_fail(MD_INVALID_ARGUMENT, "agree: rank %d lacks the op of rank %d: %.*s", (int)(lacks ? rank : first),
                   (int)(lacks ? first : rank), (int)MD_MIN(line_of(line), (size_t)150), line);
}
