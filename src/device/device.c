#include "device/device.h"

#include "base/status.h"
#include "device/host.h"

#include <string.h>

static bool is_cuda(const char *name)
{
    static const char cuda[] = "cuda";
    size_t n = sizeof cuda - 1;
    return strncmp(name, cuda, n) == 0 && (name[n] == 0 || name[n] == ':');
}

md_status md_dev_open(md_dev **out, const md_dev_options *options)
{
    const char *name = options->device ? options->device : "auto";
    if (strcmp(name, "auto") == 0 || strcmp(name, "host") == 0)
        return md_dev_host_open(out, options);
    if (is_cuda(name))
        return md_fail(MD_UNSUPPORTED, "device '%.100s': CUDA is not in this build; use host or auto", name);
    return md_fail(MD_INVALID_ARGUMENT, "device '%.100s'; auto, host, cuda and cuda:N are possible", name);
}

void md_dev_close(md_dev **dev)
{
    if (!dev || !*dev)
        return;
    (*dev)->ops->destroy(*dev);
    *dev = NULL;
}
