/* Follows the memory of recorded calls byte by byte: a read sees the newest writes below it. Writes that one read sees
 * share memory; a dense write begins memory of its own, so buffers that a program reuses come apart. */
#include "sequence/recording/origin.h"

#include "base/dtype.h"
#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* A write of one recording. */
typedef struct write {
    int32_t slot;
    uintptr_t low, high;
} write;

typedef struct span {
    uintptr_t low, high;
} span;

typedef struct follow {
    md_sq_origins *out;
    const md_sq_recording *recording;
    int32_t call;
    write *written; /* in order */
    int32_t n_written;
    span *open; /* parts of a read that no write was found for */
    int32_t n_open;
} follow;

uintptr_t md_sq_low(const md_tensor *t)
{
    return (uintptr_t)t->data;
}

uintptr_t md_sq_high(const md_tensor *t)
{
    return (uintptr_t)t->data + (uintptr_t)md_sq_reach(t) * md_dtype_size(t->dtype);
}

static bool is_dense(const md_tensor *t)
{
    int64_t n = 1;
    for (int32_t a = 0; a < t->rank; a++)
        n *= t->size[a];
    return n == md_sq_reach(t);
}

/* ---- Classes */

int32_t md_sq_class_of(const md_sq_origins *o, int32_t w)
{
    while (o->leader[w] != w)
        w = o->leader[w];
    return w;
}

static void unite(md_sq_origins *o, int32_t a, int32_t b)
{
    a = md_sq_class_of(o, a);
    b = md_sq_class_of(o, b);
    o->leader[MD_MAX(a, b)] = MD_MIN(a, b);
}

/* ---- Reads */

/* Takes [low, high) out of the open parts. True if some of it was open. */
static bool cover(follow *f, uintptr_t low, uintptr_t high)
{
    bool any = false;
    const int32_t n = f->n_open;
    for (int32_t i = 0; i < n; i++) {
        const span s = f->open[i];
        if (s.low >= high || low >= s.high)
            continue;
        any = true;
        f->open[i] = (span){s.low, MD_MAX(s.low, low)};
        if (high < s.high)
            f->open[f->n_open++] = (span){high, s.high};
    }
    int32_t kept = 0;
    for (int32_t i = 0; i < f->n_open; i++)
        if (f->open[i].low < f->open[i].high)
            f->open[kept++] = f->open[i];
    f->n_open = kept;
    return any;
}

/* The newest writes below [low, high) become one class, whose member is returned; -1: there are none. */
static int32_t seen_by(follow *f, uintptr_t low, uintptr_t high)
{
    int32_t found = -1;
    f->n_open = 1;
    f->open[0] = (span){low, high};
    for (int32_t i = f->n_written - 1; i >= 0 && f->n_open > 0; i--) {
        if (!cover(f, f->written[i].low, f->written[i].high))
            continue;
        if (found >= 0)
            unite(f->out, found, f->written[i].slot);
        found = f->written[i].slot;
    }
    return found;
}

static int32_t named_at(const follow *f, uintptr_t low, uintptr_t high)
{
    for (int32_t i = 0; i < f->recording->n_named; i++) {
        const uintptr_t begin = (uintptr_t)f->recording->named[i].data;
        if (low >= begin && high <= begin + f->recording->named[i].n_bytes)
            return i;
    }
    return -1;
}

static md_status fail_call(const follow *f, const char *what)
{
    return md_fail(MD_INVALID_ARGUMENT, "recorded call %d (%s): %s", (int)f->call,
                   f->recording->call[f->call]->op->name, what);
}

/* All recordings agree on the kind. */
static md_status put(follow *f, int32_t slot, md_sq_origin_kind kind, int32_t number)
{
    md_sq_origin *o = &f->out->origin[slot];
    if (o->kind == MD_SQ_UNSEEN)
        *o = (md_sq_origin){kind, number};
    if (o->kind != kind || (kind == MD_SQ_NAMED && o->number != number))
        return fail_call(f, "its memory is not the same in all recordings");
    if (kind == MD_SQ_WRITTEN)
        unite(f->out, o->number, number);
    return MD_OK;
}

static md_status follow_read(follow *f, int32_t arg)
{
    const md_tensor *t = &f->recording->call[f->call]->tensor[arg];
    const uintptr_t low = md_sq_low(t), high = md_sq_high(t);
    const int32_t slot = md_sq_slot(f->call, arg), named = named_at(f, low, high);
    if (named >= 0)
        return put(f, slot, MD_SQ_NAMED, named);
    const int32_t found = seen_by(f, low, high);
    if (found >= 0 && f->n_open > 0)
        return fail_call(f, "it reads memory that was written in part");
    return put(f, slot, found >= 0 ? MD_SQ_WRITTEN : MD_SQ_ONLY_READ, MD_MAX(found, 0));
}

/* A write with gaps, or one that is read too, joins what it lies on. */
static md_status follow_write(follow *f, int32_t arg, bool is_updated)
{
    const md_tensor *t = &f->recording->call[f->call]->tensor[arg];
    const uintptr_t low = md_sq_low(t), high = md_sq_high(t);
    const int32_t slot = md_sq_slot(f->call, arg), named = named_at(f, low, high);
    if (named >= 0)
        return put(f, slot, MD_SQ_NAMED, named);
    if (is_updated || !is_dense(t)) {
        const int32_t found = seen_by(f, low, high);
        if (is_updated && (found < 0 || f->n_open > 0))
            return fail_call(f, "it updates memory that is neither named nor written before");
        if (found >= 0)
            unite(f->out, found, slot);
    }
    f->written[f->n_written++] = (write){slot, low, high};
    return put(f, slot, MD_SQ_WRITTEN, slot);
}

static md_status follow_call(follow *f)
{
    const md_sq_recorded_call *c = f->recording->call[f->call];
    const md_fx_formula *formula = c->op->formula;
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < formula->n_args; i++) {
            const md_fx_tensor *x = formula->args[i].is_scalar ? NULL : &formula->tensor[formula->args[i].id];
            if (!x || (x->role == MD_FX_OUTPUT) != (pass == 1))
                continue;
            if (md_sq_reach(&c->tensor[i]) <= 0)
                return fail_call(f, "recordings have no empty tensors");
            MD_TRY(pass == 0 ? follow_read(f, i) : follow_write(f, i, x->is_updated));
        }
    return MD_OK;
}

static md_status follow_recording(md_sq_origins *out, const md_sq_recording *r)
{
    const size_t room = (size_t)out->n + 2;
    follow f = {.out = out,
                .recording = r,
                .written = calloc(room, sizeof *f.written),
                .open = calloc(2 * room, sizeof *f.open)};
    md_status s = f.written && f.open ? MD_OK : md_fail_memory();
    for (; f.call < r->n_calls && s == MD_OK; f.call++)
        s = follow_call(&f);
    free(f.written);
    free(f.open);
    return s;
}

md_status md_sq_find_origins(md_sq_origins *out, const md_sq_records *x)
{
    out->n = x->recording[0]->n_calls * MD_FX_MAX_ARGS;
    out->origin = calloc((size_t)out->n + 1, sizeof *out->origin);
    out->leader = calloc((size_t)out->n + 1, sizeof *out->leader);
    out->n_members = calloc((size_t)out->n + 1, sizeof *out->n_members);
    if (!out->origin || !out->leader || !out->n_members)
        return md_fail_memory();
    for (int32_t i = 0; i < out->n; i++)
        out->leader[i] = i;
    for (int32_t k = 0; k < x->n; k++)
        MD_TRY(follow_recording(out, x->recording[k]));
    for (int32_t i = 0; i < out->n; i++)
        if (out->origin[i].kind == MD_SQ_WRITTEN && out->origin[i].number == i)
            out->n_members[md_sq_class_of(out, i)]++;
    return MD_OK;
}

void md_sq_origins_free(md_sq_origins *o)
{
    free(o->origin);
    free(o->leader);
    free(o->n_members);
}
