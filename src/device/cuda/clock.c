/* The clock of a GPU's cores, by NVML where the driver has it. */
#include "device/cuda/internal.h"

#include "base/status.h"
#include "base/task/thread.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Of nvml.h, which need not be installed. */
typedef struct nvmlDevice_st *nvml_device;
enum { NVML_CLOCK_SM = 1 };
/* Software's power cap, hardware's slowdown, software's and hardware's thermal slowdown, the power brake. */
static const unsigned long long THROTTLED = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;

struct md_dev_cuda_nvml {
    nvml_device device;
    int (*clock)(nvml_device, int type, unsigned *mhz);
    int (*most)(nvml_device, int type, unsigned *mhz);
    int (*reasons)(nvml_device, unsigned long long *bits);
};

static bool look_up(void *to, void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    memcpy(to, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* The library stays loaded: others of the process may use it. */
static bool open_nvml(struct md_dev_cuda_nvml *n, int32_t index)
{
    char bus[64];
    int (*init)(void) = NULL;
    int (*find)(const char *bus, nvml_device *out) = NULL;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    return library && look_up(&init, library, "nvmlInit_v2") &&
           look_up(&find, library, "nvmlDeviceGetHandleByPciBusId_v2") &&
           look_up(&n->clock, library, "nvmlDeviceGetClockInfo") &&
           look_up(&n->most, library, "nvmlDeviceGetMaxClockInfo") &&
           look_up(&n->reasons, library, "nvmlDeviceGetCurrentClocksThrottleReasons") && init() == 0 &&
           cudaDeviceGetPCIBusId(bus, sizeof bus, index) == cudaSuccess && find(bus, &n->device) == 0;
}

static md_status start(struct md_dev_cuda_nvml **out, md_dev_cuda *dev)
{
    static const char none[] = "NVML does not tell the clock of this device";
    struct md_dev_cuda_nvml *n = NULL;
    pthread_mutex_lock(&dev->nvml_lock);
    if (!dev->nvml && !dev->has_no_nvml) {
        sigset_t before;
        n = calloc(1, sizeof *n);
        md_thread_block(&before); /* threads that NVML starts take no signals */
        const bool is_open = n && open_nvml(n, dev->base.facts.index);
        md_thread_unblock(&before);
        if (is_open) {
            dev->nvml = n;
        } else {
            free(n);
            dev->has_no_nvml = true;
        }
    }
    *out = dev->nvml;
    pthread_mutex_unlock(&dev->nvml_lock);
    return *out ? MD_OK : md_fail(MD_UNSUPPORTED, "%s", none);
}

md_status md_dev_cuda_clock_rate(md_dev_clock *out, md_dev *base)
{
    md_dev_cuda *dev = (md_dev_cuda *)base;
    struct md_dev_cuda_nvml *n = NULL;
    unsigned mhz = 0, most = 0;
    unsigned long long reasons = 0;
    MD_TRY(start(&n, dev));
    if (n->clock(n->device, NVML_CLOCK_SM, &mhz) != 0)
        return md_fail(MD_UNSUPPORTED, "NVML cannot read the clock of this device");
    if (n->most(n->device, NVML_CLOCK_SM, &most) != 0)
        most = 0;
    if (n->reasons(n->device, &reasons) != 0)
        reasons = 0;
    *out = (md_dev_clock){(int32_t)mhz, (int32_t)most, (reasons & THROTTLED) != 0};
    return MD_OK;
}
