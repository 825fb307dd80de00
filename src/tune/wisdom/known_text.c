/* Tells whether a kernel's text is the one that was measured. Printing a text takes milliseconds, so its digest is kept
 * in the store, by the library's sources. */
#include "tune/wisdom/wisdom.h"

#include "base/embed.h"
#include "base/status.h"
#include "tune/wisdom/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define KIND "digest"

static char *key_of(const md_fa_target *target, const char *variant)
{
    char *beginning = NULL;
    md_strbuf b = {0};
    if (md_tn_key_beginning(&beginning, target) != MD_OK)
        return NULL;
    md_strbuf_printf(&b, "%s | %s | sources %016" PRIx64, beginning, variant, md_source_identity);
    free(beginning);
    if (b.failed)
        md_strbuf_finish(&b);
    return b.text;
}

static bool recall(md_digest128 *out, md_sr *store, const char *key)
{
    void *bytes = NULL;
    size_t n = 0;
    const bool is_there = store && md_sr_find(&bytes, &n, store, KIND, key) == MD_OK && n == sizeof *out;
    if (is_there)
        memcpy(out, bytes, sizeof *out);
    free(bytes);
    return is_there;
}

static bool digest_of(md_digest128 *out, md_sr *store, const md_fa_target *target, const char *variant)
{
    const md_fa_family *family = NULL;
    md_fa_config config;
    char *key = key_of(target, variant);
    bool is_known = key && recall(out, store, key);
    if (key && !is_known && md_fa_parse_for(&family, &config, target, variant) == MD_OK &&
        md_bd_digest_of(out, target, family, &config) == MD_OK) {
        is_known = true;
        if (store)
            (void)md_sr_put(store, KIND, key, out, sizeof *out);
    }
    free(key);
    return is_known;
}

bool md_tn_has_text_of(md_tn_wisdom *wisdom, const md_fa_target *target, const md_tn_record *record)
{
    md_digest128 digest;
    return digest_of(&digest, wisdom->store, target, record->variant) && digest.lo == record->source.lo &&
           digest.hi == record->source.hi;
}
