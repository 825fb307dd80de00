/* The agreement of ranks: six gathers, whatever they bring.
 *
 * 1. Hello: version, device, digests. Where all digests are equal, only a byte is said in the next four.
 * 2. A digest of each choice. All ranks see them all, so all know what is disputed, and who says what next.
 * 3. Records of disputed choices: each different choice once, by the first rank that made it.
 * 4. Vetoes of the first choice of each dispute: who cannot build it.
 * 5. Vetoes of the others, where there was one.
 * 6. Digests after the change, and messages.
 *
 * A rank that fails goes on gathering and says so in the end, so that no other rank waits for it. */
#include "stats/agree.h"

#include "base/clock.h"
#include "base/status.h"
#include "stats/report.h"

#include <stdlib.h>
#include <string.h>

static const double SECONDS = 30.0;

typedef struct result {
    uint64_t digest[2];
    int32_t status;
    char message[MD_SS_MESSAGE];
} result;

/* ---- 3. Records */

static md_status say_records(md_ss_agreement *a)
{
    md_strbuf mine = {0};
    size_t most = 0;
    for (int32_t r = 0; r < a->x->n_ranks && !a->is_settled; r++) { /* texts of ops come first, where some differ */
        a->said[r] += a->has_other_ops ? (size_t)a->hello[r].ops_bytes + 1 : 0;
        most = MD_MAX(most, a->said[r]);
    }
    if (a->has_other_ops && !a->is_settled)
        md_strbuf_bytes(&mine, md_strbuf_text(&a->ops), a->ops.size + 1);
    for (int64_t i = 0; i < a->n_voices; i++) {
        const md_ss_own_choice *own = a->voice[i].speaks && a->voice[i].rank == a->x->rank
                                          ? md_ss_own_find(&a->own, a->voice[i].id->shape, -1)
                                          : NULL;
        if (own)
            md_ss_record_print(&mine, &a->own, own, a->r->op[own->op]->n_stages);
    }
    if (mine.failed)
        md_ss_agree_note(a, md_fail_memory());
    const md_status s = md_ss_agree_gather(a, MD_SS_RECORDS, mine.text, mine.failed ? 0 : mine.size, most);
    md_strbuf_finish(&mine);
    return s;
}

/* Ranks of this kind with other ops: the first difference. */
static void compare_ops(md_ss_agreement *a)
{
    for (int32_t r = 0; r < a->x->n_ranks && a->has_other_ops && !a->is_settled; r++)
        if (a->kinds[r] == a->kind)
            md_ss_agree_note(a, md_ss_check_ops(a->kind, md_ss_agree_part_of(a, MD_SS_RECORDS, a->kind), r,
                                                md_ss_agree_part_of(a, MD_SS_RECORDS, r)));
}

/* Reads the records of this kind, in the order of voices. */
static md_status read_records(md_ss_agreement *a)
{
    int64_t n = 0;
    size_t *at = calloc((size_t)a->x->n_ranks, sizeof *at);
    for (int64_t i = 0; i < a->n_voices; i++)
        n += a->voice[i].speaks && a->voice[i].kind == a->kind;
    a->record = calloc((size_t)MD_MAX(n, 1), sizeof *a->record);
    md_status s = at && a->record ? MD_OK : md_fail_memory();
    for (int32_t r = 0; s == MD_OK && a->has_other_ops && r < a->x->n_ranks; r++)
        at[r] = (size_t)a->hello[r].ops_bytes + 1;
    n = 0;
    for (int64_t i = 0; s == MD_OK && i < a->n_voices; i++) {
        const md_ss_voice *v = &a->voice[i];
        if (!v->speaks)
            continue;
        if (v->kind == a->kind &&
            !md_ss_record_read(&a->record[n++], md_ss_agree_part_of(a, MD_SS_RECORDS, v->rank) + at[v->rank],
                               (size_t)v->id->n_bytes))
            s = md_fail(MD_CORRUPT, "agree: what rank %d said of its choices cannot be read", (int)v->rank);
        at[v->rank] += (size_t)v->id->n_bytes;
    }
    free(at);
    return s;
}

/* ---- 4, 5. Votes */

/* The ranks' own choices, in order of ranks. */
static md_status make_disputes(md_ss_agreement *a)
{
    const md_ss_record *record = a->record;
    a->vote.dispute = calloc((size_t)MD_MAX(a->out->n_disputed, 1), sizeof *a->vote.dispute);
    if (!a->vote.dispute)
        return md_fail_memory();
    for (int64_t i = 0, to; i < a->n_voices; i = to) {
        to = md_ss_agree_end_of_group(a, i);
        if (a->voice[i].kind != a->kind || !a->voice[i].is_disputed)
            continue;
        md_ss_dispute *d = &a->vote.dispute[a->vote.n++];
        for (int64_t k = i; k < to; k++)
            if (a->voice[k].speaks)
                MD_TRY(md_ss_vote_add(d, record++, false));
    }
    return MD_OK;
}

/* Where the first choice is vetoed, all choices' runners-up are candidates, too. */
static md_status add_runners_up(md_ss_agreement *a)
{
    for (int64_t i = 0; i < a->vote.n; i++) {
        md_ss_dispute *d = &a->vote.dispute[i];
        const int32_t n = d->is_vetoed ? d->n : 0;
        for (int32_t c = 0; c < n; c++)
            MD_TRY(md_ss_vote_add(d, d->candidate[c].record, true));
    }
    return MD_OK;
}

/* Bit c: candidate c of the dispute cannot be built here. */
static char vetoes_of(md_ss_agreement *a, md_ss_gather which, int64_t dispute)
{
    const md_ss_dispute *d = &a->vote.dispute[dispute];
    int bits = 0;
    for (int32_t c = which == MD_SS_FIRST_VOTE ? 0 : 1; c < (d->is_vetoed ? d->n : 1); c++)
        bits |= md_ss_vote_try(&a->vote, dispute, c) ? 0 : 1 << c;
    return (char)bits;
}

/* The first candidate that no rank vetoed is chosen. */
static void count_vetoes(md_ss_agreement *a, md_ss_gather which, int64_t dispute)
{
    md_ss_dispute *d = &a->vote.dispute[dispute];
    unsigned bits = 0;
    for (int32_t r = 0; r < a->x->n_ranks; r++)
        bits |= a->kinds[r] == a->kind ? (unsigned char)md_ss_agree_part_of(a, which, r)[dispute] : 0;
    a->out->n_vetoed += __builtin_popcount(bits);
    d->is_vetoed |= which == MD_SS_FIRST_VOTE && bits;
    d->chosen = d->is_vetoed ? -1 : 0;
    for (int32_t c = d->n - 1; c >= 1 && which == MD_SS_SECOND_VOTE && d->is_vetoed; c--)
        d->chosen = bits >> c & 1 ? d->chosen : c;
}

/* Every rank says a byte for each dispute: its vetoes. */
static md_status vote(md_ss_agreement *a, md_ss_gather which, size_t n_bytes)
{
    char *mine = calloc(MD_MAX(n_bytes, 1), 1);
    if (!mine)
        return md_fail_memory();
    for (int64_t i = 0; i < a->vote.n; i++)
        mine[i] = vetoes_of(a, which, i);
    const md_status s = md_ss_agree_gather(a, which, mine, n_bytes, n_bytes);
    free(mine);
    MD_TRY(s);
    for (int64_t i = 0; i < a->vote.n; i++)
        count_vetoes(a, which, i);
    return MD_OK;
}

static void name_undecided(md_ss_agreement *a)
{
    for (int64_t i = 0; i < a->vote.n; i++) {
        const md_ss_dispute *d = &a->vote.dispute[i];
        if (d->chosen >= 0)
            continue;
        for (int32_t r = 0; r < a->x->n_ranks; r++)
            if (md_ss_agree_part_of(a, MD_SS_FIRST_VOTE, r)[i] && a->kinds[r] == a->kind) {
                md_ss_agree_note(
                    a, md_fail(MD_UNSUPPORTED,
                               "agree: ranks chose different kernels, and no choice can be built on all of them: rank "
                               "%d cannot build '%.80s'%s%.250s",
                               (int)r, d->candidate[0].variant[0], r == a->x->rank ? ": " : "",
                               r == a->x->rank ? a->vote.why : ""));
                return;
            }
    }
}

/* Proposals that all ranks of the kind have in common. */
static md_status apply_undisputed(md_ss_agreement *a)
{
    for (int64_t i = 0; i < a->n_voices; i++) {
        const md_ss_voice *v = &a->voice[i];
        if (v->rank != a->x->rank || v->is_disputed)
            continue;
        for (int32_t op = 0; op < a->r->n_ops; op++) {
            const md_ss_own_choice *own = md_ss_own_find(&a->own, v->id->shape, op);
            if (own && own->id.what != own->served)
                MD_TRY(md_ss_vote_apply_own(&a->vote, own));
        }
    }
    return MD_OK;
}

static md_status decide(md_ss_agreement *a)
{
    const bool is_over = a->is_settled;
    int64_t most = 0; /* disputes of a kind: a vote has as many bytes */
    for (int32_t r = 0; r < a->x->n_ranks; r++)
        most = MD_MAX(most, a->disputes[r]);
    const size_t n = is_over ? 0 : (size_t)most;
    a->vote.request = a->r;
    a->vote.own = &a->own;
    if (!is_over) {
        compare_ops(a);
        md_status s = read_records(a);
        if (s == MD_OK)
            s = make_disputes(a);
        md_ss_agree_note(a, s);
        if (s != MD_OK)
            md_ss_vote_drop(&a->vote);
    }
    MD_TRY(vote(a, MD_SS_FIRST_VOTE, n));
    md_ss_agree_note(a, add_runners_up(a));
    MD_TRY(vote(a, MD_SS_SECOND_VOTE, n));
    if (is_over)
        return MD_OK;
    md_ss_agree_note(a, md_ss_vote_apply(&a->vote));
    md_ss_agree_note(a, apply_undisputed(a));
    name_undecided(a);
    return MD_OK;
}

/* ---- 6. Results */

static md_status digest_choices(uint64_t out[2], const md_ss_agree_request *r)
{
    md_ss_choices choices = {0};
    md_digest128 digest;
    for (int32_t i = 0; i < r->n_ops; i++)
        md_ss_choices_add(&choices, r->op[i]);
    MD_TRY(md_ss_choices_digest(&digest, &choices));
    out[0] = digest.lo;
    out[1] = digest.hi;
    return MD_OK;
}

static md_status judge(const md_ss_agreement *a, const result *all)
{
    /* Of several ranks the one with the longest message: only who cannot build a choice knows why. */
    int32_t failed = -1;
    for (int32_t r = 0; r < a->x->n_ranks; r++)
        if (all[r].status != MD_OK && (failed < 0 || strlen(all[r].message) > strlen(all[failed].message)))
            failed = r;
    if (failed >= 0)
        return md_fail((md_status)all[failed].status, "%s (rank %d says so)", all[failed].message, (int)failed);
    for (int32_t r = 0; r < a->x->n_ranks; r++) {
        const int32_t first = a->kinds[r];
        if (memcmp(all[r].digest, all[first].digest, sizeof all->digest) != 0)
            return md_fail(MD_UNSUPPORTED,
                           "agree: ranks chose different kernels: rank %d from rank %d; were ops called meanwhile, or "
                           "served by the reference?",
                           (int)r, (int)first);
    }
    return MD_OK;
}

static md_status say_results(md_ss_agreement *a)
{
    result mine, *all = calloc((size_t)a->x->n_ranks, sizeof *all);
    memset(&mine, 0, sizeof mine);
    if (!all)
        return md_fail_memory();
    md_ss_agree_note(a, digest_choices(mine.digest, a->r));
    mine.status = (int32_t)a->status;
    memcpy(mine.message, a->message, sizeof mine.message);
    md_status s = md_ss_agree_exchange(a, all, &mine, sizeof mine);
    if (s == MD_OK)
        s = judge(a, all);
    memcpy(a->out->digest, mine.digest, sizeof mine.digest);
    a->out->n_changed = a->vote.n_changed;
    free(all);
    return s;
}

/* ---- All of it */

static md_status run(md_ss_agreement *a)
{
    md_ss_ops_text(&a->ops, a->r->op, a->r->n_ops);
    md_ss_agree_note(a, md_ss_own_choices_make(&a->own, a->r->op, a->r->n_ops));
    a->id = md_ss_own_ids(&a->n_ids, &a->own);
    if (!a->id || a->ops.failed)
        return md_fail_memory();
    MD_TRY(md_ss_agree_say_hello(a));
    MD_TRY(md_ss_agree_say_digests(a));
    MD_TRY(say_records(a));
    MD_TRY(decide(a));
    return say_results(a);
}

md_status md_ss_agree(md_agreement *out, const md_ss_agree_request *request)
{
    const md_exchange *x = request->exchange;
    md_ss_agreement a = {.r = request, .x = x, .out = out};
    a.end_ns = md_clock_ns() + (uint64_t)((x->seconds > 0.0 ? x->seconds : SECONDS) * 1e9);
    *out = (md_agreement){.differing = -1};
    const md_status s = run(&a);
    md_ss_vote_finish(&a.vote);
    md_ss_own_choices_finish(&a.own);
    md_strbuf_finish(&a.ops);
    for (int i = 0; i < MD_SS_KEPT_GATHERS; i++)
        free(a.all[i]);
    free(a.record);
    free(a.voice);
    free(a.hello);
    free(a.kinds);
    free(a.said);
    free(a.disputes);
    free(a.id);
    return s;
}
