/* A device that builds GPU kernels for elsewhere: it has the facts of a typical board, and NVRTC, and no GPU. */
#ifndef MD_DEVICE_NVRTC_AHEAD_H
#define MD_DEVICE_NVRTC_AHEAD_H

#include "device/device.h"

/** `name`: "sm_80", "sm_90a", "sm_100a" or "ptx", perhaps with ":N", the number of the board. Its memory is the
 * host's, and launches are UNSUPPORTED. NOT_FOUND beyond the last board, UNSUPPORTED without NVRTC. In every build. */
md_status md_dev_ahead_open(md_dev **out, const md_dev_options *options, const char *name);

#endif
