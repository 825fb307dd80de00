/* Memory for temporaries: the caller's, if the context has functions for it, else the device's. */
#ifndef MD_DEVICE_TEMPORARY_H
#define MD_DEVICE_TEMPORARY_H

#include "device/device.h"

/** Memory for work that is enqueued on the stream from now on; aligned to 256 bytes, on the host to 64. OUT_OF_MEMORY;
 * INVALID_ARGUMENT if the caller's memory is not aligned. Thread-safe. */
md_status md_dev_take_temporary(void **out, md_dev *dev, md_stream stream, size_t n_bytes);
/** Frees it; `stream` and `n_bytes` as it was taken, p may be NULL. Without functions of the caller it may wait for
 * the device; with them, work on other streams must be done. Thread-safe. */
void md_dev_give_temporary(md_dev *dev, md_stream stream, void *p, size_t n_bytes);

#endif
