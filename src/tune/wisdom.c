#include "tune/wisdom.h"

#include "base/status.h"
#include "base/table.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct md_tn_wisdom {
    pthread_mutex_t lock;
    md_table *records; /* key \n family -> md_tn_record */
    md_table *quarantine; /* variant \n digest -> a word why */
};

static void drop_record(void *value)
{
    md_tn_record_finish(value);
    free(value);
}

md_status md_tn_wisdom_create(md_tn_wisdom **out)
{
    md_tn_wisdom *w = calloc(1, sizeof *w);
    if (!w)
        return md_fail_memory();
    pthread_mutex_init(&w->lock, NULL);
    w->records = md_table_create();
    w->quarantine = md_table_create();
    if (!w->records || !w->quarantine) {
        md_tn_wisdom_destroy(&w);
        return md_fail_memory();
    }
    *out = w;
    return MD_OK;
}

void md_tn_wisdom_destroy(md_tn_wisdom **wisdom)
{
    if (!wisdom || !*wisdom)
        return;
    md_table_destroy(&(*wisdom)->records, drop_record);
    md_table_destroy(&(*wisdom)->quarantine, free);
    pthread_mutex_destroy(&(*wisdom)->lock);
    free(*wisdom);
    *wisdom = NULL;
}

static md_status join(md_strbuf *out, const char *a, const char *b)
{
    md_strbuf_printf(out, "%s\n%s", a, b);
    return out->failed ? md_fail_memory() : MD_OK;
}

md_status md_tn_wisdom_find(md_tn_record *out, md_tn_wisdom *w, const char *key, const char *family, md_tune min_rigor)
{
    md_strbuf name = {0};
    md_status s = join(&name, key, family);
    if (s == MD_OK) {
        pthread_mutex_lock(&w->lock);
        const md_tn_record *r = md_table_find(w->records, name.text, name.size);
        s = r && r->rigor >= min_rigor ? md_tn_record_copy(out, r) : MD_NOT_FOUND;
        pthread_mutex_unlock(&w->lock);
    }
    md_strbuf_finish(&name);
    return s;
}

/* The lock is held. */
static md_status replace(md_tn_wisdom *w, const md_strbuf *name, const md_tn_record *record)
{
    md_tn_record *own = malloc(sizeof *own);
    void *old = NULL;
    if (!own)
        return md_fail_memory();
    md_status s = md_tn_record_copy(own, record);
    if (s == MD_OK)
        s = md_table_put(w->records, name->text, name->size, own, &old);
    if (s != MD_OK) {
        drop_record(own);
        return s;
    }
    if (old)
        drop_record(old);
    return MD_OK;
}

md_status md_tn_wisdom_put(md_tn_wisdom *w, const md_tn_record *record)
{
    md_strbuf name = {0};
    md_status s = join(&name, record->key, record->family);
    if (s == MD_OK) {
        pthread_mutex_lock(&w->lock);
        const md_tn_record *there = md_table_find(w->records, name.text, name.size);
        if (!there || md_tn_record_beats(record, there))
            s = replace(w, &name, record);
        pthread_mutex_unlock(&w->lock);
    }
    md_strbuf_finish(&name);
    return s;
}

static void quarantine_name(char out[MD_FA_NAME + 40], const char *variant, md_digest128 source)
{
    char digest[33];
    md_digest_text(digest, source);
    snprintf(out, MD_FA_NAME + 40, "%.*s\n%s", MD_FA_NAME - 1, variant, digest);
}

bool md_tn_wisdom_is_quarantined(md_tn_wisdom *w, const char *variant, md_digest128 source)
{
    char name[MD_FA_NAME + 40];
    quarantine_name(name, variant, source);
    pthread_mutex_lock(&w->lock);
    bool is_there = md_table_find(w->quarantine, name, strlen(name)) != NULL;
    pthread_mutex_unlock(&w->lock);
    return is_there;
}

md_status md_tn_wisdom_quarantine(md_tn_wisdom *w, const char *variant, md_digest128 source, const char *why)
{
    char name[MD_FA_NAME + 40];
    char *text = strdup(why);
    void *old = NULL;
    if (!text)
        return md_fail_memory();
    quarantine_name(name, variant, source);
    pthread_mutex_lock(&w->lock);
    md_status s = md_table_put(w->quarantine, name, strlen(name), text, &old);
    pthread_mutex_unlock(&w->lock);
    free(s == MD_OK ? old : text);
    return s;
}

bool md_tn_wisdom_lease(int *lease, md_tn_wisdom *w, const char *key)
{
    (void)w;
    (void)key;
    *lease = -1; /* nobody to share with */
    return true;
}

void md_tn_wisdom_unlease(md_tn_wisdom *w, int lease)
{
    (void)w;
    (void)lease;
}
