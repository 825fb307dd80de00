#include "build/build.h"

#include "base/clock.h"
#include "base/task/fork.h"
#include "base/status.h"
#include "build/texts.h"
#include "family/numeric.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The builder */

static void orphan_text(void *user, const void *key, size_t n_bytes, void *value)
{
    (void)key, (void)n_bytes;
    md_bd_text *text = value;
    text->is_orphan = text->state == MD_BD_QUEUED;
    *(int32_t *)user += text->is_orphan;
}

/* A child after fork has none of its parent's threads: what they were at, it does itself when it waits for it. */
static void orphan_texts(void *user)
{
    md_bd *builder = user;
    builder->n_orphans = 0;
    md_table_each(builder->texts, orphan_text, &builder->n_orphans);
    builder->n_jobs = builder->n_orphans;
    builder->n_listening = 0;
}

md_status md_bd_create(md_bd **out, md_dev *dev)
{
    md_bd *builder = calloc(1, sizeof *builder);
    if (!builder)
        return md_fail_memory();
    builder->dev = dev;
    builder->texts = md_table_create();
    if (!builder->texts) {
        free(builder);
        return md_fail_memory();
    }
    md_mutex_init(&builder->lock);
    md_cond_init(&builder->changed);
    md_fork_watch(builder, orphan_texts);
    *out = builder;
    return MD_OK;
}

void md_bd_use_store(md_bd *builder, md_sr *store)
{
    builder->store = store;
}

/* Of threads: orphans are nobody's. */
static void wait_for_jobs(md_bd *builder)
{
    pthread_mutex_lock(&builder->lock);
    while (builder->n_jobs > builder->n_orphans)
        pthread_cond_wait(&builder->changed, &builder->lock);
    pthread_mutex_unlock(&builder->lock);
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

/* One that variants wait for; any where `variants` is NULL. The caller builds it. */
static md_bd_text *take_orphan(md_bd *builder, md_bd_variant *const *variants, int32_t n)
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

void md_bd_wait_all(md_bd *builder)
{
    md_bd_text *text;
    while ((text = take_orphan(builder, NULL, 0)) != NULL)
        md_bd_text_start(text); /* done when it returns: there are no threads */
    wait_for_jobs(builder);
}

void md_bd_destroy(md_bd **builder)
{
    if (!builder || !*builder)
        return;
    md_bd *b = *builder;
    wait_for_jobs(b);
    md_fork_leave(b);
    md_table_destroy(&b->texts, md_bd_text_drop);
    md_cond_finish(&b->changed);
    md_mutex_finish(&b->lock);
    free(b);
    *builder = NULL;
}

const md_bd_counters *md_bd_count(const md_bd *builder)
{
    return &builder->count;
}

md_dev *md_bd_device(const md_bd *builder)
{
    return builder->dev;
}

/* ---- Variants */

static void fail_variant(md_bd_variant *v, const char *why)
{
    snprintf(v->failure, sizeof v->failure, "%.*s", (int)sizeof v->failure - 1, why);
    atomic_store_explicit(&v->state, MD_BD_FAILED, memory_order_release);
}

void md_bd_made_finish(md_bd_made *made)
{
    md_bd_variant *v = &made->base;
    v->build_ns = md_clock_ns() - made->start_ns;
    for (int32_t i = 0; i < v->n_launches; i++) {
        const md_bd_text *text = made->ticket[i].text;
        if (text->state == MD_BD_FAILED) {
            fail_variant(v, text->failure);
            return;
        }
        v->kernel[i] = text->kernel;
    }
    atomic_store_explicit(&v->state, MD_BD_READY, memory_order_release);
}

void md_bd_variant_fail(md_bd_variant *variant, const char *why)
{
    fail_variant(variant, why);
}

static void free_made(md_bd_made *made)
{
    for (int32_t i = 0; i < MD_KN_MAX_LAUNCHES; i++) {
        free(made->base.param[i]);
        free(atomic_load_explicit(&made->base.attached[i], memory_order_relaxed));
    }
    free(made);
}

static md_status copy_params(md_bd_variant *v, md_kn_source *source)
{
    if (source->n_launches < 1 || source->n_launches > MD_KN_MAX_LAUNCHES)
        return md_fail(MD_INTERNAL, "variant '%s' has %d launches", v->name, source->n_launches);
    for (int32_t i = 0; i < source->n_launches; i++) {
        int32_t n = source->launch[i].n_params;
        if (n < 0 || n > MD_KN_MAX_PARAMS)
            return md_fail(MD_INTERNAL, "variant '%s' has %d parameters", v->name, n);
        v->n_params[i] = n;
        _Static_assert(sizeof source->launch[i].label == sizeof v->name, "a label is a variant's name");
        memcpy(source->launch[i].label, v->name, sizeof v->name);
        v->is_function[i] = source->launch[i].code == MD_KN_FUNCTION;
        if (n == 0)
            continue;
        v->param[i] = malloc((size_t)n * sizeof *v->param[i]);
        if (!v->param[i])
            return md_fail_memory();
        memcpy(v->param[i], source->launch[i].param, (size_t)n * sizeof *v->param[i]);
        for (int32_t k = 0; k < n; k++)
            v->uses_counters = v->uses_counters || v->param[i][k].kind == MD_KN_COUNTERS;
    }
    v->n_launches = source->n_launches;
    return MD_OK;
}

/* Gives every launch its text, and queues what nobody asked for before. */
static md_status attach(md_bd_made *made, md_kn_source *source)
{
    md_bd *builder = made->base.builder;
    md_bd_text *fresh[MD_KN_MAX_LAUNCHES];
    int32_t n_fresh = 0;
    md_status status = MD_OK;
    pthread_mutex_lock(&builder->lock);
    for (int32_t i = 0; i < source->n_launches && status == MD_OK; i++) {
        bool is_new = false;
        status = md_bd_text_find(&made->ticket[i].text, &is_new, builder, &source->launch[i]);
        if (is_new)
            fresh[n_fresh++] = made->ticket[i].text;
    }
    for (int32_t i = 0; i < source->n_launches && status == MD_OK; i++) {
        md_bd_ticket *ticket = &made->ticket[i];
        if (ticket->text->state != MD_BD_QUEUED)
            continue;
        ticket->made = made;
        ticket->next = ticket->text->waiting;
        ticket->text->waiting = ticket;
        made->n_open++;
    }
    if (status == MD_OK && made->n_open == 0)
        md_bd_made_finish(made);
    pthread_mutex_unlock(&builder->lock);
    for (int32_t i = 0; i < n_fresh;
         i++) /* also after a failure: they are in the table, and others may wait for them */
        md_bd_text_start(fresh[i]);
    return status;
}

/* A variant that cannot be written is FAILED, as one that cannot be compiled; only a lack of memory is the caller's. */
static md_status emit_and_attach(md_bd_made *made)
{
    md_bd_variant *v = &made->base;
    md_kn_source *source = calloc(1, sizeof *source);
    if (!source)
        return md_fail_memory();
    atomic_fetch_add_explicit(&v->builder->count.emitted, 1, memory_order_relaxed);
    md_status status = v->family->emit(source, &v->target, &v->config);
    if (status == MD_OK)
        status = copy_params(v, source);
    if (status == MD_OK)
        status = attach(made, source);
    else if (status != MD_OUT_OF_MEMORY) {
        atomic_fetch_add_explicit(&v->builder->count.failed, 1, memory_order_relaxed);
        fail_variant(v, md_last_error());
        status = MD_OK;
    }
    md_kn_source_finish(source);
    free(source);
    return status;
}

md_status md_bd_variant_create(md_bd_variant **out, md_bd *builder, const md_fa_target *target,
                               const md_fa_family *family, const md_fa_config *config)
{
    md_bd_made *made = calloc(1, sizeof *made);
    if (!made)
        return md_fail_memory();
    made->start_ns = md_clock_ns();
    md_bd_variant *v = &made->base;
    v->target = *target;
    v->family = family;
    v->config = *config;
    v->builder = builder;
    atomic_init(&v->state, MD_BD_QUEUED);
    md_fa_name(v->name, family, config);
    md_fa_numeric numeric;
    md_fa_numeric_of(&numeric, target, family, config);
    v->numeric_class = numeric.id;
    family->envelope(&v->envelope, target, config);
    md_status status = emit_and_attach(made);
    if (status != MD_OK) {
        free_made(made);
        return status;
    }
    *out = v;
    return MD_OK;
}

void md_bd_listen(md_bd *builder, void (*fn)(void *user), void *user)
{
    pthread_mutex_lock(&builder->lock);
    builder->listener = fn;
    builder->listener_user = user;
    while (builder->n_listening > 0)
        pthread_cond_wait(&builder->changed, &builder->lock);
    pthread_mutex_unlock(&builder->lock);
}

static bool is_any_ready(md_bd_variant *const *variants, int32_t n)
{
    bool is_open = false;
    for (int32_t i = 0; i < n; i++) {
        int32_t state = atomic_load_explicit(&variants[i]->state, memory_order_acquire);
        if (state == MD_BD_READY)
            return true;
        is_open |= state == MD_BD_QUEUED;
    }
    return !is_open;
}

/* Until one of the variants is ready. */
static void adopt_orphans(md_bd *builder, md_bd_variant *const *variants, int32_t n)
{
    md_bd_text *text;
    while (!is_any_ready(variants, n) && (text = take_orphan(builder, variants, n)) != NULL)
        md_bd_text_start(text);
}

void md_bd_variant_wait_any(md_bd_variant *const *variants, int32_t n)
{
    if (is_any_ready(variants, n))
        return;
    md_bd *builder = variants[0]->builder;
    adopt_orphans(builder, variants, n);
    pthread_mutex_lock(&builder->lock);
    while (!is_any_ready(variants, n))
        pthread_cond_wait(&builder->changed, &builder->lock);
    pthread_mutex_unlock(&builder->lock);
}

static void wait_until_closed(md_bd_made *made)
{
    md_bd *builder = made->base.builder;
    md_bd_variant *const variant = &made->base;
    adopt_orphans(builder, &variant, 1);
    pthread_mutex_lock(&builder->lock);
    while (made->n_open > 0)
        pthread_cond_wait(&builder->changed, &builder->lock);
    pthread_mutex_unlock(&builder->lock);
}

md_status md_bd_variant_wait(md_bd_variant *variant)
{
    if (atomic_load_explicit(&variant->state, memory_order_acquire) == MD_BD_QUEUED)
        wait_until_closed((md_bd_made *)variant);
    if (atomic_load_explicit(&variant->state, memory_order_acquire) == MD_BD_FAILED)
        return md_fail(MD_COMPILE, "variant '%s' could not be built: %s", variant->name, variant->failure);
    return MD_OK;
}

/* Builds under way go on without it. */
static void leave_texts(md_bd_made *made)
{
    md_bd *builder = made->base.builder;
    pthread_mutex_lock(&builder->lock);
    for (int32_t i = 0; i < MD_KN_MAX_LAUNCHES && made->n_open > 0; i++) {
        md_bd_text *text = made->ticket[i].text;
        for (md_bd_ticket **at = text ? &text->waiting : NULL; at && *at; at = &(*at)->next)
            if (*at == &made->ticket[i]) {
                *at = made->ticket[i].next;
                made->n_open--;
                break;
            }
    }
    pthread_mutex_unlock(&builder->lock);
}

void md_bd_variant_destroy(md_bd_variant **variant)
{
    if (!variant || !*variant)
        return;
    md_bd_made *made = (md_bd_made *)*variant;
    leave_texts(made);
    free_made(made);
    *variant = NULL;
}

md_status md_bd_variant_source(md_strbuf *out, const md_bd_variant *variant)
{
    md_kn_source *source = calloc(1, sizeof *source);
    if (!source)
        return md_fail_memory();
    md_status status = variant->family->emit(source, &variant->target, &variant->config);
    for (int32_t i = 0; i < source->n_launches && status == MD_OK; i++) {
        const md_kn_launch_source *launch = &source->launch[i];
        bool is_text = launch->code == MD_KN_TEXT;
        md_strbuf_printf(out, "/* ---- %s, launch %d of %d%s%s */\n", variant->name, i + 1, source->n_launches,
                         is_text ? ": " : ": a function of the library", is_text ? launch->entry : "");
        if (is_text)
            md_strbuf_add(out, md_strbuf_text(&launch->text));
    }
    md_kn_source_finish(source);
    free(source);
    return status == MD_OK && out->failed ? md_fail_memory() : status;
}

md_status md_bd_variant_run(const md_bd_variant *variant, const md_kn_plan_geometry *geometry, md_stream stream,
                            md_kn_call *call)
{
    assert(atomic_load_explicit(&variant->state, memory_order_relaxed) == MD_BD_READY);
    md_dev *dev = variant->builder->dev;
    md_kn_word words[MD_KN_MAX_PARAMS];
    if (variant->uses_counters && !call->counters && dev->ops->counters)
        MD_TRY(dev->ops->counters(&call->counters, dev, stream));
    call->variant = variant->name;
    for (int32_t i = 0; i < variant->n_launches; i++) {
        const md_kn_geometry *g = &geometry->launch[i];
        if (g->blocks <= 0)
            continue;
        call->blocks = g->blocks;
        call->launch = i;
        md_kn_pack(words, variant->param[i], variant->n_params[i], call);
        MD_TRY(dev->ops->launch(dev, stream, variant->kernel[i], g, words, variant->n_params[i], call));
    }
    return MD_OK;
}
