/* The choices of this rank, and the records of choices that ranks exchange. */
#include "stats/agree.h"

#include "base/grow.h"
#include "base/status.h"
#include "dispatch/cache/table.h"
#include "dispatch/select/select.h"
#include "dispatch/select/stored.h"

#include <stdlib.h>
#include <string.h>

/* What a record begins with; words of the key and names follow. */
typedef struct head {
    md_digest128 op;
    int32_t n_words, n_stages;
} head;

uint64_t md_ss_what_of(const char *const *variant, int32_t n_stages)
{
    uint64_t what = UINT64_C(0x9e3779b97f4a7c15);
    for (int32_t s = 0; s < n_stages; s++)
        what = what * UINT64_C(0x100000001b3) ^ md_hash64(variant[s], strlen(variant[s]));
    return what;
}

/* ---- This rank's */

typedef struct visit {
    md_ss_own_choices *own;
    md_ds_op *op;
    int32_t number;
} visit;

static const char *runner_up_of(const md_ds_op *op, const md_ds_plan *plan, int32_t stage)
{
    const int32_t variant = plan->stage[stage].is_idle ? -1 : plan->stage[stage].pick.runner_up;
    return variant >= 0 ? md_ds_variant_name(op, stage, variant) : "";
}

/* The names that are proposed or, where nothing is, serve; with the runners-up and the length of the record. */
static void name_variants(md_ss_own_choice *c, visit *v, const md_ds_shape_entry *e)
{
    const md_ds_op *op = v->op;
    const md_ds_plan *plan = md_ds_plan_of(e);
    const md_digest128 shape = md_hash128(e->key, e->key_bytes);
    for (int32_t s = 0; s < op->n_stages; s++) {
        c->variant[s] = md_ds_pick_name(op, plan, s);
        c->variant[op->n_stages + s] = runner_up_of(op, plan, s);
    }
    c->served = md_ss_what_of(c->variant, op->n_stages);
    for (int32_t s = 0; s < op->n_stages && op->policy.agrees; s++) {
        const int32_t proposed = plan->stage[s].is_idle ? -1 : md_ds_proposal_of(op, s, shape);
        if (proposed >= 0)
            c->variant[s] = md_ds_variant_name(op, s, proposed);
    }
    c->id.what = md_ss_what_of(c->variant, op->n_stages);
    v->own->has_proposals |= c->id.what != c->served;
    c->id.n_bytes = (int64_t)(sizeof(head) + e->key_bytes);
    for (int32_t s = 0; s < 2 * op->n_stages; s++)
        c->id.n_bytes += (int64_t)strlen(c->variant[s]) + 1;
}

/* Shapes that the reference serves have no choice; an entry under way to another plan has the one that serves now. */
static void add_entry(void *user, const md_ds_shape_entry *e)
{
    visit *v = user;
    md_digest128 part[2];
    md_ss_own_choices *own = v->own;
    if (md_ds_plan_of(e)->by_reference)
        return;
    own->failed |= !md_grow(&own->choice, (size_t)own->n, sizeof *own->choice);
    if (own->failed)
        return;
    md_ss_own_choice *c = &own->choice[own->n];
    *c = (md_ss_own_choice){.op = v->number, .n_words = (int32_t)(e->key_bytes / sizeof(int64_t))};
    c->word = malloc(MD_MAX(e->key_bytes, 1));
    c->variant = malloc(2 * (size_t)v->op->n_stages * sizeof *c->variant);
    if (!c->word || !c->variant) {
        free(c->word);
        free(c->variant);
        own->failed = true;
        return;
    }
    memcpy(c->word, e->key, e->key_bytes);
    part[0] = own->op[v->number];
    part[1] = md_hash128(e->key, e->key_bytes);
    c->id.shape = md_hash128(part, sizeof part);
    name_variants(c, v, e);
    own->n++;
}

static int by_shape(const void *a, const void *b)
{
    return memcmp(&((const md_ss_own_choice *)a)->id.shape, &((const md_ss_own_choice *)b)->id.shape,
                  sizeof(md_digest128));
}

/* Of equal shapes the earlier op's is first. */
static int by_shape_and_op(const void *a, const void *b)
{
    const int order = by_shape(a, b);
    return order ? order : ((const md_ss_own_choice *)a)->op - ((const md_ss_own_choice *)b)->op;
}

md_status md_ss_own_choices_make(md_ss_own_choices *out, md_ds_op *const *op, int32_t n_ops)
{
    *out = (md_ss_own_choices){.op = calloc((size_t)MD_MAX(n_ops, 1), sizeof *out->op)};
    if (!out->op)
        return md_fail_memory();
    for (int32_t i = 0; i < n_ops; i++) {
        const char *key = md_ds_stored_key(op[i]);
        out->op[i] = md_hash128(key, strlen(key));
        md_ds_table_each(op[i], add_entry, &(visit){out, op[i], i});
    }
    if (out->n)
        qsort(out->choice, (size_t)out->n, sizeof *out->choice, by_shape_and_op);
    return out->failed ? md_fail_memory() : MD_OK;
}

void md_ss_own_choices_finish(md_ss_own_choices *own)
{
    for (int64_t i = 0; i < own->n; i++) {
        free(own->choice[i].word);
        free(own->choice[i].variant);
    }
    free(own->choice);
    free(own->op);
    *own = (md_ss_own_choices){0};
}

md_ss_choice_id *md_ss_own_ids(int64_t *n, const md_ss_own_choices *own)
{
    md_ss_choice_id *ids = calloc((size_t)MD_MAX(own->n, 1), sizeof *ids);
    *n = 0;
    for (int64_t i = 0; ids && i < own->n; i++)
        if (i == 0 || by_shape(&own->choice[i - 1], &own->choice[i]) != 0)
            ids[(*n)++] = own->choice[i].id;
    return ids;
}

const md_ss_own_choice *md_ss_own_find(const md_ss_own_choices *own, md_digest128 shape, int32_t op)
{
    const md_ss_own_choice wanted = {.id.shape = shape};
    const md_ss_own_choice *c = own->n ? bsearch(&wanted, own->choice, (size_t)own->n, sizeof wanted, by_shape) : NULL;
    while (c && c > own->choice && by_shape(c - 1, c) == 0)
        c--;
    for (; c && c < own->choice + own->n && by_shape(c, &wanted) == 0; c++)
        if (op < 0 || c->op == op)
            return c;
    return NULL;
}

/* ---- Records */

void md_ss_record_print(md_strbuf *out, const md_ss_own_choices *own, const md_ss_own_choice *choice, int32_t n_stages)
{
    head h;
    memset(&h, 0, sizeof h);
    h.op = own->op[choice->op];
    h.n_words = choice->n_words;
    h.n_stages = n_stages;
    md_strbuf_bytes(out, (const char *)&h, sizeof h);
    md_strbuf_bytes(out, (const char *)choice->word, (size_t)choice->n_words * sizeof *choice->word);
    for (int32_t s = 0; s < 2 * n_stages; s++)
        md_strbuf_bytes(out, choice->variant[s], strlen(choice->variant[s]) + 1);
}

bool md_ss_record_read(md_ss_record *out, const char *bytes, size_t n_bytes)
{
    head h;
    if (n_bytes < sizeof h)
        return false;
    memcpy(&h, bytes, sizeof h);
    if (h.n_words < 0 || h.n_words > MD_DS_KEY_WORDS || h.n_stages < 1 || h.n_stages > MD_ST_MAX_STAGES ||
        n_bytes < sizeof h + (size_t)h.n_words * sizeof(int64_t))
        return false;
    const char *at = bytes + sizeof h + (size_t)h.n_words * sizeof(int64_t), *end = bytes + n_bytes;
    *out = (md_ss_record){h.op, h.n_words, h.n_stages, bytes + sizeof h, at};
    for (int32_t s = 0; s < 2 * h.n_stages; s++) {
        const char *stop = at < end ? memchr(at, 0, (size_t)(end - at)) : NULL;
        if (!stop)
            return false;
        at = stop + 1;
    }
    return at == end;
}
