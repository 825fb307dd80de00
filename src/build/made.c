/* A variant as the builder sees it: parameters, its end when all texts are built, source and launches. */
#include "build/internal.h"

#include "base/clock.h"
#include "base/status.h"
#include "family/kernel_name.h"
#include "kernel/kernel.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void md_bd_variant_fail(md_bd_variant *variant, const char *why)
{
    snprintf(variant->failure, sizeof variant->failure, "%.*s", (int)sizeof variant->failure - 1, why);
    atomic_store_explicit(&variant->state, MD_BD_FAILED, memory_order_release);
}

void md_bd_made_finish(md_bd_made *made)
{
    md_bd_variant *v = &made->base;
    v->build_ns = md_clock_ns() - made->start_ns;
    for (int32_t i = 0; i < v->n_launches; i++) {
        const md_bd_text *text = made->ticket[i].text;
        if (text->state == MD_BD_FAILED) {
            md_bd_variant_fail(v, text->failure);
            return;
        }
        v->kernel[i] = text->kernel;
    }
    atomic_store_explicit(&v->state, MD_BD_READY, memory_order_release);
}

void md_bd_made_free(md_bd_made *made)
{
    for (int32_t i = 0; i < MD_KN_MAX_LAUNCHES; i++) {
        free(made->base.param[i]);
        free(made->base.kernel_name[i]);
        free(atomic_load_explicit(&made->base.attached[i], memory_order_relaxed));
    }
    free(made);
}

md_status md_bd_made_copy_params(md_bd_variant *v, md_kn_source *source)
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
        char part[16] = "";
        if (source->n_launches > 1)
            snprintf(part, sizeof part, ".%d", i + 1);
        snprintf(source->launch[i].origin, sizeof source->launch[i].origin, "%s.%d.%s%s",
                 v->target.op ? v->target.op : "tune", v->target.stage, v->name, part);
        v->is_function[i] = source->launch[i].code == MD_KN_FUNCTION;
        if (!v->is_function[i] && !(v->kernel_name[i] = strdup(source->launch[i].entry)))
            return md_fail_memory();
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
    v->packs = source->packs;
    return MD_OK;
}

md_status md_bd_variant_source(md_strbuf *out, const md_bd_variant *variant)
{
    md_kn_source *source = calloc(1, sizeof *source);
    if (!source)
        return md_fail_memory();
    md_status status = md_fa_emit_named(source, &variant->target, variant->family, &variant->config);
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

md_status md_bd_digest_of(md_digest128 *out, const md_fa_target *target, const md_fa_family *family,
                          const md_fa_config *config)
{
    md_digest128 part[MD_KN_MAX_LAUNCHES] = {{0}};
    md_kn_source *source = calloc(1, sizeof *source);
    if (!source)
        return md_fail_memory();
    md_status status = md_fa_emit(source, family, target, config);
    for (int32_t i = 0; i < source->n_launches && status == MD_OK; i++)
        if (source->launch[i].code == MD_KN_TEXT)
            status = md_kn_text_digest(&part[i], md_strbuf_text(&source->launch[i].text));
    if (status == MD_OK)
        *out = md_hash128(part, (size_t)source->n_launches * sizeof *part);
    md_kn_source_finish(source);
    free(source);
    return status;
}

md_status md_bd_variant_digest(md_digest128 *out, const md_bd_variant *variant)
{
    return md_bd_digest_of(out, &variant->target, variant->family, &variant->config);
}

/* Some launches of a variant: from `first` on, before `end`. */
typedef struct range {
    int32_t first, end;
} range;

static md_status run_launches(const md_bd_variant *variant, const md_kn_geometries *geometry, md_stream stream,
                              md_kn_call *call, range of)
{
    assert(atomic_load_explicit(&variant->state, memory_order_relaxed) == MD_BD_READY);
    md_dev *dev = variant->builder->dev;
    md_kn_word words[MD_KN_MAX_PARAMS];
    if (variant->uses_counters && !call->counters && dev->ops->counters)
        MD_TRY(dev->ops->counters(&call->counters, dev, stream));
    call->variant = variant->name;
    for (int32_t i = of.first; i < of.end; i++) {
        const md_kn_geometry *g = &geometry->launch[i];
        if (g->blocks <= 0)
            continue;
        call->blocks = g->blocks;
        call->launch = i;
        md_kn_pack(words, variant->param[i], variant->n_params[i], call);
        MD_TRY(
            dev->ops->launch(dev, stream, variant->kernel[i], g, (md_dev_params){words, variant->n_params[i]}, call));
    }
    return MD_OK;
}

md_status md_bd_variant_pack(const md_bd_variant *variant, const md_kn_geometries *geometry, md_stream stream,
                             md_kn_call *call)
{
    MD_TRY(run_launches(variant, geometry, stream, call, (range){0, 1}));
    call->packed_by = variant->kernel[0];
    return MD_OK;
}

md_status md_bd_variant_run(const md_bd_variant *variant, const md_kn_geometries *geometry, md_stream stream,
                            md_kn_call *call)
{
    const range all = {0, variant->n_launches}, after_packing = {1, variant->n_launches};
    if (!variant->packs)
        return run_launches(variant, geometry, stream, call, all);
    if (call->packed) {
        if (call->packed_by != variant->kernel[0])
            MD_TRY(md_bd_variant_pack(variant, geometry, stream, call));
        return run_launches(variant, geometry, stream, call, after_packing);
    }
    call->packed = (char *)call->workspace + geometry->workspace_bytes - geometry->packed_bytes;
    const md_status status = run_launches(variant, geometry, stream, call, all);
    call->packed = NULL;
    return status;
}
