/* Digests by xxHash: 64 bits for tables, 128 bits for identities. */
#ifndef MD_BASE_HASH_H
#define MD_BASE_HASH_H
#include <stddef.h>
#include <stdint.h>
typedef struct md_digest128 {
    uint64_t lo, hi;
} md_digest128;
uint64_t md_hash64(const void *bytes, size_t n);
md_digest128 md_hash128(const void *bytes, size_t n);
/** 32 hexadecimal digits and a 0. */
void md_digest_text(char out[33], md_digest128 d);
#endif
