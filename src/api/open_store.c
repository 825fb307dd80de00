/* Opens the bundles and the store of a context, says what entries depend on, and keeps the rates of the host there. */
#include "api/context.h"
#include "base/embed.h"
#include "base/plain.h"
#include "base/status.h"
#include "device/host/host.h"
#include "device/facts.h"
#include "md_build_config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WISDOM "wisdom" /* the kind of tuned results in bundles: sorted lines */

/* All that kernels and measured times depend on and that their keys do not hold. The first line is for people. */
static void describe(md_strbuf *out, const md_dev_facts *f)
{
    static const char *const kinds[] = {"host", "cuda", "sim"};
    md_strbuf_printf(out, "%s, %s, %s, multidispatch %s\n", kinds[f->kind], f->name,
                     f->compiler[0] ? f->compiler : "no compiler", MD_VERSION_TEXT);
    md_strbuf_printf(out, "capability %d, arch %s, lanes %d, driver %d, runtime %d, nvrtc %d, blas %d\n",
                     (int)f->capability, f->arch, (int)f->threads, (int)f->driver, (int)f->runtime, (int)f->nvrtc,
                     (int)f->has_blas);
    md_strbuf_printf(out, "flags %s\nmeasuring %s\n", f->flags, MD_TN_MEASURING);
}

/* Folders of shipped wisdom: MD_SYSTEM_PATH, else where the library is installed; "" without a store. */
static const char *system_path(const md_context *c)
{
    /* where only kernels of bundles can run, they are chosen by what the bundles say, not by shipped wisdom */
    const bool has_own = c->store && !(c->bundles.n > 0 && !c->bundles.compiles);
    return c->env.system_path ? c->env.system_path : has_own ? MD_WISDOM_FOLDER : "";
}

static md_status use_text(void *user, const md_sr_bundle_entry *entry)
{
    return md_tn_wisdom_use_text(user, entry->payload, entry->n);
}

/* The name of a board, without "(assumed)". */
static void name_device(char out[64], const md_dev_facts *f)
{
    static const char assumed[] = " (assumed)";
    snprintf(out, 64, "%s", f->name);
    const size_t n = strlen(out), k = sizeof assumed - 1;
    if (n > k && !strcmp(out + n - k, assumed))
        out[n - k] = 0;
}

md_status md_api_open_wisdom(md_context *c)
{
    char device[64], hex[33];
    md_strbuf facts = {0};
    name_device(device, &c->dev->facts);
    MD_TRY(md_tn_wisdom_create(&c->wisdom));
    md_tn_wisdom_use_store(c->wisdom, c->store, device);
    if (!c->store)
        md_tn_wisdom_set_environment(c->wisdom, c->environment);
    MD_TRY(md_tn_wisdom_use_texts(c->wisdom, system_path(c), &c->log));
    for (int32_t i = 0; i < c->bundles.n; i++)
        MD_TRY(md_sr_bundle_each(c->bundle[i], WISDOM, use_text, c->wisdom));
    if (c->dev->facts.kind != MD_DEV_CUDA)
        return MD_OK;
    md_dev_facts_print(&facts, c->dev->is_assumed ? &c->dev->assumed : &c->dev->facts);
    md_digest_text(hex, md_hash128(md_strbuf_text(&facts), facts.size));
    md_tn_wisdom_use_bundles(c->wisdom, c->bundle, c->bundles.n, &c->maker, hex);
    const bool has_failed = facts.failed;
    md_strbuf_finish(&facts);
    return has_failed ? md_fail_memory() : MD_OK;
}

md_status md_api_record_measured(md_context *c)
{
    char device[64], key[96];
    md_strbuf known = {0}, texts = {0};
    name_device(device, &c->dev->facts);
    md_status s = md_tn_wisdom_print(&known, c->wisdom);
    md_tn_wisdom_print_texts(&texts, c->wisdom);
    if (s == MD_OK && (texts.failed || known.failed))
        s = md_fail_memory();
    snprintf(key, sizeof key, "%s, known", device);
    if (s == MD_OK && known.size)
        s = md_sr_bundle_set(c->maker, WISDOM, key, md_strbuf_text(&known), known.size);
    snprintf(key, sizeof key, "%s, shipped", device);
    if (s == MD_OK && texts.size)
        s = md_sr_bundle_set(c->maker, WISDOM, key, md_strbuf_text(&texts), texts.size);
    md_strbuf_finish(&known);
    md_strbuf_finish(&texts);
    return s;
}

md_status md_api_open_store(md_context *c, const md_context_options *o)
{
    char standard[4096];
    md_strbuf about = {0};
    const char *root = o->cache_dir ? o->cache_dir : c->env.cache_dir;
    if (!root)
        root = md_env_cache_folder(standard, c->variables) ? standard : "";
    describe(&about, &c->dev->facts);
    if (!root[0] && !c->env.system_path && c->bundles.n == 0) { /* nothing is kept */
        c->environment = md_hash128(md_strbuf_text(&about), about.size);
        md_strbuf_finish(&about);
        return MD_OK;
    }
    md_sr_options options = {
        .root = root, .system_path = c->env.system_path, .environment = md_strbuf_text(&about), .log = &c->log};
    md_status status = about.failed ? md_fail_memory() : md_sr_open(&c->store, &options);
    md_strbuf_printf(&about, "sources %016" PRIx64 "\n",
                     md_source_identity); /* measured times hold for the sources of these kernels only */
    const md_tn_stored_options stored = {.root = root,
                                         .system_path = c->env.system_path,
                                         .environment = md_strbuf_text(&about),
                                         .log = &c->log,
                                         .bundle = c->bundle,
                                         .n_bundles = c->bundles.n,
                                         .maker = &c->maker};
    if (status == MD_OK)
        status = about.failed ? md_fail_memory() : md_tn_stored_open(&c->stored, &stored);
    md_strbuf_finish(&about);
    return status;
}

/* Takes over a bundle that was opened. */
static md_status add_bundle(md_context *c, md_sr_bundle *bundle)
{
    md_sr_bundle **grown = realloc(c->bundle, (size_t)(c->bundles.n + 1) * sizeof *grown);
    if (!grown) {
        md_sr_bundle_close(&bundle);
        return md_fail_memory();
    }
    c->bundle = grown;
    c->bundle[c->bundles.n++] = bundle;
    return MD_OK;
}

static md_status add_file(md_context *c, const char *path, size_t n)
{
    md_sr_bundle *bundle = NULL;
    char *own = strndup(path, n);
    md_status status = own ? md_sr_bundle_open(&bundle, own) : md_fail_memory();
    if (status == MD_OK)
        status = add_bundle(c, bundle);
    free(own);
    return status;
}

md_status md_api_open_bundles(md_context *c, const md_context_options *o)
{
    md_status status = MD_OK;
    md_sr_bundle *bundle = NULL;
    if (o->bundle_bytes) {
        MD_TRY(md_sr_bundle_open_bytes(&bundle, o->bundle_bytes, o->n_bundle_bytes));
        MD_TRY(add_bundle(c, bundle));
    }
    for (const char *at = o->bundle ? o->bundle : c->env.bundle; at && *at && status == MD_OK;) {
        const size_t n = strcspn(at, ":");
        if (n > 0)
            status = add_file(c, at, n);
        at += n + (at[n] == ':');
    }
    c->bundles.bundle = c->bundle;
    c->bundles.compiles = o->bundle_compile || c->env.bundle_compile;
    return status == MD_OK || o->bundle ? status : md_fail_more(status, " (MD_BUNDLE)");
}

void md_api_close_bundles(md_context *c)
{
    for (int32_t i = 0; i < c->bundles.n; i++)
        md_sr_bundle_close(&c->bundle[i]);
    free(c->bundle);
    md_sr_bundle_maker *maker = c->maker;
    md_sr_bundle_maker_destroy(&maker);
    c->maker = NULL;
}

/* ---- The facts of the devices that bundles were made for */

#define FACTS MD_API_FACTS
#define RATES "rates"

typedef struct search {
    const md_dev *dev;
    md_dev_facts best;
    double distance; /* of the nearest facts; negative: none fit */
    md_strbuf others; /* what the bundles are for, for a warning */
} search;

static md_status consider(void *user, const md_sr_bundle_entry *entry)
{
    search *x = user;
    md_dev_facts facts;
    MD_TRY(md_dev_facts_read(&facts, entry->payload, entry->n));
    const double distance = md_dev_facts_distance(&facts, x->dev);
    md_strbuf_printf(&x->others, "%s%s", x->others.size ? ", " : "", entry->key);
    if (distance >= 0 && (x->distance < 0 || distance < x->distance)) {
        x->best = facts;
        x->distance = distance;
    }
    return MD_OK;
}

md_status md_api_assume(md_context *c, const char *device)
{
    search x = {.dev = c->dev, .distance = -1};
    const bool is_here = !strcmp(device, "auto") || !strncmp(device, "host", 4) || !strncmp(device, "cuda", 4);
    md_status status = MD_OK;
    for (int32_t i = 0; is_here && i < c->bundles.n && status == MD_OK; i++)
        status = md_sr_bundle_each(c->bundle[i], FACTS, consider, &x);
    if (status == MD_OK && x.distance >= 0)
        status = md_dev_assume(c->dev, &x.best);
    else if (status == MD_OK && is_here && c->bundles.n > 0 && !c->bundles.compiles)
        md_log_at(&c->log, MD_LOG_WARN, "no bundle has kernels for %s (%s); they are for: %s", c->dev->facts.name,
                  c->dev->facts.kind == MD_DEV_CUDA ? "a GPU" : c->dev->facts.flags,
                  x.others.size ? md_strbuf_text(&x.others) : "nothing");
    md_strbuf_finish(&x.others);
    return status;
}

/* What a bundle is for: "sm_90a NVIDIA H200", "host -mavx2 ..., 8 threads". */
md_status md_api_record_facts(md_context *c)
{
    char name[640];
    md_strbuf text = {0};
    const md_dev_facts *f = &c->dev->facts;
    if (f->kind == MD_DEV_CUDA)
        snprintf(name, sizeof name, "%s %s", f->arch, f->name);
    else
        snprintf(name, sizeof name, "host %s, %d threads", f->flags, (int)f->threads);
    md_dev_facts_print(&text, c->dev->is_assumed ? &c->dev->assumed : f);
    const md_status status =
        text.failed ? md_fail_memory() : md_sr_bundle_set(c->maker, FACTS, name, md_strbuf_text(&text), text.size);
    md_strbuf_finish(&text);
    return status;
}

/* ---- The rates of the host */

/* Reads and frees a text. False for what no machine can have, or another one had. */
static bool read_rates(md_dev_host_rates *out, void *text, size_t n)
{
    enum { N_LIBRARY = MD_DEV_HOST_RATES + 2, MACHINE = N_LIBRARY + MD_DEV_LIBRARY_SHAPES, N_NUMBERS };
    double number[N_NUMBERS] = {0};
    char *at = text, *end = NULL;
    int32_t n_read = 0;
    for (; n_read < N_NUMBERS; n_read++, at = end) {
        number[n_read] = md_strtod(at, &end); /* strtod stops at once where there is no number */
        if (end == at || !isfinite(number[n_read]) || number[n_read] < 0)
            break;
    }
    const bool is_good = n_read == N_NUMBERS && at == (char *)text + n && number[MACHINE] == md_dev_host_machine();
    for (int32_t i = 0; i < MD_DEV_HOST_RATES; i++)
        out->rate[i] = number[i];
    for (int32_t i = 0; i < MD_DEV_LIBRARY_SHAPES; i++)
        out->library_us[i] = number[N_LIBRARY + i];
    out->spread = number[MD_DEV_HOST_RATES];
    out->at = (int64_t)fmin(number[MD_DEV_HOST_RATES + 1], 1e15);
    free(text);
    return is_good && md_dev_host_are_possible(out);
}

/* The rates that an earlier process measured. */
static bool find_rates(md_dev_host_rates *out, const md_context *c)
{
    void *text = NULL;
    size_t n = 0;
    if (md_sr_find_at(&text, &n, c->store, 0, FACTS, RATES) != MD_OK)
        return false;
    if (read_rates(out, text, n))
        return true;
    md_sr_discard(c->store, FACTS, RATES);
    return false;
}

static void put_rates(const md_context *c, const md_dev_host_rates *r)
{
    md_strbuf text = {0};
    if (!md_sr_is_writable(c->store))
        return;
    for (int32_t i = 0; i < MD_DEV_HOST_RATES; i++)
        md_strbuf_printf(&text, "%.17g ", r->rate[i]);
    md_strbuf_printf(&text, "%.17g %" PRId64, r->spread, r->at);
    for (int32_t i = 0; i < MD_DEV_LIBRARY_SHAPES; i++)
        md_strbuf_printf(&text, " %.17g", r->library_us[i]);
    md_strbuf_printf(&text, " %d", (int)md_dev_host_machine());
    if (!text.failed)
        (void)md_sr_put(c->store, FACTS, RATES, md_strbuf_text(&text), text.size);
    md_strbuf_finish(&text);
}

/* What an earlier process was not sure of, or did not know, and this one has by now. */
static void keep_rates(const md_context *c, const md_dev_host_rates *now)
{
    md_dev_host_rates known, r = *now;
    if (find_rates(&known, c)) {
        r = md_dev_host_are_sure(&known) ? known : md_dev_host_join_rates(&known, now);
        memcpy(r.library_us, now->library_us, sizeof r.library_us);
    }
    put_rates(c, &r);
}

/* Measured while the program runs: what it has by then it keeps, so that its picks stay as they are. */
static void take_or_estimate(md_context *c, const md_dev_host_rates *known)
{
    md_dev_host_rates now;
    md_dev_host_set_rates(c->dev, known, true);
    md_dev_host_get_rates(&now, c->dev);
    c->calibration.lacks_rates = !md_dev_host_are_sure(&now) || (c->dev->facts.has_blas && !(now.library_us[0] > 0));
    if (!c->calibration.lacks_rates)
        keep_rates(c, &now);
}

void md_api_measure_rates(md_context *c)
{
    md_dev_host_rates now;
    md_dev_host_measure_again(&now, c->dev);
    keep_rates(c, &now);
}

/* Rates decide what the model picks, and two measurements differ by other load. So they are measured once a store, and
 * again by the next process where load was seen or they are old. */
void md_api_set_rates(md_context *c, bool is_later)
{
    md_dev_host_rates known, now;
    if (c->dev->facts.kind != MD_DEV_HOST || c->dev->facts.memory_gbps > 0)
        return;
    if (md_dev_host_given_rates(&now)) { /* they may not be this machine's: the store keeps its own */
        md_dev_host_set_rates(c->dev, &now, false);
        return;
    }
    const bool is_known = find_rates(&known, c), is_sure = is_known && md_dev_host_are_sure(&known);
    const bool has_library = is_known && (known.library_us[0] > 0 || !c->dev->facts.has_blas);
    if (is_sure && has_library) {
        md_dev_host_set_rates(c->dev, &known, false);
    } else if (is_later) {
        take_or_estimate(c, is_known ? &known : NULL);
    } else {
        md_dev_host_set_rates(c->dev, is_sure ? &known : NULL, false);
        if (is_sure)
            md_dev_host_measure_library(&c->dev->facts);
        md_dev_host_get_rates(&now, c->dev);
        if (is_known && !is_sure) {
            now = md_dev_host_join_rates(&known, &now);
            md_dev_host_set_rates(c->dev, &now, false);
        }
        if (!is_sure || now.library_us[0] > 0)
            put_rates(c, &now);
    }
}
