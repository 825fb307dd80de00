/* Opening a device by its name. */
#ifndef MD_DEVICE_OPEN_H
#define MD_DEVICE_OPEN_H

#include "device/device.h"

/** Opens the device of that name. Architectures ("sm_90a", "ptx", "avx2") build kernels that run elsewhere: they need
 * the compiler, and no such device. "sm_90a:1" has the facts of another board (md_dev_cuda_assume_board). UNSUPPORTED,
 * DEVICE, NOT_FOUND beyond the last board, INVALID_ARGUMENT for an unknown name. */
md_status md_dev_open(md_dev **out, const md_dev_options *options);
void md_dev_close(md_dev **dev);

#endif
