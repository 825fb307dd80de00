/* Verdicts about lists in the store, in the form of stored picks: one entry for the ops of a combo, a line for each
 * list of sizes, strides and alignments. */
#include "combo/decide/decide.h"
#include "dispatch/select/stored.h"
#include "tune/bench/bench.h"
#include "tune/stored/stored.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const NAME[MD_CB_HOWS] = {[MD_CB_ONE] = "combo/one", [MD_CB_EACH] = "combo/each"};

/* The store of the first op; NULL: nothing is kept. */
static md_tn_stored *store_of(const md_cb *cb)
{
    return cb->n_parts > 0 ? cb->part[0].op->policy.stored : NULL;
}

/* All that a verdict depends on, but sizes and environment; malloc'ed text, NULL: out of memory. */
static char *record_key(const md_cb *cb)
{
    md_strbuf b = {0};
    for (int32_t p = 0; p < cb->n_parts; p++)
        md_strbuf_printf(&b, "%s%s", p ? " + " : "combo of ", md_ds_stored_key(cb->part[p].op));
    if (b.failed)
        md_strbuf_finish(&b);
    return b.text;
}

/* Of the items' sizes and strides, and of addresses what choices depend on. */
static bool digest_of(md_digest128 *out, const md_cb *cb)
{
    md_strbuf b = {0};
    for (int32_t p = 0; p < cb->n_parts; p++) {
        const md_cb_part *part = &cb->part[p];
        const int64_t n_data = part->n_items * part->n_operands;
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

/* Times of another driver, or of another clock, say nothing about now. */
static bool is_fact(const md_cb *cb, const md_tn_conditions *at)
{
    return at->environment == md_tn_stored_environment(store_of(cb)) && !at->is_throttled &&
           md_tn_is_same_clock(at->mhz, md_tn_clock_mhz(cb->runtime->dev));
}

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
    char *key = store_of(cb) && digest_of(&digest, cb) ? record_key(cb) : NULL;
    if (!key)
        return false;
    md_tn_stored_load(&list, store_of(cb), key);
    for (int32_t i = list.n_picks - 1; i >= 0 && !is_found; i--)
        if (!memcmp(&list.pick[i].shape, &digest, sizeof digest) && is_fact(cb, &list.pick[i].at) &&
            read_pick(how, &list.pick[i])) {
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
    j->key = record_key(cb);
    j->pick = (md_tn_stored_pick){.us = us,
                                  .at = {.environment = md_tn_stored_environment(store),
                                         .mhz = md_tn_clock_mhz(cb->runtime->dev),
                                         .is_throttled = md_tn_is_throttled(cb->runtime->dev),
                                         .date = (int64_t)time(NULL)}};
    memcpy(j->pick.variant, NAME[how], strlen(NAME[how]) + 1);
    if (j->key && digest_of(&j->pick.shape, cb) && md_tn_stored_submit(store, write_job, j))
        return;
    free(j->key);
    free(j);
}
