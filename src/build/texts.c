/* Kernel texts: found by digest, taken from the store or compiled, loaded, and handed to waiting variants. */
#include "build/internal.h"

#include "base/clock.h"
#include "base/status.h"
#include "build/stored.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Moves a source: the copy owns the text, the original keeps an empty one. */
static md_kn_launch_source *take_source(md_kn_launch_source *source)
{
    md_kn_launch_source *own = malloc(sizeof *own);
    if (!own)
        return NULL;
    *own = *source;
    source->text = (md_strbuf){0};
    return own;
}

md_status md_bd_text_find(md_bd_text **out, bool *is_new, md_bd *builder, md_kn_launch_source *source)
{
    *is_new = false;
    const md_digest128 key = md_bd_text_key(builder->dev, builder->dev->facts.compiler, source);
    md_bd_text *text = md_table_find(builder->texts, &key, sizeof key);
    if (text) {
        atomic_fetch_add_explicit(&builder->count.shared, 1, memory_order_relaxed);
        *out = text;
        return MD_OK;
    }
    text = calloc(1, sizeof *text);
    if (!text || !(text->source = take_source(source))) {
        free(text);
        return md_fail_memory();
    }
    text->builder = builder;
    text->key = key;
    text->state = MD_BD_QUEUED;
    text->has_job = true;
    md_status status = md_table_put(builder->texts, &key, sizeof key, text, NULL);
    if (status != MD_OK) {
        md_bd_text_drop(text);
        return status;
    }
    builder->n_jobs++;
    *is_new = true;
    *out = text;
    return MD_OK;
}

static void trace_build(const md_dev *dev, const md_kn_launch_source *source, uint64_t start_ns, const char *failure,
                        size_t n_bytes)
{
    const md_trace_arg args[] = {{.name = "kernel", .text = source->entry},
                                 {.name = "result", .text = failure ? failure : "ready"},
                                 {.name = "text_bytes", .number = (double)source->text.size},
                                 {.name = "binary_bytes", .number = (double)n_bytes},
                                 {0}};
    if (dev->trace)
        md_trace_span(dev->trace, "build", source->label[0] ? source->label : source->entry, start_ns, md_clock_ns(),
                      args);
}

static void dump_text(const md_dev *dev, const md_kn_launch_source *source)
{
    const char *ending = dev->facts.kind == MD_DEV_CUDA ? ".cu" : ".c";
    md_dump_put(dev->dump, source->origin, ending, md_strbuf_text(&source->text), source->text.size);
}

static void dump_binary(const md_dev *dev, const md_kn_launch_source *source, const void *binary, size_t n)
{
    const bool is_elf = n > 4 && !memcmp(binary, "\177ELF", 4), is_cuda = dev->facts.kind == MD_DEV_CUDA;
    md_dump_put(dev->dump, source->origin, !is_elf ? ".ptx" : is_cuda ? ".cubin" : ".so", binary, n);
}

/* Loads a binary of an earlier process. NOT_FOUND if none loads; COMPILE if the store holds a final failure. */
static md_status load_kept(md_dev_kernel **out, const md_bd_text *text)
{
    md_bd *builder = text->builder;
    md_bd_stored stored = {0};
    const uint64_t start = md_clock_ns();
    MD_TRY(md_bd_stored_find(&stored, builder->store, text->key, text->source->entry));
    md_status status = MD_OK;
    if (!stored.binary) {
        status = md_fail(MD_COMPILE, "%s", stored.failure);
    } else if (builder->dev->ops->load(out, builder->dev, stored.binary, stored.n_binary, text->source) != MD_OK) {
        md_bd_stored_discard(builder->store, text->key, text->source->entry);
        status = md_fail(MD_NOT_FOUND, "a stored binary does not load");
    }
    if (status != MD_NOT_FOUND)
        atomic_fetch_add_explicit(&builder->count.stored, 1, memory_order_relaxed);
    if (status == MD_OK) {
        trace_build(builder->dev, text->source, start, "stored", stored.n_binary);
        dump_binary(builder->dev, text->source, stored.binary, stored.n_binary);
        if (builder->maker)
            md_bd_bundled_record(builder, text->source, md_bd_bundled_digest(builder->dev, text->source), stored.binary,
                                 stored.n_binary);
    }
    free(stored.bytes);
    return status;
}

static md_status compile_and_load(md_dev_kernel **out, const md_bd_text *text)
{
    md_bd *builder = text->builder;
    md_dev *dev = builder->dev;
    const md_kn_launch_source *source = text->source;
    void *binary = NULL;
    size_t n_bytes = 0;
    uint64_t start = md_clock_ns();
    atomic_fetch_add_explicit(&builder->count.compiles, 1, memory_order_relaxed);
    md_status status = dev->ops->compile(&binary, &n_bytes, dev, source);
    const bool is_refused = md_bd_stored_is_final(dev, status);
    if (status == MD_OK)
        dump_binary(dev, source, binary, n_bytes);
    if (status == MD_OK)
        status = dev->ops->load(out, dev, binary, n_bytes, source);
    trace_build(dev, source, start, status == MD_OK ? NULL : md_last_error(), n_bytes);
    if (status == MD_OK) {
        atomic_fetch_add_explicit(&builder->count.compiled, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&builder->count.compile_ns, md_clock_ns() - start, memory_order_relaxed);
        (void)md_bd_stored_put(builder->store, text->key, source->entry, binary, n_bytes, NULL);
        if (builder->maker)
            md_bd_bundled_record(builder, source, md_bd_bundled_digest(dev, source), binary, n_bytes);
    } else if (is_refused) {
        char why[256];
        snprintf(why, sizeof why, "%.255s", md_last_error());
        (void)md_bd_stored_put(builder->store, text->key, source->entry, NULL, 0, why);
        status = md_fail(status, "%s", why);
    }
    free(binary);
    return status;
}

static md_status make_kernel(md_dev_kernel **out, const md_bd_text *text)
{
    md_dev *dev = text->builder->dev;
    if (text->source->code == MD_KN_FUNCTION)
        return dev->ops->load(out, dev, NULL, 0, text->source);
    dump_text(dev, text->source);
    md_status status = MD_NOT_FOUND;
    if (text->builder->bundles.n > 0)
        status = md_bd_bundled_load(out, text->builder, text->source, md_bd_bundled_digest(dev, text->source));
    if (status != MD_NOT_FOUND)
        return status;
    status = text->builder->store ? load_kept(out, text) : MD_NOT_FOUND;
    return status == MD_OK || status == MD_COMPILE ? status : compile_and_load(out, text);
}

void md_bd_notify(md_bd *builder)
{
    void (*listener)(void *user) = builder->listener;
    void *user = builder->listener_user;
    if (!listener)
        return;
    builder->n_listening++;
    pthread_mutex_unlock(&builder->lock);
    listener(user);
    pthread_mutex_lock(&builder->lock);
    builder->n_listening--;
}

static void notify_in_background(void *user)
{
    md_bd *builder = user;
    pthread_mutex_lock(&builder->lock);
    builder->will_notify = false;
    md_bd_notify(builder);
    md_bd_end_job(builder);
    pthread_mutex_unlock(&builder->lock);
}

void md_bd_notify_later(md_bd *builder)
{
    pthread_mutex_lock(&builder->lock);
    const bool is_first = !builder->will_notify;
    builder->will_notify = true;
    builder->n_jobs += is_first;
    pthread_mutex_unlock(&builder->lock);
    if (is_first)
        md_jobs_submit_later(md_pool_jobs(builder->dev->pool), notify_in_background, builder);
}

void md_bd_end_job(md_bd *builder)
{
    builder->n_jobs--;
    pthread_cond_broadcast(&builder->changed);
}

/* Drops what nobody uses first: the builder may go once no job runs. */
static void end_job_and_unlock(md_bd *builder)
{
    md_bd_text *const unused = md_bd_take_unused(builder);
    if (unused) {
        pthread_mutex_unlock(&builder->lock);
        md_bd_drop_texts(unused);
        pthread_mutex_lock(&builder->lock);
    }
    md_bd_end_job(builder);
    pthread_mutex_unlock(&builder->lock);
}

/* Ends a build: stores the result and finishes the variants that waited for it. */
static void finish(md_bd_text *text, md_status status, md_dev_kernel *kernel)
{
    md_bd *builder = text->builder;
    pthread_mutex_lock(&builder->lock);
    md_bd_text_free_source(text);
    if (status == MD_OK) {
        text->kernel = kernel;
        text->state = MD_BD_READY;
    } else {
        snprintf(text->failure, sizeof text->failure, "%.*s", (int)sizeof text->failure - 1, md_last_error());
        text->state = MD_BD_FAILED;
        text->may_pass = status == MD_IO || status == MD_OUT_OF_MEMORY;
    }
    md_bd_text_sort(text); /* the variants that used it may be gone */
    while (text->waiting) {
        md_bd_ticket *ticket = text->waiting;
        text->waiting = ticket->next;
        if (--ticket->made->n_open == 0)
            md_bd_made_finish(ticket->made);
    }
    pthread_cond_broadcast(&builder->changed);
    md_bd_notify(builder);
    end_job_and_unlock(builder);
}

/* False if a thread in a hurry has taken the text. False, and the text is dropped, if all variants that needed it were
 * destroyed before its build began. */
static bool begin(md_bd_text *text)
{
    md_bd *builder = text->builder;
    pthread_mutex_lock(&builder->lock);
    text->has_job = false;
    const bool is_wanted = text->n_users > 0 || text->is_asked, begins = is_wanted && !text->is_begun;
    if (!is_wanted && !text->is_begun) {
        (void)md_table_remove(builder->texts, &text->key, sizeof text->key);
        md_bd_text_drop(text);
    } else {
        text->is_begun = true;
        md_bd_text_sort(text);
    }
    if (begins)
        pthread_mutex_unlock(&builder->lock);
    else
        end_job_and_unlock(builder);
    return begins;
}

md_bd_text *md_bd_text_take(md_bd_made *made)
{
    md_bd *builder = made->base.builder;
    md_bd_text *text = NULL;
    pthread_mutex_lock(&builder->lock);
    for (int32_t i = 0; i < MD_KN_MAX_LAUNCHES && !text; i++)
        if (made->ticket[i].made && !made->ticket[i].text->is_begun)
            text = made->ticket[i].text;
    if (text) {
        text->is_begun = true;
        builder->n_jobs++; /* the job that was queued for it ends by itself */
    }
    pthread_mutex_unlock(&builder->lock);
    return text;
}

void md_bd_text_build(md_bd_text *text)
{
    md_bd *builder = text->builder;
    md_dev_kernel *kernel = NULL;
    md_status status = make_kernel(&kernel, text);
    if (status != MD_OK) {
        atomic_fetch_add_explicit(&builder->count.failed, 1, memory_order_relaxed);
        /* Other variants serve meanwhile: the op warns if none is left. */
        const bool can_compile = builder->dev->facts.can_compile || md_bd_is_bundled(builder);
        md_log_once(builder->dev->log, can_compile ? MD_LOG_NOT_BUILT : MD_LOG_NO_COMPILER,
                    can_compile ? MD_LOG_INFO : MD_LOG_WARN,
                    "a kernel could not be built, so others serve (MD_LOG=debug lists all that fail): %s",
                    md_last_error());
    }
    finish(text, status, kernel);
}

static void build(void *context)
{
    if (begin(context))
        md_bd_text_build(context);
}

void md_bd_text_start(md_bd_text *text)
{
    md_bd *builder = text->builder;
    if (text->source->code == MD_KN_FUNCTION)
        build(text); /* nothing to compile */
    else
        md_jobs_submit(md_pool_jobs(builder->dev->pool), build, text);
}

void md_bd_text_hasten(md_bd_text *text)
{
    if (text->is_begun || text->is_hastened)
        return;
    text->is_hastened = true;
    md_jobs_hasten(md_pool_jobs(text->builder->dev->pool), build, text);
}

md_status md_bd_text_ask(md_bd_text **out, md_bd *builder, md_kn_launch_source *source)
{
    bool is_new = false;
    pthread_mutex_lock(&builder->lock);
    const md_status status = md_bd_text_find(out, &is_new, builder, source);
    if (status == MD_OK) {
        (*out)->is_asked = true;
        md_bd_text_sort(*out);
    }
    pthread_mutex_unlock(&builder->lock);
    if (status == MD_OK && is_new)
        md_bd_text_start(*out);
    return status;
}

md_bd_state md_bd_text_state(const md_dev_kernel **kernel, const char **why, const md_bd_text *text)
{
    pthread_mutex_lock(&text->builder->lock);
    const md_bd_state state = text->state;
    if (state == MD_BD_READY)
        *kernel = text->kernel;
    if (state == MD_BD_FAILED && why)
        *why = text->failure;
    pthread_mutex_unlock(&text->builder->lock);
    return state;
}
