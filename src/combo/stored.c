/* Combos in the store: one entry for the ops of a combo, in the form of an op's. Its picks are verdicts about lists of
 * sizes, strides and alignments; its swaps are the winners of tuning of lists of sizes and strides. */
#include "combo/stored.h"

#include "base/log.h"
#include "base/status.h"
#include "dispatch/merged.h"
#include "dispatch/select/stored.h"
#include "tune/bench/bench.h"

#include <stdlib.h>
#include <string.h>

/* The store of the first op; NULL: nothing is kept. */
static md_tn_stored *store_of(const md_cb *cb)
{
    return cb->n_parts > 0 ? cb->part[0].op->policy.stored : NULL;
}

char *md_cb_store_key(const md_cb *cb)
{
    md_strbuf b = {0};
    for (int32_t p = 0; p < cb->n_parts; p++)
        md_strbuf_printf(&b, "%s%s", p ? " + " : "combo of ", md_ds_stored_key(cb->part[p].op));
    if (b.failed)
        md_strbuf_finish(&b);
    return b.text;
}

bool md_cb_list_digest(md_digest128 *out, const md_cb *cb, bool with_addresses)
{
    md_strbuf b = {0};
    for (int32_t p = 0; p < cb->n_parts; p++) {
        const md_cb_part *part = &cb->part[p];
        const int64_t n_data = with_addresses ? part->n_items * part->n_operands : 0;
        md_strbuf_bytes(&b, (const char *)&part->n_items, sizeof part->n_items);
        md_strbuf_bytes(&b, (const char *)part->layout, (size_t)(part->n_items * part->n_words) * sizeof *part->layout);
        for (int64_t i = 0; i < n_data; i++) {
            const char low = (char)((uintptr_t)part->data[i] % 64);
            md_strbuf_bytes(&b, &low, 1);
        }
    }
    *out = md_hash128(md_strbuf_text(&b), b.size);
    const bool is_whole = !b.failed;
    md_strbuf_finish(&b);
    return is_whole;
}

/* ---- Verdicts: one launch or many */

static const char *const NAME[MD_CB_HOWS] = {[MD_CB_ONE] = "combo/one", [MD_CB_EACH] = "combo/each"};

static bool read_pick(md_cb_how *how, const md_tn_stored_pick *pick)
{
    for (int32_t i = 0; i < MD_CB_HOWS; i++)
        if (!strcmp(pick->variant, NAME[i])) {
            *how = (md_cb_how)i;
            return true;
        }
    return false;
}

bool md_cb_record_find(md_cb_how *how, double *us, const md_cb *cb)
{
    md_tn_stored_list list = {0};
    md_digest128 digest;
    bool is_found = false;
    char *key = store_of(cb) && md_cb_list_digest(&digest, cb, true) ? md_cb_store_key(cb) : NULL;
    if (!key)
        return false;
    md_tn_stored_load(&list, store_of(cb), key);
    for (int32_t i = list.n_picks - 1; i >= 0 && !is_found; i--)
        if (!memcmp(&list.pick[i].shape, &digest, sizeof digest) &&
            md_tn_is_fact(&list.pick[i].at, store_of(cb), cb->runtime->dev) && read_pick(how, &list.pick[i])) {
            *us = list.pick[i].us;
            is_found = true;
        }
    md_tn_stored_list_finish(&list);
    free(key);
    return is_found;
}

typedef struct job {
    md_tn_stored *store;
    char *key;
    md_tn_stored_pick pick;
} job;

static void write_job(void *user)
{
    job *j = user;
    md_tn_stored_list list = {0};
    md_tn_stored_add_pick(&list, &j->pick);
    (void)md_tn_stored_save(j->store, j->key, &list); /* a disk that cannot be written is a warning once */
    md_tn_stored_list_finish(&list);
    free(j->key);
    free(j);
}

void md_cb_record_put(const md_cb *cb, md_cb_how how, double us)
{
    md_tn_stored *store = store_of(cb);
    job *j = md_tn_stored_is_writable(store) ? calloc(1, sizeof *j) : NULL;
    if (!j)
        return;
    j->store = store;
    j->key = md_cb_store_key(cb);
    j->pick = (md_tn_stored_pick){.us = us, .at = md_tn_conditions_now(store_of(cb), cb->runtime->dev)};
    memcpy(j->pick.variant, NAME[how], strlen(NAME[how]) + 1);
    if (j->key && md_cb_list_digest(&j->pick.shape, cb, true) && md_tn_stored_submit(store, write_job, j))
        return;
    free(j->key);
    free(j);
}

/* ---- Winners of tuning */

/* The number of an op among the swaps: twice that of its first part, and one more for the op that serves merged
 * items. */
static int32_t number_of(const md_cb *cb, const md_ds_op *op)
{
    for (int32_t p = 0; p < cb->n_parts; p++)
        if (cb->part[p].op == op || md_ds_merged_of(cb->part[p].op) == op)
            return 2 * p + (cb->part[p].op != op);
    return 2 * cb->n_parts;
}

static const md_ds_op *op_of(const md_cb *cb, int32_t number)
{
    if (number / 2 >= cb->n_parts)
        return NULL;
    const md_ds_op *own = cb->part[number / 2].op;
    return number % 2 ? md_ds_merged_of(own) : own;
}

/* False: it is no swap of this combo. One of an op that is not made is left out. */
static bool take_swap(md_cb_choices *to, const md_cb *cb, const md_tn_stored_swap *s)
{
    const md_fa_family *family;
    md_cb_choice *c = &to->choice[to->n];
    *c = (md_cb_choice){.op = op_of(cb, s->op), .stage = s->of.stage};
    if (!c->op)
        return s->op / 2 < cb->n_parts;
    if (to->n == MD_CB_MAX_CHOICES || c->stage >= c->op->n_stages)
        return false;
    const md_fa_target *target = &c->op->stage[c->stage].target;
    if (md_fa_parse_for(&c->family, &c->from, target, s->of.variant) != MD_OK ||
        md_fa_parse_for(&family, &c->to, target, s->to) != MD_OK || family != c->family)
        return false;
    to->n += strcmp(s->of.variant, s->to) != 0;
    return true;
}

void md_cb_swaps_find(md_cb *cb)
{
    md_tn_stored_list list = {0};
    md_digest128 digest;
    bool is_good = true;
    char *key = store_of(cb) && md_cb_list_digest(&digest, cb, false) ? md_cb_store_key(cb) : NULL;
    if (!key)
        return;
    md_tn_stored_load(&list, store_of(cb), key);
    for (int32_t i = 0; i < list.n_swaps; i++)
        if (!memcmp(&list.swap[i].of.shape, &digest, sizeof digest) &&
            list.swap[i].of.at.environment == md_tn_stored_environment(store_of(cb)))
            is_good &= take_swap(&cb->choices, cb, &list.swap[i]);
    if (!is_good) {
        cb->choices.n = 0;
        md_log_at(cb->runtime->log, MD_LOG_WARN, "store: what was tuned of a combo cannot be used, and is left out");
    }
    md_tn_stored_list_finish(&list);
    free(key);
}

md_status md_cb_swaps_put(const md_cb *cb, int32_t n, const md_cb_choice *choice, double us)
{
    md_tn_stored_list list = {0};
    md_tn_stored_swap s;
    char *key = md_cb_store_key(cb);
    memset(&s, 0, sizeof s);
    s.of.us = us;
    s.of.at = md_tn_conditions_now(store_of(cb), cb->runtime->dev);
    list.failed = !key || !md_cb_list_digest(&s.of.shape, cb, false);
    for (int32_t i = 0; i < n; i++) {
        s.of.stage = choice[i].stage;
        s.op = number_of(cb, choice[i].op);
        memset(s.of.variant, 0, sizeof s.of.variant);
        md_fa_name(s.of.variant, choice[i].family, &choice[i].from);
        md_fa_name(s.to, choice[i].family, &choice[i].to);
        md_tn_stored_add_swap(&list, &s);
    }
    md_status status = list.failed                              ? md_fail_memory()
                       : md_tn_stored_is_writable(store_of(cb)) ? md_tn_stored_save(store_of(cb), key, &list)
                                                                : md_fail(MD_IO, "there is no store to write to");
    md_tn_stored_list_finish(&list);
    free(key);
    return status;
}
