/* Opens the bundles and the store of a context, says what entries depend on, and keeps the rates of the host there. */
#include "api/context.h"
#include "base/embed.h"
#include "base/plain.h"
#include "base/status.h"
#include "device/host/host.h"
#include "md_build_config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

const char *md_api_system_path(const md_context *c)
{
    return c->env.system_path ? c->env.system_path : c->store ? MD_WISDOM_FOLDER : "";
}

md_status md_api_open_store(md_context *c, const md_context_options *o)
{
    char standard[4096];
    md_strbuf about = {0};
    const char *root = o->cache_dir ? o->cache_dir : c->env.cache_dir;
    if (!root)
        root = md_env_cache_folder(standard) ? standard : "";
    if (!root[0] && !c->env.system_path)
        return MD_OK;
    describe(&about, &c->dev->facts);
    md_sr_options options = {
        .root = root, .system_path = c->env.system_path, .environment = md_strbuf_text(&about), .log = &c->log};
    md_status status = about.failed ? md_fail_memory() : md_sr_open(&c->store, &options);
    md_strbuf_printf(&about, "sources %016" PRIx64 "\n", md_source_identity); /* times are of these kernels */
    const md_tn_kept_options kept = {root, c->env.system_path, md_strbuf_text(&about), &c->log};
    if (status == MD_OK)
        status = about.failed ? md_fail_memory() : md_tn_kept_open(&c->kept, &kept);
    md_strbuf_finish(&about);
    return status;
}

static md_status add_bundle(md_context *c, const char *path, size_t n)
{
    md_sr_bundle *bundle = NULL;
    char *own = strndup(path, n);
    md_sr_bundle **grown = realloc(c->bundle, (size_t)(c->bundles.n + 1) * sizeof *grown);
    md_status status = md_fail_memory();
    if (grown)
        c->bundle = grown;
    if (own && grown)
        status = md_sr_bundle_open(&bundle, own);
    if (status == MD_OK)
        c->bundle[c->bundles.n++] = bundle;
    free(own);
    return status;
}

md_status md_api_open_bundles(md_context *c, const md_context_options *o)
{
    md_status status = MD_OK;
    for (const char *at = o->bundle ? o->bundle : c->env.bundle; at && *at && status == MD_OK;) {
        const size_t n = strcspn(at, ":");
        if (n > 0)
            status = add_bundle(c, at, n);
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

#define FACTS "facts"
#define RATES "rates"

/* Reads and frees a text. */
static bool read_rates(double out[MD_DEV_HOST_RATES], void *text, size_t n)
{
    char *at = text, *end = NULL;
    bool is_good = true;
    for (int32_t i = 0; i < MD_DEV_HOST_RATES; i++, at = end) {
        out[i] = md_strtod(at, &end); /* what holds no number ends where it begins, and reads as 0 */
        is_good = is_good && isfinite(out[i]) && out[i] > 0.0;
    }
    is_good = is_good && end == (char *)text + n;
    free(text);
    return is_good;
}

/* The rates for which a bundle's kernels were chosen, else those that an earlier process measured. */
static bool find_rates(double out[MD_DEV_HOST_RATES], const md_context *c)
{
    void *text = NULL;
    size_t n = 0;
    for (int32_t i = 0; i < c->bundles.n; i++)
        if (md_sr_bundle_find(&text, &n, c->bundle[i], FACTS, RATES) == MD_OK && read_rates(out, text, n))
            return true;
    if (md_sr_find_at(&text, &n, c->store, 0, FACTS, RATES) != MD_OK)
        return false;
    if (read_rates(out, text, n))
        return true;
    md_sr_discard(c->store, FACTS, RATES);
    return false;
}

static size_t print_rates(char out[160], const md_dev *dev)
{
    double rate[MD_DEV_HOST_RATES];
    md_dev_host_get_rates(rate, dev);
    return (size_t)md_snprintf(out, 160, "%.17g %.17g %.17g %.17g %.17g", rate[0], rate[1], rate[2], rate[3], rate[4]);
}

md_status md_api_record_facts(md_context *c)
{
    char text[160];
    if (c->dev->facts.kind != MD_DEV_HOST)
        return MD_OK;
    return md_sr_bundle_add(c->maker, FACTS, RATES, text, print_rates(text, c->dev));
}

/* Rates decide what the model picks, and two measurements differ by other load: so they are measured once a store. */
void md_api_set_rates(md_context *c)
{
    double rate[MD_DEV_HOST_RATES];
    char text[160];
    if (c->dev->facts.kind != MD_DEV_HOST)
        return;
    if (find_rates(rate, c)) {
        md_dev_host_set_rates(c->dev, rate);
        return;
    }
    md_dev_host_set_rates(c->dev, NULL);
    if (md_sr_is_writable(c->store))
        (void)md_sr_put(c->store, FACTS, RATES, text, print_rates(text, c->dev));
}
