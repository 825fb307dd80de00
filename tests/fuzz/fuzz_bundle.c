/* Fuzz target of bundles: any bytes are refused with a reason, or each entry is read or refused with one. The input is
 * also tried with a header that tells its true length and digest, so that what comes behind the digest is reached.
 * Built as fuzz_op.c, with -Isrc. */
#include "base/status.h"
#include "store/bundle.h"
#include "store/bundle_format.h"
#include "fuzz/text.h"

static md_status visit(void *user, const md_sr_bundle_entry *e)
{
    (void)user;
    require(((const char *)e->payload)[e->n] == 0, "a payload without an end", e->key);
    return MD_OK;
}

static void check(const void *bytes, size_t n)
{
    md_sr_bundle *b = NULL;
    void *found = NULL;
    size_t n_found = 0;
    if (md_sr_bundle_open_bytes(&b, bytes, n) != MD_OK) {
        require(md_last_error()[0] != 0, "no reason", "");
        return;
    }
    if (md_sr_bundle_each(b, NULL, visit, NULL) != MD_OK)
        require(strstr(md_last_error(), "damaged") || strstr(md_last_error(), "memory"), "another reason", "");
    if (md_sr_bundle_find(&found, &n_found, b, "kernel", "one") == MD_OK)
        free(found);
    md_sr_bundle_close(&b);
}

/* As a writer would have sealed these bytes. */
static void seal(char *bytes, size_t n)
{
    md_sr_bundle_header h;
    memcpy(&h, bytes, sizeof h);
    memcpy(h.magic, MD_SR_BUNDLE_MAGIC, sizeof h.magic);
    h.version = MD_SR_BUNDLE_VERSION;
    h.n_bytes = n;
    const uint64_t n_rest = n - sizeof h, n_index = h.n_entries * (uint64_t)sizeof(md_sr_bundle_row);
    if (n_index > n_rest)
        h.n_entries = (uint32_t)(n_rest / sizeof(md_sr_bundle_row));
    h.n_keys = MD_MIN(h.n_keys, n_rest - h.n_entries * sizeof(md_sr_bundle_row));
    h.digest = md_sr_bundle_seal(h, bytes + sizeof h, h.n_entries * sizeof(md_sr_bundle_row) + h.n_keys);
    memcpy(bytes, &h, sizeof h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = text_of(data, size);
    check(bytes, size);
    if (size >= sizeof(md_sr_bundle_header)) {
        seal(bytes, size);
        check(bytes, size);
    }
    free(bytes);
    return 0;
}
