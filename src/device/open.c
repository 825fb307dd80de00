/* Opens a device by its name. */
#include "device/open.h"

#include "base/cpu.h"
#include "base/env.h"
#include "base/status.h"
#include "device/blas/blas.h"
#include "device/cuda/cuda.h"
#include "device/host/host.h"
#include "device/nvrtc/nvrtc.h"

#include <stdlib.h>
#include <string.h>

/* Reads the N of "cuda:N"; -1 for "cuda". False for other names. */
static bool parse_cuda(int32_t *index, const char *name)
{
    enum { MAX_DIGITS = 6 };
    static const char cuda[] = "cuda";
    size_t n = sizeof cuda - 1;
    if (strncmp(name, cuda, n) != 0 || (name[n] != 0 && name[n] != ':'))
        return false;
    const char *digits = name + n + 1;
    if (name[n] == 0) {
        *index = -1;
        return true;
    }
    size_t n_digits = strspn(digits, "0123456789");
    *index = (int32_t)strtol(digits, NULL, 10);
    return n_digits > 0 && n_digits <= MAX_DIGITS && digits[n_digits] == 0;
}

/* CUDA's libraries read the environment by themselves, which may name files to write and libraries to load
 * (CUBLASLT_LOG_FILE, CUDA_INJECTION64_PATH). In a privileged process its caller would say what. */
static md_status refuse_privileged(void)
{
    return md_env_is_privileged()
               ? md_fail(MD_UNSUPPORTED, "a set-user-ID, set-group-ID or capability program uses no GPU: CUDA's "
                                         "libraries read the environment of its caller")
               : MD_OK;
}

static md_status open_cuda(md_dev **out, const md_dev_options *options, int32_t index)
{
    MD_TRY(refuse_privileged());
    return md_dev_cuda_open(out, options, index);
}

/* Opens a supported GPU, else the host. OUT_OF_MEMORY is passed up: it does not mean that there is no GPU. */
static md_status open_any(md_dev **out, const md_dev_options *options)
{
    md_status status = open_cuda(out, options, -1);
    if (status == MD_OK || status == MD_OUT_OF_MEMORY)
        return status;
    md_log_at(options->log, status == MD_UNSUPPORTED ? MD_LOG_DEBUG : MD_LOG_WARN, "the host serves: %s",
              md_last_error());
    return md_dev_host_open(out, options);
}

/* Loading cuBLASLt takes 45 ms once a process, so it is done in the background while the driver makes its context. */
static void load_blas(void *unused)
{
    (void)unused;
    (void)md_dev_cuda_has_gemm();
}

/* An architecture, for kernels that run elsewhere: a level of instructions of processors, or "sm_90a", "sm_90a:1",
 * "ptx". */
static md_status open_ahead(md_dev **out, const md_dev_options *options, const char *name)
{
    md_cpu cpu = {0};
    md_dev_options own = *options;
    if (!strncmp(name, "sm_", 3) || !strncmp(name, "ptx", 3)) {
        MD_TRY(refuse_privileged());
        return md_dev_ahead_open(out, options, name);
    }
    if (!md_cpu_level(&cpu, name))
        return md_fail(MD_INVALID_ARGUMENT,
                       "device '%.100s'; auto, host, cuda, cuda:N and, to build kernels for elsewhere, sm_80, sm_90a, "
                       "sm_100a, ptx, x86-64, avx2 and avx512 are possible",
                       name);
    own.level = name;
    return md_dev_host_open(out, &own);
}

static md_status open_named(md_dev **out, const md_dev_options *options)
{
    const char *name = options->device ? options->device : "auto";
    int32_t index = -1;
    if (strcmp(name, "auto") == 0)
        return open_any(out, options);
    if (strcmp(name, "host") == 0)
        return md_dev_host_open(out, options);
    if (!parse_cuda(&index, name))
        return open_ahead(out, options, name);
    md_status status = open_cuda(out, options, index);
    return status == MD_OK ? MD_OK : md_fail_more(status, "; device '%.100s' was asked for", name);
}

md_status md_dev_open(md_dev **out, const md_dev_options *options)
{
    md_dev_options own = *options;
    own.while_opening = load_blas;
    MD_TRY(open_named(out, &own));
    (*out)->environment = options->environment;
    return MD_OK;
}

void md_dev_close(md_dev **dev)
{
    if (!dev || !*dev)
        return;
    (*dev)->ops->destroy(*dev);
    *dev = NULL;
}
