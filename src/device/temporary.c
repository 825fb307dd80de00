/* Memory for temporaries: the caller's or the device's. */
#include "device/temporary.h"

#include "base/status.h"

md_status md_dev_take_temporary(void **out, md_dev *dev, md_stream stream, size_t n_bytes)
{
    const md_dev_memory *m = &dev->memory;
    const uintptr_t alignment = dev->ops->workspace ? 256 : 64;
    if (!m->alloc)
        return dev->ops->alloc(out, dev, n_bytes);
    void *p = m->alloc(m->user, dev->facts.index, stream, n_bytes);
    if (!p)
        return md_fail(MD_OUT_OF_MEMORY, "the caller's allocator gave no %zu bytes", n_bytes);
    if ((uintptr_t)p % alignment != 0) {
        m->free(m->user, dev->facts.index, stream, p, n_bytes);
        return md_fail(MD_INVALID_ARGUMENT, "the caller's allocator gave %p, which is not aligned to %d bytes", p,
                       (int)alignment);
    }
    *out = p;
    return MD_OK;
}

void md_dev_give_temporary(md_dev *dev, md_stream stream, void *p, size_t n_bytes)
{
    const md_dev_memory *m = &dev->memory;
    if (p && m->alloc)
        m->free(m->user, dev->facts.index, stream, p, n_bytes);
    else if (p)
        dev->ops->free(dev, p);
}
