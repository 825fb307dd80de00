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
} visit;

static void append(md_ss_choices *c, md_digest128 one)
{
    if (md_grow(&c->choice, (size_t)c->n, sizeof *c->choice))
        c->choice[c->n++] = one;
    else
        c->failed = true;
}

static void add_entry(void *user, const md_ds_shape_entry *entry)
{
    const visit *v = user;
    const md_ds_op *op = v->op;
    char shape[160];
    md_strbuf text = {0};
    md_ds_shape_text(shape, sizeof shape, op->formula, entry->size);
    md_strbuf_printf(&text, "%s\n%s%s\n", md_strbuf_text(&op->compiled->printed), shape,
                     entry->is_strided ? " strided" : "");
    for (int32_t s = 0; s < op->n_stages; s++)
        md_strbuf_printf(&text, "%s\n", md_ds_pick_name(op, md_ds_plan_of(entry), s));
    v->choices->failed |= text.failed;
    append(v->choices, md_hash128(md_strbuf_text(&text), text.size));
    md_strbuf_finish(&text);
}

void md_ss_choices_add(md_ss_choices *choices, md_ds_op *op)
{
    visit v = {choices, op};
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
