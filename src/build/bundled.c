/* Kernels in bundles, by what they were made from: no compiler's version is in their keys. */
#include "build/internal.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>

#define KIND "kernel"

static void key_of(char out[80], md_digest128 digest, const md_kn_launch_source *source)
{
    char hex[33];
    md_digest_text(hex, digest);
    snprintf(out, 80, "%s %.40s", hex, source->entry);
}

/* What lacks, for people. */
static md_status lacks(const md_bd *builder, const md_kn_launch_source *source)
{
    const md_dev_facts *f = &builder->dev->facts;
    return md_fail(MD_COMPILE, "no bundle has %s for %s, and nothing is compiled (MD_BUNDLE_COMPILE=1 allows it)",
                   source->label[0] ? source->label : source->entry, f->kind == MD_DEV_CUDA ? f->arch : f->flags);
}

md_status md_bd_bundled_load(md_dev_kernel **out, md_bd *builder, const md_kn_launch_source *source,
                             md_digest128 digest)
{
    char key[80];
    const md_bd_bundles *b = &builder->bundles;
    key_of(key, digest, source);
    md_status status = MD_NOT_FOUND;
    for (int32_t i = 0; i < b->n && status == MD_NOT_FOUND; i++) {
        void *bytes = NULL;
        size_t n = 0;
        status = md_sr_bundle_find(&bytes, &n, b->bundle[i], KIND, key);
        if (status == MD_OK)
            status = builder->dev->ops->load(out, builder->dev, bytes, n, source);
        free(bytes);
    }
    if (status == MD_OK)
        atomic_fetch_add_explicit(&builder->count.bundled, 1, memory_order_relaxed);
    if (status == MD_OK || status == MD_OUT_OF_MEMORY)
        return status;
    if (b->compiles)
        return MD_NOT_FOUND;
    return status == MD_NOT_FOUND ? lacks(builder, source) : status;
}

void md_bd_bundled_record(md_bd *builder, const md_kn_launch_source *source, md_digest128 digest, const void *binary,
                          size_t n)
{
    char key[80];
    key_of(key, digest, source);
    if (md_sr_bundle_add(builder->maker, KIND, key, binary, n) != MD_OK)
        md_log_at(builder->dev->log, MD_LOG_ERROR, "the bundle lacks %s: %s", source->label, md_last_error());
}
