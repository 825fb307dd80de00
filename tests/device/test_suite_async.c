/* The suite on the host's kernels behind a device that works later and whose memory the CPU cannot touch: what
 * stands above devices must not care. md_dev_open is wrapped by the linker. */
#include "device/suite.h"

#include "support/devices/async_device.h"

#include "base/status.h"
#include "device/open.h"

md_status __real_md_dev_open(md_dev **out, const md_dev_options *options);
md_status __wrap_md_dev_open(md_dev **out, const md_dev_options *options);

static async_device device;

md_status __wrap_md_dev_open(md_dev **out, const md_dev_options *options)
{
    md_dev *host = NULL;
    MD_TRY(__real_md_dev_open(&host, options));
    if (!async_device_init(&device, host))
        return md_fail(MD_OUT_OF_MEMORY, "no address space for the device's memory");
    *out = &device.base;
    return MD_OK;
}

int main(void)
{
    return suite_run(&(suite_options){.device = "host", .effort = 0.015});
}
