/* The device that only builds. */
#include "device/nvrtc/nvrtc.h"

#include "base/status.h"
#include "device/host_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ahead_kernel {
    md_kn_host_function function; /* NULL: a binary, of which nothing is kept */
} ahead_kernel; /* what md_dev_kernel * points to here */

static void destroy(md_dev *dev)
{
    free(dev);
}

static md_status sync_stream(md_dev *dev, md_stream stream)
{
    (void)dev;
    (void)stream;
    return MD_OK;
}

static bool is_ptx(const md_dev_facts *facts)
{
    return !strncmp(facts->arch, "compute_", 8);
}

/* PTX is checked as the code that it becomes on the least GPU that runs it. */
static md_status compile(void **binary, size_t *n_bytes, md_dev *dev, const md_kn_launch_source *source)
{
    const md_dev_facts *f = &dev->facts;
    const char *text = md_strbuf_text(&source->text);
    char arch[16];
    md_strbuf log = {0};
    void *bytes = NULL;
    size_t n = 0;
    if (is_ptx(f))
        snprintf(arch, sizeof arch, "sm_%d", (int)f->capability);
    else
        memcpy(arch, f->arch, sizeof arch);
    md_status status = md_dev_nvrtc_compile(&bytes, &n, &log, text, arch);
    if (status == MD_OK)
        status = log.failed ? md_fail_memory()
                            : md_dev_nvrtc_check(NULL, bytes, n, md_strbuf_text(&log), text, source->entry);
    md_strbuf_finish(&log);
    if (status == MD_OK && is_ptx(f)) {
        free(bytes);
        bytes = NULL;
        status = md_dev_nvrtc_compile(&bytes, &n, NULL, text, f->arch);
    }
    if (status != MD_OK) {
        free(bytes);
        return status;
    }
    *binary = bytes;
    *n_bytes = n;
    return MD_OK;
}

static md_status load(md_dev_kernel **out, md_dev *dev, const void *binary, size_t n_bytes,
                      const md_kn_launch_source *source)
{
    md_dev_cubin facts;
    ahead_kernel *k = calloc(1, sizeof *k);
    if (!k)
        return md_fail_memory();
    md_status status = MD_OK;
    if (source->code == MD_KN_FUNCTION)
        k->function = source->function;
    else if (is_ptx(&dev->facts))
        status = md_dev_ptx_read(&facts, binary, n_bytes, source->entry);
    else
        status = md_dev_cubin_read(&facts, binary, n_bytes, source->entry);
    if (status != MD_OK) {
        free(k);
        return status;
    }
    *out = (md_dev_kernel *)k;
    return MD_OK;
}

static void unload(md_dev *dev, md_dev_kernel *kernel)
{
    (void)dev;
    free(kernel);
}

static md_status launch(md_dev *dev, md_stream stream, const md_dev_kernel *kernel, const md_kn_geometry *geometry,
                        md_dev_params params, const md_kn_call *call)
{
    (void)stream;
    (void)kernel;
    (void)geometry;
    (void)params;
    (void)call;
    return md_fail(MD_UNSUPPORTED, "device '%s' builds kernels for elsewhere, and runs none", dev->facts.arch);
}

static const md_dev_ops ahead_ops = {
    .name = "ahead",
    .destroy = destroy,
    .alloc = md_dev_host_alloc,
    .free = md_dev_host_free,
    .copy = md_dev_host_copy,
    .sync = sync_stream,
    .compile = compile,
    .load = load,
    .unload = unload,
    .launch = launch,
};

static md_status find_board(md_dev_facts *out, const char *name)
{
    char arch[16];
    const char *colon = strchr(name, ':');
    const size_t n = colon ? (size_t)(colon - name) : strlen(name);
    char *end = NULL;
    const long number = colon ? strtol(colon + 1, &end, 10) : 0;
    if (n >= sizeof arch || (colon && (end == colon + 1 || *end || number < 0 || number > 1000)))
        return md_fail(MD_INVALID_ARGUMENT, "'%.40s' is no architecture", name);
    snprintf(arch, sizeof arch, "%.*s", (int)n, name);
    return md_dev_cuda_assume_board(out, strcmp(arch, "ptx") ? arch : "compute_80", (int32_t)number);
}

md_status md_dev_ahead_open(md_dev **out, const md_dev_options *options, const char *name)
{
    md_dev_nvrtc nvrtc;
    md_dev_facts facts;
    MD_TRY(find_board(&facts, name));
    const md_status status = md_dev_nvrtc_open(&nvrtc);
    if (status != MD_OK)
        return md_fail_more(MD_UNSUPPORTED, "; kernels for %.16s cannot be built", facts.arch);
    facts.nvrtc = nvrtc.version;
    facts.can_compile = true;
    snprintf(facts.compiler, sizeof facts.compiler, "nvrtc %d.%d", nvrtc.version / 1000, nvrtc.version % 1000 / 10);
    snprintf(facts.flags, sizeof facts.flags, "--gpu-architecture=%s %s", facts.arch, md_dev_nvrtc_flags());
    md_dev *dev = calloc(1, sizeof *dev);
    if (!dev)
        return md_fail_memory();
    dev->ops = &ahead_ops;
    dev->facts = facts;
    dev->pool = options->pool;
    dev->log = options->log;
    *out = dev;
    return MD_OK;
}
