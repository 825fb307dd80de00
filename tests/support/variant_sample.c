/* Which texts are compiled where not all are: a part of them by chance, and each that has a line of its configuration
 * (#define NAME VALUE), or two numbers in such lines together, that no text before had. So every branch of a template
 * that a line chooses is compiled at least once. */
#include "support/variant_internal.h"

#include "base/hash.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { N_BITS = 1 << 22, MOST_NUMBERS = 128, PAIRS = 2 };
static uint8_t seen[N_BITS / 8];

typedef struct notes {
    bool keeps, is_new;
    uint64_t number[MOST_NUMBERS]; /* hashes of the lines of this text that define a number */
    int32_t n;
} notes;

static void add(notes *all, uint64_t hash)
{
    const uint64_t bit = hash % N_BITS;
    all->is_new |= !(seen[bit / 8] >> (bit % 8) & 1);
    if (all->keeps)
        seen[bit / 8] |= (uint8_t)(1 << bit % 8);
}

/* Bytes of `#define NAME VALUE` that count: values above 3 are sizes, and all the same. */
static size_t used_of(const char *line, size_t n, bool *is_choice)
{
    size_t digits = 0;
    while (digits < n && isdigit((unsigned char)line[n - 1 - digits]))
        digits++;
    const bool is_number = digits > 0 && digits < n && line[n - 1 - digits] == ' ';
    *is_choice = is_number && digits == 1 && line[n - 1] <= '3';
    return is_number && !*is_choice ? n - digits : n;
}

static void add_line(notes *all, const char *line, size_t n)
{
    bool is_choice = false;
    const uint64_t hash = md_hash64(line, used_of(line, n, &is_choice));
    add(all, hash);
    for (int32_t i = 0; is_choice && i < all->n; i++)
        if ((all->number[i] ^ hash) % PAIRS == 0)
            add(all, all->number[i] ^ (hash * 31));
    if (is_choice && all->n < MOST_NUMBERS)
        all->number[all->n++] = hash;
}

bool variant_is_new(const md_kn_source *source, bool keeps)
{
    static const char define[] = "#define ";
    notes all = {.keeps = keeps};
    for (int32_t i = 0; i < source->n_launches; i++) {
        all.n = 0;
        for (const char *at = md_strbuf_text(&source->launch[i].text); *at; at += *at == '\n') {
            const size_t n = strcspn(at, "\n");
            if (n > 0 && at[n - 1] != '\\' && !strncmp(at, define, sizeof define - 1))
                add_line(&all, at, n);
            at += n;
        }
    }
    return all.is_new;
}

bool variant_is_drawn(const variant_case *c, const md_fa_family *family, const md_fa_config *config)
{
    const char *const effort = getenv("MD_TEST_EFFORT"), *const seed = getenv("MD_TEST_SEED");
    char name[MD_FA_NAME + 800];
    md_fa_name(name, family, config);
    const size_t used = strlen(name);
    snprintf(name + used, sizeof name - used, " %s %s", c->formula, seed ? seed : "");
    return (double)(md_hash64(name, strlen(name)) >> 11) * 0x1p-53 < (effort ? atof(effort) : 1.0 / 20);
}
