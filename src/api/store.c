/* What users ask of the store: counts, lists, checks, garbage collection, and wisdom as text. */
#include "api/context.h"
#include "base/json.h"
#include "base/status.h"
#include "store/bundle_format.h"

#include <stdlib.h>
#include <string.h>

const char *md_store_path(const md_context *context)
{
    return context ? md_sr_root(context->store) : "";
}

md_status md_store_count(md_store_counters *out, const md_context *context)
{
    if (!out || !context)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", out ? "context" : "out");
    const md_sr_counters *s = md_sr_count(context->store);
    const md_bd_counters *b = md_bd_count(context->builder);
    *out = (md_store_counters){.hits = s->hits,
                               .misses = s->misses,
                               .healed = s->healed,
                               .written = s->written,
                               .write_failures = s->write_failures,
                               .compiles = b->compiles,
                               .kernels_stored = b->stored,
                               .timed = context->tune_count.timed};
    return MD_OK;
}

/* ---- Lists and checks */

typedef struct listing {
    md_strbuf text;
    bool is_json, only_bad;
    md_store_facts facts;
} listing;

static void add_json(md_strbuf *out, const md_sr_file *f)
{
    json_t *j = json_pack("{s:o, s:o, s:o, s:o, s:I, s:I}", "environment", md_json_text(f->environment), "about",
                          md_json_text(f->about), "kind", md_json_text(f->kind), "key", md_json_text(f->key), "bytes",
                          (json_int_t)f->n_bytes, "used", (json_int_t)f->used_s);
    if (j && f->problem)
        json_object_set_new(j, "problem", md_json_text(f->problem));
    char *line = j ? md_json_dump(j, JSON_COMPACT) : NULL;
    if (line)
        md_strbuf_printf(out, "%s\n", line);
    else
        out->failed = true;
    free(line);
    json_decref(j);
}

/* Keys of tuned results have several lines: they are printed in one. */
static void add_line(md_strbuf *out, const md_sr_file *f)
{
    md_strbuf_printf(out, "%.8s  %-8s %9lld  %s", f->environment, f->kind, (long long)f->n_bytes,
                     f->problem ? "bad: " : "");
    for (const char *c = f->problem ? f->problem : f->key; *c; c++)
        md_strbuf_bytes(out, *c == '\n' ? " " : c, 1);
    md_strbuf_add(out, "\n");
}

static md_status list_one(void *user, const md_sr_file *f)
{
    listing *l = user;
    l->facts.n_entries++;
    l->facts.n_bytes += f->n_bytes;
    l->facts.n_bad += f->problem != NULL;
    if (l->only_bad && !f->problem)
        return MD_OK;
    if (l->is_json)
        add_json(&l->text, f);
    else
        add_line(&l->text, f);
    return l->text.failed ? md_fail_memory() : MD_OK;
}

static md_status walk(md_store_facts *facts, md_context *context, listing *l, md_write_fn write, void *user)
{
    md_status s = MD_OK;
    const char *root = md_store_path(context);
    if (root[0])
        s = md_sr_walk(root, l->only_bad, list_one, l);
    if (s == MD_NOT_FOUND)
        s = MD_OK; /* the folder does not exist yet */
    if (s == MD_OK && write)
        s = md_api_write(&l->text, write, user);
    if (s == MD_OK && facts)
        *facts = l->facts;
    md_strbuf_finish(&l->text);
    return s;
}

md_status md_store_list(md_context *context, int32_t json, md_write_fn write, void *user)
{
    listing l = {.is_json = json != 0};
    if (!context || !write)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", context ? "write" : "context");
    return walk(NULL, context, &l, write, user);
}

md_status md_store_verify(md_store_facts *out, md_context *context, md_write_fn write, void *user)
{
    listing l = {.only_bad = true};
    if (!context || !out)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", context ? "out" : "context");
    MD_TRY(walk(out, context, &l, write, user));
    out->n_removed = out->n_bad;
    return MD_OK;
}

md_status md_store_gc(md_store_facts *out, md_context *context, int64_t limit_bytes)
{
    md_sr_gc_result r = {0};
    if (!context || !out || limit_bytes < 0)
        return md_fail(MD_INVALID_ARGUMENT, !context ? "context is NULL"
                                            : !out   ? "out is NULL"
                                                     : "a limit of less than 0 bytes");
    const char *root = md_store_path(context);
    const md_status s = root[0] ? md_sr_gc(&r, root, limit_bytes) : MD_OK;
    if (s != MD_OK && s != MD_NOT_FOUND)
        return s;
    *out = (md_store_facts){
        .n_entries = r.n_entries, .n_bytes = r.n_bytes, .n_removed = r.n_removed, .n_removed_bytes = r.n_removed_bytes};
    return MD_OK;
}

/* ---- Wisdom */

md_status md_wisdom_export(md_context *context, md_write_fn write, void *user)
{
    md_strbuf text = {0};
    if (!context || !write)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", context ? "write" : "context");
    md_status s = md_tn_wisdom_print(&text, context->wisdom);
    if (s == MD_OK && text.size)
        s = md_api_write(&text, write, user);
    md_strbuf_finish(&text);
    return s;
}

md_status md_wisdom_import(md_wisdom_counts *out, md_context *context, const char *text, size_t n_bytes,
                           md_write_fn write, void *user)
{
    md_tn_merged merged = {0};
    md_strbuf problems = {0};
    if (!context || (!text && n_bytes))
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", context ? "text" : "context");
    md_status s = md_tn_wisdom_merge(&merged, &problems, context->wisdom, text ? text : "", n_bytes);
    if (s == MD_CORRUPT && write && problems.size) {
        (void)md_api_write(&problems, write, user);
        s = md_fail(MD_CORRUPT, "%lld of %lld lines are no wisdom, so nothing is taken", (long long)merged.n_bad,
                    (long long)(merged.n_bad + merged.n_lines));
    }
    md_strbuf_finish(&problems);
    if (out)
        *out = (md_wisdom_counts){merged.n_lines, merged.n_bad, merged.n_taken, merged.n_related, merged.n_foreign};
    return s;
}

/* ---- Bundles */

md_status md_bundle_begin(md_context *context, md_bundle_what what)
{
    if (!context || (what != MD_BUNDLE_ALL && what != MD_BUNDLE_KEPT))
        return md_fail(MD_INVALID_ARGUMENT, context ? "%d is no md_bundle_what" : "context is NULL", (int)what);
    md_sr_bundle_maker *maker = NULL, *none = NULL;
    MD_TRY(md_sr_bundle_maker_create(&maker));
    if (!atomic_compare_exchange_strong(&context->maker, &none, maker)) {
        md_sr_bundle_maker_destroy(&maker);
        return md_fail(MD_INVALID_ARGUMENT, "this context makes a bundle already");
    }
    if (what == MD_BUNDLE_KEPT)
        md_sr_bundle_keep_only(maker, MD_BD_BUNDLED);
    for (int32_t i = 0; i < context->bundles.n; i++)
        MD_TRY(md_sr_bundle_copy(maker, context->bundle[i]));
    MD_TRY(md_bd_record_bundle(context->builder, maker));
    return md_api_record_facts(context);
}

md_status md_bundle_write(md_context *context, const char *path)
{
    if (!context || !context->maker)
        return md_fail(MD_INVALID_ARGUMENT, context ? "call md_bundle_begin first" : "context is NULL");
    if (!path)
        return md_fail(MD_INVALID_ARGUMENT, "path is NULL");
    md_bd_wait_all(context->builder);
    MD_TRY(md_api_record_measured(context));
    return md_sr_bundle_write(context->maker, path);
}

/* What is in a bundle, as JSON. */
typedef struct description {
    json_t *made_for, *gaps;
    int64_t n_kernels, n_kernel_bytes, n_wisdom, n_measured, n_estimates;
} description;

static md_status describe_entry(void *user, const md_sr_bundle_entry *e)
{
    description *d = user;
    if (!strcmp(e->kind, MD_BD_BUNDLED)) {
        d->n_kernels++;
        d->n_kernel_bytes += (int64_t)e->n;
    } else if (!strcmp(e->kind, MD_API_FACTS)) {
        json_array_append_new(d->made_for, md_json_text(e->key));
    } else if (!strcmp(e->kind, MD_BD_GAP)) {
        json_array_append_new(d->gaps,
                              json_pack("{s:o, s:o}", "stage", md_json_text(e->key), "why", md_json_text(e->payload)));
    }
    d->n_wisdom += !strcmp(e->kind, "wisdom");
    d->n_measured += !strcmp(e->kind, "measured");
    d->n_estimates += !strcmp(e->kind, "estimate");
    return MD_OK;
}

md_status md_bundle_describe(const char *path, md_write_fn write, void *user)
{
    char digest[33];
    md_sr_bundle *b = NULL;
    md_strbuf text = {0};
    if (!path || !write)
        return md_fail(MD_INVALID_ARGUMENT, "%s is NULL", path ? "write" : "path");
    MD_TRY(md_sr_bundle_open(&b, path));
    description d = {.made_for = json_array(), .gaps = json_array()};
    md_status s = md_sr_bundle_each(b, NULL, describe_entry, &d);
    md_digest_text(digest, md_sr_bundle_digest(b));
    md_json_print(&text,
                  json_pack("{s:o, s:o, s:i, s:I, s:i, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "path", md_json_text(path),
                            "digest", json_string(digest), "version", (int)MD_SR_BUNDLE_VERSION, "bytes",
                            (json_int_t)md_sr_bundle_bytes(b), "entries", (int)md_sr_bundle_count(b), "kernels",
                            (json_int_t)d.n_kernels, "kernel_bytes", (json_int_t)d.n_kernel_bytes, "wisdom",
                            (json_int_t)d.n_wisdom, "measured", (json_int_t)d.n_measured, "estimates",
                            (json_int_t)d.n_estimates, "made_for", d.made_for, "gaps", d.gaps));
    md_strbuf_add(&text, "\n");
    if (s == MD_OK)
        s = md_api_write(&text, write, user);
    md_strbuf_finish(&text);
    md_sr_bundle_close(&b);
    return s;
}
