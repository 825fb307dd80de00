/* Makes variants, waits for them and frees them. */
#include "build/internal.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "family/kernel_name.h"
#include "family/numeric.h"

#include <stdlib.h>
#include <string.h>

/* Finds or adds the text of every launch, and starts the builds of new ones. */
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
        if (status == MD_OK)
            md_bd_text_use(made->ticket[i].text);
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
    /* Also after a failure: new texts are in the table already, and other variants may wait for them. */
    for (int32_t i = 0; i < n_fresh; i++)
        md_bd_text_start(fresh[i]);
    return status;
}

/* Emits and attaches. A variant that cannot be emitted becomes FAILED; only OUT_OF_MEMORY is an error of the call. */
static md_status emit_and_attach(md_bd_made *made)
{
    md_bd_variant *v = &made->base;
    md_kn_source *source = calloc(1, sizeof *source);
    if (!source)
        return md_fail_memory();
    atomic_fetch_add_explicit(&v->builder->count.emitted, 1, memory_order_relaxed);
    md_status status = md_fa_emit_named(source, &v->target, v->family, &v->config);
    if (status == MD_OK)
        status = md_bd_made_copy_params(v, source);
    if (status == MD_OK)
        status = attach(made, source);
    else if (status != MD_OUT_OF_MEMORY) {
        atomic_fetch_add_explicit(&v->builder->count.failed, 1, memory_order_relaxed);
        md_bd_variant_fail(v, md_last_error());
        status = MD_OK;
    }
    md_kn_source_finish(source);
    free(source);
    return status;
}

static void stop_waiting(md_bd_made *made, md_bd_ticket *ticket)
{
    for (md_bd_ticket **at = &ticket->text->waiting; *at; at = &(*at)->next)
        if (*at == ticket) {
            *at = ticket->next;
            made->n_open--;
            return;
        }
}

/* Removes the variant from its texts. Builds of those it waits for continue. */
static void leave_texts(md_bd_made *made)
{
    md_bd *builder = made->base.builder;
    pthread_mutex_lock(&builder->lock);
    for (int32_t i = 0; i < MD_KN_MAX_LAUNCHES; i++) {
        md_bd_ticket *ticket = &made->ticket[i];
        if (!ticket->text)
            continue;
        stop_waiting(made, ticket);
        md_bd_text_leave(ticket->text);
    }
    md_bd_text *const unused = md_bd_take_unused(builder);
    pthread_mutex_unlock(&builder->lock);
    md_bd_drop_texts(unused);
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
    v->name_hash = md_hash64(v->name, strlen(v->name));
    md_fa_numeric numeric;
    md_fa_numeric_of(&numeric, target, family, config);
    v->numeric_class = numeric.id;
    md_fa_envelope_of(&v->envelope, family, target, config);
    v->has_fixed = md_fa_fix(&v->fixed, family, target, config);
    md_status status = emit_and_attach(made);
    if (status != MD_OK) {
        leave_texts(made);
        md_bd_made_free(made);
        return status;
    }
    *out = v;
    return MD_OK;
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

/* Builds interrupted texts on this thread until one of the variants is ready. */
static void adopt_orphans(md_bd *builder, md_bd_variant *const *variants, int32_t n)
{
    md_bd_text *text;
    while (!is_any_ready(variants, n) && (text = md_bd_take_orphan(builder, variants, n)) != NULL)
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

md_status md_bd_variant_hurry(md_bd_variant *variant)
{
    md_bd_text *text;
    adopt_orphans(variant->builder, &variant, 1);
    while ((text = md_bd_text_take((md_bd_made *)variant)) != NULL)
        md_bd_text_build(text);
    return md_bd_variant_wait(variant);
}

void md_bd_variant_hasten(md_bd_variant *variant)
{
    const md_bd_made *made = (md_bd_made *)variant;
    if (atomic_load_explicit(&variant->state, memory_order_acquire) != MD_BD_QUEUED)
        return;
    pthread_mutex_lock(&variant->builder->lock);
    for (int32_t i = 0; i < MD_KN_MAX_LAUNCHES && made->n_open > 0; i++)
        if (made->ticket[i].text && made->ticket[i].text->state == MD_BD_QUEUED)
            md_bd_text_hasten(made->ticket[i].text);
    pthread_mutex_unlock(&variant->builder->lock);
}

void md_bd_variant_destroy(md_bd_variant **variant)
{
    if (!variant || !*variant)
        return;
    md_bd_made *made = (md_bd_made *)*variant;
    leave_texts(made);
    md_bd_made_free(made);
    *variant = NULL;
}
