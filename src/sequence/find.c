/* The table of shapes: by sizes, and by how far each address is from a multiple of 64. */
#include "sequence/find.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

void md_sq_take_words(md_sq *sq, void *const *data, bool with_scalars)
{
    for (int32_t k = 0; k < sq->n_externals; k++) {
        if (!sq->external[k].is_scalar)
            sq->word[k] = (uint64_t)(uintptr_t)data[k];
        else if (with_scalars && data[k])
            memcpy(&sq->word[k], data[k], sizeof sq->word[k]);
    }
}

static md_status check_sizes(const md_sq *sq, const int64_t *size)
{
    for (int32_t d = 0; d < sq->n_dims; d++)
        if (size[d] < sq->dim[d].low || size[d] > sq->dim[d].high)
            return md_fail(MD_INVALID_ARGUMENT, "sequence %s: %s=%lld is not between %lld and %lld", sq->name,
                           sq->dim[d].name, (long long)size[d], (long long)sq->dim[d].low, (long long)sq->dim[d].high);
    return MD_OK;
}

/* ---- The order of use */

static void unlink_shape(md_sq *sq, md_sq_shape *s)
{
    *(s->newer ? &s->newer->older : &sq->newest) = s->older;
    *(s->older ? &s->older->newer : &sq->oldest) = s->newer;
    s->newer = s->older = NULL;
}

static void link_newest(md_sq *sq, md_sq_shape *s)
{
    s->older = sq->newest;
    *(sq->newest ? &sq->newest->newer : &sq->oldest) = s;
    sq->newest = s;
}

static void evict(md_sq *sq, md_sq_shape *s)
{
    (void)md_table_remove(sq->shapes, s->key, s->key_bytes);
    unlink_shape(sq, s);
    sq->last = sq->last == s ? NULL : sq->last;
    sq->count.n_sizes--;
    md_sq_shape_free(s, sq);
}

/* ---- Keys */

static size_t key_bytes(const md_sq *sq)
{
    return (size_t)sq->n_dims * sizeof(int64_t) + (size_t)sq->n_externals;
}

static void make_key(unsigned char *key, const md_sq *sq, const int64_t *size)
{
    memcpy(key, size, (size_t)sq->n_dims * sizeof *size);
    key += (size_t)sq->n_dims * sizeof *size;
    for (int32_t k = 0; k < sq->n_externals; k++)
        key[k] = sq->external[k].is_scalar ? 0 : (unsigned char)(sq->word[k] & 63);
}

/* ---- Finding */

static md_status add(md_sq_shape **out, md_sq *sq, const int64_t *size, md_sq_find_how *how)
{
    const size_t n = key_bytes(sq);
    if (md_ds_is_capturing(sq->runtime, how->stream)) {
        how->is_patient = true; /* the graph keeps the kernels */
        sq->is_captured = true; /* so that the arena is not waited for, if it grows */
    }
    MD_TRY(check_sizes(sq, size));
    unsigned char *key = malloc(n + 1);
    if (!key)
        return md_fail_memory();
    make_key(key, sq, size);
    md_sq_shape *shape = NULL;
    md_status s = md_sq_bind(&shape, sq, size, how);
    if (s == MD_OK)
        s = md_table_put(sq->shapes, key, n, shape, NULL);
    if (s != MD_OK) {
        free(key);
        if (shape)
            md_sq_shape_free(shape, sq);
        return s;
    }
    shape->key = key;
    shape->key_bytes = n;
    link_newest(sq, shape);
    sq->count.n_sizes++;
    while (sq->count.n_sizes > sq->options.max_sizes)
        evict(sq, sq->oldest);
    *out = shape;
    return MD_OK;
}

static md_sq_shape *look_up(md_sq *sq, const int64_t *size)
{
    unsigned char small[512];
    const size_t n = key_bytes(sq);
    unsigned char *key = n <= sizeof small ? small : malloc(n);
    if (!key)
        return NULL;
    make_key(key, sq, size);
    md_sq_shape *s = md_table_find(sq->shapes, key, n);
    if (key != small)
        free(key);
    if (s && s != sq->newest) {
        unlink_shape(sq, s);
        link_newest(sq, s);
    }
    return s;
}

static bool is_same(const md_sq *sq, const md_sq_shape *s, const int64_t *size)
{
    if (!s || memcmp(s->word, sq->word, (size_t)sq->n_externals * sizeof *sq->word))
        return false;
    return !memcmp(s->size, size, (size_t)sq->n_dims * sizeof *size);
}

/* True if the shape's launches are right for the words of this run, once these are stored in them. */
static bool serves(const md_sq *sq, md_sq_shape *s, bool is_same)
{
    if (s->generation != sq->generation || md_sq_shape_is_stale(s))
        return false;
    return is_same || (!s->is_overlapping && !md_sq_externals_overlap(sq, sq->word, s->external_bytes));
}

md_status md_sq_find(md_sq_shape **out, md_sq *sq, const int64_t *size, md_sq_find_how *how)
{
    md_sq_shape *s = sq->last;
    bool same = is_same(sq, s, size);
    how->has_run = false;
    if (!same) {
        s = look_up(sq, size);
        same = s && is_same(sq, s, size);
    }
    if (s && !serves(sq, s, same)) {
        evict(sq, s);
        s = NULL;
    }
    if (!s) {
        MD_TRY(add(&s, sq, size, how));
    } else if (!same) {
        MD_TRY(md_sq_check_externals(sq, s));
        md_sq_count_moves(s, sq);
        const md_status status = md_sq_apply(s, sq);
        if (status != MD_OK) {
            evict(sq, s);
            return status;
        }
    }
    s->n_same = same ? s->n_same + 1 : 0;
    if (s->n_same == MD_SQ_RUNS_TO_SETTLE)
        md_sq_drop_moves(s, sq);
    *out = sq->last = s;
    return MD_OK;
}
