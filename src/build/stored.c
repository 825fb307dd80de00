/* Compiled kernels in the store: a binary, or the reason why a text does not compile. */
#include "build/stored.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIND "kernel"
enum { BINARY = 'B', FAILURE = 'F' }; /* the payload's first byte */

static void key_of(char out[80], md_digest128 digest, const char *entry)
{
    char hex[33];
    md_digest_text(hex, digest);
    snprintf(out, 80, "%s %.40s", hex, entry);
}

md_status md_bd_stored_find(md_bd_stored *out, md_sr *store, md_digest128 digest, const char *entry)
{
    char key[80];
    void *bytes = NULL;
    size_t n = 0;
    key_of(key, digest, entry);
    MD_TRY(md_sr_find(&bytes, &n, store, KIND, key));
    const char *text = bytes;
    if (n < 2 || (text[0] != BINARY && text[0] != FAILURE)) {
        free(bytes);
        md_sr_discard(store, KIND, key);
        return md_fail(MD_NOT_FOUND, "the store's entry of kernel '%s' is none", entry);
    }
    *out = (md_bd_stored){.bytes = bytes};
    if (text[0] == FAILURE) {
        out->failure = text + 1;
    } else {
        memmove(bytes, text + 1, n - 1); /* loaders want their bytes aligned as malloc does */
        out->binary = bytes;
        out->n_binary = n - 1;
    }
    return MD_OK;
}

bool md_bd_stored_put(md_sr *store, md_digest128 digest, const char *entry, const void *binary, size_t n_binary,
                      const char *failure)
{
    char key[80];
    if (!md_sr_is_writable(store))
        return false;
    const void *what = binary ? binary : failure;
    const size_t n = binary ? n_binary : strlen(failure);
    char *bytes = malloc(n + 1);
    if (!bytes)
        return false;
    bytes[0] = binary ? BINARY : FAILURE;
    memcpy(bytes + 1, what, n);
    key_of(key, digest, entry);
    const bool is_stored = md_sr_put(store, KIND, key, bytes, n + 1) == MD_OK;
    free(bytes);
    return is_stored;
}

void md_bd_stored_discard(md_sr *store, md_digest128 digest, const char *entry)
{
    char key[80];
    key_of(key, digest, entry);
    md_sr_discard(store, KIND, key);
}

bool md_bd_stored_is_final(const md_dev *dev, md_status status)
{
    return status == MD_COMPILE && dev->facts.kind == MD_DEV_CUDA && dev->facts.can_compile;
}
