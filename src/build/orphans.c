/* Texts whose build a fork interrupted. A child has none of its parent's threads, so the thread that waits for such a
 * text builds it. */
#include "build/internal.h"

static void orphan_text(void *user, const void *key, size_t n_bytes, void *value)
{
    (void)key, (void)n_bytes;
    md_bd_text *text = value;
    text->is_orphan = text->state == MD_BD_QUEUED;
    text->is_begun = text->state != MD_BD_QUEUED;
    text->has_job = text->is_orphan; /* who takes the orphan starts it; other jobs are lost */
    md_bd_text_sort(text);
    *(int32_t *)user += text->is_orphan;
}

void md_bd_orphan_texts(void *user)
{
    md_bd *builder = user;
    builder->n_orphans = 0;
    md_table_each(builder->texts, orphan_text, &builder->n_orphans);
    builder->n_jobs = builder->n_orphans;
    builder->n_listening = 0;
    builder->will_notify = false;
    builder->n_loads = 0;
    md_bd_lose_loads(builder);
}

static void find_orphan(void *user, const void *key, size_t n_bytes, void *value)
{
    (void)key, (void)n_bytes;
    if (((md_bd_text *)value)->is_orphan)
        *(md_bd_text **)user = value;
}

static md_bd_text *orphan_of(const md_bd_made *made)
{
    for (int32_t i = 0; i < MD_KN_MAX_LAUNCHES; i++)
        if (made->ticket[i].text && made->ticket[i].text->is_orphan)
            return made->ticket[i].text;
    return NULL;
}

md_bd_text *md_bd_take_orphan(md_bd *builder, md_bd_variant *const *variants, int32_t n)
{
    md_bd_text *text = NULL;
    pthread_mutex_lock(&builder->lock);
    if (builder->n_orphans > 0 && !variants)
        md_table_each(builder->texts, find_orphan, &text);
    for (int32_t i = 0; i < n && builder->n_orphans > 0 && !text; i++)
        text = orphan_of((const md_bd_made *)variants[i]);
    if (text) {
        text->is_orphan = false;
        builder->n_orphans--;
    }
    pthread_mutex_unlock(&builder->lock);
    return text;
}
