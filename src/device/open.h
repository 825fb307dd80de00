/* Opening a device by its name. */
#ifndef MD_DEVICE_OPEN_H
#define MD_DEVICE_OPEN_H

#include "device/device.h"

/** Opens the device of that name. UNSUPPORTED, DEVICE, INVALID_ARGUMENT for an unknown name. */
md_status md_dev_open(md_dev **out, const md_dev_options *options);
void md_dev_close(md_dev **dev);

#endif
