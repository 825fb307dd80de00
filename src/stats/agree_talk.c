/* How ranks talk: gathers with a deadline, the hello, and the digests from which all know what is disputed. */
#include "stats/agree.h"

#include "base/clock.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

static const char MAGIC[8] = "mdagree";

/* ---- Gathers */

void md_ss_agree_note(md_ss_agreement *a, md_status status)
{
    if (status == MD_OK || a->status != MD_OK)
        return;
    a->status = status;
    snprintf(a->message, sizeof a->message, "%.500s", md_last_error());
}

md_status md_ss_agree_exchange(const md_ss_agreement *a, void *all, const void *mine, size_t n_bytes)
{
    char why[MD_WHY_BYTES] = "";
    const uint64_t now = md_clock_ns();
    const double left = a->end_ns > now ? (double)(a->end_ns - now) * 1e-9 : 0.0;
    if (a->x->gather(a->x->user, all, mine, n_bytes, left, why) == 0)
        return MD_OK;
    why[sizeof why - 1] = 0;
    return md_fail(MD_TIMEOUT, "agree: %s", why[0] ? why : "a rank did not come in time, or the exchange failed");
}

md_status md_ss_agree_gather(md_ss_agreement *a, md_ss_gather which, const void *mine, size_t n_mine, size_t n_bytes)
{
    const size_t n = MD_MAX(n_bytes, 1), n_ranks = (size_t)a->x->n_ranks;
    a->all[which] = calloc(n_ranks + 1, n); /* the last part is this rank's */
    if (!a->all[which])
        return md_fail_memory();
    a->n_bytes[which] = n;
    if (n_mine)
        memcpy(a->all[which] + n_ranks * n, mine, n_mine);
    return md_ss_agree_exchange(a, a->all[which], a->all[which] + n_ranks * n, n);
}

const char *md_ss_agree_part_of(const md_ss_agreement *a, md_ss_gather which, int32_t rank)
{
    return a->all[which] + (size_t)rank * a->n_bytes[which];
}

/* ---- 1. Hello */

static int32_t kind_of(const md_ss_hello *hello, int32_t rank)
{
    int32_t first = 0;
    while (strncmp(hello[first].device, hello[rank].device, sizeof hello->device) != 0)
        first++;
    return first;
}

static void learn(md_ss_agreement *a)
{
    const md_ss_hello *h = a->hello;
    a->is_settled = true;
    for (int32_t r = 0; r < a->x->n_ranks; r++) {
        a->kinds[r] = kind_of(h, r);
        const md_ss_hello *first = &h[a->kinds[r]];
        a->out->n_kinds += first == &h[r];
        a->has_other_ops |= memcmp(first->ops, h[r].ops, sizeof h->ops) != 0;
        a->is_settled &= memcmp(first->choices, h[r].choices, sizeof h->choices) == 0 && !h[r].has_proposals;
    }
    a->kind = a->kinds[a->x->rank];
    a->is_settled &= !a->has_other_ops;
    md_ss_note_difference(a->out, h, a->x->n_ranks);
    const md_status s = md_ss_check_library(h, a->x->n_ranks);
    md_ss_agree_note(a, s);
    if (s != MD_OK) /* nothing else that they say would be understood */
        a->is_settled = true;
}

md_status md_ss_agree_say_hello(md_ss_agreement *a)
{
    md_ss_hello mine;
    const md_digest128 ops = md_hash128(md_strbuf_text(&a->ops), a->ops.size);
    memset(&mine, 0, sizeof mine);
    memcpy(mine.magic, MAGIC, sizeof MAGIC);
    snprintf(mine.library, sizeof mine.library, "%s", a->r->library);
    snprintf(mine.device, sizeof mine.device, "%s", a->r->device);
    snprintf(mine.environment, sizeof mine.environment, "%s", a->r->environment);
    memcpy(mine.ops, &ops, sizeof mine.ops);
    for (int64_t i = 0; i < a->n_ids; i++) { /* the lengths of records, which follow, do not count */
        const md_digest128 one = md_hash128(&a->id[i], offsetof(md_ss_choice_id, n_bytes));
        mine.choices[0] += one.lo;
        mine.choices[1] += one.hi;
    }
    mine.ops_bytes = (int64_t)a->ops.size;
    mine.n_choices = a->n_ids;
    mine.has_proposals = a->own.has_proposals;
    const size_t n = (size_t)a->x->n_ranks;
    a->hello = calloc(n, sizeof *a->hello);
    a->kinds = calloc(n, sizeof *a->kinds);
    a->said = calloc(n, sizeof *a->said);
    a->disputes = calloc(n, sizeof *a->disputes);
    if (!a->hello || !a->kinds || !a->said || !a->disputes)
        return md_fail_memory();
    MD_TRY(md_ss_agree_exchange(a, a->hello, &mine, sizeof mine));
    learn(a);
    return MD_OK;
}

/* ---- 2. Digests of choices */

static int by_kind_shape_rank(const void *x, const void *y)
{
    const md_ss_voice *a = x, *b = y;
    const int order =
        a->kind != b->kind ? a->kind - b->kind : memcmp(&a->id->shape, &b->id->shape, sizeof a->id->shape);
    return order ? order : a->rank - b->rank;
}

int64_t md_ss_agree_end_of_group(const md_ss_agreement *a, int64_t from)
{
    int64_t to = from + 1;
    while (to < a->n_voices && a->voice[to].kind == a->voice[from].kind &&
           !memcmp(&a->voice[to].id->shape, &a->voice[from].id->shape, sizeof(md_digest128)))
        to++;
    return to;
}

static void find_speakers(md_ss_agreement *a, int64_t from, int64_t to, int32_t n_of_kind)
{
    bool is_disputed = to - from < n_of_kind;
    for (int64_t i = from; i < to; i++)
        is_disputed |= a->voice[i].id->what != a->voice[from].id->what;
    for (int64_t i = from; i < to; i++) {
        a->voice[i].is_disputed = a->voice[i].speaks = is_disputed;
        for (int64_t k = from; k < i && a->voice[i].speaks; k++)
            a->voice[i].speaks &= a->voice[k].id->what != a->voice[i].id->what;
        a->said[a->voice[i].rank] += a->voice[i].speaks ? (size_t)a->voice[i].id->n_bytes : 0;
    }
    a->disputes[a->voice[from].kind] += is_disputed;
    if (a->voice[from].kind == a->kind) {
        a->out->n_shapes++;
        a->out->n_disputed += is_disputed;
    }
}

static const md_ss_choice_id *ids_of(const md_ss_agreement *a, int32_t rank)
{
    return (const void *)md_ss_agree_part_of(a, MD_SS_DIGESTS, rank);
}

/* True if the ranks of each kind have met the same shapes, as they mostly have. */
static bool are_aligned(const md_ss_agreement *a)
{
    for (int32_t r = 0; r < a->x->n_ranks; r++) {
        const int64_t n = a->hello[r].n_choices;
        const md_ss_choice_id *own = ids_of(a, r), *first = ids_of(a, a->kinds[r]);
        if (n != a->hello[a->kinds[r]].n_choices)
            return false;
        for (int64_t i = 0; i < n; i++)
            if (memcmp(&own[i].shape, &first[i].shape, sizeof own->shape) != 0)
                return false;
    }
    return true;
}

/* Sorted by kind, shape and rank. */
static void fill_voices(md_ss_agreement *a)
{
    const int32_t n = a->x->n_ranks;
    const bool is_aligned = are_aligned(a);
    for (int32_t kind = 0; kind < n; kind++) {
        const int64_t n_aligned = is_aligned && a->kinds[kind] == kind ? a->hello[kind].n_choices : 0;
        for (int64_t i = 0; i < n_aligned; i++)
            for (int32_t r = kind; r < n; r++)
                if (a->kinds[r] == kind)
                    a->voice[a->n_voices++] = (md_ss_voice){.kind = kind, .rank = r, .id = &ids_of(a, r)[i]};
    }
    for (int32_t r = 0; r < n && !is_aligned; r++)
        for (int64_t i = 0; i < a->hello[r].n_choices; i++)
            a->voice[a->n_voices++] = (md_ss_voice){.kind = a->kinds[r], .rank = r, .id = &ids_of(a, r)[i]};
    if (a->n_voices && !is_aligned)
        qsort(a->voice, (size_t)a->n_voices, sizeof *a->voice, by_kind_shape_rank);
}

static md_status list_voices(md_ss_agreement *a)
{
    int64_t n = 0;
    for (int32_t r = 0; r < a->x->n_ranks; r++)
        n += a->hello[r].n_choices;
    a->voice = calloc((size_t)MD_MAX(n, 1), sizeof *a->voice);
    int32_t *n_of_kind = calloc((size_t)MD_MAX(a->x->n_ranks, 1), sizeof *n_of_kind);
    if (!a->voice || !n_of_kind) {
        free(n_of_kind);
        return md_fail_memory();
    }
    for (int32_t r = 0; r < a->x->n_ranks; r++)
        n_of_kind[a->kinds[r]]++;
    fill_voices(a);
    for (int64_t i = 0, to; i < a->n_voices; i = to) {
        to = md_ss_agree_end_of_group(a, i);
        find_speakers(a, i, to, n_of_kind[a->voice[i].kind]);
    }
    free(n_of_kind);
    return MD_OK;
}

md_status md_ss_agree_say_digests(md_ss_agreement *a)
{
    int64_t most = 0;
    for (int32_t r = 0; r < a->x->n_ranks && !a->is_settled; r++)
        most = MD_MAX(most, a->hello[r].n_choices);
    MD_TRY(md_ss_agree_gather(a, MD_SS_DIGESTS, a->id, a->is_settled ? 0 : (size_t)a->n_ids * sizeof *a->id,
                              (size_t)most * sizeof *a->id));
    if (a->is_settled)
        a->out->n_shapes = a->n_ids;
    return a->is_settled ? MD_OK : list_voices(a);
}
