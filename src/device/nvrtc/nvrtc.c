/* Finds NVRTC and compiles kernel texts with it. */
#include "device/nvrtc/nvrtc.h"

#include "base/env.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/task/thread.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARCHS = 128 };

/* Names of the library, newest first. CUDA has one name a major version. */
static const char *const sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

/* Other places, as patterns of glob: first below folders named by variables, then below fixed folders. */
static const char *const variables[] = {"CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV", "CONDA_PREFIX"};
static const char *const places[] = {
    "lib64/libnvrtc.so.1[23]",
    "lib/libnvrtc.so.1[23]",
    "lib/python3*/*-packages/nvidia/cu1[23]/lib/libnvrtc.so.1[23]",
    "lib/python3*/*-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.1[23]",
};
static const char *const roots[] = {"/usr/local/cuda", "/usr/local", "/usr"};

static void *open_pattern(const char *root, const char *place)
{
    char pattern[4096];
    glob_t found = {0};
    void *library = NULL;
    if (snprintf(pattern, sizeof pattern, "%s/%s", root, place) < (int)sizeof pattern &&
        glob(pattern, 0, NULL, &found) == 0) {
        /* from the last on: glob sorts by name, so the last is the newest */
        for (size_t i = found.gl_pathc; i > 0 && !library; i--)
            library = dlopen(found.gl_pathv[i - 1], RTLD_NOW | RTLD_LOCAL);
    }
    globfree(&found);
    return library;
}

static void *open_below(const char *root)
{
    void *library = NULL;
    for (int32_t i = 0; root && i < MD_COUNT(places) && !library; i++)
        library = open_pattern(root, places[i]);
    return library;
}

static void *open_library(void)
{
    static const int modes[] = {RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD, RTLD_NOW | RTLD_LOCAL};
    void *library = NULL;
    for (int32_t mode = 0; mode < 2; mode++)
        for (int32_t i = 0; i < MD_COUNT(sonames) && !library; i++)
            library = dlopen(sonames[i], modes[mode]);
    for (int32_t i = 0; i < MD_COUNT(variables) && !library; i++)
        library = open_below(md_env_foreign(NULL, variables[i]));
    for (int32_t i = 0; i < MD_COUNT(roots) && !library; i++)
        library = open_below(roots[i]);
    return library;
}

typedef struct function {
    const char *name;
    size_t offset; /* of the function in md_dev_nvrtc */
} function;

static const function functions[] = {
    {"nvrtcVersion", offsetof(md_dev_nvrtc, get_version)},
    {"nvrtcGetErrorString", offsetof(md_dev_nvrtc, error_text)},
    {"nvrtcGetNumSupportedArchs", offsetof(md_dev_nvrtc, n_archs)},
    {"nvrtcGetSupportedArchs", offsetof(md_dev_nvrtc, archs)},
    {"nvrtcCreateProgram", offsetof(md_dev_nvrtc, create)},
    {"nvrtcDestroyProgram", offsetof(md_dev_nvrtc, destroy)},
    {"nvrtcCompileProgram", offsetof(md_dev_nvrtc, compile)},
    {"nvrtcGetCUBINSize", offsetof(md_dev_nvrtc, cubin_size)},
    {"nvrtcGetCUBIN", offsetof(md_dev_nvrtc, cubin)},
    {"nvrtcGetPTXSize", offsetof(md_dev_nvrtc, ptx_size)},
    {"nvrtcGetPTX", offsetof(md_dev_nvrtc, ptx)},
    {"nvrtcGetProgramLogSize", offsetof(md_dev_nvrtc, log_size)},
    {"nvrtcGetProgramLog", offsetof(md_dev_nvrtc, log)},
};

static md_status take_functions(md_dev_nvrtc *out, void *library)
{
    md_dev_nvrtc nvrtc = {0};
    for (int32_t i = 0; i < MD_COUNT(functions); i++) {
        void *symbol = dlsym(library, functions[i].name);
        if (!symbol)
            return md_fail(MD_UNSUPPORTED, "NVRTC is too old: it has no %s", functions[i].name);
        memcpy((char *)&nvrtc + functions[i].offset, &symbol, sizeof symbol);
    }
    int major = 0, minor = 0;
    if (nvrtc.get_version(&major, &minor) != 0 || major < 12)
        return md_fail(MD_UNSUPPORTED, "NVRTC is too old: %d.%d, and 12.0 is needed", major, minor);
    nvrtc.version = major * 1000 + minor * 10;
    Dl_info about;
    if (dladdr(dlsym(library, functions[0].name), &about) && about.dli_fname)
        snprintf(nvrtc.path, sizeof nvrtc.path, "%s", about.dli_fname);
    *out = nvrtc;
    (void)md_dev_keep_process(library); /* NVRTC compiles even if this fails */
    return MD_OK;
}

md_status md_dev_nvrtc_open(md_dev_nvrtc *out)
{
    /* Never closed: it is large, and other libraries of the process may use it. */
    void *library = open_library();
    if (!library)
        return md_fail(
            MD_NOT_FOUND,
            "no NVRTC: neither libnvrtc.so.13 nor .12 is where the loader looks (LD_LIBRARY_PATH), below CUDA_HOME, "
            "/usr/local/cuda, or among the Python packages of VIRTUAL_ENV, CONDA_PREFIX or the system");
    return take_functions(out, library);
}

/* Opens the second copy of the library, if there is one. Threads in one NVRTC wait for each other half of the time.
 * CUDA installs a second copy, libnvrtc.alt.so, which makes the same code. */
static bool open_other(md_dev_nvrtc *out, const md_dev_nvrtc *nvrtc)
{
    static const char plain[] = "libnvrtc.so";
    char path[sizeof nvrtc->path + 8];
    const char *at = strrchr(nvrtc->path, '/');
    if (!at || strncmp(at + 1, plain, sizeof plain - 1) != 0)
        return false;
    snprintf(path, sizeof path, "%.*slibnvrtc.alt.so%s", (int)(at + 1 - nvrtc->path), nvrtc->path, at + sizeof plain);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return library && take_functions(out, library) == MD_OK && out->version == nvrtc->version;
}

md_status md_dev_nvrtc_arch(char out[16], const md_dev_nvrtc *nvrtc, int32_t capability)
{
    int n = 0, list[MAX_ARCHS] = {0};
    if (nvrtc->n_archs(&n) != 0 || n < 0 || n > MAX_ARCHS || nvrtc->archs(list) != 0)
        return md_fail(MD_DEVICE, "NVRTC does not say what it can compile for");
    int32_t best = 0;
    for (int i = 0; i < n; i++)
        if (list[i] <= capability)
            best = MD_MAX(best, list[i]);
    /* Code for a minor version runs only on the same and later ones of that major version. */
    if (best < 80 || best / 10 != capability / 10)
        return md_fail(MD_UNSUPPORTED, "NVRTC %d.%d cannot compile for compute capability %d.%d", nvrtc->version / 1000,
                       nvrtc->version % 1000 / 10, capability / 10, capability % 10);
    bool has_own = best == capability && (best == 90 || best == 100);
    snprintf(out, 16, "sm_%d%s", (int)best, has_own ? "a" : "");
    return MD_OK;
}

/* ---- Compiling */

/* Contraction is off so that the result's bits do not depend on the family; kernels that need fma say so. ptxas is
 * verbose because only its report has the spills. */
static const char *const options[] = {"-std=c++17", "-default-device", "--fmad=false", "--ptxas-options=-v"};

const char *md_dev_nvrtc_flags(void)
{
    return "-std=c++17 -default-device --fmad=false";
}

/* Copies the first error of a log with its source line: "kernel.cu(12): error: ... | source line". */
static void first_error(char out[400], const char *log, const char *text)
{
    const char *line = strstr(log, "error");
    if (!line)
        line = log + strspn(log, " \t\n");
    while (line > log && line[-1] != '\n')
        line--;
    int n = snprintf(out, 400, "%.*s", (int)MD_MIN(strcspn(line, "\n"), (size_t)240), line);
    int number = 0;
    if (sscanf(line, "kernel.cu(%d)", &number) != 1 || number < 1 || n < 0 || n >= 360)
        return;
    for (; number > 1 && (text = strchr(text, '\n')) != NULL; number--)
        text++;
    if (!text)
        return;
    text += strspn(text, " \t");
    snprintf(out + n, (size_t)(400 - n), " | %.*s", (int)MD_MIN(strcspn(text, "\n"), (size_t)120), text);
}

static md_status take_log(char **out, const md_dev_nvrtc *nvrtc, md_dev_nvrtc_program *program, md_strbuf *log)
{
    size_t n = 0;
    if (nvrtc->log_size(program, &n) != 0)
        n = 0;
    char *text = calloc(n + 1, 1);
    if (!text)
        return md_fail_memory();
    if (n > 0 && nvrtc->log(program, text) != 0)
        text[0] = 0;
    if (log)
        md_strbuf_add(log, text);
    *out = text;
    return MD_OK;
}

static md_status take_binary(void **out, size_t *n_bytes, const md_dev_nvrtc *nvrtc, md_dev_nvrtc_program *program,
                             bool is_ptx)
{
    size_t n = 0;
    int result = is_ptx ? nvrtc->ptx_size(program, &n) : nvrtc->cubin_size(program, &n);
    if (result != 0 || n == 0)
        return md_fail(MD_COMPILE, "NVRTC made no binary: %s", nvrtc->error_text(result));
    char *bytes = malloc(n);
    if (!bytes)
        return md_fail_memory();
    result = is_ptx ? nvrtc->ptx(program, bytes) : nvrtc->cubin(program, bytes);
    if (result != 0) {
        free(bytes);
        return md_fail(MD_COMPILE, "NVRTC compiled, but does not give the binary: %s", nvrtc->error_text(result));
    }
    *out = bytes;
    *n_bytes = n;
    return MD_OK;
}

typedef struct compilation {
    const md_dev_nvrtc *nvrtc;
    const char *text, *arch;
    md_strbuf *log; /* may be NULL */
} compilation;

static md_status compile_program(void **binary, size_t *n_bytes, const compilation *c, md_dev_nvrtc_program *program)
{
    const md_dev_nvrtc *nvrtc = c->nvrtc;
    char arch_option[48], *said = NULL;
    const char *option[MD_COUNT(options) + 1];
    snprintf(arch_option, sizeof arch_option, "--gpu-architecture=%.16s", c->arch);
    memcpy(option, options, sizeof options);
    option[MD_COUNT(options)] = arch_option;
    int result = nvrtc->compile(program, MD_COUNT(option), option);
    MD_TRY(take_log(&said, nvrtc, program, c->log));
    md_status status = MD_OK;
    if (result != 0) {
        char line[400];
        first_error(line, said, c->text);
        status = md_fail(MD_COMPILE, "NVRTC for %.16s: %s%s%s", c->arch, nvrtc->error_text(result), line[0] ? ": " : "",
                         line);
    } else {
        status = take_binary(binary, n_bytes, nvrtc, program, !strncmp(c->arch, "compute_", 8));
    }
    free(said);
    return status;
}

static md_status compile_by(void **binary, size_t *n_bytes, const compilation *c)
{
    const md_dev_nvrtc *nvrtc = c->nvrtc;
    md_dev_nvrtc_program *program = NULL;
    int result = nvrtc->create(&program, c->text, "kernel.cu", 0, NULL, NULL);
    if (result != 0)
        return md_fail(result == 1 ? MD_OUT_OF_MEMORY : MD_COMPILE, "NVRTC: %s", nvrtc->error_text(result));
    md_status status = compile_program(binary, n_bytes, c, program);
    nvrtc->destroy(&program);
    return status;
}

static md_status compile_blocked(void **binary, size_t *n_bytes, md_strbuf *log, const char *text, const char *arch)
{
    md_dev_nvrtc nvrtc, other;
    MD_TRY(md_dev_nvrtc_open(&nvrtc));
    /* Texts with an odd digest go to the second copy, about half of them. If it fails, the first copy compiles the text
     * again and reports the error. */
    bool is_other = (md_hash64(text, strlen(text)) & 1) && open_other(&other, &nvrtc);
    md_strbuf said = {0};
    if (is_other && compile_by(binary, n_bytes, &(compilation){&other, text, arch, &said}) == MD_OK) {
        if (log)
            md_strbuf_add(log, md_strbuf_text(&said));
    } else {
        is_other = false;
    }
    md_strbuf_finish(&said);
    return is_other ? MD_OK : compile_by(binary, n_bytes, &(compilation){&nvrtc, text, arch, log});
}

/* Threads that NVRTC, or a driver that it asks, starts and keeps take this thread's mask. */
md_status md_dev_nvrtc_compile(void **binary, size_t *n_bytes, md_strbuf *log, const char *text, const char *arch)
{
    sigset_t before;
    md_thread_block(&before);
    const md_status status = compile_blocked(binary, n_bytes, log, text, arch);
    md_thread_unblock(&before);
    return status;
}
