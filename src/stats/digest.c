/* Digests the choices of ops, independent of the order of calls. */
#include "stats/report.h"

#include "base/grow.h"
#include "base/status.h"
#include "dispatch/cache/shape_entry.h"
#include "dispatch/select/select.h"
#include "dispatch/cache/table.h"

#include <stdlib.h>
#include <string.h>

typedef struct visit {
    md_ss_choices *choices;
    const md_ds_op *op;
    md_digest128 formula;
} visit;

static void append(md_ss_choices *c, md_digest128 one)
{
    if (md_grow(&c->choice, (size_t)c->n, sizeof *c->choice))
        c->choice[c->n++] = one;
    else
        c->failed = true;
}

/* Sizes by dim, which equal formulas number alike. */
static void add_entry(void *user, const md_ds_shape_entry *entry)
{
    const visit *v = user;
    const int32_t n_dims = v->op->formula->n_dims;
    int64_t word[4 + MD_FX_MAX_DIMS];
    uint64_t names = 0;
    for (int32_t s = 0; s < v->op->n_stages; s++) {
        const char *name = md_ds_pick_name(v->op, md_ds_plan_of(entry), s);
        const uint64_t part[2] = {names, md_hash64(name, strlen(name))};
        names = md_hash64(part, sizeof part);
    }
    memcpy(word, &v->formula, sizeof v->formula);
    word[2] = (int64_t)names;
    word[3] = entry->is_strided;
    memcpy(word + 4, entry->size, (size_t)n_dims * sizeof *word);
    append(v->choices, md_hash128(word, (size_t)(4 + n_dims) * sizeof *word));
}

void md_ss_choices_add(md_ss_choices *choices, md_ds_op *op)
{
    const md_strbuf *printed = &op->compiled->printed;
    visit v = {choices, op, md_hash128(md_strbuf_text(printed), printed->size)};
    md_ds_table_each(op, add_entry, &v);
}

static int by_value(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(md_digest128));
}

md_status md_ss_choices_digest(md_digest128 *out, md_ss_choices *c)
{
    int64_t kept = MD_MIN(c->n, 1);
    if (c->n)
        qsort(c->choice, (size_t)c->n, sizeof *c->choice, by_value);
    for (int64_t i = 1; i < c->n; i++)
        if (by_value(&c->choice[kept - 1], &c->choice[i]))
            c->choice[kept++] = c->choice[i];
    const bool failed = c->failed;
    *out = md_hash128(kept ? (const void *)c->choice : "", (size_t)kept * sizeof *c->choice);
    free(c->choice);
    memset(c, 0, sizeof *c);
    return failed ? md_fail_memory() : MD_OK;
}
