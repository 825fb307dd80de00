/* Digests by xxHash. */
#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t md_hash64(const void *bytes, size_t n)
{
    return XXH3_64bits(bytes, n);
}

md_digest128 md_hash128(const void *bytes, size_t n)
{
    XXH128_hash_t h = XXH3_128bits(bytes, n);
    return (md_digest128){h.low64, h.high64};
}

void md_digest_text(char out[33], md_digest128 d)
{
    snprintf(out, 33, "%016" PRIx64 "%016" PRIx64, d.hi, d.lo);
}
