/* Opens bundles and reads their entries. */
#include "store/bundle.h"

#include "base/status.h"
#include "base/writing.h"
#include "store/bundle_format.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

struct md_sr_bundle {
    int fd; /* -1: the bytes are in memory */
    const char *bytes;
    size_t n_bytes;
    char *path;
    md_sr_bundle_header header;
    md_sr_bundle_row *row; /* [header.n_entries], then the texts of the keys */
};

/* Reads all bytes at a place; false at the file's end. */
static bool read_at(void *out, size_t n, const md_sr_bundle *b, uint64_t at)
{
    if (b->fd < 0) {
        if (at > b->n_bytes || n > b->n_bytes - at)
            return false;
        memcpy(out, b->bytes + at, n);
        return true;
    }
    for (size_t have = 0; have < n;) {
        const ssize_t got = pread(b->fd, (char *)out + have, n - have, (off_t)(at + have));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        have += (size_t)got;
    }
    return true;
}

static md_status bad(const char *path, const char *why)
{
    return md_fail(MD_IO, "bundle '%.700s': %s", path, why);
}

/* NULL if only this user or root can have written the file. */
static const char *distrust(const struct stat *facts)
{
    if (!S_ISREG(facts->st_mode))
        return "it is no plain file";
    if (facts->st_uid != geteuid() && facts->st_uid != 0)
        return "it belongs to another user, so it is not used";
    return facts->st_mode & (S_IWGRP | S_IWOTH) ? "others may write to it, so it is not used" : NULL;
}

static const char *check_header(const md_sr_bundle_header *h, uint64_t n_file)
{
    if (memcmp(h->magic, MD_SR_BUNDLE_MAGIC, sizeof h->magic) != 0)
        return "not a bundle";
    if (h->version != MD_SR_BUNDLE_VERSION)
        return "of another version of the format";
    const uint64_t n_index = sizeof *h + h->n_entries * (uint64_t)sizeof(md_sr_bundle_row);
    return h->n_bytes == n_file && n_index <= n_file && h->n_keys <= n_file - n_index ? NULL : "not as long as it says";
}

/* The digest holds already: this finds what a faulty writer left. */
static const char *check_rows(const md_sr_bundle *b)
{
    const md_sr_bundle_header *h = &b->header;
    for (uint32_t i = 0; i < h->n_entries; i++) {
        const md_sr_bundle_row *r = &b->row[i];
        if (r->at > h->n_bytes || r->n_stored > h->n_bytes - r->at || r->key_at > h->n_keys ||
            r->n_key > h->n_keys - r->key_at)
            return "its index points beyond its end";
        if (r->n_stored > r->n || r->n / MD_SR_BUNDLE_MOST_PACKED > r->n_stored)
            return "it tells impossible lengths";
    }
    return NULL;
}

/* The length of a file that may be used. */
static md_status measure(md_sr_bundle *b)
{
    struct stat facts;
    if (b->fd < 0)
        return MD_OK;
    if (fstat(b->fd, &facts) != 0)
        return bad(b->path, strerror(errno));
    const char *why = distrust(&facts);
    b->n_bytes = (size_t)facts.st_size;
    return why ? bad(b->path, why) : MD_OK;
}

static md_status read_index(md_sr_bundle *b)
{
    MD_TRY(measure(b));
    md_sr_bundle_header *h = &b->header;
    if (!read_at(h, sizeof *h, b, 0))
        return bad(b->path, "shorter than a header");
    const char *why = check_header(h, b->n_bytes);
    if (why)
        return bad(b->path, why);
    const size_t n = h->n_entries * sizeof *b->row + h->n_keys;
    b->row = malloc(n + 1);
    if (!b->row)
        return md_fail_memory();
    if (!read_at(b->row, n, b, sizeof *h))
        return bad(b->path, "its index cannot be read");
    const md_digest128 digest = md_sr_bundle_seal(*h, b->row, n);
    if (digest.lo != h->digest.lo || digest.hi != h->digest.hi)
        return bad(b->path, "its digest does not hold");
    why = check_rows(b);
    return why ? bad(b->path, why) : MD_OK;
}

static md_status open_as(md_sr_bundle **out, const char *path, md_sr_bundle place)
{
    md_sr_bundle *b = calloc(1, sizeof *b);
    if (!b) {
        if (place.fd >= 0)
            close(place.fd);
        return md_fail_memory();
    }
    *b = place;
    b->path = strdup(path);
    const md_status status = b->path ? read_index(b) : md_fail_memory();
    if (status != MD_OK)
        md_sr_bundle_close(&b);
    else
        *out = b;
    return status;
}

md_status md_sr_bundle_open_bytes(md_sr_bundle **out, const void *bytes, size_t n)
{
    return open_as(out, "in memory", (md_sr_bundle){.fd = -1, .bytes = bytes, .n_bytes = n});
}

md_status md_sr_bundle_open(md_sr_bundle **out, const char *path)
{
    /* O_NONBLOCK: opening a pipe of that name would wait for its writer. */
    const int fd = md_above_standard(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (fd < 0) {
        const int reason = errno;
        return md_fail(reason == ENOENT ? MD_NOT_FOUND : MD_IO, "bundle '%.700s': %s", path, strerror(reason));
    }
    return open_as(out, path, (md_sr_bundle){.fd = fd});
}

void md_sr_bundle_close(md_sr_bundle **bundle)
{
    md_sr_bundle *b = bundle ? *bundle : NULL;
    if (!b)
        return;
    if (b->fd >= 0)
        close(b->fd);
    free(b->path);
    free(b->row);
    free(b);
    *bundle = NULL;
}

static int compare(const void *key, const void *row)
{
    const md_digest128 *a = key, *b = &((const md_sr_bundle_row *)row)->key;
    return a->hi != b->hi ? (a->hi < b->hi ? -1 : 1) : a->lo != b->lo ? (a->lo < b->lo ? -1 : 1) : 0;
}

/* The row of a key; NULL if there is none. OUT_OF_MEMORY is no row either: the caller compiles, or says what lacks. */
static const md_sr_bundle_row *find_row(const md_sr_bundle *b, const char *kind, const char *key)
{
    char *full = NULL;
    const int n = asprintf(&full, "%s %s", kind, key);
    if (n < 0)
        return NULL;
    const md_digest128 digest = md_hash128(full, (size_t)n);
    const md_sr_bundle_row *row = bsearch(&digest, b->row, b->header.n_entries, sizeof *row, compare);
    const char *texts = (const char *)(b->row + b->header.n_entries);
    if (row && (row->n_key != (uint32_t)n || memcmp(texts + row->key_at, full, (size_t)n) != 0))
        row = NULL;
    free(full);
    return row;
}

/* Writes a payload as it was before it was compressed. */
static md_status unpack(bool *is_right, char *out, const md_sr_bundle *b, const md_sr_bundle_row *row)
{
    uLongf n = row->n;
    int result = Z_DATA_ERROR;
    if (row->n_stored == row->n) {
        *is_right = read_at(out, row->n, b, row->at);
        return MD_OK;
    }
    char *packed = malloc(row->n_stored + (size_t)1);
    if (packed && read_at(packed, row->n_stored, b, row->at))
        result = uncompress((Bytef *)out, &n, (const Bytef *)packed, row->n_stored);
    free(packed);
    *is_right = result == Z_OK && n == row->n;
    return packed && result != Z_MEM_ERROR ? MD_OK : md_fail_memory();
}

static md_status read_payload(void **out, size_t *n, const md_sr_bundle *b, const md_sr_bundle_row *row)
{
    char *bytes = malloc(row->n + (size_t)1);
    if (!bytes)
        return md_fail_memory();
    md_digest128 digest = {0, 0};
    bool is_right = false;
    const md_status status = unpack(&is_right, bytes, b, row);
    if (status != MD_OK) {
        free(bytes);
        return status;
    }
    if (is_right)
        digest = md_hash128(bytes, row->n);
    if (digest.lo != row->payload.lo || digest.hi != row->payload.hi) {
        free(bytes);
        return md_fail(MD_IO, "bundle '%.300s': %.*s is damaged, or the file was changed while it was open", b->path,
                       (int)MD_MIN(row->n_key, 200u), (const char *)(b->row + b->header.n_entries) + row->key_at);
    }
    bytes[row->n] = 0;
    *out = bytes;
    *n = row->n;
    return MD_OK;
}

md_status md_sr_bundle_find(void **out, size_t *n, const md_sr_bundle *b, const char *kind, const char *key)
{
    const md_sr_bundle_row *row = find_row(b, kind, key);
    return row ? read_payload(out, n, b, row)
               : md_fail(MD_NOT_FOUND, "bundle '%.300s' has no %s '%.200s'", b->path, kind, key);
}

md_status md_sr_bundle_each(const md_sr_bundle *b, const char *kind, md_sr_bundle_visit visit, void *user)
{
    const char *texts = (const char *)(b->row + b->header.n_entries);
    const size_t n_kind = kind ? strlen(kind) : 0;
    md_status status = MD_OK;
    for (uint32_t i = 0; i < b->header.n_entries && status == MD_OK; i++) {
        const md_sr_bundle_row *row = &b->row[i];
        void *bytes = NULL;
        size_t n = 0;
        char *key = strndup(texts + row->key_at, row->n_key);
        char *blank = key ? strchr(key, ' ') : NULL;
        const bool is_wanted = blank && (!kind || (!strncmp(key, kind, n_kind) && key + n_kind == blank));
        if (!key)
            status = md_fail_memory();
        if (is_wanted)
            status = read_payload(&bytes, &n, b, row);
        if (is_wanted && status == MD_OK) {
            *blank = 0;
            status = visit(user, &(md_sr_bundle_entry){key, blank + 1, bytes, n});
        }
        free(bytes);
        free(key);
    }
    return status;
}

const char *md_sr_bundle_path(const md_sr_bundle *b)
{
    return b->path;
}

int32_t md_sr_bundle_count(const md_sr_bundle *b)
{
    return (int32_t)b->header.n_entries;
}

int64_t md_sr_bundle_bytes(const md_sr_bundle *b)
{
    return (int64_t)b->header.n_bytes;
}

md_digest128 md_sr_bundle_digest(const md_sr_bundle *b)
{
    return b->header.digest;
}
