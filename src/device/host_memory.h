/* Memory of devices whose memory is the CPU's: functions for md_dev_ops. */
#ifndef MD_DEVICE_HOST_MEMORY_H
#define MD_DEVICE_HOST_MEMORY_H

#include "device/device.h"

/** Memory that is aligned to 64 bytes. OUT_OF_MEMORY. */
md_status md_dev_host_alloc(void **out, md_dev *dev, size_t n_bytes);
void md_dev_host_free(md_dev *dev, void *p);
/** The ranges may overlap. */
md_status md_dev_host_copy(md_dev *dev, void *to, const void *from, size_t n_bytes);

#endif
