/* Stored picks, times and swaps in the store: one entry an op, for all environments; read, merged and written under a
 * lease. */
#include "base/status.h"
#include "tune/stored/stored.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KIND "measured"
/* The environment of the entries. Their lines have environments of their own. */
static const char ENTRIES[] = "picks and times that were measured while programs ran, of all environments\n";

struct md_tn_stored {
    md_sr *store;
    md_jobs *writer;
    uint64_t environment;
    const md_log *log;
    md_sr_bundle *const *bundle; /* [n_bundles] */
    int32_t n_bundles;
    _Atomic(md_sr_bundle_maker *) *maker;
    pid_t owner; /* a child after fork has no thread that writes */
};

md_status md_tn_stored_open(md_tn_stored **out, const md_tn_stored_options *o)
{
    const md_sr_options options = {
        .root = o->root, .system_path = o->system_path, .environment = ENTRIES, .log = o->log};
    md_tn_stored *stored = calloc(1, sizeof *stored);
    if (!stored)
        return md_fail_memory();
    stored->log = o->log;
    stored->bundle = o->bundle;
    stored->n_bundles = o->n_bundles;
    stored->maker = o->maker;
    stored->owner = getpid();
    stored->environment = md_hash64(o->environment, strlen(o->environment));
    md_status s = md_sr_open(&stored->store, &options);
    if (s == MD_OK)
        s = md_jobs_create(&stored->writer, 1);
    if (s != MD_OK) {
        md_tn_stored_close(&stored);
        return s;
    }
    *out = stored;
    return MD_OK;
}

void md_tn_stored_close(md_tn_stored **stored)
{
    md_tn_stored *store = *stored;
    if (!store)
        return;
    md_jobs_destroy(&store->writer);
    md_sr_close(&store->store);
    free(store);
    *stored = NULL;
}

uint64_t md_tn_stored_environment(const md_tn_stored *stored)
{
    return stored ? stored->environment : 0;
}

bool md_tn_stored_is_writable(const md_tn_stored *stored)
{
    return stored && md_sr_is_writable(stored->store);
}

bool md_tn_stored_is_own(const md_tn_stored *stored)
{
    return stored && stored->owner == getpid();
}

bool md_tn_stored_submit(md_tn_stored *stored, void (*run)(void *user), void *user)
{
    if (!md_tn_stored_is_own(stored))
        return false;
    md_jobs_submit(stored->writer, run, user);
    return true;
}

/* Bad lines are named and left out; the next save writes the entry without them. Less than 0: it is dropped. */
static int32_t add_text(md_tn_stored_list *out, const md_tn_stored *stored, const char *key, const void *text, size_t n)
{
    char problem[200];
    const int32_t n_bad = md_tn_stored_read(out, problem, text, n);
    if (n_bad != 0)
        md_log_at(stored->log, MD_LOG_WARN, "store: measured picks of '%.100s': %s%s", key, problem,
                  n_bad < 0 ? ": the entry is dropped" : ": such lines are dropped");
    return n_bad;
}

static void load_from(md_tn_stored_list *out, md_tn_stored *stored, int32_t place, const char *key)
{
    void *text = NULL;
    size_t n = 0;
    if (md_sr_find_at(&text, &n, stored->store, place, KIND, key) != MD_OK)
        return;
    const int32_t n_bad = add_text(out, stored, key, text, n);
    free(text);
    if (n_bad < 0 && place == 0)
        md_sr_discard(stored->store, KIND, key);
}

/* Adds what a bundle has. It is older than what the stores have. */
static void load_bundled(md_tn_stored_list *out, const md_tn_stored *stored, const char *key)
{
    for (int32_t i = 0; i < stored->n_bundles; i++) {
        char problem[200];
        void *text = NULL;
        size_t n = 0;
        if (md_sr_bundle_find(&text, &n, stored->bundle[i], KIND, key) != MD_OK)
            continue;
        if (md_tn_stored_read(out, problem, text, n) != 0)
            md_log_at(stored->log, MD_LOG_WARN, "bundle: measured picks of '%.100s': %s", key, problem);
        free(text);
    }
}

/* Puts what is known of a key into the bundle that is being made. */
static void record(const md_tn_stored *stored, const char *key, const md_tn_stored_list *list)
{
    md_sr_bundle_maker *maker = stored->maker ? atomic_load_explicit(stored->maker, memory_order_relaxed) : NULL;
    md_strbuf text = {0};
    if (!maker || list->n_picks + list->n_times + list->n_swaps == 0)
        return;
    md_tn_stored_print(&text, list);
    if (text.failed || md_sr_bundle_set(maker, KIND, key, md_strbuf_text(&text), text.size) != MD_OK)
        md_log_at(stored->log, MD_LOG_ERROR, "the bundle lacks what was measured of '%.100s'", key);
    md_strbuf_finish(&text);
}

void md_tn_stored_load(md_tn_stored_list *out, md_tn_stored *stored, const char *key)
{
    memset(out, 0, sizeof *out);
    if (!stored)
        return;
    for (int32_t place = md_sr_n_places(stored->store) - 1; place >= 0; place--)
        load_from(out, stored, place, key);
    load_bundled(out, stored, key);
    md_tn_stored_merge(out);
    record(stored, key, out);
}

typedef struct saving {
    const md_tn_stored *stored;
    const char *key;
    const md_tn_stored_list *list;
} saving;

/* A md_sr_merge_fn: what is there, and what is new. */
static md_status add_new(void **out, size_t *n_out, void *user, const void *there, size_t n)
{
    const saving *s = user;
    md_tn_stored_list all = {0};
    md_strbuf text = {0};
    if (there)
        (void)add_text(&all, s->stored, s->key, there, n);
    md_tn_stored_add(&all, s->list);
    md_tn_stored_merge(&all);
    record(s->stored, s->key, &all);
    md_tn_stored_print(&text, &all);
    const bool is_good = !all.failed && !text.failed;
    md_tn_stored_list_finish(&all);
    if (!is_good) {
        md_strbuf_finish(&text);
        return md_fail_memory();
    }
    *out = text.text;
    *n_out = text.size;
    return MD_OK;
}

md_status md_tn_stored_save(md_tn_stored *stored, const char *key, const md_tn_stored_list *list)
{
    return md_sr_update(stored->store, KIND, key, add_new, &(saving){stored, key, list});
}

/* ---- Chips: a line for each */

#define CHIPS "chips"

/* True if the text has that line. */
static bool has_line(const char *text, size_t n, const char *line)
{
    const size_t length = strlen(line);
    for (const char *at = text, *end = text + n; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const size_t here = (size_t)((stop ? stop : end) - at);
        if (here == length && !memcmp(at, line, length))
            return true;
        at += here + 1;
    }
    return false;
}

/* A md_sr_merge_fn. */
static md_status add_chip(void **out, size_t *n_out, void *user, const void *there, size_t n)
{
    const char *name = user;
    md_strbuf text = {0};
    if (there)
        md_strbuf_printf(&text, "%.*s", (int)MD_MIN(n, 4096), (const char *)there);
    if (!there || !has_line(there, n, name))
        md_strbuf_printf(&text, "%s\n", name);
    if (text.failed) {
        md_strbuf_finish(&text);
        return md_fail_memory();
    }
    *out = text.text;
    *n_out = text.size;
    return MD_OK;
}

md_status md_tn_stored_note_chip(md_tn_stored *stored, const char *arch, const char *name)
{
    char line[MD_TN_CHIP_NAME];
    snprintf(line, sizeof line, "%.63s", name);
    return md_sr_update(stored->store, CHIPS, arch, add_chip, line);
}

int32_t md_tn_stored_chips(char (*out)[MD_TN_CHIP_NAME], int32_t most, md_tn_stored *stored, const char *arch)
{
    int32_t n = 0;
    for (int32_t place = 0; stored && place < md_sr_n_places(stored->store) && n < most; place++) {
        void *text = NULL;
        size_t n_bytes = 0;
        if (md_sr_find_at(&text, &n_bytes, stored->store, place, CHIPS, arch) != MD_OK)
            continue;
        for (char *rest = text, *line; n < most && (line = strsep(&rest, "\n"));)
            if (*line)
                snprintf(out[n++], MD_TN_CHIP_NAME, "%.63s", line);
        free(text);
    }
    return n;
}
