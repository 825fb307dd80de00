/* Compiles kernel texts to cubins and loads them. */
#include "device/cuda/internal.h"

#include "base/embed.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

md_status md_dev_cuda_compile(void **binary, size_t *n_bytes, md_dev *base, const md_kn_launch_source *source)
{
    const md_dev_cuda *dev = (const md_dev_cuda *)base;
    if (!base->facts.can_compile)
        return md_fail(MD_COMPILE, "%s", dev->no_nvrtc);
    md_strbuf log = {0};
    void *bytes = NULL;
    size_t n = 0;
    const char *text = md_strbuf_text(&source->text);
    md_status status = md_dev_nvrtc_compile(&bytes, &n, &log, text, base->facts.arch);
    if (status == MD_OK)
        status = log.failed ? md_fail_memory()
                            : md_dev_nvrtc_check(NULL, bytes, n, md_strbuf_text(&log), text, source->entry);
    md_strbuf_finish(&log);
    if (status != MD_OK) {
        free(bytes);
        return status;
    }
    *binary = bytes;
    *n_bytes = n;
    return MD_OK;
}

/* A binary runs on GPUs of its major version, from its minor version on. The runtime would refuse others late, with a
 * poor message. */
static md_status check_binary(md_dev_cubin *out, const md_dev *dev, const void *binary, size_t n_bytes,
                              const char *entry)
{
    const bool is_elf = n_bytes > 4 && !memcmp(binary, "\177ELF", 4);
    md_status status =
        is_elf ? md_dev_cubin_read(out, binary, n_bytes, entry) : md_dev_ptx_read(out, binary, n_bytes, entry);
    if (status != MD_OK)
        return md_fail_more(MD_DEVICE, "; it cannot be loaded");
    if (!is_elf) /* no machine code, so the driver compiles it for this GPU */
        return MD_OK;
    int32_t made_for = out->capability, is = dev->facts.capability;
    if (made_for / 10 != is / 10 || made_for > is)
        return md_fail(MD_DEVICE, "a kernel for compute capability %d.%d cannot be loaded on cuda:%d, which has %d.%d",
                       made_for / 10, made_for % 10, (int)dev->facts.index, is / 10, is % 10);
    return MD_OK;
}

/* Allows the largest shared memory and cluster size once, for all launches. */
static md_status allow(md_dev_cuda *dev, const md_dev_cuda_kernel *k)
{
    const md_dev_facts *facts = &dev->base.facts;
    int64_t shared = facts->shared_per_block - k->facts.shared_bytes;
    if (shared < 0)
        return md_fail(MD_UNSUPPORTED, "kernel '%s' has %lld bytes of static shared memory, cuda:%d allows %lld",
                       k->facts.kernel, (long long)k->facts.shared_bytes, (int)facts->index,
                       (long long)facts->shared_per_block);
    MD_CUDA_TRY(dev,
                cudaKernelSetAttributeForDevice(k->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared,
                                                facts->index),
                "allowing shared memory");
    if (facts->capability >= 90)
        MD_CUDA_TRY(
            dev,
            cudaKernelSetAttributeForDevice(k->kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1, facts->index),
            "allowing large clusters");
    return MD_OK;
}

/* The first launch of a kernel takes a hundred microseconds longer, so it is done here, without work. */
static md_status launch_empty(md_dev_cuda *dev, const md_dev_cuda_kernel *k)
{
    static const md_kn_word zeros[32768 / sizeof(md_kn_word)]; /* the most that CUDA 12.1 takes */
    if (k->facts.param_bytes > (int32_t)sizeof zeros)
        return md_fail(MD_UNSUPPORTED, "kernel '%s' takes %d bytes of parameters", k->facts.kernel,
                       (int)k->facts.param_bytes);
    md_kn_geometry g = {
        .blocks = 1,
        .grid = {MD_MAX(k->facts.cluster, 1), 1, 1},
        .block = {1, 1, 1}, /* one thread tells the kernel to return at once */
    };
    MD_CUDA_TRY(dev, md_dev_cuda_start(dev->inner, k, &g, zeros), "launching kernel '%s' with empty work",
                k->facts.kernel);
    MD_CUDA_TRY(dev, cudaStreamSynchronize(dev->inner), "running kernel '%s' with empty work", k->facts.kernel);
    return MD_OK;
}

static md_status load_binary(md_dev_cuda *dev, md_dev_cuda_kernel *k, const void *binary)
{
    MD_CUDA_TRY(dev, cudaLibraryLoadData(&k->library, binary, NULL, NULL, 0, NULL, NULL, 0), "loading kernel '%s'",
                k->facts.kernel);
    MD_CUDA_TRY(dev, cudaLibraryGetKernel(&k->kernel, k->library, k->facts.kernel), "finding kernel '%s'",
                k->facts.kernel);
    MD_TRY(allow(dev, k));
    return launch_empty(dev, k);
}

md_status md_dev_cuda_load(md_dev_kernel **out, md_dev *base, const void *binary, size_t n_bytes,
                           const md_kn_launch_source *source)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_kernel *k = calloc(1, sizeof *k);
    if (!k)
        return md_fail_memory();
    md_status status = MD_OK;
    md_dev_cuda_scope scope;
    k->n_maps = source->n_maps;
    k->waits = base->facts.capability >= 90 && source->code == MD_KN_TEXT &&
               strstr(md_strbuf_text(&source->text), "griddepcontrol.wait");
    memcpy(k->map, source->map, sizeof k->map);
    k->encode_map = k->n_maps > 0 ? md_dev_cuda_map_encoder() : NULL;
    k->move_map = k->n_maps > 0 ? md_dev_cuda_map_mover() : NULL;
    if (source->code == MD_KN_FUNCTION) {
        k->function = source->function;
    } else if ((status = check_binary(&k->facts, base, binary, n_bytes, source->entry)) == MD_OK &&
               (status = md_dev_cuda_enter(&scope, dev)) == MD_OK) {
        status = load_binary(dev, k, binary);
        if (status != MD_OK && k->library)
            (void)cudaLibraryUnload(k->library);
        md_dev_cuda_leave(&scope);
    }
    if (status != MD_OK) {
        free(k);
        return status;
    }
    /* with maps, the struct is aligned to 64 bytes */
    const int32_t least = k->facts.param_bytes - (k->n_maps > 0 ? 48 : 0);
    k->least_words = (least + (int32_t)sizeof(md_kn_word) - 1) / (int32_t)sizeof(md_kn_word);
    *out = (md_dev_kernel *)k;
    return MD_OK;
}

void md_dev_cuda_unload(md_dev *base, md_dev_kernel *kernel)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    md_dev_cuda_kernel *k = (md_dev_cuda_kernel *)kernel;
    md_dev_cuda_scope scope;
    if (!k)
        return;
    if (k->library && md_dev_cuda_enter(&scope, dev) == MD_OK) {
        (void)md_dev_cuda_result(dev, cudaLibraryUnload(k->library), "unloading kernel '%s'", k->facts.kernel);
        md_dev_cuda_leave(&scope);
    }
    free(k);
}

md_status md_dev_cuda_make(md_dev_kernel **out, md_dev_cuda *dev, const char *name)
{
    char file[64];
    snprintf(file, sizeof file, "cuda/%s.cu", name);
    const char *text = md_embed_find(file, NULL);
    if (!text)
        return md_fail(MD_INTERNAL, "%s is not in this build", file);
    md_kn_launch_source source = {.code = MD_KN_TEXT};
    snprintf(source.entry, sizeof source.entry, "md_%.48s", name);
    void *binary = NULL;
    size_t n_bytes = 0;
    md_strbuf_add(&source.text, text);
    md_status status = source.text.failed      ? md_fail_memory()
                       : dev->base.find_binary ? dev->base.find_binary(&binary, &n_bytes, dev->base.finder, &source)
                                               : MD_NOT_FOUND;
    if (status == MD_NOT_FOUND)
        status = md_dev_cuda_compile(&binary, &n_bytes, &dev->base, &source);
    if (status == MD_OK)
        status = md_dev_cuda_load(out, &dev->base, binary, n_bytes, &source);
    free(binary);
    md_strbuf_finish(&source.text);
    return status;
}
