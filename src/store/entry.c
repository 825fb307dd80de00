/* Packs and reads the bytes of an entry: header, key, payload. */
#include "store/entry.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* The bytes are those in memory. On a machine of the other byte order the version does not match. */
typedef struct header {
    char magic[8];
    uint32_t version, n_key;
    uint64_t n_payload;
    md_digest128 environment;
    md_digest128 sum; /* of the header, computed with the sum of key and payload in this field */
} header;
_Static_assert(sizeof(header) == 56, "no gaps: the header is hashed and written as it is");

enum { VERSION = 1, MAX_KEY = 1 << 20 };
static const char magic[8] = {'M', 'D', 'S', 'T', 'O', 'R', 'E', '\n'};

static md_digest128 sum_of(header h, const void *rest, size_t n)
{
    h.sum = md_hash128(rest, n);
    return md_hash128(&h, sizeof h);
}

md_status md_sr_entry_pack(void **out, size_t *n, md_digest128 environment, const char *key, const void *payload,
                           size_t n_payload)
{
    header h = {.version = VERSION, .n_payload = n_payload, .environment = environment};
    const size_t n_key = strlen(key);
    if (n_key > MAX_KEY)
        return md_fail(MD_INVALID_ARGUMENT, "a key of %zu bytes", n_key);
    h.n_key = (uint32_t)n_key;
    memcpy(h.magic, magic, sizeof magic);
    const size_t n_all = sizeof h + n_key + n_payload;
    char *bytes = malloc(n_all);
    if (!bytes)
        return md_fail_memory();
    memcpy(bytes + sizeof h, key, n_key);
    if (n_payload)
        memcpy(bytes + sizeof h + n_key, payload, n_payload);
    h.sum = sum_of(h, bytes + sizeof h, n_all - sizeof h);
    memcpy(bytes, &h, sizeof h);
    *out = bytes;
    *n = n_all;
    return MD_OK;
}

const char *md_sr_entry_read(md_sr_entry *out, const void *bytes, size_t n, const md_digest128 *environment,
                             const char *key)
{
    header h;
    if (n < sizeof h)
        return "shorter than a header";
    memcpy(&h, bytes, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic) != 0)
        return "not an entry";
    if (h.version != VERSION)
        return "of another version of the format";
    if (h.n_key > MAX_KEY || h.n_payload > SIZE_MAX / 2 || sizeof h + h.n_key + h.n_payload != n)
        return "not as long as it says";
    const md_digest128 sum = sum_of(h, (const char *)bytes + sizeof h, n - sizeof h);
    if (sum.lo != h.sum.lo || sum.hi != h.sum.hi)
        return "its checksum does not hold";
    if (environment && (h.environment.lo != environment->lo || h.environment.hi != environment->hi))
        return "of another environment";
    const char *at = (const char *)bytes + sizeof h;
    if (key && (strlen(key) != h.n_key || memcmp(at, key, h.n_key) != 0))
        return "of another key";
    *out = (md_sr_entry){at, h.n_key, at + h.n_key, (size_t)h.n_payload};
    return NULL;
}
