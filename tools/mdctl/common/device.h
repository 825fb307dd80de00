/* The device of a context, as md_info tells it. */
#ifndef MDCTL_DEVICE_H
#define MDCTL_DEVICE_H

#include "common/cli.h"

typedef struct cli_device {
    char name[32]; /* "host", "cuda:0" */
    char hardware[64]; /* "NVIDIA H200" */
    bool is_gpu;
    int threads;
    double cold_bytes; /* memory that takes all else out of a GPU's cache */
} cli_device;

cli_device device_of(md_context *context);
/** What every line of results says of its origin, as fields of JSON: device, hardware, the library's version. */
void device_json(FILE *file, const cli_device *device);

#endif
