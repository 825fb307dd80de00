/* Opens the store of a context and says what its entries depend on. */
#include "api/context.h"
#include "base/status.h"
#include "md_build_config.h"

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
    const md_status status = about.failed ? md_fail_memory() : md_sr_open(&c->store, &options);
    md_strbuf_finish(&about);
    return status;
}
