/* The end of texts, and those that no variant uses: their kernels stay loaded, as a destroyed op often comes again.
 * When there are many, those that have been unused longest go.
 *
 * A launch of a call, of a resolved launch or of a sequence belongs to an op, whose variants use the text. Only a graph
 * of a GPU may hold a kernel longer: kernels of devices that capture calls stay until the builder goes. */
#include "build/internal.h"

#include <stdlib.h>

void md_bd_text_free_source(md_bd_text *text)
{
    if (!text->source)
        return;
    md_strbuf_finish(&text->source->text);
    free(text->source);
    text->source = NULL;
}

void md_bd_text_drop(void *value)
{
    md_bd_text *text = value;
    md_dev *dev = text->builder->dev;
    if (text->kernel)
        dev->ops->unload(dev, text->kernel);
    md_bd_text_free_source(text);
    free(text);
}

static bool may_unload(const md_bd *builder)
{
    return !builder->dev->ops->is_capturing;
}

static void take_out(md_bd_text *text)
{
    md_bd *b = text->builder;
    *(text->older ? &text->older->newer : &b->oldest) = text->newer;
    *(text->newer ? &text->newer->older : &b->newest) = text->older;
    text->older = text->newer = NULL;
    text->is_unused = false;
    b->n_unused--;
}

/* The newest is what became unused last. A failure that may pass is put where it goes first. */
static void put_in(md_bd_text *text)
{
    md_bd *b = text->builder;
    text->older = text->may_pass ? NULL : b->newest;
    text->newer = text->may_pass ? b->oldest : NULL;
    *(text->older ? &text->older->newer : &b->oldest) = text;
    *(text->newer ? &text->newer->older : &b->newest) = text;
    text->is_unused = true;
    b->n_unused++;
}

void md_bd_text_sort(md_bd_text *text)
{
    const bool is_wanted = text->n_users > 0 || text->is_asked || text->has_job || text->state == MD_BD_QUEUED;
    const bool is_unused = !is_wanted && may_unload(text->builder);
    if (is_unused && !text->is_unused)
        put_in(text);
    else if (!is_unused && text->is_unused)
        take_out(text);
}

void md_bd_text_use(md_bd_text *text)
{
    text->n_users++;
    md_bd_text_sort(text);
}

void md_bd_text_leave(md_bd_text *text)
{
    text->n_users--;
    md_bd_text_sort(text);
}

md_bd_text *md_bd_take_unused(md_bd *builder)
{
    md_bd_text *list = NULL;
    while (builder->n_unused > MD_BD_MAX_UNUSED || (builder->oldest && builder->oldest->may_pass)) {
        md_bd_text *text = builder->oldest;
        take_out(text);
        (void)md_table_remove(builder->texts, &text->key, sizeof text->key);
        text->newer = list;
        list = text;
    }
    return list;
}

void md_bd_drop_texts(md_bd_text *list)
{
    while (list) {
        md_bd_text *const next = list->newer;
        md_bd_text_drop(list);
        list = next;
    }
}
