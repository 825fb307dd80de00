/* Memory of devices whose memory is the CPU's. */
#include "device/host_memory.h"

#include "base/status.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

md_status md_dev_host_alloc(void **out, md_dev *dev, size_t n_bytes)
{
    (void)dev;
    if (n_bytes > PTRDIFF_MAX - 64)
        return md_fail(MD_OUT_OF_MEMORY, "out of memory: %zu bytes", n_bytes);
    size_t rounded = n_bytes ? (n_bytes + 63) / 64 * 64 : 64;
    void *p = aligned_alloc(64, rounded);
    if (!p)
        return md_fail(MD_OUT_OF_MEMORY, "out of memory: %zu bytes", n_bytes);
    *out = p;
    return MD_OK;
}

void md_dev_host_free(md_dev *dev, void *p)
{
    (void)dev;
    free(p);
}

md_status md_dev_host_copy(md_dev *dev, void *to, const void *from, size_t n_bytes)
{
    (void)dev;
    if (n_bytes)
        memmove(to, from, n_bytes);
    return MD_OK;
}
