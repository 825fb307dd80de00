/* Keeps answers of the model in the store, one entry per stage. */
#include "tune/search/search.h"

#include "base/embed.h"
#include "base/status.h"
#include "base/table.h"
#include "tune/tune.h"
#include "tune/wisdom/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define KIND "estimate"
enum { MOST_ANSWERS = 100000 };

typedef struct answer {
    md_digest128 question;
    md_fa_config config;
    double us; /* not > 0: no config is legal there */
} answer;
_Static_assert(sizeof(answer) == sizeof(md_digest128) + sizeof(md_fa_config) + sizeof(double),
               "no gaps: answers are written as they are");

struct md_tn_estimates {
    const md_tn_wisdom *wisdom; /* for its store and bundles */
    char *key;
    md_table *known; /* question -> answer */
    bool has_news;
};

/* The stage and the sources of the library. */
static char *key_of(const md_fa_target *target)
{
    static const int64_t no_size[MD_FX_MAX_DIMS] = {0};
    char *stage = NULL;
    md_strbuf key = {0};
    if (md_tn_key(&stage, target, no_size, false) != MD_OK)
        return NULL;
    md_strbuf_printf(&key, "%s | sources %016" PRIx64, stage, md_source_identity);
    const md_dev_factors *f = target->facts->factors;
    for (int32_t i = 0; f && i < f->n; i++)
        md_strbuf_printf(&key, " | %s %a", ((const md_fa_family *)f->family[i])->name, f->factor[i]);
    free(stage);
    if (key.failed)
        md_strbuf_finish(&key);
    return key.text;
}

static bool add(md_tn_estimates *e, const answer *a)
{
    void *old = NULL;
    answer *own = malloc(sizeof *own);
    if (!own)
        return false;
    *own = *a;
    if (md_table_put(e->known, &own->question, sizeof own->question, own, &old) != MD_OK) {
        free(own);
        return false;
    }
    free(old);
    return true;
}

static md_sr_bundle_maker *maker_of(const md_tn_wisdom *w)
{
    return w->maker ? atomic_load_explicit(w->maker, memory_order_relaxed) : NULL;
}

/* In bundles the key has the digest of the facts, which the store's environment has. NULL where memory is short. */
static char *bundle_key(const md_tn_estimates *e)
{
    char *key = NULL;
    return asprintf(&key, "%s | facts %s", e->key, e->wisdom->facts) < 0 ? NULL : key;
}

static bool find(void **bytes, size_t *n, const md_tn_estimates *e)
{
    const md_tn_wisdom *w = e->wisdom;
    char *key = w->n_bundles > 0 ? bundle_key(e) : NULL;
    bool is_found = false;
    for (int32_t i = 0; key && i < w->n_bundles && !is_found; i++)
        is_found = md_sr_bundle_find(bytes, n, w->bundle[i], KIND, key) == MD_OK;
    free(key);
    return is_found || md_sr_find(bytes, n, w->store, KIND, e->key) == MD_OK;
}

static void read_answers(md_tn_estimates *e)
{
    void *bytes = NULL;
    size_t n = 0;
    if (!find(&bytes, &n, e))
        return;
    for (size_t at = 0; at + sizeof(answer) <= n; at += sizeof(answer)) {
        answer a;
        memcpy(&a, (const char *)bytes + at, sizeof a);
        (void)add(e, &a);
    }
    free(bytes);
}

md_status md_tn_estimates_open(md_tn_estimates **out, md_tn_wisdom *wisdom, const md_fa_target *target)
{
    *out = NULL;
    /* The host's model is quick, and depends on rates that are measured at each start. */
    if (!wisdom || target->facts->kind != MD_DEV_CUDA ||
        (!wisdom->store && wisdom->n_bundles == 0 && !maker_of(wisdom)))
        return MD_OK;
    md_tn_estimates *e = calloc(1, sizeof *e);
    if (!e)
        return md_fail_memory();
    e->wisdom = wisdom;
    e->key = key_of(target);
    e->known = md_table_create();
    if (!e->key || !e->known) {
        md_tn_estimates_close(&e);
        return md_fail_memory();
    }
    read_answers(e);
    *out = e;
    return MD_OK;
}

static void keep(const md_tn_estimates *e, const md_strbuf *bytes)
{
    md_sr_bundle_maker *maker = maker_of(e->wisdom);
    char *key = maker ? bundle_key(e) : NULL;
    if (e->has_news)
        (void)md_sr_put(e->wisdom->store, KIND, e->key, md_strbuf_text(bytes), bytes->size);
    if (key)
        (void)md_sr_bundle_set(maker, KIND, key, md_strbuf_text(bytes), bytes->size);
    free(key);
}

static int by_question(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(md_digest128));
}

static void write_one(void *user, const void *key, size_t n, void *value)
{
    (void)key;
    (void)n;
    md_strbuf_bytes(user, value, sizeof(answer));
}

void md_tn_estimates_close(md_tn_estimates **estimates)
{
    if (!estimates || !*estimates)
        return;
    md_tn_estimates *e = *estimates;
    if ((e->has_news || maker_of(e->wisdom)) && md_table_count(e->known) <= MOST_ANSWERS) {
        md_strbuf bytes = {0};
        md_table_each(e->known, write_one, &bytes);
        if (!bytes.failed && bytes.size) {
            qsort(bytes.text, bytes.size / sizeof(answer), sizeof(answer),
                  by_question); /* sorted, so that equal answers are equal bytes */
            keep(e, &bytes);
        }
        md_strbuf_finish(&bytes);
    }
    md_table_destroy(&e->known, free);
    free(e->key);
    free(e);
    *estimates = NULL;
}

static md_digest128 question_of(const md_fa_family *family, const md_kn_shape *shape)
{
    struct {
        md_digest128 shape, family;
    } q = {md_hash128(shape, sizeof *shape), md_hash128(family->name, strlen(family->name))};
    return md_hash128(&q, sizeof q);
}

static md_status give(md_fa_config *out, double *us, const answer *a, const md_fa_family *family)
{
    if (!(a->us > 0.0))
        return md_fail(MD_NOT_FOUND, "family '%s' has no legal config here", family->name);
    *out = a->config;
    if (us)
        *us = a->us;
    return MD_OK;
}

md_status md_tn_estimate(md_fa_config *out, double *us, md_tn_estimates *estimates, const md_fa_target *target,
                         const md_fa_family *family, const md_kn_shape *shape)
{
    if (!estimates)
        return md_tn_best(out, us, target, family, shape->size, shape);
    answer a;
    memset(&a, 0, sizeof a);
    a.question = question_of(family, shape);
    const answer *known = md_table_find(estimates->known, &a.question, sizeof a.question);
    if (known)
        return give(out, us, known, family);
    const md_status s = md_tn_best(&a.config, &a.us, target, family, shape->size, shape);
    if (s != MD_OK && s != MD_NOT_FOUND)
        return s;
    estimates->has_news |= add(estimates, &a);
    return s == MD_OK ? give(out, us, &a, family) : s;
}
