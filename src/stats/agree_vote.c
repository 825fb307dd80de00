/* Candidates of disputed shapes: builds them, and puts those into use that every rank can build. */
#include "stats/agree.h"

#include "base/grow.h"
#include "base/status.h"
#include "dispatch/cache/table.h"
#include "dispatch/select/select.h"

#include <stdlib.h>
#include <string.h>

/* The names that a record gives the runners-up, where it has some; else those of the choice. */
static const char **names_of(const md_ss_record *record, bool is_runner_up)
{
    const char **name = calloc((size_t)record->n_stages, sizeof *name), *at = record->names;
    for (int32_t s = 0; name && s < 2 * record->n_stages; s++, at += strlen(at) + 1) {
        if (s < record->n_stages)
            name[s] = at;
        else if (is_runner_up && at[0])
            name[s - record->n_stages] = at;
    }
    return name;
}

md_status md_ss_vote_add(md_ss_dispute *dispute, const md_ss_record *record, bool is_runner_up)
{
    md_ss_candidate c = {.record = record, .variant = names_of(record, is_runner_up)};
    if (!c.variant)
        return md_fail_memory();
    c.what = md_ss_what_of(c.variant, record->n_stages);
    bool is_new = dispute->n < MD_SS_CANDIDATES;
    for (int32_t i = 0; i < dispute->n; i++)
        is_new = is_new && dispute->candidate[i].what != c.what;
    if (!is_new || !md_grow(&dispute->candidate, (size_t)dispute->n, sizeof *dispute->candidate)) {
        free(c.variant);
        return is_new ? md_fail_memory() : MD_OK;
    }
    dispute->candidate[dispute->n++] = c;
    return MD_OK;
}

/* ---- Drafts */

static md_status add_draft(md_ss_vote *v, md_ss_draft draft)
{
    if (!md_grow(&v->draft, (size_t)v->n_drafts, sizeof *v->draft)) {
        md_ds_shape_entry_free(draft.entry);
        return md_fail_memory();
    }
    v->draft[v->n_drafts++] = draft;
    return MD_OK;
}

static void key_of(md_ds_key *out, const md_ss_record *record)
{
    out->n = record->n_words;
    memcpy(out->word, record->words, (size_t)record->n_words * sizeof *out->word);
}

static md_digest128 shape_of(const md_ss_record *record)
{
    const md_digest128 part[2] = {record->op, md_hash128(record->words, (size_t)record->n_words * sizeof(int64_t))};
    return md_hash128(part, sizeof part);
}

/* Makes a candidate's entry. One that serves already needs none. */
static md_status make_draft(md_ss_vote *v, int64_t dispute, int32_t candidate, int32_t op)
{
    const md_ss_candidate *c = &v->dispute[dispute].candidate[candidate];
    md_ds_op *const own = v->request->op[op];
    const md_ss_own_choice *now = md_ss_own_find(v->own, shape_of(c->record), op);
    md_ss_draft draft = {.op = op, .candidate = candidate, .dispute = dispute};
    md_ds_key key;
    if (c->record->n_stages != own->n_stages)
        return md_fail(MD_UNSUPPORTED, "op %s: it has %d stages here, not %d", own->name, (int)own->n_stages,
                       (int)c->record->n_stages);
    if (now && now->served == c->what)
        return MD_OK;
    key_of(&key, c->record);
    MD_TRY(md_ds_assign_make(&draft.entry, own, &key, c->variant));
    return add_draft(v, draft);
}

bool md_ss_vote_try(md_ss_vote *v, int64_t dispute, int32_t candidate)
{
    const md_ss_record *record = v->dispute[dispute].candidate[candidate].record;
    for (int32_t i = 0; i < v->request->n_ops; i++) {
        if (memcmp(&v->own->op[i], &record->op, sizeof record->op) != 0 ||
            make_draft(v, dispute, candidate, i) == MD_OK)
            continue;
        if (!v->why[0])
            snprintf(v->why, sizeof v->why, "%.250s", md_last_error());
        return false;
    }
    return true;
}

/* ---- Use */

md_status md_ss_vote_apply(md_ss_vote *v)
{
    md_status s = MD_OK;
    for (int64_t i = 0; i < v->n_drafts && s == MD_OK; i++) {
        md_ss_draft *d = &v->draft[i];
        const md_ss_dispute *dispute = &v->dispute[d->dispute];
        if (dispute->chosen != d->candidate)
            continue;
        md_ds_shape_entry *entry = d->entry;
        md_ds_key key;
        key_of(&key, dispute->candidate[d->candidate].record);
        d->entry = NULL;
        s = md_ds_assign(v->request->op[d->op], &key, entry);
        v->n_changed += s == MD_OK;
    }
    return s;
}

md_status md_ss_vote_apply_own(md_ss_vote *v, const md_ss_own_choice *choice)
{
    md_ds_shape_entry *entry;
    md_ds_key key = {.n = choice->n_words};
    md_ds_op *op = v->request->op[choice->op];
    memcpy(key.word, choice->word, (size_t)choice->n_words * sizeof *choice->word);
    MD_TRY(md_ds_assign_make(&entry, op, &key, choice->variant));
    MD_TRY(md_ds_assign(op, &key, entry));
    v->n_changed++;
    return MD_OK;
}

void md_ss_vote_drop(md_ss_vote *v)
{
    for (int64_t i = 0; i < v->n; i++) {
        for (int32_t c = 0; c < v->dispute[i].n; c++)
            free(v->dispute[i].candidate[c].variant);
        free(v->dispute[i].candidate);
    }
    free(v->dispute);
    v->dispute = NULL;
    v->n = 0;
}

void md_ss_vote_finish(md_ss_vote *v)
{
    for (int64_t i = 0; i < v->n_drafts; i++)
        if (v->draft[i].entry)
            md_ds_shape_entry_free(v->draft[i].entry);
    free(v->draft);
    md_ss_vote_drop(v);
}
