/* Kernels in bundles, by what they were made from: no compiler's version is in their keys. */
#include "build/internal.h"

#include "base/embed.h"
#include "base/status.h"
#include "family/kernel_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void key_of(char out[80], md_digest128 digest, const md_kn_launch_source *source)
{
    char hex[33];
    md_digest_text(hex, digest);
    snprintf(out, 80, "%s %.40s", hex, source->entry);
}

/* What kernels are built for: "sm_90a" of a GPU, "-mavx2 -mfma" of a CPU. A GPU of no known kind: its name. */
static const char *place_of(const md_dev_facts *f)
{
    const char *features = strstr(f->flags, " -m");
    return f->kind == MD_DEV_CUDA ? f->arch[0] ? f->arch : f->name : features ? features + 1 : "any processor";
}

/* What lacks, for people. */
static md_status lacks(const md_bd *builder, const md_kn_launch_source *source)
{
    const md_dev_facts *f = &builder->dev->facts;
    const char *name = source->origin[0] ? source->origin : source->label[0] ? source->label : source->entry;
    return md_fail(MD_COMPILE, "no bundle has %s for %s, and nothing is compiled (MD_BUNDLE_COMPILE=1 allows it)", name,
                   place_of(f));
}

/* NOT_FOUND, IO. */
static md_status find(void **bytes, size_t *n, const md_bd *builder, const char *key)
{
    md_status status = MD_NOT_FOUND;
    for (int32_t i = 0; i < builder->bundles.n && status == MD_NOT_FOUND; i++)
        status = md_sr_bundle_find(bytes, n, builder->bundles.bundle[i], MD_BD_BUNDLED, key);
    return status;
}

md_status md_bd_bundled_load(md_dev_kernel **out, md_bd *builder, const md_kn_launch_source *source,
                             md_digest128 digest)
{
    char key[80];
    void *bytes = NULL;
    size_t n = 0;
    key_of(key, digest, source);
    md_status status = find(&bytes, &n, builder, key);
    if (status == MD_OK)
        status = builder->dev->ops->load(out, builder->dev, bytes, n, source);
    if (status == MD_OK && builder->maker)
        md_bd_bundled_record(builder, source, digest, bytes, n);
    free(bytes);
    if (status == MD_OK)
        atomic_fetch_add_explicit(&builder->count.bundled, 1, memory_order_relaxed);
    if (status == MD_OK || status == MD_OUT_OF_MEMORY)
        return status;
    if (builder->bundles.compiles)
        return MD_NOT_FOUND;
    return status == MD_NOT_FOUND ? lacks(builder, source) : status;
}

void md_bd_bundled_record(md_bd *builder, const md_kn_launch_source *source, md_digest128 digest, const void *binary,
                          size_t n)
{
    char key[80];
    key_of(key, digest, source);
    if (md_sr_bundle_add(builder->maker, MD_BD_BUNDLED, key, binary, n) != MD_OK)
        md_log_at(builder->dev->log, MD_LOG_ERROR, "the bundle lacks %s: %s", source->label, md_last_error());
}

bool md_bd_is_recording(const md_bd *builder)
{
    return atomic_load_explicit(&builder->maker, memory_order_relaxed) != NULL;
}

void md_bd_record_gap(md_bd *builder, const char *op, int32_t stage, const char *why)
{
    char key[256];
    const md_dev_facts *f = &builder->dev->facts;
    snprintf(key, sizeof key, "%.100s.%d %.120s", op, (int)stage, place_of(f));
    if (md_sr_bundle_set(builder->maker, MD_BD_GAP, key, why, strlen(why)) != MD_OK)
        md_log_at(builder->dev->log, MD_LOG_ERROR, "the bundle does not say that it lacks %s: %s", key,
                  md_last_error());
}

bool md_bd_is_bundled(const md_bd *builder)
{
    return builder->bundles.n > 0 && !builder->bundles.compiles;
}

/* ---- Kernels of the device itself */

static md_status find_own(void **binary, size_t *n, void *user, const md_kn_launch_source *source)
{
    char key[80];
    md_bd *builder = user;
    key_of(key, md_bd_bundled_digest(builder->dev, source), source);
    const md_status status = find(binary, n, builder, key);
    return status != MD_OK && md_bd_is_bundled(builder) ? lacks(builder, source) : status;
}

void md_bd_use_bundles(md_bd *builder, const md_bd_bundles *bundles)
{
    builder->bundles = *bundles;
    if (bundles->n > 0) {
        builder->dev->find_binary = find_own;
        builder->dev->finder = builder;
    }
}

static md_status record_own(md_bd *builder, const char *name)
{
    char file[64];
    md_kn_launch_source source = {.code = MD_KN_TEXT};
    void *binary = NULL;
    size_t n = 0;
    snprintf(file, sizeof file, "cuda/%.40s.cu", name);
    snprintf(source.entry, sizeof source.entry, "md_%.48s", name);
    md_strbuf_add(&source.text, md_embed_find(file, NULL));
    md_status status = source.text.failed ? md_fail_memory() : MD_OK;
    if (status == MD_OK)
        status = builder->dev->ops->compile(&binary, &n, builder->dev, &source);
    if (status == MD_OK)
        md_bd_bundled_record(builder, &source, md_bd_bundled_digest(builder->dev, &source), binary, n);
    free(binary);
    md_strbuf_finish(&source.text);
    return status;
}

md_status md_bd_record_bundle(md_bd *builder, md_sr_bundle_maker *maker)
{
    static const char *const own[] = {"copy_tensor", "gate"};
    builder->maker = maker;
    for (int32_t i = 0; i < MD_COUNT(own) && builder->dev->facts.kind == MD_DEV_CUDA; i++)
        MD_TRY(record_own(builder, own[i]));
    return MD_OK;
}

md_status md_bd_bundled_keep(const md_bd_variant *variant)
{
    char key[80];
    md_bd *builder = variant->builder;
    if (!builder->maker)
        return MD_OK;
    md_kn_source *source = calloc(1, sizeof *source);
    if (!source)
        return md_fail_memory();
    const md_status status = md_fa_emit_named(source, &variant->target, variant->family, &variant->config);
    for (int32_t i = 0; i < source->n_launches && status == MD_OK; i++) {
        if (source->launch[i].code != MD_KN_TEXT)
            continue;
        key_of(key, md_bd_bundled_digest(builder->dev, &source->launch[i]), &source->launch[i]);
        md_sr_bundle_keep(builder->maker, MD_BD_BUNDLED, key);
    }
    md_kn_source_finish(source);
    free(source);
    return status;
}
